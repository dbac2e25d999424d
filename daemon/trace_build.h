/*
 * trace_build: one part of one trace under assembly. Layer 4.
 *
 * It refers to scopes, threads and code by references; trace_build_finish copies what the writer needs into a
 * struct trace that shares nothing that changes. Pipeline thread only.
 */
#ifndef TRACE_BUILD_H
#define TRACE_BUILD_H

#include "process.h"
#include "ptrmap.h"
#include "scope.h"
#include "stacks.h"
#include "thread_state.h"
#include "trace.h"

struct trace_build_thread {
    struct thread_state *state; /* a reference */
    uint32_t process;           /* into processes */
    uint64_t lost_before;       /* its lost samples when it came in */
};
struct trace_build_frame {
    struct code *code; /* a reference */
    uint32_t line;
};

struct trace_build {
    struct dvt_trace_id id;
    uint32_t part;
    struct scope **scopes;    /* [n_scopes] references; scope->build and ->slot point back */
    uint32_t *scope_threads;  /* [n_scopes] into threads */
    struct trace_sample *samples;
    struct trace_build_thread *threads;
    struct process **processes; /* references */
    struct trace_build_frame *frames;
    uint32_t *mstack;
    uint32_t n_scopes, n_samples, n_threads, n_processes, n_frames, n_mstack;
    uint32_t cap_scopes, cap_samples, cap_threads, cap_processes, cap_frames, cap_mstack;
    struct ptrmap thread_places, frame_places; /* values are place + 1 */
    uint32_t n_indexed; /* of its scopes, those samples may still fall into */
    uint64_t ambiguous;
    size_t bytes; /* memory it holds */
};

struct trace_build *trace_build_new(const struct dvt_trace_id *id, uint32_t part);
void trace_build_free(struct trace_build *b); /* with its samples; NULL is fine */

/* Adds a scope of thread t (scope->thread) of process p, unless it is in already. 0 or DVT_ENOMEM. */
int trace_build_scope(struct trace_build *b, struct scope *s, struct process *p);
/* Puts the closed scope `now` in the place of its announcement `before`, which is in b. */
void trace_build_replace(struct trace_build *b, struct scope *before, struct scope *now);
/* Adds a sample to a scope that is in b; takes raw if 0. stack may be NULL: then without managed frames, for
 * `reason`. */
int trace_build_sample(struct trace_build *b, const struct scope *s, struct sample *raw, uint64_t weight_ns,
                       const struct stack *stack, uint32_t reason);
/* The finished part, or NULL without memory. Frees b in any case. */
struct trace *trace_build_finish(struct trace_build *b);

#endif
