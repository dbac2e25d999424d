/*
 * store_impl: what the files of the store share. Layer 5; included by daemon/store*.c only.
 *
 *   store.c          open, close, lock, append, commit
 *   store_segment.c  segment files: write, cut back, seal, sync
 *   store_index.c    index rows of a trace from its chunks
 *   store_recover.c  what a crash or damage left behind
 *   store_retain.c   the byte budget
 *   store_sql.c      statements and transactions
 */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include <sqlite3.h>
#include "../proto/store_format.h"
#include "store.h"

enum statement {
    SQL_SEGMENT_PUT,
    SQL_SEGMENT_SEAL,
    SQL_CHUNK_PUT,
    SQL_CHUNKS_OF_TRACE,
    SQL_TRACE_FIND,
    SQL_TRACE_PUT,
    SQL_TRACE_SUMS,
    SQL_TRACE_UPDATE,
    SQL_LABEL_PUT,
    SQL_LABELS_NEAR,
    SQL_LABELS_COMMON,
    SQL_SPAN_PUT,
    SQL_TAG_PUT,
    SQL_NAME_PUT,
    SQL_LABELS_CLEAR,
    SQL_SPANS_CLEAR,
    SQL_TAGS_CLEAR,
    SQL_NAMES_CLEAR,
    SQL_CHUNKS_CLEAR,
    SQL_TRACE_CLEAR,
    SQL_META_PUT,
    SQL_DROPPED_PUT,
    SQL_PROCESS_PUT,
    SQL_COUNT,
};

enum { SEGMENT_OPEN = 0, SEGMENT_SEALED = 1, SEGMENT_DOOMED = 2 /* unlinked once its row is committed */ };

struct segment {
    int fd; /* -1: none yet */
    uint32_t id;
    uint64_t bytes;         /* written */
    int64_t unix_offset_ns; /* of its first chunk: readers take it for all */
    bool is_dirty;          /* written since the last sync */
};

struct store { /* writer thread only */
    struct store_config config;
    char *dir_name;
    int dir, lock; /* fds */
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    struct segment segment;
    uint64_t total_bytes; /* of all segments */
    uint64_t read_bytes;  /* of chunks read back from them */
    uint32_t key_base;
    uint32_t next_segment;
    bool is_in_transaction;
    bool must_recover; /* rows were lost with a failed transaction; their chunks lie in the segments */
    struct dvt_buf buf;
    char *note; /* [240] */
};

/* ---- store_sql ---- */
int store_sql_open(struct store *s, struct dvt_err *err);
void store_sql_close(struct store *s);
int store_sql_fail(struct store *s, struct dvt_err *err, const char *what);
int store_sql_exec(struct store *s, const char *sql, struct dvt_err *err);
/* A statement, reset and without bindings. */
sqlite3_stmt *store_sql(struct store *s, enum statement which);
/* Runs a statement that gives no rows. */
int store_sql_run(struct store *s, sqlite3_stmt *q, struct dvt_err *err);
/* Runs sql, which gives at most one integer, with up to two integer parameters. */
int store_sql_int(struct store *s, const char *sql, int64_t a, int64_t b, int64_t *ret, struct dvt_err *err);
int store_begin(struct store *s, struct dvt_err *err);

/* ---- store_segment ---- */
void store_segment_name(uint32_t id, char out[32]);
int store_segment_open(struct store *s, uint32_t id, int flags);
/* Appends bytes to the open segment, a new one if it is full or of another clock; cut back on error. */
int store_segment_write(struct store *s, const void *p, size_t n, int64_t unix_offset_ns,
                        struct dvt_err *err);
int store_segment_cut(struct store *s, uint64_t bytes);
int store_segment_sync(struct store *s, struct dvt_err *err);
/* Syncs, closes and marks the open segment; the next chunk begins a new one. */
int store_segment_seal(struct store *s, struct dvt_err *err);
/* Reads exactly n bytes at offset into a malloc'ed block. */
int store_segment_read(struct store *s, uint32_t id, uint64_t offset, uint64_t n, uint8_t **ret,
                       struct dvt_err *err);
/* Error text for a failed write in the store, with what to do. */
int store_io_fail(struct store *s, struct dvt_err *err, int e, const char *what);

/* ---- store_rows ---- */
/* Adds what a chunk tells of spans, tags, names and labels to its trace's rows. */
int store_rows_add(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err);
/* Makes what is shown of labels from their near sums and the trace's totals; after all but the first part. */
int store_rows_labels_again(struct store *s, int64_t row, uint64_t samples, uint64_t on_cpu_ns,
                            struct dvt_err *err);
int store_rows_clear(struct store *s, int64_t row, struct dvt_err *err);
struct dvt_str store_service_of(const struct dvt_chunk *c, const struct dvt_chunk_scope *sc);
uint64_t store_on_cpu_ns(const struct dvt_chunk *c);

/* ---- store_index ---- */
struct chunk_place {
    uint32_t segment;
    uint64_t offset, bytes;
    const uint8_t *data; /* for the digest */
};
/* Adds the chunk's row and what it tells to the trace's. In a transaction. */
int store_index_chunk(struct store *s, const struct dvt_chunk *c, const struct chunk_place *place,
                      struct dvt_err *err);
/* Whether the trace has an indexed chunk of the same bytes. */
int store_index_has(struct store *s, const struct dvt_chunk *c, const struct chunk_place *place, bool *ret,
                    struct dvt_err *err);
/* Makes the rows of a trace anew from its indexed chunks; deletes them if there is none. */
int store_index_row(struct store *s, int64_t trace_row, struct dvt_err *err);
int store_index_delete(struct store *s, int64_t trace_row, struct dvt_err *err);

/* ---- store_recover ---- */
/* Brings index and segments together, seals all segments, commits; appends what it did to s->note. */
int store_recover(struct store *s, struct dvt_err *err);

#endif
