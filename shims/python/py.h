/*
 * py: what the modules of the Python shim share: the Python headers with the few differences between 3.9 and
 * 3.14 evened out, and the shim's one switch.
 *
 * Rules for every function here: the calling thread holds the GIL (but for the walker, which runs in a signal
 * handler and touches no reference count); a pending Python exception is never lost; a failure inside never
 * reaches the application: it makes the shim do less.
 */
#ifndef DVT_PY_H
#define DVT_PY_H

#define PY_SSIZE_T_CLEAN 1
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "../core/runtime.h"

#if PY_VERSION_HEX >= 0x030D0000
#define dvt_py_optional_attr PyObject_GetOptionalAttr
#else
#define dvt_py_optional_attr _PyObject_LookupAttr
#endif

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *o)
{
    Py_INCREF(o);
    return o;
}
#endif

/* False before start, in sub-interpreters' view for ever, and from atexit on: every hook then passes straight
 * through. */
extern bool dvt_py_enabled;
extern PyInterpreterState *dvt_py_main_interp;

/* Set once a variable that can carry a scope (the shim's own, or OpenTelemetry's) is in use. */
extern bool dvt_py_vars_used;

static inline bool dvt_py_here(void)
{
    return dvt_py_enabled && PyInterpreterState_Get() == dvt_py_main_interp;
}

/* obj.name or NULL, never with an exception set. A strong reference. */
static inline PyObject *dvt_py_attr(PyObject *obj, PyObject *name)
{
    PyObject *value = NULL;
    if (dvt_py_optional_attr(obj, name, &value) < 0)
        PyErr_Clear();
    return value;
}

/* The module's attribute if the module is imported already; never imports. A strong reference or NULL. */
PyObject *dvt_py_loaded_attr(const char *module, const char *attr);

/* Big-endian bytes of a non-negative int that fits; false otherwise. */
bool dvt_py_int_bytes(PyObject *value, uint8_t *out, size_t n);

/* UTF-8 of a str, cached in it, good while it lives; false (no exception) for other types and lone
 * surrogates. */
bool dvt_py_utf8(PyObject *str, struct dvt_str *ret);

#endif
