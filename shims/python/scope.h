/*
 * scope: dovetail.scope, the shim's own API for services without OpenTelemetry: a context manager (sync and
 * async) and decorator. It is the value of the shim's ContextVar while it is entered, so tasks and threads
 * that take the context along take it along. An object entered again (nested, later, by many tasks at once)
 * is a scope of its own each time.
 */
#ifndef DVT_PY_SCOPE_H
#define DVT_PY_SCOPE_H

#include "py.h"

struct dvt_py_scope {
    PyObject_HEAD
    PyObject *name;   /* str */
    PyObject *labels; /* dict of str to str, never changed in place; or NULL */
    const struct dvt_name *interned;
    PyObject *origin;     /* the scope that was entered again, of which this is the further entry; or NULL */
    PyObject *outer;      /* while entered: the value of the variable before, or NULL */
    PyObject *outer_span; /* OpenTelemetry's span it was entered under, or NULL; kept, for tasks outlive it */
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent;
    uint32_t flags;
    bool used; /* entered once: its ids are taken */
    bool always, remote_given, remote_sampled;
    struct dvt_trace_id remote_trace; /* traceparent= */
    struct dvt_span_id remote_span;
    struct dvt_trace_id *links; /* [n_links] */
    size_t n_links;
    uint32_t pair; /* swap's: where what it keeps for this scope would be */
};

extern PyTypeObject dvt_py_scope_type;

static inline struct dvt_py_scope *dvt_py_as_scope(PyObject *value)
{
    return value && Py_TYPE(value) == &dvt_py_scope_type ? (struct dvt_py_scope *)value : NULL;
}

/* Readies the types and seeds the ids. 0 or -1 with an exception. */
int dvt_py_scope_init(void);
/* A fork's child must not make the parent's ids again. */
void dvt_py_scope_reseed(void);

/* Scopes left in another context than entered, or not entered. */
extern uint64_t dvt_py_scope_misuse;

#endif
