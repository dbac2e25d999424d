/*
 * module: dovetail._dovetail, the extension. Importing it defines the types; start() connects to the daemon
 * and hooks the interpreter, once. What fails is told by status(), never by an exception.
 */
#include "got.h"
#include "greenlet.h"
#include "hooks.h"
#include "lane.h"
#include "late.h"
#include "scope.h"
#include "threads.h"
#include "walker.h"

#include <errno.h>

static struct dvt_runtime runtime = {.runtime = "python"};
static char runtime_version[32];
static char failure[256]; /* why the shim is inert, or "" */
static bool is_hooked;

static int fail(const char *why)
{
    snprintf(failure, sizeof failure, "%s", why);
    PyErr_Clear();
    return -1;
}

static int fail_by_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    struct dvt_str s = {"unknown", 7};
    (void)dvt_py_utf8(text, &s); /* the default says as much as is known */
    snprintf(failure, sizeof failure, "%.*s", (int)(s.n < 200 ? s.n : 200), s.p);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
    return -1;
}

/* "3.11.7" out of "3.11.7 (main, ...) [GCC]". */
static void set_version(void)
{
    const char *v = Py_GetVersion();
    size_t n = strcspn(v, " ");
    n = n < sizeof runtime_version - 1 ? n : sizeof runtime_version - 1;
    memcpy(runtime_version, v, n);
    runtime.runtime_version = runtime_version;
}

/* Once in a process: hooks stay, and pass straight through while dvt_py_enabled is not set. */
static int install(void)
{
    if (is_hooked)
        return 0;
    if (dvt_py_hooks_install())
        return fail_by_exception();
    dvt_py_threads_install();
    is_hooked = true;
    return 0;
}

/* 0, or -1 with the failure. */
static int begin(const struct dvt_options *options)
{
    failure[0] = 0;
    set_version();
    dvt_py_main_interp = PyInterpreterState_Get();
    if (dvt_py_main_interp != PyInterpreterState_Main())
        return fail("only the main interpreter is profiled");
    dvt_py_walker_init(&runtime);
    if (dvt_rt_start(options, &runtime))
        return fail(errno == ECANCELED ? "switched off by DOVETAIL=off" : dvt_last_error());
    if (install())
        return -1;
    dvt_py_enabled = true;
    (void)dvt_py_bind_otel(); /* not loaded yet: bound at its first set */
    return 0;
}

static PyObject *start(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (!dvt_py_enabled)
        (void)begin(NULL);
    return PyBool_FromLong(dvt_py_enabled);
}

static void end(void)
{
    dvt_py_walker_stop();    dvt_py_enabled = false;
    Py_BEGIN_ALLOW_THREADS;
    dvt_stop(500);
    Py_END_ALLOW_THREADS;
}

static PyObject *stop(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    end();
    Py_RETURN_NONE;
}

/* attach(socket, service or None): why not, or None. */
static PyObject *attach(PyObject *self, PyObject *args)
{
    struct dvt_options options = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "sz", &options.socket, &options.service))
        return NULL;
    if (dvt_py_enabled)
        end();
    dvt_py_lane_attach();
    if (begin(&options))
        return PyUnicode_FromString(failure);
    Py_RETURN_NONE;
}

static PyObject *after_fork(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    dvt_py_scope_reseed();
    if (dvt_py_here())
        dvt_py_lane_after_fork();
    Py_RETURN_NONE;
}

/* On the span or Scope itself: what is reported of it from now on has the label; the daemon spreads it. */
static PyObject *label(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    (void)self;
    struct dvt_py_mark m;
    PyObject *labels = NULL;
    if (kwnames && n == 0)
        labels = dvt_py_label_dict(&PyTuple_GET_ITEM(kwnames, 0), args, PyTuple_GET_SIZE(kwnames));
    if (labels && dvt_py_mark_now(&m)) {
        dvt_py_mark_label(&m, labels);
        dvt_py_mark_drop(&m);
    }
    Py_XDECREF(labels);
    Py_RETURN_NONE;
}

/* From the context, not from core: it also works with no daemon. */
static PyObject *traceparent(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct dvt_py_mark m;
    char text[DVT_TRACEPARENT_LEN + 1];
    if (!dvt_py_mark_now(&m))
        Py_RETURN_NONE;
    dvt_traceparent_format(&m.trace, &m.span, m.flags & DVT_SCOPE_UNSAMPLED ? 0 : 1, text);
    dvt_py_mark_drop(&m);
    return PyUnicode_FromString(text);
}

static PyObject *status(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    const char *error = failure[0] ? failure : dvt_last_error();
    struct dvt_py_walker_counts w = dvt_py_walker_counts();
    return Py_BuildValue("{s:O,s:O,s:s,s:O,s:I,s:K,s:K,s:K,s:I,s:K}", /* a dict of: */
                         "enabled", dvt_py_enabled ? Py_True : Py_False,
                         "active", dvt_rt_active() ? Py_True : Py_False,
                         "error", error ? error : "",
                         "opentelemetry", dvt_py_otel_bound() ? Py_True : Py_False,
                         "patched_calls", dvt_py_got_patched(),
                         "resyncs", (unsigned long long)dvt_py_lane_counts.resyncs,
                         "too_deep", (unsigned long long)dvt_py_lane_counts.too_deep,
                         "misuse", (unsigned long long)dvt_py_scope_misuse,
                         "codes", w.codes,
                         "faults", (unsigned long long)w.faults);
}

/* What core has open on this thread, as (trace id, span id) ints, or None: for tests. */
static PyObject *current(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct dvt_trace_id t;
    struct dvt_span_id s;
    char trace[DVT_TRACE_HEX + 1], span[DVT_SPAN_HEX + 1];
    if (!dvt_rt_current(&t, &s))
        Py_RETURN_NONE;
    dvt_trace_id_format(&t, trace);
    dvt_span_id_format(&s, span);
    return Py_BuildValue("(ss)", trace, span);
}

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"attach", attach, METH_VARARGS, NULL},
    {"after_fork", after_fork, METH_NOARGS, NULL},
    {"label", (PyCFunction)(void *)label, METH_FASTCALL | METH_KEYWORDS,
     "label(**labels): labels the current scope or span, from its start: a tenant learned in mid-request."},
    {"traceparent", traceparent, METH_NOARGS, "The W3C traceparent header for an outgoing call, or None."},
    {"status", status, METH_NOARGS, "What the shim does in this process, and why not if it does nothing."},
    {"_current", current, METH_NOARGS, NULL},
    {"_walk", dvt_py_walker_now, METH_NOARGS, NULL},
    {"_line", dvt_py_walker_line, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dovetail._dovetail", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__dovetail(void);
PyMODINIT_FUNC PyInit__dovetail(void)
{
    if (dvt_py_mark_init() || dvt_py_scope_init() || dvt_py_late_init(getenv("DOVETAIL_BAGGAGE")))
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddObject(module, "scope", Py_NewRef((PyObject *)&dvt_py_scope_type)) < 0)
        Py_CLEAR(module);
    return module;
}
