/*
 * sample: what the kernel recorded of one thread at one instant. Layer 0: plain structs.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* A thread as all of the daemon names it: process (daemon-wide index, never reused), tid as the process itself sees it,
 * arming number (0: never armed). Reused tids get a new epoch or a new process, so keys never collide. */
struct thread_key {
    uint32_t process, tid, epoch;
};

enum { SAMPLE_MAX_REGS = 33 };

/* One block: the arrays follow in the same allocation. Freed with free(). */
struct sample {
    struct thread_key thread;
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    uint64_t end_off;   /* ring offset behind its record: the exact key */
    uint64_t period;    /* ns of CPU time (or events) since the sample before, as the kernel counted; 0 unknown */
    uint32_t n_kernel;  /* kernel part of ips */
    uint32_t n_ips;     /* ips[0..n_kernel) kernel, ips[n_kernel..n_ips) user by frame pointers; leaf first */
    uint32_t n_regs;    /* 0: no user registers (the thread was in no user context) */
    uint32_t n_stack;   /* bytes of user stack from the stack pointer up */
    uint64_t *ips;      /* [n_ips] */
    uint64_t *regs;     /* [n_regs] in perf order, by the mask of perf_open */
    uint8_t *stack;     /* [n_stack] */
    size_t bytes;       /* of the whole allocation, for budgets */
};

#endif
