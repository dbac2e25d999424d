/*
 * process: a profiled process as the daemon knows it. Layer 0. Made by session at the handshake, counted by
 * reference (atomic), immutable but for procmap, which has its own lock, and the counters.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include "stats.h"

struct procmap; /* procmap.h, layer 2 */

struct process {
    uint32_t index; /* daemon-wide, never reused */
    uint32_t host_pid, ns_pid;
    uint64_t start_ticks;
    uint64_t eval_lo, eval_hi;
    bool has_walker;
    char *service, *program, *runtime, *runtime_version, *tag_template; /* owned, bounded, UTF-8 clean */
    struct procmap *map; /* owned; NULL if it could not be read */
    struct edge_counts edge;
    int refs;            /* atomic */
};

/* A copy of what its shim said of itself, UTF-8 cleaned and bounded, with one reference and no map.
 * host_pid, start_ticks and index are the caller's to set. NULL without memory. */
struct process *process_new(const struct dvt_hello *hello);
struct process *process_ref(struct process *p);
void process_unref(struct process *p); /* NULL is fine */

#endif
