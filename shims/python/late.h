/*
 * late: the parts of a scope that are only wanted once it is known whether it is kept: its name (a dropped
 * one is counted by it) and its labels (own labels, dovetail.label() and the allow-listed OpenTelemetry
 * baggage).
 */
#ifndef DVT_PY_LATE_H
#define DVT_PY_LATE_H

#include "mark.h"

/* Reads the allow-list ("tenant,plan"; NULL or "": none). 0 or -1 with an exception. */
int dvt_py_late_init(const char *baggage_keys);
bool dvt_py_wants_baggage(void);

/* The interned name of a str, NULL when the table is full or it is no str. */
const struct dvt_name *dvt_py_name(PyObject *str);
/* That of a span; of one without a name or of NULL, the empty name. */
const struct dvt_name *dvt_py_span_name(PyObject *span);

/* Hands the late parts of a kept scope over. May run Python code of the span's class. */
void dvt_py_commit(struct dvt_scope scope, const struct dvt_py_mark *m);

/* Adds labels (a dict of str to str) to a mark's span or Scope: all its scopes reported from now on carry
 * them. */
void dvt_py_mark_label(const struct dvt_py_mark *m, PyObject *labels);

/* A new dict with every value as str; NULL without exception if there is nothing usable. */
PyObject *dvt_py_label_dict(PyObject *const *keys, PyObject *const *values, Py_ssize_t n);

#endif
