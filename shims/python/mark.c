/*
 * mark: see mark.h. Source for the attribute names: opentelemetry-python, context/__init__.py, trace/span.py,
 * trace/propagation/__init__.py and sdk/trace/__init__.py; `_context` and `_SPAN_KEY` are unchanged since
 * 1.0.
 */
#include "mark.h"
#include "late.h"
#include "scope.h"
#include "swap.h"

PyObject *dvt_py_own_var, *dvt_py_otel_var;
bool dvt_py_own_used;
uint64_t dvt_py_var_changes;

/* Spans read lately, strong, so that switching back to one costs no look into it. One that only we still know
 * is let go when the next new one is read. */
enum { RECENT = 16 };
static struct dvt_py_mark recent[RECENT];

static struct {
    PyObject *span_key;
    PyObject *s_context, *s_parent, *s_get_span_context;
    int tries_left; /* another library's "current_context" must not be looked up at each set for ever */
} g = {.tries_left = 256};

/* The head of CPython's ContextVar, the same from 3.7 to 3.14; checked at init, for the name is not in the C
 * API. */
struct var_head {
    PyObject_HEAD PyObject *name;
};
static bool var_head_ok;

int dvt_py_mark_init(void)
{
    g.s_context = PyUnicode_InternFromString("_context");
    g.s_parent = PyUnicode_InternFromString("_parent");
    g.s_get_span_context = PyUnicode_InternFromString("get_span_context");
    dvt_py_own_var = PyContextVar_New("dovetail_scope", NULL);
    if (!g.s_context || !g.s_parent || !g.s_get_span_context || !dvt_py_own_var)
        return -1;
    PyObject *name = PyObject_GetAttrString(dvt_py_own_var, "name");
    var_head_ok = name && ((struct var_head *)dvt_py_own_var)->name == name;
    Py_XDECREF(name);
    PyErr_Clear();
    dvt_py_swap_init();
    return 0;
}

bool dvt_py_bind_otel(void)
{
    PyObject *runtime = dvt_py_loaded_attr("opentelemetry.context", "_RUNTIME_CONTEXT");
    PyObject *var = runtime ? PyObject_GetAttrString(runtime, "_current_context") : NULL;
    PyErr_Clear();
    PyObject *key = dvt_py_loaded_attr("opentelemetry.trace.propagation", "_SPAN_KEY");
    bool ok = var && key && PyContextVar_CheckExact(var) && PyUnicode_Check(key);
    if (ok && !dvt_py_otel_var) {
        dvt_py_otel_var = Py_NewRef(var);
        g.span_key = Py_NewRef(key);
        dvt_py_vars_used = true;
    }
    Py_XDECREF(runtime);
    Py_XDECREF(var);
    Py_XDECREF(key);
    return ok;
}

static bool is_otel_name(PyObject *var)
{
    PyObject *name = var_head_ok ? ((struct var_head *)var)->name : NULL;
    return name && PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) == 15 &&
           PyUnicode_CompareWithASCIIString(name, "current_context") == 0;
}

bool dvt_py_try_bind(PyObject *var)
{
    if (g.tries_left <= 0 || !is_otel_name(var) || !dvt_py_here())
        return false;
    g.tries_left--;
    return dvt_py_bind_otel() && var == dvt_py_otel_var;
}

/* The variable's value in the current context, strong; NULL if it has none. */
static PyObject *value_now(PyObject *var)
{
    PyObject *value = NULL;
    if (var && PyContextVar_Get(var, NULL, &value) < 0)
        PyErr_Clear();
    return value;
}

/* The span in OpenTelemetry's context dict, borrowed. */
static PyObject *span_in(PyObject *context)
{
    if (!context || !PyDict_Check(context))
        return NULL;
    PyObject *span = PyDict_GetItemWithError(context, g.span_key);
    if (!span)
        PyErr_Clear();
    return span;
}

PyObject *dvt_py_otel_span_now(void)
{
    PyObject *context = value_now(dvt_py_otel_var);
    PyObject *span = span_in(context);
    Py_XINCREF(span);
    Py_XDECREF(context);
    return span;
}

/* SpanContext of a span, strong. Spans of other SDKs are asked by the public method. */
static PyObject *span_context_of(PyObject *span)
{
    PyObject *sc = dvt_py_attr(span, g.s_context);
    if (sc && PyTuple_Check(sc))
        return sc;
    Py_XDECREF(sc);
    sc = PyObject_CallMethodObjArgs(span, g.s_get_span_context, NULL);
    if (!sc)
        PyErr_Clear();
    return sc;
}

/* trace_id, span_id and flags out of a SpanContext; false for an invalid one. */
static bool read_ids(PyObject *sc, struct dvt_py_mark *m)
{
    if (!sc || !PyTuple_Check(sc) || PyTuple_GET_SIZE(sc) < 4 ||
        !dvt_py_int_bytes(PyTuple_GET_ITEM(sc, 0), m->trace.b, sizeof m->trace.b) ||
        !dvt_py_int_bytes(PyTuple_GET_ITEM(sc, 1), m->span.b, sizeof m->span.b) ||
        dvt_trace_id_is_zero(&m->trace) || dvt_span_id_is_zero(&m->span))
        return false;
    m->remote = PyTuple_GET_ITEM(sc, 2) == Py_True;
    uint8_t trace_flags = 0;
    if (dvt_py_int_bytes(PyTuple_GET_ITEM(sc, 3), &trace_flags, 1) && !(trace_flags & 1))
        m->flags |= DVT_SCOPE_UNSAMPLED;
    return true;
}

/* The SDK's spans know their parent; a NonRecordingSpan does not, and is then neither root nor child. */
static void read_parent(PyObject *span, struct dvt_py_mark *m)
{
    PyObject *parent = dvt_py_attr(span, g.s_parent);
    if (parent == Py_None)
        m->flags |= DVT_SCOPE_ROOT;
    else if (parent && PyTuple_Check(parent) && PyTuple_GET_SIZE(parent) >= 3) {
        if (!dvt_py_int_bytes(PyTuple_GET_ITEM(parent, 1), m->parent.b, sizeof m->parent.b))
            memset(&m->parent, 0, sizeof m->parent);
        if (PyTuple_GET_ITEM(parent, 2) == Py_True)
            m->flags |= DVT_SCOPE_REMOTE_PARENT;
    }
    Py_XDECREF(parent);
}

static bool read_span(struct dvt_py_mark *m, PyObject *span)
{
    PyObject *sc = span_context_of(span);
    bool ok = read_ids(sc, m);
    Py_XDECREF(sc);
    if (!ok)
        return false;
    if (m->remote)
        m->flags |= DVT_SCOPE_REMOTE_PARENT;
    else
        read_parent(span, m);
    m->name = dvt_py_span_name(m->remote ? NULL : span);
    return true;
}

/* The references go last: a span's destructor may run Python code, which may come back here. */
static void remember(const struct dvt_py_mark *m, PyObject *span, size_t at)
{
    PyObject *gone[RECENT];
    size_t n = 0;
    for (size_t i = 0; i < RECENT; i++) {
        PyObject *old = recent[i].owner;
        if (old && (i == at || Py_REFCNT(old) == 1)) {
            gone[n++] = old;
            recent[i].owner = NULL;
        }
    }
    recent[at] = *m;
    recent[at].owner = Py_NewRef(span);
    while (n > 0)
        Py_DECREF(gone[--n]);
}

static bool fill_span(struct dvt_py_mark *m, PyObject *span)
{
    size_t at = ((uintptr_t)span >> 4) % RECENT;
    if (recent[at].owner == span) {
        *m = recent[at];
    } else {
        if (!read_span(m, span))
            return false;
        remember(m, span, at);
    }
    m->owner = Py_NewRef(span);
    return true;
}

struct dvt_py_mark dvt_py_mark_of(struct dvt_py_scope *s)
{
    return (struct dvt_py_mark){.owner = (PyObject *)s,
                                .trace = s->trace,
                                .span = s->span,
                                .parent = s->parent,
                                .flags = s->flags,
                                .name = s->interned,
                                .own = true};
}

bool dvt_py_mark_now(struct dvt_py_mark *ret)
{
    struct dvt_py_mark m = {0};
    PyObject *own = dvt_py_own_used ? value_now(dvt_py_own_var) : NULL, *context = value_now(dvt_py_otel_var);
    PyObject *span = span_in(context);
    struct dvt_py_scope *scope = dvt_py_as_scope(own);
    bool scope_is_inner = scope && (!span || scope->outer_span == span);
    bool found = !scope_is_inner && span && fill_span(&m, span);
    if (!found && scope) {
        m = dvt_py_mark_of(scope);
        Py_INCREF(m.owner);
        found = true;
    }
    if (found && context && dvt_py_wants_baggage())
        m.context = Py_NewRef(context);
    Py_XDECREF(own);
    Py_XDECREF(context);
    if (found)
        *ret = m;
    return found;
}

void dvt_py_mark_drop(struct dvt_py_mark *m)
{
    Py_CLEAR(m->owner);
    Py_CLEAR(m->context);
}
