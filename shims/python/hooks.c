/*
 * hooks: see hooks.h. The C function behind a method is replaced in its PyMethodDef, which every method
 * descriptor and bound method made of it shares: so methods bound before are hooked too. Each hook does the
 * original's work first and returns its result, whatever happens in ours.
 */
#include "hooks.h"
#include "got.h"
#include "lane.h"
#include "mark.h"

static PyCFunction real_set, real_reset;
static PyObject *s_read_ready;

static PyObject *context_now(void)
{
    return PyThreadState_Get()->context; /* borrowed */
}

int dvt_py_context_enter(PyObject *context)
{
    PyObject *before = context_now();
    int rc = PyContext_Enter(context);
    if (rc == 0 && dvt_py_here())
        dvt_py_entered(before, context);
    return rc;
}

int dvt_py_context_exit(PyObject *context)
{
    int rc = PyContext_Exit(context);
    if (rc == 0 && dvt_py_here())
        dvt_py_left(context);
    return rc;
}

static void changed(PyObject *var, bool going_back)
{
    dvt_py_var_changes++;
    if (dvt_py_is_mark_var(var) && dvt_py_here())
        dvt_py_changed(going_back);
}

PyObject *dvt_py_contextvar_set(PyObject *var, PyObject *value)
{
    PyObject *token = PyContextVar_Set(var, value);
    if (token)
        changed(var, false);
    return token;
}

int dvt_py_contextvar_reset(PyObject *var, PyObject *token)
{
    int rc = PyContextVar_Reset(var, token);
    if (rc == 0)
        changed(var, true);
    return rc;
}

static PyObject *hooked_set(PyObject *self, PyObject *value)
{
    PyObject *token = real_set(self, value);
    if (token)
        changed(self, false);
    return token;
}

static PyObject *hooked_reset(PyObject *self, PyObject *token)
{
    PyObject *none = real_reset(self, token);
    if (none)
        changed(self, true);
    return none;
}

/* The method by which asyncio's own transports read, told by its code: its name is interned. */
static bool is_transport_read(PyObject *callable)
{
    static const char file[] = "/asyncio/selector_events.py";
    PyObject *function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : NULL;
    if (!function || !PyFunction_Check(function))
        return false;
    const PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    struct dvt_str path;
    size_t n = strlen(file);
    return code->co_name == s_read_ready && dvt_py_utf8(code->co_filename, &path) && path.n >= n &&
           memcmp(path.p + path.n - n, file, n) == 0;
}

static int enter_to_call(PyObject *context, PyObject *callable)
{
    if (!is_transport_read(callable))
        return dvt_py_context_enter(context);
    PyObject *before = context_now();
    int rc = PyContext_Enter(context);
    if (rc == 0 && dvt_py_here())
        dvt_py_entered_for_nobody(before, context);
    return rc;
}

/* Context.run: as in CPython's context.c (context_run), with ours between. */
static PyObject *hooked_run(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "run() missing 1 required positional argument");
        return NULL;
    }
    if (enter_to_call(self, args[0]))
        return NULL;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(nargs - 1), kwnames);
    if (dvt_py_context_exit(self))
        Py_CLEAR(result);
    return result;
}

/* The PyMethodDef behind type.name, or NULL with an exception if it is not of the expected calling
 * convention. */
static PyMethodDef *method_def(PyTypeObject *type, const char *name, int flags)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)type, name);
    if (!method)
        return NULL;
    PyMethodDef *def = NULL;
    if (Py_TYPE(method) == &PyMethodDescr_Type)
        def = ((PyMethodDescrObject *)method)->d_method;
    Py_DECREF(method); /* the def is static in CPython */
    if (def && def->ml_flags == flags)
        return def;
    PyErr_Format(PyExc_RuntimeError, "%s.%s is not built as in the CPython this was made for",
                 type->tp_name, name);
    return NULL;
}

int dvt_py_hooks_install(void)
{
    PyMethodDef *set = method_def(&PyContextVar_Type, "set", METH_O);
    PyMethodDef *reset = set ? method_def(&PyContextVar_Type, "reset", METH_O) : NULL;
    PyMethodDef *run = reset ? method_def(&PyContext_Type, "run", METH_FASTCALL | METH_KEYWORDS) : NULL;
    if (!run)
        return -1;
    s_read_ready = PyUnicode_InternFromString("_read_ready");
    if (!s_read_ready)
        return -1;
    real_set = set->ml_meth;
    real_reset = reset->ml_meth;
    set->ml_meth = hooked_set;
    reset->ml_meth = hooked_reset;
    run->ml_meth = (PyCFunction)(void *)hooked_run;
    dvt_py_got_install();
    return 0;
}
