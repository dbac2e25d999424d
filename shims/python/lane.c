/*
 * lane: see lane.h. A lane is made at a thread's first event that matters and belongs to that thread; a
 * capsule in the thread state's dict ends it, on the thread and with the GIL, when the thread state is
 * cleared.
 */
#include "lane.h"
#include "greenlet.h"
#include "late.h"
#include "threads.h"

enum { MAX_ENTRIES = 120, MAX_RESIDENCIES = 256, MAX_DEEP = 32 };

struct entry {
    struct dvt_py_mark mark;
    struct dvt_scope scope;
    bool borrowed; /* the same as the scope around it: no scope of its own */
};

struct residency {
    PyObject *context; /* strong; NULL: the thread has none yet */
    uint32_t first;    /* its first entry */
    uint32_t hid_from; /* if hides: the entries [hid_from, first) were closed for its sake */
    bool hides;
    bool looked; /* what is current in it has been asked */
    bool blind;  /* its end will not be seen: nothing is opened in it */
    PyObject *stale; /* strong or NULL: the owner of what was current at its beginning and means nothing */
};

struct lane {
    struct entry entries[MAX_ENTRIES];
    uint32_t n, open_from; /* entries [open_from, n) have open scopes, but for borrowed ones */
    struct residency res[MAX_RESIDENCIES];
    uint32_t n_res;    /* at least 1 */
    uint32_t overflow; /* residencies entered beyond the bound; everything is closed meanwhile */
    uint32_t overflow_from;
    bool busy, dirty; /* an event inside an event (Python code run by it) is made good at the end */
    bool opened;      /* a scope, ever */
    uint32_t greenlet_seen, attached;
};

static __thread struct lane *tl __attribute__((tls_model("initial-exec")));
static uint32_t greenlet_generation = 1, attached; /* attached: times the shim was turned on in the middle */
struct dvt_py_lane_counts dvt_py_lane_counts;

void dvt_py_greenlet_maybe_loaded(void)
{
    greenlet_generation++;
}

bool dvt_py_quiet(void)
{
    return !(dvt_py_vars_used && dvt_rt_active()) && !(tl && tl->n > 0);
}

static PyObject *context_now(void)
{
    return PyThreadState_Get()->context; /* borrowed */
}

/* ---- single scopes ---- */

static void open_scope(struct entry *e)
{
    const struct dvt_py_mark *m = &e->mark;
    struct dvt_rt_open args = {
        .trace = m->trace, .span = m->span, .parent_span = m->parent, .flags = m->flags};
    if (m->remote) {
        args.parent_span = m->span;
        memset(&args.span, 0, sizeof args.span);
    }
    args.name = m->name;
    e->scope = dvt_rt_open(&args);
}

/* A span may have got its proper name since, as web frameworks give it after routing. */
static void close_scope(struct entry *e)
{
    const struct dvt_py_mark *m = &e->mark;
    const struct dvt_name *name = m->own || m->remote ? m->name : dvt_py_span_name(m->owner);
    if (dvt_rt_close(e->scope, name))
        dvt_py_commit(e->scope, m);
}

static void close_down_to(struct lane *l, uint32_t from)
{
    for (uint32_t i = l->n; i > from && i > l->open_from; i--)
        if (!l->entries[i - 1].borrowed)
            close_scope(&l->entries[i - 1]);
}

/* Closes and forgets the entries from index `from` on. */
static void pop_to(struct lane *l, uint32_t from)
{
    close_down_to(l, from);
    while (l->n > from)
        dvt_py_mark_drop(&l->entries[--l->n].mark);
    if (l->open_from > l->n)
        l->open_from = l->n;
}

static void hide(struct lane *l, uint32_t *ret_from)
{
    *ret_from = l->open_from;
    close_down_to(l, l->open_from);
    l->open_from = l->n;
}

static void unhide(struct lane *l, uint32_t from)
{
    for (uint32_t i = from; i < l->n; i++)
        if (!l->entries[i].borrowed)
            open_scope(&l->entries[i]);
    l->open_from = from;
}

/* ---- residencies ---- */

static struct residency *top_res(struct lane *l)
{
    return &l->res[l->n_res - 1];
}

/* The entry around the top residency's first one, if its scope is open. */
static struct entry *around(struct lane *l)
{
    uint32_t first = top_res(l)->first;
    return first > l->open_from ? &l->entries[first - 1] : NULL;
}

/* Takes over the mark. */
static void push(struct lane *l, struct dvt_py_mark *m)
{
    uint32_t first = top_res(l)->first;
    if (l->n - first >= MAX_DEEP || l->n >= MAX_ENTRIES) {
        dvt_py_lane_counts.too_deep++;
        pop_to(l, l->n - 1);
    }
    struct entry *outer = l->n == first ? around(l) : NULL;
    struct entry *e = &l->entries[l->n];
    *e = (struct entry){.mark = *m, .borrowed = outer && dvt_py_mark_same(&outer->mark, m)};
    l->n++;
    if (!l->opened) {
        l->opened = true;
        dvt_py_threads_first_scope();
    }
    if (!e->borrowed)
        open_scope(e);
}

static void hide_below(struct lane *l)
{
    struct residency *r = top_res(l);
    if (l->open_from >= r->first || r->hides)
        return;
    hide(l, &r->hid_from);
    r->hides = true;
}

static uint32_t find(const struct lane *l, const struct dvt_py_mark *m)
{
    uint32_t i = l->n;
    while (i > l->res[l->n_res - 1].first && !dvt_py_mark_same(&l->entries[i - 1].mark, m))
        i--;
    return i; /* index + 1; the residency's first index: not there */
}

/* Makes the top residency's scopes what the context now says. */
static void follow(struct lane *l, bool going_back)
{
    struct dvt_py_mark m;
    uint32_t first = top_res(l)->first;
    top_res(l)->looked = true;
    if (top_res(l)->blind)
        return;
    bool any = dvt_py_mark_now(&m);
    if (any && m.owner == top_res(l)->stale) {
        dvt_py_mark_drop(&m);
        any = false;
    }
    if (!any) {
        pop_to(l, first);
        hide_below(l);
        return;
    }
    uint32_t found = find(l, &m);
    if (found > first) {
        pop_to(l, found);
        dvt_py_mark_drop(&m);
        return;
    }
    if (going_back)
        pop_to(l, first);
    push(l, &m);
}

static void enter_res(struct lane *l, PyObject *context, bool for_nobody)
{
    if (l->n_res == MAX_RESIDENCIES || l->n + 1 >= MAX_ENTRIES || l->overflow) {
        if (l->overflow++ == 0)
            hide(l, &l->overflow_from);
        dvt_py_lane_counts.too_deep++;
        return;
    }
    Py_XINCREF(context);
    struct residency *r = &l->res[l->n_res++];
    *r = (struct residency){.context = context, .first = l->n};
    struct dvt_py_mark m;
    if (for_nobody && dvt_py_mark_now(&m)) {
        r->stale = Py_NewRef(m.owner);
        dvt_py_mark_drop(&m);
    }
    follow(l, false);
}

static void forget_res(struct residency *r)
{
    Py_CLEAR(r->stale);
    Py_CLEAR(r->context);
}

static void leave_res(struct lane *l)
{
    struct residency r = *top_res(l);
    pop_to(l, r.first);
    l->n_res--;
    if (r.hides)
        unhide(l, r.hid_from);
    forget_res(&r);
}

/* CPython tells it by refusing to enter a context twice. */
static bool is_entered(PyObject *context)
{
    if (PyContext_Enter(context) == 0) {
        (void)PyContext_Exit(context);
        return false;
    }
    PyErr_Clear();
    return true;
}

/* From nothing but what is true now. is_seen: the present context was seen entered, or is no one's to leave. */
static void restart(struct lane *l, bool is_seen)
{
    l->overflow = 0;
    pop_to(l, 0);
    while (l->n_res > 1)
        forget_res(&l->res[--l->n_res]);
    l->res[0].hides = false;
    PyObject *now = context_now();
    Py_XINCREF(now);
    Py_XSETREF(l->res[0].context, now);
    l->res[0].blind = attached && !is_seen && now && is_entered(now);
    follow(l, false);
}

/* True if the lane was where the thread is; else restarts it. is_seen: see restart. */
static bool come_in_step(struct lane *l, PyObject *actual, bool is_seen)
{
    struct residency *r = top_res(l);
    if (r->context == actual || l->overflow)
        return true;
    if (!r->context && l->n == r->first) { /* a thread's context is made at its first set */
        r->context = Py_NewRef(actual);
        r->blind = attached && is_entered(actual);
        return true;
    }
    dvt_py_lane_counts.resyncs++;
    restart(l, is_seen);
    return false;
}

static bool in_step(struct lane *l, PyObject *actual)
{
    return come_in_step(l, actual, false);
}

/* ---- life ---- */

static void end_lane(PyObject *capsule)
{
    struct lane *l = PyCapsule_GetPointer(capsule, "dovetail.lane");
    if (!l)
        return;
    l->busy = true;
    if (l == tl) {
        if (dvt_py_enabled)
            close_down_to(l, 0);
        tl = NULL;
    }
    /* Of another thread's lane (a fork's child clears them) the scopes are core's to end. */
    for (uint32_t i = 0; i < l->n; i++)
        dvt_py_mark_drop(&l->entries[i].mark);
    for (uint32_t i = 0; i < l->n_res; i++)
        forget_res(&l->res[i]);
    free(l);
}

static struct lane *new_lane(void)
{
    PyObject *dict = PyThreadState_GetDict(); /* borrowed; no exception if NULL */
    struct lane *l = dict ? calloc(1, sizeof *l) : NULL;
    PyObject *capsule = l ? PyCapsule_New(l, "dovetail.lane", end_lane) : NULL;
    if (!capsule) {
        free(l);
        PyErr_Clear();
        return NULL;
    }
    l->n_res = 1;
    l->attached = attached;
    tl = l;
    if (PyDict_SetItemString(dict, "dovetail.lane", capsule) < 0)
        PyErr_Clear(); /* the capsule goes at once, and the lane with it */
    Py_DECREF(capsule);
    return tl;
}

/* What it had open was given up when recording ended. */
static void forget(struct lane *l)
{
    l->attached = attached;
    l->overflow = 0;
    l->open_from = l->n;
    pop_to(l, 0);
    while (l->n_res > 0)
        forget_res(&l->res[--l->n_res]);
    l->res[l->n_res++] = (struct residency){.context = NULL};
}

static void look_for_greenlet(struct lane *l)
{
    if (l->greenlet_seen == greenlet_generation)
        return;
    if (dvt_py_greenlet_install())
        l->greenlet_seen = greenlet_generation;
}

/* ---- events ---- */

struct saved {
    bool any;
    PyObject *type, *value, *traceback;
};

static struct lane *begin(struct saved *s)
{
    struct lane *l = tl;
    if (l && l->busy) {
        l->dirty = true;
        return NULL;
    }
    s->any = PyErr_Occurred() != NULL;
    if (s->any)
        PyErr_Fetch(&s->type, &s->value, &s->traceback);
    if (!l && !(l = new_lane())) {
        if (s->any)
            PyErr_Restore(s->type, s->value, s->traceback);
        return NULL;
    }
    l->busy = true;
    if (l->attached != attached)
        forget(l);
    look_for_greenlet(l);
    return l;
}

static void end(struct lane *l, struct saved *s)
{
    for (int tries = 0; l->dirty && tries < 4; tries++) {
        l->dirty = false;
        restart(l, false);
    }
    l->busy = l->dirty = false;
    if (s->any)
        PyErr_Restore(s->type, s->value, s->traceback);
}

static void entered(PyObject *before, PyObject *context, bool for_nobody)
{
    struct saved s;
    if (dvt_py_quiet())
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    struct residency *r = top_res(l);
    if (r->context == before || l->overflow || (!r->context && l->n == r->first))
        enter_res(l, context, for_nobody);
    else
        (void)come_in_step(l, context, true); /* restarts in the context just entered */
    end(l, &s);
}

void dvt_py_entered(PyObject *before, PyObject *context)
{
    entered(before, context, false);
}

void dvt_py_entered_for_nobody(PyObject *before, PyObject *context)
{
    entered(before, context, true);
}

void dvt_py_left(PyObject *context)
{
    struct saved s;
    if (dvt_py_quiet() && !(tl && tl->n_res > 1))
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    if (l->overflow) {
        if (--l->overflow == 0)
            unhide(l, l->overflow_from);
    } else if (l->n_res > 1 && top_res(l)->context == context) {
        leave_res(l);
        if (in_step(l, context_now()) && !top_res(l)->looked)
            follow(l, true);
    } else {
        restart(l, false);
    }
    end(l, &s);
}

void dvt_py_changed(bool going_back)
{
    struct saved s;
    if (dvt_py_quiet())
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    if (!l->overflow && in_step(l, context_now()))
        follow(l, going_back);
    end(l, &s);
}

void dvt_py_pushed(const struct dvt_py_mark *m)
{
    struct saved s;
    if (dvt_py_quiet())
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    if (!l->overflow && in_step(l, context_now())) {
        struct dvt_py_mark copy = *m;
        Py_XINCREF(copy.owner);
        Py_XINCREF(copy.context);
        top_res(l)->looked = true;
        push(l, &copy);
    }
    end(l, &s);
}

/* True if the top entry is `left`'s and what is below it in the residency is now_owner's. */
static bool is_plain_pop(struct lane *l, PyObject *left, PyObject *now_owner)
{
    uint32_t first = top_res(l)->first;
    if (l->n <= first || l->entries[l->n - 1].mark.owner != left)
        return false;
    return l->n - 1 == first ? !now_owner : l->entries[l->n - 2].mark.owner == now_owner;
}

void dvt_py_popped(PyObject *left, PyObject *now_owner)
{
    struct saved s;
    if (dvt_py_quiet())
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    if (!l->overflow && in_step(l, context_now())) {
        if (is_plain_pop(l, left, now_owner)) {
            pop_to(l, l->n - 1);
            if (!now_owner)
                hide_below(l);
        } else {
            follow(l, true);
        }
    }
    end(l, &s);
}

void dvt_py_switched(void)
{
    struct saved s;
    if (dvt_py_quiet())
        return;
    struct lane *l = begin(&s);
    if (!l)
        return;
    restart(l, false);
    end(l, &s);
}

void dvt_py_lane_attach(void)
{
    attached++;
}

void dvt_py_lane_after_fork(void)
{
    if (tl)
        tl->open_from = tl->n; /* the scopes are the parent's: nothing of them may be closed here */
    dvt_py_switched();
}
