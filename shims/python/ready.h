/*
 * ready: an awaitable that has its result already, for `async with` on something that never waits.
 */
#ifndef DVT_PY_READY_H
#define DVT_PY_READY_H

#include "py.h"

int dvt_py_ready_init(void);
/* A new awaitable whose await gives value. */
PyObject *dvt_py_ready(PyObject *value);

#endif
