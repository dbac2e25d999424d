/*
 * threads: see threads.h. The C functions behind _thread.start_new_thread and, from 3.13 on,
 * start_joinable_thread are replaced in their PyMethodDef, as in hooks.c. A bound method to run in the thread
 * (threading's _bootstrap) is wrapped in a callable that tells core first.
 */
#include "threads.h"

#include <time.h>

enum { YOUNG_NS = 1000000 };

static PyCFunction real_new;
static PyCFunctionWithKeywords real_joinable;
static bool wanted; /* a thread was young at its first scope */

void dvt_py_threads_first_scope(void)
{
    struct timespec t;
    if (!wanted && clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0)
        wanted = t.tv_sec == 0 && t.tv_nsec < YOUNG_NS;
}

static PyObject *run_in_thread(PyObject *function, PyObject *args, PyObject *kwargs)
{
    dvt_thread_start();
    return PyObject_Call(function, args, kwargs);
}

static PyMethodDef run_def = {"dovetail_thread", (PyCFunction)(void *)run_in_thread,
                              METH_VARARGS | METH_KEYWORDS, NULL};

/* args with the function in first place wrapped, or as they are. A strong reference. */
static PyObject *wrapped(PyObject *args)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (!wanted || n == 0 || !PyMethod_Check(PyTuple_GET_ITEM(args, 0)) || !dvt_py_here() || !dvt_rt_active())
        return Py_NewRef(args);
    PyObject *copy = PyTuple_New(n);
    PyObject *run = copy ? PyCFunction_New(&run_def, PyTuple_GET_ITEM(args, 0)) : NULL;
    if (!run) {
        PyErr_Clear();
        Py_XDECREF(copy);
        return Py_NewRef(args);
    }
    PyTuple_SET_ITEM(copy, 0, run);
    for (Py_ssize_t i = 1; i < n; i++)
        PyTuple_SET_ITEM(copy, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    return copy;
}

static PyObject *hooked_new(PyObject *self, PyObject *args)
{
    PyObject *mine = wrapped(args);
    PyObject *result = real_new(self, mine);
    Py_DECREF(mine);
    return result;
}

static PyObject *hooked_joinable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *mine = wrapped(args);
    PyObject *result = real_joinable(self, mine, kwargs);
    Py_DECREF(mine);
    return result;
}

static PyMethodDef *def_of(PyObject *module, const char *name, int flags)
{
    PyObject *function = PyObject_GetAttrString(module, name);
    PyMethodDef *def = function && PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml : NULL;
    PyErr_Clear();
    Py_XDECREF(function); /* the def is static in CPython */
    return def && def->ml_flags == flags ? def : NULL;
}

void dvt_py_threads_install(void)
{
    PyObject *module = PyImport_ImportModule("_thread");
    PyMethodDef *starts = module ? def_of(module, "start_new_thread", METH_VARARGS) : NULL;
    PyMethodDef *joinable =
        module ? def_of(module, "start_joinable_thread", METH_VARARGS | METH_KEYWORDS) : NULL;
    if (starts) {
        real_new = starts->ml_meth;
        starts->ml_meth = hooked_new;
    }
    if (joinable) {
        real_joinable = (PyCFunctionWithKeywords)(void *)joinable->ml_meth;
        joinable->ml_meth = (PyCFunction)(void *)hooked_joinable;
    }
    PyErr_Clear();
    Py_XDECREF(module);
}
