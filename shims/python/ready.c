/*
 * ready: see ready.h. Awaiting ends at once: the iterator's first step raises StopIteration(value).
 */
#include "ready.h"

struct ready {
    PyObject_HEAD
    PyObject *value;
};

static void ready_dealloc(PyObject *self)
{
    Py_XDECREF(((struct ready *)self)->value);
    PyObject_Free(self);
}

static PyObject *ready_self(PyObject *self)
{
    return Py_NewRef(self);
}

static PyObject *ready_next(PyObject *self)
{
    PyErr_SetObject(PyExc_StopIteration, ((struct ready *)self)->value);
    return NULL;
}

static PyAsyncMethods ready_async = {.am_await = ready_self};

static PyTypeObject ready_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dovetail.ready",
    .tp_basicsize = sizeof(struct ready),
    .tp_dealloc = ready_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_async = &ready_async,
    .tp_iter = ready_self,
    .tp_iternext = ready_next,
};

int dvt_py_ready_init(void)
{
    return PyType_Ready(&ready_type);
}

PyObject *dvt_py_ready(PyObject *value)
{
    struct ready *r = PyObject_New(struct ready, &ready_type);
    if (r)
        r->value = Py_NewRef(value);
    return (PyObject *)r;
}
