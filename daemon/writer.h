/*
 * writer: the thread that turns closed traces into chunks of the store. Layer 6.
 *
 * All slow work is here: symbols, disk. Traces are committed in batches, at the latest 200 ms after the first
 * of a batch; retention runs every few seconds. A trace that cannot be written is counted, and the next one
 * is tried.
 */
#ifndef WRITER_H
#define WRITER_H

#include "board.h"
#include "queue.h"
#include "store.h"
#include "trace.h"

struct writer;

struct writer_config {
    struct store *store; /* stays the caller's, who closes it after writer_stop */
    struct board *board;
    struct edge_counts *counts; /* the daemon's */
    const char *event;   /* libpfm4 name of what is sampled */
    uint64_t period_ns;
    size_t queue_bytes;  /* of traces waiting */
};

int writer_start(const struct writer_config *c, struct writer **ret, struct dvt_err *err);
/* Pipeline's thread: false while queue_bytes or more of traces wait, which then should wait with the pipeline. */
bool writer_has_room(const struct writer *w);
/* Pipeline's thread. Both take what they are given; without memory a trace is freed, counted as lost, and false. */
bool writer_put_trace(struct writer *w, struct trace *t);
void writer_put_report(struct writer *w, struct report *r);
/* Everything put before is committed, then the board is told. */
void writer_put_flush(struct writer *w, uint64_t generation);
/* Writes what is there, commits, ends the thread. */
void writer_stop(struct writer *w);

#endif
