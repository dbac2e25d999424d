/*
 * trace: one trace (or part of one) under assembly, and closed for the writer. Layer 4.
 *
 * A closed trace is handed over whole: it owns its samples, strings and process references and shares nothing
 * that changes.
 */
#ifndef TRACE_H
#define TRACE_H

#include "../proto/chunk.h"
#include "process.h"
#include "sample.h"
#include "switches.h"

struct trace_thread {
    struct thread_key key;
    uint32_t process; /* into processes */
    char *name;       /* owned */
    uint32_t host_tid; /* 0: unknown */
    uint64_t uncovered_ns;
};

struct trace_mframe { /* a managed frame, distinct in the trace */
    char *name, *file; /* owned */
    uint32_t line;
};

struct trace_sample {
    struct sample *raw;      /* owned */
    uint32_t thread, scope;  /* into threads, scopes (innermost) */
    uint64_t weight_ns;
    uint32_t reason;         /* enum dvt_no_stack for the managed part; OK: mframes hold it */
    uint32_t first_mframe, n_mframes; /* into mstack, leaf first */
    bool mtruncated;
};

struct trace_scope {
    uint32_t thread, parent; /* parent: enclosing scope in this part, or DVT_NONE */
    uint64_t serial, start_ns, end_ns;
    struct dvt_span_id span, parent_span;
    char *name;              /* owned */
    uint32_t flags;
    struct dvt_label *labels; /* owned block incl. its strings */
    uint32_t n_labels;
    struct dvt_trace_id *links; /* owned */
    uint32_t n_links;
    bool cut;                /* process ended while it was open */
    bool has_waits;
    struct wait_sums waits;
};

struct trace {
    struct dvt_trace_id id;
    uint32_t part;
    struct process **processes; /* [n_processes] references */
    struct trace_thread *threads;
    struct trace_scope *scopes;
    struct trace_sample *samples;
    struct trace_mframe *mframes;
    uint32_t *mstack; /* [n_mstack] indexes into mframes */
    uint32_t n_processes, n_threads, n_scopes, n_samples, n_mframes, n_mstack;
    uint64_t ambiguous, lost_samples;
    size_t bytes; /* memory it holds, for budgets */
    /* private to trace.c: capacities and look-up tables follow in a larger struct */
};

void trace_free(struct trace *t);

#endif
