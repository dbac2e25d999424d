/*
 * pipeline_state: what the parts of the pipeline share. Layer 6, private to pipeline*.c.
 *
 * pipeline.c takes what comes in and tells what is known; pipeline_message.c reads messages; pipeline_join.c gives samples
 * to scopes; pipeline_close.c closes traces, forgets threads and keeps within the memory cap.
 */
#ifndef PIPELINE_STATE_H
#define PIPELINE_STATE_H

#include "join.h"
#include "pipeline.h"
#include "scope_batch.h"
#include "trace_table.h"

enum {
    PIPELINE_MAX_THREADS = 65536, /* of one process */
    PIPELINE_MAX_CROSS = 16384,   /* of one thread, joined by time: all that waits in a shim's ring during an arming */
    PIPELINE_MAX_FINISHED = 1024, /* ended processes whose ledgers are kept apart */
    PIPELINE_MAX_DROPPED = 65536, /* (service, name) pairs between two reports */
};
#define PIPELINE_STACK_WAIT_NS 1000000000u /* a settled sample waits for its managed stack */
#define PIPELINE_BURST_NS 20000000u        /* messages closer together are one flush of the shim */
#define PIPELINE_DUE_GRACE_NS 1500000000u  /* samples younger than this wait for what the shim may still send */
#define PIPELINE_SWEEP_NS 250000000u

struct proc_state {
    struct process *proc; /* a reference */
    struct ledger ledger;
    struct dvt_shim_counts shim;
    struct codetable codes;
    uint32_t n_threads;
    bool down, bye, finished;
    uint64_t down_ns;
};

struct dropped_count {
    char *service, *name; /* owned */
    uint64_t count, hash;
};

struct pipeline {
    struct pipeline_config cfg;
    struct trace_rules rules;
    uint64_t now_ns;
    uint64_t switched_ns; /* the switches of all threads are told up to then */
    struct ptrmap procs, threads; /* struct proc_state, struct thread_state */
    struct proc_state **proc_list;
    struct thread_state **thread_list;
    struct thread_state **dirty; /* [n_dirty] threads to join at the next tick; references */
    uint32_t n_procs, cap_procs, n_threads, cap_threads, n_dirty, cap_dirty, n_finished;
    struct trace_table traces;
    struct trace **closed; /* [closed_first, n_closed) */
    uint32_t closed_first, n_closed, cap_closed;
    size_t closed_bytes;
    size_t fed_bytes; /* since memory was last measured */
    uint64_t next_sweep_ns, last_scan_ns;
    struct ledger retired; /* of processes forgotten, and of what belongs to none */
    struct pipeline_scopes scopes;
    struct ptrmap dropped;
    struct dropped_count **dropped_list;
    uint32_t n_dropped, cap_dropped;
    struct scope_batch batch;
    uint32_t *join_stack, *join_rows; /* scratch */
    uint32_t cap_join_stack, cap_join_rows;
    uint64_t *cols; /* scratch of STACKS messages */
    uint32_t *cols32;
    size_t cap_cols, cap_cols32;
};

/* The list of pointers with room for one more; NULL without memory, the old list stays. */
void *pipeline_room(void *list, uint32_t n, uint32_t *cap);
/* Appends to a list of pointers; 0 or DVT_ENOMEM. */
#define PIPELINE_PUSH(list, n, cap, item)                                                                             \
    __extension__({                                                                                                   \
        void *roomy = pipeline_room(list, n, &(cap));                                                                 \
        if (roomy) {                                                                                                  \
            (list) = roomy;                                                                                           \
            (list)[(n)++] = (item);                                                                                   \
        }                                                                                                             \
        roomy ? 0 : DVT_ENOMEM;                                                                                       \
    })

uint64_t pipeline_thread_hash(const struct thread_key *k);
struct proc_state *pipeline_proc(const struct pipeline *p, uint32_t process);
/* The thread; made if it is not known and its process is up. NULL: no such process, too many threads, no memory. */
struct thread_state *pipeline_thread(struct pipeline *p, struct thread_key key);
void pipeline_mark_dirty(struct pipeline *p, struct thread_state *t);
void pipeline_count_dropped(struct pipeline *p, const char *service, struct dvt_str name, uint64_t count);

/* ---- pipeline_join.c ---- */

enum pipeline_how {
    PIPELINE_SETTLED, /* only samples about which nothing can change any more */
    PIPELINE_KNOWN,   /* also those whose scope is known for certain, though the thread is not settled */
    PIPELINE_FINAL,   /* as KNOWN, and the others are given up: nothing more will be told */
};
/* Gives the thread's samples to their scopes and drops the scopes into which none can fall any more. KNOWN looks only at
 * samples at least grace_ns old. */
void pipeline_join_thread(struct pipeline *p, struct thread_state *t, enum pipeline_how how, uint64_t grace_ns);
/* Puts a scope into the part of its trace that is open now. NULL without memory. */
struct trace_entry *pipeline_place_scope(struct pipeline *p, struct scope *s);
/* An announced scope runs no longer: out of its trace's counts; with end_open out of its thread's list too. */
void pipeline_uncount_open(struct pipeline *p, struct scope *s);
void pipeline_end_open(struct pipeline *p, struct thread_state *t, uint32_t i);
/* Drops samples up to the offset, counted in *counter. */
void pipeline_drop_samples(struct pipeline *p, struct thread_state *t, uint64_t upto, uint64_t *counter);
/* Takes all scopes out of the thread's index. */
void pipeline_clear_index(struct pipeline *p, struct thread_state *t);

/* ---- pipeline_close.c ---- */

void pipeline_close_part(struct pipeline *p, struct trace_entry *e);
void pipeline_close_every(struct pipeline *p);
enum pipeline_how pipeline_how_to_join(const struct pipeline *p, const struct thread_state *t);
void pipeline_close_due(struct pipeline *p);
/* Joins what ended threads and processes leave behind, and forgets them. */
void pipeline_sweep(struct pipeline *p);
/* Keeps within the memory cap, if much came in since last time. */
void pipeline_bound_memory(struct pipeline *p);

/* ---- pipeline_message.c ---- */

int pipeline_read_message(struct pipeline *p, struct proc_state *ps, struct dvt_str body);

#endif
