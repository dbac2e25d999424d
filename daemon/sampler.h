/*
 * sampler: the armed threads: their perf events and rings, drained to the pipeline's queue. Layer 1; main
 * thread.
 *
 * Rings are drained by a timer while any thread is armed, which also finds the threads that have ended. Not by the
 * ring's wakeup: an event with a signal wakes whoever waits for it at each sample, at a cost to the sampled thread
 * (0.5 ms at times in a virtual machine, where it interrupts another processor) that can exceed its period.
 * In wall mode each thread has a second ring, of its context switches (switch_ring.h); a thread that gets none, for want of
 * locked memory, is sampled all the same.
 * A sample is handed over before the progress that covers it. A full queue drops samples and counts them; an
 * end is never dropped.
 */
#ifndef SAMPLER_H
#define SAMPLER_H

#include "loop.h"
#include "perf_open.h"
#include "process.h"
#include "queue.h"

struct sampler;

struct sampler_config {
    const struct perf_source *source;
    enum perf_native native;
    uint32_t stack_bytes;
    uint32_t max_threads;
    bool wall; /* record context switches too */
    struct loop *loop;
    struct queue *out; /* of struct feed */
};

int sampler_new(const struct sampler_config *c, struct sampler **ret, struct dvt_err *err);
/* Ends all threads. */
void sampler_free(struct sampler *s);

struct sampler_thread { /* of an armed thread, for its shim */
    int fd;             /* the event's; stays the sampler's */
    uint32_t map_bytes;
    uint64_t first_period_ns;
};
/* Opens the event on host_tid, which the process calls tid. An earlier arming of the same tid ends first.
 * DVT_ELIMIT at max_threads or when the budget of locked memory is used up, else as perf_open_thread. */
int sampler_arm(struct sampler *s, struct process *proc, uint32_t tid, uint32_t epoch, uint32_t host_tid,
                struct sampler_thread *ret, struct dvt_err *err);
/* Ends the arming if it is still the one of that epoch. */
void sampler_disarm(struct sampler *s, const struct process *proc, uint32_t tid, uint32_t epoch);
void sampler_drop_process(struct sampler *s, const struct process *proc);
/* Reads every ring now. */
void sampler_drain_all(struct sampler *s);

uint32_t sampler_n_threads(const struct sampler *s, const struct process *proc); /* NULL: of all */
/* What the user should know (bounds reached), or "". */
const char *sampler_note(const struct sampler *s);

#endif
