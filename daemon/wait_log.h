/*
 * wait_log: when one thread was off the CPU, and why, over time. Layer 2; pure.
 *
 * Fed with the thread's switch records in their order, it tells of any stretch how much of it the thread was on a
 * CPU, blocked, or ready to run but not running. What the records do not tell is "unknown", never guessed: time
 * before the first record, around lost ones, and behind the last word of the sampler.
 *
 * A thread that wakes up is ready to run before it runs; the records do not say from when, so that delay is part of
 * "blocked". Bounded: of a long log the older half is folded into spans of many waits, which tell the whole of a stretch
 * that holds them, and nothing of one that cuts them.
 */
#ifndef WAIT_LOG_H
#define WAIT_LOG_H

#include "switches.h"

#include <stdbool.h>
#include <stddef.h>

enum { WAIT_LOG_MAX = 65536, WAIT_LOG_FOLD = 16 };

struct wait_span { /* off the CPU; folded: also on it in between */
    uint64_t start_ns, end_ns;
    struct wait_sums sums;
    bool is_folded;
};

enum wait_state { WAIT_RUNS, WAIT_BLOCKED, WAIT_READY, WAIT_UNKNOWN };

struct wait_log {
    struct wait_span *spans; /* [n] ascending, apart */
    uint32_t n, cap;
    enum wait_state state; /* since state_ns */
    uint64_t from_ns;      /* nothing is known before; 0: no record yet */
    uint64_t state_ns;
    uint64_t last_ns;      /* of the last record */
    bool gap;              /* records before the next one are lost */
    bool is_new;           /* no record yet */
};

void wait_log_init(struct wait_log *w);
void wait_log_fini(struct wait_log *w);
/* Gives its memory back: what it knew is unknown. */
void wait_log_forget(struct wait_log *w);

/* Takes records; 0 or DVT_ENOMEM: then what they told is unknown. */
int wait_log_put(struct wait_log *w, const struct switches *s);
/* Of [start_ns, end_ns), where all records up to until_ns are in the log. end_ns before start_ns: all 0. */
struct wait_sums wait_log_sum(const struct wait_log *w, uint64_t start_ns, uint64_t end_ns, uint64_t until_ns);
static inline size_t wait_log_bytes(const struct wait_log *w)
{
    return w->cap * sizeof *w->spans;
}

#endif
