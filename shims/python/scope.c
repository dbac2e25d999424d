/*
 * scope: see scope.h. Ids come from a counter mixed by a bijection (splitmix64) over a random start: unique
 * in the process, of full spread between processes, and 20 times cheaper than asking the kernel. They are
 * names, not secrets.
 */
#include "scope.h"
#include "lane.h"
#include "late.h"
#include "ready.h"
#include "swap.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t dvt_py_scope_misuse;

static struct {
    uint64_t span_state, trace_state;
} g;

/* ---- ids ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void dvt_py_scope_reseed(void)
{
    uint64_t seed[2];
    struct timespec t;
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        seed[0] = (uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 32;
        seed[1] = (uint64_t)t.tv_sec ^ (uint64_t)(uintptr_t)&g;
    }
    g.span_state = seed[0];
    g.trace_state = seed[1];
}

static struct dvt_span_id new_span(void)
{
    struct dvt_span_id id;
    uint64_t v = next_random(&g.span_state);
    v = v ? v : 1;
    memcpy(id.b, &v, sizeof v);
    return id;
}

static struct dvt_trace_id new_trace(void)
{
    struct dvt_trace_id id;
    uint64_t v[2] = {next_random(&g.trace_state), next_random(&g.span_state) | 1};
    memcpy(id.b, v, sizeof v);
    return id;
}

/* ---- construction ---- */

static void take_traceparent(struct dvt_py_scope *s, PyObject *text)
{
    struct dvt_str t;
    uint8_t flags;
    if (dvt_py_utf8(text, &t) &&
        !dvt_traceparent_parse(t.p, t.n, &s->remote_trace, &s->remote_span, &flags)) {
        s->remote_given = true;
        s->remote_sampled = flags & 1;
    }
}

static void take_links(struct dvt_py_scope *s, PyObject *links)
{
    PyObject *seq = links != Py_None ? PySequence_Fast(links, "links") : NULL;
    PyErr_Clear();
    if (!seq)
        return;
    s->links = PyMem_Calloc(DVT_MAX_LINKS, sizeof *s->links);
    for (Py_ssize_t i = 0; s->links && i < PySequence_Fast_GET_SIZE(seq) && s->n_links < DVT_MAX_LINKS; i++) {
        struct dvt_str t;
        struct dvt_span_id span;
        uint8_t flags;
        if (dvt_py_utf8(PySequence_Fast_GET_ITEM(seq, i), &t) &&
            !dvt_traceparent_parse(t.p, t.n, &s->links[s->n_links], &span, &flags))
            s->n_links++;
    }
    Py_DECREF(seq);
}

/* Keywords that are not options are labels. */
static void take_keywords(struct dvt_py_scope *s, PyObject *kwnames, PyObject *const *values)
{
    PyObject *keys[DVT_MAX_LABELS], *labels[DVT_MAX_LABELS];
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *key = PyTuple_GET_ITEM(kwnames, i), *value = values[i];
        if (PyUnicode_CompareWithASCIIString(key, "traceparent") == 0)
            take_traceparent(s, value);
        else if (PyUnicode_CompareWithASCIIString(key, "always") == 0)
            s->always = value == Py_True;
        else if (PyUnicode_CompareWithASCIIString(key, "links") == 0)
            take_links(s, value);
        else if (n < DVT_MAX_LABELS) {
            keys[n] = key;
            labels[n++] = value;
        }
    }
    s->labels = dvt_py_label_dict(keys, labels, n);
}

/* A long chain of scopes that were never left must not be freed by as deep a recursion. */
static void free_chain(PyObject *outer)
{
    while (outer && Py_REFCNT(outer) == 1 && Py_TYPE(outer) == &dvt_py_scope_type) {
        PyObject *next = ((struct dvt_py_scope *)outer)->outer;
        ((struct dvt_py_scope *)outer)->outer = NULL;
        Py_DECREF(outer);
        outer = next;
    }
    Py_XDECREF(outer);
}

static void drop_parts(struct dvt_py_scope *s)
{
    free_chain(s->outer);
    Py_XDECREF(s->origin);
    Py_XDECREF(s->outer_span);
    Py_XDECREF(s->name);
    Py_XDECREF(s->labels);
    PyMem_Free(s->links);
}

static struct dvt_py_scope *alloc(void)
{
    struct dvt_py_scope *s = dvt_py_swap_recycled();
    uint32_t pair = s ? s->pair : 0;
    if (s)
        drop_parts(s);
    else
        s = PyObject_New(struct dvt_py_scope, &dvt_py_scope_type);
    if (s) {
        memset((char *)s + sizeof(PyObject), 0, sizeof *s - sizeof(PyObject));
        s->pair = pair;
    }
    return s;
}

static PyObject *scope_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    (void)type;
    if (PyVectorcall_NARGS(nargsf) != 1) {
        PyErr_SetString(PyExc_TypeError, "dovetail.scope() takes one positional argument, the name");
        return NULL;
    }
    struct dvt_py_scope *s = alloc();
    if (!s)
        return NULL;
    s->name = PyUnicode_CheckExact(args[0]) ? Py_NewRef(args[0]) : PyObject_Str(args[0]);
    if (!s->name) {
        Py_DECREF(s);
        return NULL;
    }
    s->interned = dvt_py_name(s->name);
    if (kwnames)
        take_keywords(s, kwnames, args + 1);
    return (PyObject *)s;
}

/* One like it, not entered: a decorated function has one for each call. */
static PyObject *scope_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct dvt_py_scope *from = (struct dvt_py_scope *)self, *s = alloc();
    if (!s)
        return NULL;
    s->name = Py_NewRef(from->name);
    s->interned = from->interned;
    Py_XINCREF(from->labels);
    s->labels = from->labels;
    s->always = from->always;
    s->remote_given = from->remote_given;
    s->remote_sampled = from->remote_sampled;
    s->remote_trace = from->remote_trace;
    s->remote_span = from->remote_span;
    s->links = from->n_links ? PyMem_Calloc(from->n_links, sizeof *s->links) : NULL;
    if (s->links) {
        memcpy(s->links, from->links, from->n_links * sizeof *s->links);
        s->n_links = from->n_links;
    }
    return (PyObject *)s;
}

static void scope_dealloc(PyObject *self)
{
    drop_parts((struct dvt_py_scope *)self);
    PyObject_Free(self);
}

/* ---- entering and leaving ---- */

/* Trace, parent and flags: those of traceparent=, else of what is around, else a new trace. */
static void take_ids(struct dvt_py_scope *s, const struct dvt_py_mark *around)
{
    s->span = new_span();
    s->flags = (s->always ? DVT_SCOPE_ALWAYS : 0) | (s->n_links ? DVT_SCOPE_SHARED : 0);
    if (s->remote_given) {
        s->trace = s->remote_trace;
        s->parent = s->remote_span;
        s->flags |= DVT_SCOPE_REMOTE_PARENT | (s->remote_sampled ? 0 : DVT_SCOPE_UNSAMPLED);
    } else if (around) {
        s->trace = around->trace;
        s->parent = around->span;
        s->flags |= (around->flags & DVT_SCOPE_UNSAMPLED) | (around->remote ? DVT_SCOPE_REMOTE_PARENT : 0);
    } else {
        s->trace = new_trace();
        s->flags |= DVT_SCOPE_ROOT;
    }
}

/* The variable's value, strong; NULL if there is none or it is None, as leaving the outermost scope sets it.
 * */
static PyObject *own_now(void)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(dvt_py_own_var, NULL, &value) < 0)
        PyErr_Clear();
    if (value == Py_None)
        Py_CLEAR(value);
    return value;
}

/* With OpenTelemetry in use the mark of what is around must be asked for; else it is the outer scope. Without
 * memory for it, the scope is just not there: nothing fails towards the application. */
static void enter_with_otel(struct dvt_py_scope *s)
{
    struct dvt_py_mark around;
    bool found = dvt_py_mark_now(&around);
    take_ids(s, found ? &around : NULL);
    if (found)
        dvt_py_mark_drop(&around);
    s->outer_span = dvt_py_otel_span_now();
    if (dvt_py_swap_in(s) && dvt_py_here())
        dvt_py_changed(false);
}

static void enter_alone(struct dvt_py_scope *s)
{
    struct dvt_py_mark mark;
    bool done = dvt_py_swap_in(s);
    struct dvt_py_scope *outer = dvt_py_as_scope(s->outer);
    if (outer)
        mark = dvt_py_mark_of(outer);
    take_ids(s, outer ? &mark : NULL);
    if (!done || dvt_py_quiet() || !dvt_py_here())
        return;
    mark = dvt_py_mark_of(s);
    dvt_py_pushed(&mark);
}

/* Returns the scope that is now current, strong: this one, or a further entry of it. */
static PyObject *enter(PyObject *self)
{
    PyObject *entered = ((struct dvt_py_scope *)self)->used ? scope_copy(self, NULL) : Py_NewRef(self);
    struct dvt_py_scope *s = (struct dvt_py_scope *)entered;
    if (!s)
        return NULL;
    if (entered != self)
        s->origin = Py_NewRef(self);
    s->used = true;
    dvt_py_vars_used = dvt_py_own_used = true;
    if (dvt_py_otel_bound())
        enter_with_otel(s);
    else
        enter_alone(s);
    return entered;
}

/* The scope that leaving self leaves: self, or a further entry of it. A borrowed reference, or NULL. */
static struct dvt_py_scope *current_entry_of(PyObject *self)
{
    PyObject *now = own_now();
    struct dvt_py_scope *s = dvt_py_as_scope(now);
    Py_XDECREF(now); /* the context has it */
    return s && (now == self || s->origin == self) ? s : NULL;
}

static void leave(PyObject *self)
{
    struct dvt_py_scope *s = (struct dvt_py_scope *)self;
    bool swapped = dvt_py_swap_out(s);
    if (!swapped && !(s = current_entry_of(self))) {
        dvt_py_swap_forget((struct dvt_py_scope *)self);
        dvt_py_scope_misuse++; /* left in another context than entered, or twice: what is current stays */
        return;
    }
    Py_INCREF(s);
    PyObject *outer = s->outer;
    s->outer = NULL;
    if (!swapped && !(swapped = dvt_py_swap_out(s))) {
        dvt_py_swap_forget(s);
        swapped = dvt_py_swap_set(outer ? outer : Py_None); /* works where a token would not */
    }
    if (swapped && dvt_py_here() && !dvt_py_quiet()) {
        if (dvt_py_otel_bound())
            dvt_py_changed(true);
        else
            dvt_py_popped((PyObject *)s, (PyObject *)dvt_py_as_scope(outer));
    }
    Py_XDECREF(outer);
    Py_DECREF(s);
}

static PyObject *scope_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return enter(self);
}

static PyObject *scope_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    leave(self);
    Py_RETURN_FALSE;
}

static PyObject *scope_aenter(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *entered = enter(self);
    PyObject *ready = entered ? dvt_py_ready(entered) : NULL;
    Py_XDECREF(entered);
    return ready;
}

static PyObject *scope_aexit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    leave(self);
    return dvt_py_ready(Py_False);
}

/* As a decorator. */
static PyObject *scope_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *function;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "O:scope", &function))
        return NULL;
    PyObject *module = PyImport_ImportModule("dovetail._decorator");
    PyObject *wrapped = module ? PyObject_CallMethod(module, "decorate", "OO", self, function) : NULL;
    Py_XDECREF(module);
    return wrapped;
}

static PyObject *scope_label(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    struct dvt_py_mark m = {.owner = self, .own = true};
    PyObject *labels = NULL;
    if (kwnames && n == 0)
        labels = dvt_py_label_dict(&PyTuple_GET_ITEM(kwnames, 0), args, PyTuple_GET_SIZE(kwnames));
    if (labels)
        dvt_py_mark_label(&m, labels);
    Py_XDECREF(labels);
    Py_RETURN_NONE;
}

static PyObject *scope_traceparent(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct dvt_py_scope *s = (struct dvt_py_scope *)self;
    char text[DVT_TRACEPARENT_LEN + 1];
    if (dvt_span_id_is_zero(&s->span))
        Py_RETURN_NONE;
    dvt_traceparent_format(&s->trace, &s->span, s->flags & DVT_SCOPE_UNSAMPLED ? 0 : 1, text);
    return PyUnicode_FromString(text);
}

static PyObject *scope_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<dovetail.scope %R>", ((struct dvt_py_scope *)self)->name);
}

static PyMethodDef scope_methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void *)scope_exit, METH_FASTCALL, NULL},
    {"__aenter__", scope_aenter, METH_NOARGS, NULL},
    {"__aexit__", (PyCFunction)(void *)scope_aexit, METH_FASTCALL, NULL},
    {"label", (PyCFunction)(void *)scope_label, METH_FASTCALL | METH_KEYWORDS,
     "label(**labels): labels the scope from its start, also what was reported of it before."},
    {"traceparent", scope_traceparent, METH_NOARGS, "The W3C traceparent header for calls in this scope."},
    {"_copy", scope_copy, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dvt_py_scope_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dovetail.scope",
    .tp_doc = "scope(name, /, *, traceparent=None, always=False, links=(), **labels)\n--\n\n"
              "Marks what the with block or the decorated function does as work for one operation.",
    .tp_basicsize = sizeof(struct dvt_py_scope),
    .tp_dealloc = scope_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = scope_methods,
    .tp_call = scope_call,
    .tp_repr = scope_repr,
    .tp_vectorcall = scope_vectorcall,
};

int dvt_py_scope_init(void)
{
    dvt_py_scope_reseed();
    return PyType_Ready(&dvt_py_scope_type) || dvt_py_ready_init() ? -1 : 0;
}
