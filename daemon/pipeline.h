/*
 * pipeline: one thread's state machine over layers 2 to 4: messages and samples in, closed traces out.
 * Layer 6. It owns no thread, socket or clock: main feeds it and passes the time in, so tests drive it alone.
 *
 * Order contract with its feeders: a sample is fed before the progress that covers it; messages of one process in their
 * order. Samples and messages come from different queues, in any order between them.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "process.h"
#include "sample.h"
#include "stats.h"
#include "switches.h"
#include "trace.h"

struct pipeline;

struct pipeline_config {
    uint64_t period_ns;         /* weight of a sample */
    uint64_t idle_close_ns;     /* a trace without news closes (default 5 s) */
    uint64_t root_grace_ns;     /* after its root scope ended (default 1.5 s) */
    uint64_t part_cap_ns;       /* a trace open longer is written in parts (default 30 s) */
    uint32_t part_cap_samples;  /* likewise (default 20,000) */
    size_t memory_cap_bytes;    /* of pending samples, scopes and open traces (default 256 MiB) */
    uint64_t settle_cap_ns;     /* samples whose scopes never come are given up as lost_end (default 10 s after process or thread end) */
};
void pipeline_config_default(struct pipeline_config *c);

struct pipeline *pipeline_new(const struct pipeline_config *c);
void pipeline_free(struct pipeline *p);

void pipeline_process_up(struct pipeline *p, struct process *proc); /* takes a reference */
/* Its control connection is gone and its last message was fed: open scopes are cut, its threads settle. */
void pipeline_process_down(struct pipeline *p, uint32_t process, uint64_t now_ns);
void pipeline_thread_up(struct pipeline *p, struct thread_key t, uint32_t host_tid);

void pipeline_sample(struct pipeline *p, struct sample *s); /* takes it */
/* All of the thread's samples with end_off <= head have been fed; lost: the kernel's lost records since last time; ended:
 * there will be no more. */
void pipeline_progress(struct pipeline *p, struct thread_key t, uint64_t head, uint64_t lost, bool ended);
/* Records of the thread's context switches, where they are recorded at all; stays the caller's. */
void pipeline_switches(struct pipeline *p, struct thread_key t, const struct switches *s);
/* The switches of all threads up to that time have been fed. */
void pipeline_switched(struct pipeline *p, uint64_t until_ns);
/* body: verified [type, map] of a ZeroMQ message from that process. Malformed ones are counted and change nothing. */
void pipeline_message(struct pipeline *p, uint32_t process, const void *body, size_t n, uint64_t now_ns);

/* Joins what has settled, closes what is due. */
void pipeline_tick(struct pipeline *p, uint64_t now_ns);
/* Closes every trace as it stands, the open scopes announced so far included (as parts, going on later). */
void pipeline_close_all(struct pipeline *p, uint64_t now_ns);
/* The next closed trace (the caller's), or NULL. */
struct trace *pipeline_take_closed(struct pipeline *p);

/* For status: process's ledger and the shim's last counts; false if unknown. NULL outputs are skipped. */
bool pipeline_ledger(const struct pipeline *p, uint32_t process, struct ledger *ret, struct dvt_shim_counts *ret_shim);
void pipeline_total(const struct pipeline *p, struct ledger *ret);
/* Dropped-scope counts by (service, name) since the last call, for the store; calls back once each. */
void pipeline_take_dropped(struct pipeline *p, void (*fn)(void *ctx, const char *service, const char *name, uint64_t count),
                           void *ctx);
uint64_t pipeline_open_traces(const struct pipeline *p);

/* What became of the scopes received: ledger.scopes + announced = bad + empty + placed + merged + waiting + lost. */
struct pipeline_scopes {
    uint64_t placed;    /* put into a trace */
    uint64_t merged;    /* the end of a scope announced before, or a repeated announcement */
    uint64_t empty;     /* not to be kept always, and all samples of its stretch are here: none lies in it (yet) */
    uint64_t announced; /* announcements received; ledger.scopes counts closed scopes only */
    uint64_t waiting;   /* told only because their thread's arming was under way: placed with their first sample, or empty */
    uint64_t lost;      /* no memory */
};
void pipeline_scope_counts(const struct pipeline *p, struct pipeline_scopes *ret);

#endif
