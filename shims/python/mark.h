/*
 * mark: what a context says the thread is working for: OpenTelemetry's current span, or a dovetail.scope.
 *
 * OpenTelemetry keeps its context in a ContextVar; its value is a dict, the span in it under a key made at
 * import. Span ids are in the span's `_context`, a tuple (trace_id, span_id, is_remote, trace_flags, ...).
 * All is read in C and nothing of OpenTelemetry is imported: the variable is bound at its first set. Where
 * both a span and a scope are current, the inner one counts: the scope if it was entered under just this
 * span.
 */
#ifndef DVT_PY_MARK_H
#define DVT_PY_MARK_H

#include "py.h"

struct dvt_py_mark {
    PyObject *owner;   /* the span or Scope, strong */
    PyObject *context; /* OpenTelemetry's context dict, strong; NULL unless baggage is asked for */
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent;
    uint32_t flags; /* enum dvt_scope_flags */
    const struct dvt_name *name; /* a span's as it was when first seen */
    bool remote; /* span is another process's: this thread works for its trace, in no span of its own yet */
    bool own;       /* owner is a Scope */
};

/* Creates the shim's own variable. 0 or -1 with an exception. */
int dvt_py_mark_init(void);

/* The shim's own variable, and OpenTelemetry's (NULL until it is bound). */
extern PyObject *dvt_py_own_var, *dvt_py_otel_var;
extern bool dvt_py_own_used; /* the own one was ever set: until then it need not be looked up */
/* Changes of any variable by anybody else, as far as the hooks see them. */
extern uint64_t dvt_py_var_changes;
bool dvt_py_bind_otel(void);
/* A variable that is neither: binds OpenTelemetry's if this is it. */
bool dvt_py_try_bind(PyObject *var);

/* True if var is one whose value makes a mark. */
static inline bool dvt_py_is_mark_var(PyObject *var)
{
    return var == dvt_py_own_var || var == dvt_py_otel_var || (!dvt_py_otel_var && dvt_py_try_bind(var));
}
static inline bool dvt_py_otel_bound(void)
{
    return dvt_py_otel_var != NULL;
}

/* Fills *ret with what is current in the thread's context, with references of its own; false: nothing. */
bool dvt_py_mark_now(struct dvt_py_mark *ret);
/* The mark of a Scope, without references of its own. */
struct dvt_py_scope;
struct dvt_py_mark dvt_py_mark_of(struct dvt_py_scope *scope);
void dvt_py_mark_drop(struct dvt_py_mark *m);
/* The span object OpenTelemetry has current (any, also an invalid one), strong, or NULL. */
PyObject *dvt_py_otel_span_now(void);

static inline bool dvt_py_mark_same(const struct dvt_py_mark *a, const struct dvt_py_mark *b)
{
    return a->owner == b->owner || (memcmp(&a->trace, &b->trace, sizeof a->trace) == 0 &&
                                    memcmp(&a->span, &b->span, sizeof a->span) == 0 &&
                                    a->remote == b->remote);
}

#endif
