/*
 * process: a profiled process as the daemon knows it. Layer 0. Made by session at the handshake, counted by reference
 * (atomic), immutable but for procmap, which has its own lock.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct procmap; /* procmap.h, layer 2 */

struct process {
    uint32_t index; /* daemon-wide, never reused */
    uint32_t host_pid, ns_pid;
    uint64_t start_ticks;
    uint64_t eval_lo, eval_hi;
    bool has_walker;
    char *service, *program, *runtime, *runtime_version, *tag_template; /* owned, bounded, UTF-8 clean */
    struct procmap *map; /* owned; NULL if it could not be read */
    int refs;            /* atomic */
};

struct process *process_ref(struct process *p);
void process_unref(struct process *p); /* NULL is fine */

#endif
