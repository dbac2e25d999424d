/*
 * late: see late.h. Names go through a dict from str to the interned struct dvt_name, bounded like core's own
 * table: a str that is a constant of the program has its hash cached, so that finding it costs about 20 ns.
 */
#include "late.h"
#include "scope.h"

enum { MAX_BAGGAGE = DVT_MAX_LABELS, RECENT = 64 };

static struct {
    PyObject *names; /* str -> int, the address of its struct dvt_name */
    struct {
        PyObject *str; /* strong */
        const struct dvt_name *name;
    } recent[RECENT]; /* in front of it, by the str's address */
    const struct dvt_name *empty_name;
    PyObject *s_name, *s_labels;
    PyObject *baggage_dict_key; /* opentelemetry.baggage's key in the context dict, once it is loaded */
    PyObject *baggage[MAX_BAGGAGE];
    int n_baggage;
} g;

struct label_list {
    struct dvt_label v[DVT_MAX_LABELS];
    size_t n;
    PyObject *held[DVT_MAX_LABELS]; /* what v points into */
    size_t n_held;
};

static int read_allow_list(const char *keys)
{
    while (keys && *keys && g.n_baggage < MAX_BAGGAGE) {
        size_t n = strcspn(keys, ",");
        size_t from = strspn(keys, " "), to = n;
        while (to > from && keys[to - 1] == ' ')
            to--;
        if (to > from) {
            PyObject *key = PyUnicode_DecodeUTF8(keys + from, (Py_ssize_t)(to - from), "replace");
            if (!key)
                return -1;
            g.baggage[g.n_baggage++] = key;
        }
        keys += keys[n] ? n + 1 : n;
    }
    return 0;
}

int dvt_py_late_init(const char *baggage_keys)
{
    g.names = PyDict_New();
    g.s_name = PyUnicode_InternFromString("_name");
    g.s_labels = PyUnicode_InternFromString("_dovetail_labels");
    g.empty_name = dvt_name("");
    return g.names && g.s_name && g.s_labels ? read_allow_list(baggage_keys) : -1;
}

bool dvt_py_wants_baggage(void)
{
    return g.n_baggage > 0;
}

static const struct dvt_name *intern(PyObject *str)
{
    struct dvt_str s;
    char text[DVT_MAX_NAME + 1];
    if (PyDict_GET_SIZE(g.names) >= DVT_MAX_NAMES || !dvt_py_utf8(str, &s))
        return NULL;
    size_t n = dvt_utf8_cut(s.p, s.n, DVT_MAX_NAME);
    memcpy(text, s.p, n);
    text[n] = 0;
    const struct dvt_name *name = dvt_name(text);
    PyObject *address = name ? PyLong_FromVoidPtr((void *)(uintptr_t)name) : NULL;
    if (address && PyDict_SetItem(g.names, str, address) < 0)
        PyErr_Clear();
    Py_XDECREF(address);
    PyErr_Clear();
    return name;
}

const struct dvt_name *dvt_py_name(PyObject *str)
{
    size_t at = ((uintptr_t)str >> 4) % RECENT;
    if (!str || !PyUnicode_CheckExact(str))
        return NULL;
    if (g.recent[at].str == str)
        return g.recent[at].name;
    PyObject *address = PyDict_GetItemWithError(g.names, str);
    PyErr_Clear();
    const struct dvt_name *name = address ? PyLong_AsVoidPtr(address) : intern(str);
    Py_INCREF(str);
    Py_XSETREF(g.recent[at].str, str);
    g.recent[at].name = name;
    return name;
}

const struct dvt_name *dvt_py_span_name(PyObject *span)
{
    PyObject *name = span ? dvt_py_attr(span, g.s_name) : NULL;
    const struct dvt_name *interned = name ? dvt_py_name(name) : g.empty_name;
    Py_XDECREF(name);
    return interned;
}

static bool has_key(const struct label_list *l, struct dvt_str key)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].key.n == key.n && memcmp(l->v[i].key.p, key.p, key.n) == 0)
            return true;
    return false;
}

static void add_label(struct label_list *l, PyObject *key, PyObject *value)
{
    struct dvt_label label;
    if (l->n < DVT_MAX_LABELS && dvt_py_utf8(key, &label.key) && dvt_py_utf8(value, &label.value) &&
        !has_key(l, label.key))
        l->v[l->n++] = label;
}

static void add_dict(struct label_list *l, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (dict && PyDict_Check(dict) && PyDict_Next(dict, &pos, &key, &value))
        add_label(l, key, value);
}

/* OpenTelemetry's baggage in a context dict (a mapping), borrowed. */
static PyObject *baggage_in(PyObject *context)
{
    if (!g.baggage_dict_key)
        g.baggage_dict_key = dvt_py_loaded_attr("opentelemetry.baggage", "_BAGGAGE_KEY");
    PyObject *found = g.baggage_dict_key ? PyDict_GetItemWithError(context, g.baggage_dict_key) : NULL;
    if (!found)
        PyErr_Clear();
    return found;
}

static void add_baggage(struct label_list *l, PyObject *context)
{
    PyObject *baggage = context ? baggage_in(context) : NULL;
    for (int i = 0; baggage && i < g.n_baggage; i++) {
        PyObject *raw = PyObject_GetItem(baggage, g.baggage[i]);
        PyObject *value = raw ? PyObject_Str(raw) : NULL;
        PyErr_Clear();
        Py_XDECREF(raw);
        if (value) {
            add_label(l, g.baggage[i], value);
            l->held[l->n_held++] = value;
        }
    }
}

void dvt_py_commit(struct dvt_scope scope, const struct dvt_py_mark *m)
{
    struct label_list l = {.n = 0, .n_held = 0};
    struct dvt_rt_late late = {.name = {"", 0}};
    struct dvt_py_scope *own = m->own ? (struct dvt_py_scope *)m->owner : NULL;
    PyObject *name = own ? Py_NewRef(own->name) : m->remote ? NULL : dvt_py_attr(m->owner, g.s_name);
    PyObject *labels = own ? own->labels : dvt_py_attr(m->owner, g.s_labels);
    if (own)
        Py_XINCREF(labels);
    (void)dvt_py_utf8(name, &late.name); /* without a readable name the scope has none */
    add_dict(&l, labels);
    add_baggage(&l, m->context);
    late.labels = l.v;
    late.n_labels = l.n;
    if (own) {
        late.links = own->links;
        late.n_links = own->n_links;
    }
    dvt_rt_commit(scope, &late);
    for (size_t i = 0; i < l.n_held; i++)
        Py_DECREF(l.held[i]);
    Py_XDECREF(name);
    Py_XDECREF(labels);
}

PyObject *dvt_py_label_dict(PyObject *const *keys, PyObject *const *values, Py_ssize_t n)
{
    PyObject *dict = n > 0 ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; dict && i < n; i++) {
        PyObject *value = PyObject_Str(values[i]); /* a str itself, for a str */
        if (value && PyDict_SetItem(dict, keys[i], value) < 0)
            PyErr_Clear();
        PyErr_Clear();
        Py_XDECREF(value);
    }
    PyErr_Clear();
    return dict;
}

/* Copies, for a dict may be shared by the calls of one decorator, and sender order must not see it change. */
static PyObject *merged(PyObject *old, PyObject *labels)
{
    PyObject *dict = old && PyDict_Check(old) ? PyDict_Copy(old) : PyDict_New();
    if (dict && PyDict_Update(dict, labels) < 0)
        PyErr_Clear();
    PyErr_Clear();
    return dict;
}

void dvt_py_mark_label(const struct dvt_py_mark *m, PyObject *labels)
{
    if (m->own) {
        struct dvt_py_scope *s = (struct dvt_py_scope *)m->owner;
        PyObject *dict = merged(s->labels, labels);
        if (dict)
            Py_XSETREF(s->labels, dict);
        return;
    }
    PyObject *old = dvt_py_attr(m->owner, g.s_labels);
    PyObject *dict = merged(old, labels);
    if (dict && PyObject_SetAttr(m->owner, g.s_labels, dict) < 0)
        PyErr_Clear(); /* a span without a __dict__ carries no labels */
    Py_XDECREF(old);
    Py_XDECREF(dict);
}
