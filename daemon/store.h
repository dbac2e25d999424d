/*
 * store: segments and index on disk (proto/store_format.h). Layer 5; writer thread only.
 */
#ifndef STORE_H
#define STORE_H

#include "../proto/chunk.h"
#include "../proto/err.h"

struct store;

struct store_config {
    const char *dir;
    uint64_t budget_bytes;  /* retention; 0: none (default 2 GiB) */
    uint64_t segment_bytes; /* a segment is sealed above this (default 64 MiB) */
    uint64_t slow_keep_permille; /* of traces, the slowest kept longest (default 50) */
};

/* Opens or makes the store, takes its lock (DVT_EBUSY names the holder's pid), checks version, recovers: an
 * indexed chunk beyond the segment's end is unindexed, a whole chunk behind the last indexed one is indexed
 * again, a torn tail is cut. Errors say what to do (read-only, not ours, newer version). *ret_note: what
 * recovery did, or empty. */
int store_open(const struct store_config *c, struct store **ret, char ret_note[240], struct dvt_err *err);
/* Syncs, commits, unlocks. */
void store_close(struct store *s);

/* Appends one chunk and queues its index rows; they become visible at the next store_commit. On error (disk
 * full) the segment is cut back to where it was and the store stays usable. */
int store_append(struct store *s, const struct dvt_chunk *c, struct dvt_err *err);
/* Syncs segments, then commits the rows. Called per batch. */
int store_commit(struct store *s, struct dvt_err *err);

int store_put_dropped(struct store *s, const char *service, const char *name, uint64_t count,
                      struct dvt_err *err);
int store_put_process(struct store *s, const char *boot, const struct dvt_chunk_process *p, uint64_t first_ns,
                      uint64_t last_ns, const char *ledger_json, struct dvt_err *err);

/* Deletes whole traces until the budget holds: oldest first, but the slowest, the failed (label "error")
 * and the pinned last. A segment whose traces are all gone is unlinked; one that is mostly gone is
 * rewritten. Returns traces deleted or < 0. */
int store_retain(struct store *s, struct dvt_err *err);

#endif
