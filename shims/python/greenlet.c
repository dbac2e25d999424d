/*
 * greenlet: see greenlet.h. greenlet.settrace calls us after each switch, in the new greenlet, with its
 * context already in place. The trace function that was there before is the callable's `self` and is called
 * after ours.
 */
#include "greenlet.h"
#include "lane.h"

static bool loading;

static PyObject *on_switch(PyObject *before, PyObject *const *args, Py_ssize_t n)
{
    if (dvt_py_here())
        dvt_py_switched();
    if (before != Py_None)
        return PyObject_Vectorcall(before, args, (size_t)n, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef switch_def = {"dovetail_on_switch", (PyCFunction)(void *)on_switch, METH_FASTCALL, NULL};

static bool is_ours(PyObject *f)
{
    return PyCFunction_Check(f) && PyCFunction_GetFunction(f) == switch_def.ml_meth;
}

static void install(PyObject *settrace)
{
    PyObject *none = PyTuple_Pack(1, Py_None);
    PyObject *before = none ? PyObject_Call(settrace, none, NULL) : NULL;
    PyObject *mine = NULL;
    if (before)
        mine = is_ours(before) ? Py_NewRef(before) : PyCFunction_New(&switch_def, before);
    PyObject *old = mine ? PyObject_CallFunctionObjArgs(settrace, mine, NULL) : NULL;
    Py_XDECREF(old);
    Py_XDECREF(mine);
    Py_XDECREF(before);
    Py_XDECREF(none);
    PyErr_Clear();
}

bool dvt_py_greenlet_install(void)
{
    PyObject *settrace = dvt_py_loaded_attr("greenlet._greenlet", "settrace");
    if (!settrace) /* before 1.0 the module itself was the extension */
        settrace = dvt_py_loaded_attr("greenlet", "settrace");
    if (!settrace)
        return !loading;
    loading = false;
    install(settrace);
    Py_DECREF(settrace);
    return true;
}

void dvt_py_greenlet_dlopened(const char *path)
{
    if (!path || !strstr(path, "greenlet"))
        return;
    loading = true;
    dvt_py_greenlet_maybe_loaded();
}
