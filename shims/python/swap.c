/*
 * swap: see swap.h. All state is the GIL's. That a recycled Scope is out of reach is proved by counts: its
 * one reference is its map's root node's, whose one reference is the map's, whose one is the pair's. A map
 * derived from ours holds the Scope by a reference of its own (a copied root node) or by a shared inner node;
 * the latter is excluded, for only pairs whose root node holds the Scope itself are kept.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_context.h>
#if PY_VERSION_HEX < 0x030A0000
#include <internal/pycore_interp.h>
#endif
#undef Py_BUILD_CORE

#include "mark.h"
#include "swap.h"

enum { PAIRS = 16 };

struct pair {
    PyHamtObject *before, *after; /* strong; NULL: unused */
    struct dvt_py_scope *scope;   /* of after */
    PyObject *outer;              /* of before, NULL if it has none; both live while the maps do */
    bool keep;                    /* the maps hold nothing of the application, and the Scope in the root */
};

static struct pair pairs[PAIRS];
static PyTypeObject *map_type; /* NULL: this interpreter keeps its variables otherwise */

void dvt_py_swap_init(void)
{
    PyObject *context = PyContext_New();
    PyObject *map = context ? (PyObject *)((PyContext *)context)->ctx_vars : NULL;
    if (map && strcmp(Py_TYPE(map)->tp_name, "hamt") == 0)
        map_type = Py_TYPE(map);
    Py_XDECREF(context);
    PyErr_Clear();
}

static PyContext *context_now(void)
{
    PyThreadState *t = PyThreadState_Get();
    return map_type && t->interp == dvt_py_main_interp ? (PyContext *)t->context : NULL;
}

static struct pair *pair_of(const PyHamtObject *before)
{
    return &pairs[((uintptr_t)before >> 4) * 0x9E3779B97F4A7C15u >> 60];
}

static void release(struct pair *p)
{
    struct pair old = *p;
    *p = (struct pair){0};
    Py_XDECREF(old.after); /* may run the application's destructors */
    Py_XDECREF(old.before);
}

static void put(PyContext *context, PyHamtObject *map)
{
    PyHamtObject *old = context->ctx_vars;
    Py_INCREF(map);
    context->ctx_vars = map;
    ((PyContextVar *)dvt_py_own_var)->var_cached = NULL; /* other variables are the same in both */
    Py_DECREF(old); /* never the last: the pair has it */
}

static bool is_out_of_reach(const struct pair *p)
{
    return p->keep && Py_REFCNT(p->scope) == 1 && Py_REFCNT(p->after) == 1 &&
           Py_REFCNT(p->after->h_root) == 1;
}

struct dvt_py_scope *dvt_py_swap_recycled(void)
{
    PyContext *context = context_now();
    struct pair *p = context ? pair_of(context->ctx_vars) : NULL;
    if (!p || !p->after || p->before != context->ctx_vars || !is_out_of_reach(p))
        return NULL;
    Py_INCREF(p->scope);
    return p->scope;
}

static int is_it(PyObject *child, void *wanted)
{
    return child == wanted;
}

static bool holds(PyObject *node, PyObject *wanted)
{
    return Py_TYPE(node)->tp_traverse && Py_TYPE(node)->tp_traverse(node, is_it, wanted);
}

/* Takes over the reference to before. */
static void remember(PyContext *context, PyHamtObject *before, struct dvt_py_scope *s)
{
    struct pair *p = pair_of(before);
    struct pair old = *p;
    PyHamtObject *after = context->ctx_vars;
    *p = (struct pair){.before = before, .scope = s, .outer = s->outer};
    Py_INCREF(after);
    p->after = after;
    p->keep = after->h_count == 1 && holds((PyObject *)after->h_root, (PyObject *)s);
    s->pair = (uint32_t)(p - pairs);
    Py_XDECREF(old.after);
    Py_XDECREF(old.before);
}

static PyObject *own_now(void)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(dvt_py_own_var, NULL, &value) < 0)
        PyErr_Clear();
    if (value == Py_None)
        Py_CLEAR(value);
    return value;
}

/* Whether the collector was on. From 3.12 on it runs between bytecodes alone. */
static bool collector_off(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return false;
#elif PY_VERSION_HEX >= 0x030A0000
    return PyGC_Disable();
#else
    int *enabled = &PyThreadState_Get()->interp->gc.enabled, was = *enabled;
    *enabled = 0;
    return was;
#endif
}

static void collector_on(void)
{
#if PY_VERSION_HEX >= 0x030C0000
#elif PY_VERSION_HEX >= 0x030A0000
    PyGC_Enable();
#else
    PyThreadState_Get()->interp->gc.enabled = 1;
#endif
}

/* Before 3.12 a collection may start within PyContextVar_Set, and a finalizer in it that sets a variable then loses it, or
 * frees the map that is being copied and crashes the interpreter. None of that shall come of our sets. */
bool dvt_py_swap_set(PyObject *value)
{
    bool collector = collector_off();
    PyObject *token = PyContextVar_Set(dvt_py_own_var, value);
    if (collector)
        collector_on();
    PyErr_Clear();
    Py_XDECREF(token);
    return token != NULL;
}

/* What a destructor sets meanwhile must not be undone by leaving. */
static bool set_anew(struct dvt_py_scope *s)
{
    PyContext *context = context_now();
    PyHamtObject *before = context ? context->ctx_vars : NULL;
    uint64_t changes = dvt_py_var_changes;
    Py_XINCREF(before);
    s->outer = own_now();
    bool done = dvt_py_swap_set((PyObject *)s);
    if (done && before && changes == dvt_py_var_changes && Py_TYPE(context->ctx_vars) == map_type)
        remember(context, before, s);
    else
        Py_XDECREF(before);
    return done;
}

bool dvt_py_swap_in(struct dvt_py_scope *s)
{
    PyContext *context = context_now();
    struct pair *p = &pairs[s->pair];
    if (!context || p->scope != s || p->before != context->ctx_vars || !p->keep)
        return set_anew(s);
    Py_XINCREF(p->outer);
    s->outer = p->outer;
    put(context, p->after);
    return true;
}

bool dvt_py_swap_out(struct dvt_py_scope *s)
{
    PyContext *context = context_now();
    struct pair *p = &pairs[s->pair];
    if (!context || p->scope != s || context->ctx_vars != p->after)
        return false;
    put(context, p->before);
    if (!p->keep)
        release(p);
    return true;
}

void dvt_py_swap_forget(struct dvt_py_scope *s)
{
    if (pairs[s->pair].scope == s)
        release(&pairs[s->pair]);
}
