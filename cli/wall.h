/*
 * wall: where the wall time of a trace's scopes went: on a CPU, blocked, ready to run, not known.
 *
 * Collected over the trace's chunks (a scope that runs on is in several: the last counts). Only traces recorded in wall
 * mode have any.
 */
#ifndef WALL_H
#define WALL_H

#include "json.h"
#include "term.h"

#include "../proto/chunk.h"

struct wall_times {
    uint64_t wall_ns, on_cpu_ns, blocked_ns, runnable_ns, unknown_ns, waits, preemptions;
};

struct wall_scope {
    uint32_t pid, tid;
    uint64_t serial, parent_serial; /* 0: no parent */
    uint64_t start_ns, end_ns;
    struct dvt_span_id span;
    char *service, *thread, *name; /* owned */
    struct wall_times whole, self; /* self: without the scopes inside it */
};

struct wall {
    struct wall_scope *scopes;
    size_t n, cap;
    uint64_t n_without; /* scopes of parts without such records */
};

void wall_add(struct wall *w, const struct dvt_chunk *c);
/* When all chunks are in: one entry a scope, self times. */
void wall_finish(struct wall *w);
/* Nothing for a trace that was not recorded in wall mode. */
void wall_print(const struct wall *w, const struct term *term);
void wall_json(const struct wall *w, struct json *j);
void wall_fini(struct wall *w);

#endif
