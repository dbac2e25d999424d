/*
 * hooks: puts the shim into CPython's context switching: Context.run, ContextVar.set and ContextVar.reset as
 * Python code calls them, and through got.h the C functions under them as other extensions call them.
 */
#ifndef DVT_PY_HOOKS_H
#define DVT_PY_HOOKS_H

#include "py.h"

/* Once, for the life of the process. 0 or -1 with an exception: then nothing was patched. */
int dvt_py_hooks_install(void);

/* What got.c puts in place of the C functions of these names. */
int dvt_py_context_enter(PyObject *context);
int dvt_py_context_exit(PyObject *context);
PyObject *dvt_py_contextvar_set(PyObject *var, PyObject *value);
int dvt_py_contextvar_reset(PyObject *var, PyObject *token);

#endif
