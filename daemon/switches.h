/*
 * switches: a thread's context switches, as the kernel recorded them, and what they add up to. Layer 0: plain structs.
 */
#ifndef SWITCHES_H
#define SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

enum switch_kind {
    SWITCH_IN,            /* onto a CPU */
    SWITCH_OUT,           /* off it, because the thread waits */
    SWITCH_OUT_PREEMPTED, /* off it, though it could go on */
    SWITCH_GAP,           /* records before the next one were lost; without a time */
};

struct switch_rec {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    enum switch_kind kind;
};

struct switches { /* in the order in which they happened; one block, freed with free() */
    uint64_t from_ns; /* the thread's switches are recorded since then */
    bool slept;       /* soon after that it slept: if its first switch is onto a CPU, it was blocked until then */
    uint32_t n;
    struct switch_rec v[]; /* [n] */
};

/* How a stretch of a thread's time was spent: on_cpu + blocked + runnable + unknown is its length. */
struct wait_sums {
    uint64_t on_cpu_ns, blocked_ns, runnable_ns, unknown_ns;
    uint32_t waits, preemptions; /* stretches blocked, stretches taken off the CPU while running */
};

#endif
