/*
 * scope: one reported scope as the daemon keeps it. Layer 0.
 *
 * One block with its strings, counted by reference: the thread's index holds it until no sample can fall into
 * it any more, the trace under assembly until it closes. Strings are cleaned UTF-8. Pipeline thread only.
 */
#ifndef SCOPE_H
#define SCOPE_H

#include "../proto/wire.h"
#include "switches.h"

struct trace_build;
struct thread_state;

struct scope {
    uint32_t refs;
    uint32_t flags;      /* enum dvt_scope_flags */
    uint64_t serial, parent_serial;
    uint64_t start_ns, end_ns;
    uint64_t head_open, head_close;
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent_span;
    struct dvt_str name;
    struct dvt_label *labels; /* [n_labels] in this block */
    struct dvt_trace_id *links; /* [n_links] in this block */
    uint32_t n_labels, n_links;
    bool cut;     /* its process ended while it was open */
    bool indexed; /* told closed, and samples may still fall into it */
    bool counted; /* announced: in its trace's counts of open scopes */
    struct thread_state *thread; /* not counted: outlives the index; a trace holds its threads itself */
    struct wait_sums waits;      /* of its whole length, if has_waits */
    bool has_waits;
    bool conditional;            /* waits in the index for a first sample before it is in any trace */
    struct trace_build *build;   /* the trace part it is in now, or NULL */
    uint32_t slot;               /* its place there */
    size_t bytes;                /* of the block */
};

/* Copies rec, cleaning and cutting its strings; NULL without memory. One reference, the caller's. */
struct scope *scope_new(const struct dvt_scope_rec *rec);
struct scope *scope_ref(struct scope *s);
void scope_unref(struct scope *s); /* NULL is fine */

/* Of its trace, as far as its process knows. */
static inline bool scope_is_root(const struct scope *s)
{
    return s->flags & (DVT_SCOPE_ROOT | DVT_SCOPE_REMOTE_PARENT);
}

#endif
