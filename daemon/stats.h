/*
 * stats: the ledger. Counts that must add up, per process and in total. Layer 0.
 *
 * Identity, once a thread is settled and flushed:
 *   samples = joined + outside + ambiguous + repeated + pending + lost_end + lost_queue
 *   kernel records = samples + lost_kernel
 *   scopes = in traces + announcements merged
 *   shim.closed = shim.kept + shim.dropped + shim.lost_ring
 *   shim.kept = scopes + shim.lost_send (+ in flight)
 * The pipeline thread owns it; status gets copies by a message.
 */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>
#include <stdint.h>
#include "../proto/wire.h"

/* X-macro, so that JSON, sums and tests see the same fields. */
#define LEDGER_FIELDS(X)                                                                                     \
    X(samples)     /* sample records decoded from the kernel's rings */                                      \
    X(joined)      /* given to a scope */                                                                    \
    X(outside)     /* in no scope of the thread */                                                           \
    X(ambiguous)   /* fits two contexts: given to none */                                                    \
    X(repeated)    /* taken before the thread's signal could lengthen its first period: dropped by rule */   \
    X(pending)     /* waiting for their scopes (a level, not a total) */                                     \
    X(lost_kernel) /* the kernel's own count of lost records */                                              \
    X(lost_queue)  /* dropped between the daemon's threads: memory cap */                                    \
    X(lost_end)    /* thread or process went away before its scopes were told */                             \
    X(no_stack)    /* joined samples shown as [no stack: reason] */                                          \
    X(scopes)      /* scopes received */                                                                     \
    X(scopes_empty) /* sent while their thread's arming was under way: no sample inside, dropped by rule */ \
    X(scopes_cut)  /* open when their process ended */                                                       \
    X(scopes_lost) /* no memory for them, or more than may wait */                                           \
    X(scopes_bad)  /* refused: impossible times, heads or references */                                      \
    X(messages)                                                                                              \
    X(messages_bad)     /* malformed */                                                                      \
    X(messages_forged)  /* wrong mac, session or sequence */                                                 \
    X(messages_version) /* newer major */                                                                    \
    X(messages_lost)    /* dropped unread between the daemon's threads: memory cap */                        \
    X(traces_written)                                                                                        \
    X(traces_lost) /* closed traces that could not be written: queue full or store error */                  \
    X(samples_written)                                                                                       \
    X(threads_armed)                                                                                         \
    X(threads_failed) /* could not be sampled */                                                             \
    X(uncovered_ns)   /* CPU time in scopes before arming */

struct ledger {
#define X(name) uint64_t name;
    LEDGER_FIELDS(X)
#undef X
};

/* What is counted outside the pipeline, by the thread named; relaxed atomics, read by the pipeline for
 * reports. */
#define EDGE_FIELDS(X) \
    X(samples)           /* sampler: those it had to drop, so that samples = ... + lost_queue holds */ \
    X(lost_queue)        /* sampler: likewise */ \
    X(messages_forged)   /* ingest */ \
    X(messages_version)  /* ingest, sampler (HELLO) */ \
    X(messages_bad)      /* ingest, sampler */ \
    X(messages_lost)     /* ingest */ \
    X(traces_written)    /* writer */ \
    X(traces_lost)       /* pipeline, writer */ \
    X(samples_written)   /* writer */ \
    X(threads_armed)     /* sampler */ \
    X(threads_failed)    /* sampler */

struct edge_counts {
#define X(name) _Atomic uint64_t name;
    EDGE_FIELDS(X)
#undef X
};

#define edge_count(counter, n) atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed)

/* Adds them to *sum. */
void edge_counts_add(const struct edge_counts *e, struct ledger *sum);

void ledger_add(struct ledger *sum, const struct ledger *x);
/* Appends a JSON object of all fields, and of the shim's counts with prefix "shim_" if shim is not NULL. */
int ledger_json(const struct ledger *l, const struct dvt_shim_counts *shim, struct dvt_buf *out);

#endif
