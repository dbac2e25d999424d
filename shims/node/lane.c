/*
 * lane: see lane.h. open() takes the mark's index from the control words, close() leaves there whether the scope is kept:
 * then commit() must follow, with its name and labels. A scope that lingers is closed here, so that a chain of awaits is
 * one scope and costs no calls; only if it is kept, JavaScript is called, to commit it.
 */
#include "lane.h"
#include "napi.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = DVT_MAX_DEPTH, MAX_LATE = 2 + 2 * DVT_MAX_LABELS };

struct lane {
    uint32_t words[DVT_NODE_WORDS];
    struct dvt_node_mark marks[DVT_NODE_MARKS];
};

/* Beside the shared memory: what JavaScript must not be able to damage. */
struct own {
    struct lane *shared;
    struct dvt_scope open[MAX_OPEN];
    uint32_t n; /* may be beyond MAX_OPEN: those have no scope */
    struct dvt_scope kept; /* closed, waits for its commit */
    const struct dvt_name *names[DVT_MAX_NAMES + 1]; /* [1, n_names] */
    uint32_t n_names;
    napi_env env;
    napi_ref on_kept;
    const struct dvt_v8 *v8; /* NULL: nothing lingers */
};

static __thread struct own *tl __attribute__((tls_model("initial-exec")));

static const struct dvt_name *name_of(const struct own *o, uint32_t id)
{
    return id <= o->n_names ? o->names[id] : NULL;
}

static napi_value open_scope(napi_env env, napi_callback_info info)
{
    (void)env;
    (void)info;
    struct own *o = tl;
    if (!o || o->n++ >= MAX_OPEN)
        return NULL;
    const struct dvt_node_mark *m = &o->shared->marks[o->shared->words[DVT_NODE_ARG] % DVT_NODE_MARKS];
    struct dvt_rt_open args = {.trace = m->trace,
                               .span = m->span,
                               .parent_span = m->parent,
                               .flags = m->flags,
                               .name = name_of(o, m->name)};
    o->open[o->n - 1] = dvt_rt_open(&args);
    return NULL;
}

static void close_innermost(struct own *o)
{
    if (o->n == 0)
        return;
    o->shared->words[DVT_NODE_KEEP] = 0;
    if (o->n-- > MAX_OPEN)
        return;
    struct dvt_scope scope = o->open[o->n];
    if (scope.thread && dvt_rt_close(scope, name_of(o, o->shared->words[DVT_NODE_NAME]))) {
        o->kept = scope;
        o->shared->words[DVT_NODE_KEEP] = 1;
    }
}

static napi_value close_scope(napi_env env, napi_callback_info info)
{
    (void)env;
    (void)info;
    if (tl)
        close_innermost(tl);
    return NULL;
}

/* ---- the late parts of a kept scope ---- */

struct text {
    char b[DVT_MAX_NAME + 4];
};

/* One byte more than the bound, so that core sees that it was longer, and cuts. */
static bool read_text(napi_env env, napi_value v, struct text *t, struct dvt_str *ret)
{
    size_t n;
    if (napi_get_value_string_utf8(env, v, t->b, sizeof t->b, &n) != napi_ok)
        return false;
    *ret = (struct dvt_str){t->b, n};
    return true;
}

/* Trace ids in hex, one after the other. */
static size_t read_links(napi_env env, napi_value v, struct dvt_trace_id *links)
{
    char hex[DVT_MAX_LINKS * DVT_TRACE_HEX + 1];
    size_t n, n_links = 0;
    if (napi_get_value_string_latin1(env, v, hex, sizeof hex, &n) != napi_ok)
        return 0;
    for (size_t i = 0; i + DVT_TRACE_HEX <= n; i += DVT_TRACE_HEX)
        if (dvt_trace_id_parse(hex + i, DVT_TRACE_HEX, &links[n_links]) == 0)
            n_links++;
    return n_links;
}

/* commit(name, links, key, value, key, value, ...); links: a text, or undefined for none. */
static napi_value commit(napi_env env, napi_callback_info info)
{
    struct own *o = tl;
    napi_value argv[MAX_LATE];
    struct text texts[2 + 2 * DVT_MAX_LABELS];
    struct dvt_label labels[DVT_MAX_LABELS];
    struct dvt_trace_id links[DVT_MAX_LINKS];
    struct dvt_rt_late late = {.name = {"", 0}, .labels = labels, .links = links};
    size_t argc = MAX_LATE;
    if (!o || !o->kept.thread || napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != napi_ok)
        return NULL;
    argc = argc < MAX_LATE ? argc : MAX_LATE;
    if (argc > 0)
        (void)read_text(env, argv[0], &texts[0], &late.name); /* no text: no name */
    if (argc > 1)
        late.n_links = read_links(env, argv[1], links);
    for (size_t i = 2; i + 1 < argc; i += 2) {
        struct dvt_label *l = &labels[late.n_labels];
        if (read_text(env, argv[i], &texts[i], &l->key) && read_text(env, argv[i + 1], &texts[i + 1], &l->value))
            late.n_labels++;
    }
    dvt_rt_commit(o->kept, &late);
    o->kept = (struct dvt_scope){0};
    return NULL;
}

/* name(text): its id for the marks, 0 if there are too many. */
static napi_value name(napi_env env, napi_callback_info info)
{
    struct own *o = tl;
    napi_value argv[1], ret = NULL;
    struct text t;
    struct dvt_str s = {"", 0};
    size_t argc = 1;
    uint32_t id = 0;
    if (!o || napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != napi_ok || argc < 1)
        return NULL;
    const struct dvt_name *interned = NULL;
    if (o->n_names < DVT_MAX_NAMES && read_text(env, argv[0], &t, &s)) {
        t.b[dvt_utf8_cut(s.p, s.n, DVT_MAX_NAME)] = 0;
        interned = dvt_name(t.b);
    }
    if (interned) {
        id = ++o->n_names;
        o->names[id] = interned;
    }
    (void)napi_create_uint32(env, id, &ret); /* undefined on failure */
    return ret;
}

/* What core has open on this thread, as [trace, span] in hex, or undefined: for tests. */
static napi_value current(napi_env env, napi_callback_info info)
{
    (void)info;
    struct dvt_trace_id t;
    struct dvt_span_id s;
    char trace[DVT_TRACE_HEX + 1], span[DVT_SPAN_HEX + 1];
    napi_value list = NULL, a, b;
    if (!dvt_rt_current(&t, &s))
        return NULL;
    dvt_trace_id_format(&t, trace);
    dvt_span_id_format(&s, span);
    if (napi_create_array(env, &list) != napi_ok ||
        napi_create_string_utf8(env, trace, NAPI_AUTO_LENGTH, &a) != napi_ok ||
        napi_create_string_utf8(env, span, NAPI_AUTO_LENGTH, &b) != napi_ok ||
        napi_set_element(env, list, 0, a) != napi_ok || napi_set_element(env, list, 1, b) != napi_ok)
        return NULL;
    return list;
}

/* ---- scopes that linger ---- */

static void call_on_kept(struct own *o)
{
    napi_handle_scope handles;
    napi_value f, undefined, ignored;
    if (!o->on_kept || napi_open_handle_scope(o->env, &handles) != napi_ok)
        return;
    if (napi_get_reference_value(o->env, o->on_kept, &f) == napi_ok &&
        napi_get_undefined(o->env, &undefined) == napi_ok &&
        napi_call_function(o->env, undefined, f, 0, NULL, NULL) == napi_pending_exception)
        (void)napi_get_and_clear_last_exception(o->env, &ignored);
    (void)napi_close_handle_scope(o->env, handles); /* opened above */
}

static void on_microtasks(void *isolate, void *unused)
{
    (void)isolate;
    (void)unused;
    struct own *o = tl;
    if (!o)
        return;
    uint32_t *words = o->shared->words;
    words[DVT_NODE_DRAINS] = 1;
    if (!words[DVT_NODE_LINGERS])
        return;
    words[DVT_NODE_LINGERS] = 0;
    close_innermost(o);
    if (!words[DVT_NODE_KEEP])
        return;
    call_on_kept(o);
    if (o->kept.thread) /* JavaScript must not run any more */
        dvt_rt_commit(o->kept, &(struct dvt_rt_late){.name = {"", 0}});
    o->kept = (struct dvt_scope){0};
}

/* onKept(f): f is called after a scope that lingered was closed and kept: to commit it. */
static napi_value on_kept(napi_env env, napi_callback_info info)
{
    struct own *o = tl;
    napi_value argv[1];
    size_t argc = 1;
    if (o && !o->on_kept && napi_get_cb_info(env, info, &argc, argv, NULL, NULL) == napi_ok && argc == 1)
        (void)napi_create_reference(env, argv[0], 1, &o->on_kept); /* else it stays NULL */
    return NULL;
}

void dvt_node_lane_watch(const struct dvt_v8 *v8)
{
    struct own *o = tl;
    if (!v8 || !o || o->v8)
        return;
    o->v8 = v8;
    v8->on_microtasks(v8->current(), on_microtasks, NULL);
}

void dvt_node_lane_unwatch(void)
{
    struct own *o = tl;
    if (!o || !o->v8)
        return;
    o->v8->off_microtasks(o->v8->current(), on_microtasks, NULL);
    o->v8 = NULL;
    o->shared->words[DVT_NODE_DRAINS] = 0;
}

/* ---- life ---- */

/* On the environment's thread, at its end. The shared memory goes with JavaScript's. */
static void end(void *p)
{
    struct own *o = p;
    dvt_node_lane_unwatch();
    while (o->n > 0) {
        struct dvt_scope scope = o->n <= MAX_OPEN ? o->open[o->n - 1] : (struct dvt_scope){0};
        o->n--;
        if (scope.thread && dvt_rt_close(scope, NULL))
            dvt_rt_commit(scope, &(struct dvt_rt_late){.name = {"", 0}});
    }
    if (tl == o)
        tl = NULL;
    free(o);
}

napi_status dvt_node_lane_define(napi_env env, napi_value exports)
{
    napi_value state;
    void *memory;
    napi_ref keep;
    if (tl)
        return napi_generic_failure; /* two environments on one thread: an embedder's, which we do not know */
    struct own *o = calloc(1, sizeof *o);
    if (!o)
        return napi_generic_failure;
    o->env = env;
    napi_status rc = napi_create_arraybuffer(env, sizeof(struct lane), &memory, &state);
    if (rc == napi_ok)
        rc = napi_create_reference(env, state, 1, &keep); /* as long as the environment */
    if (rc == napi_ok)
        rc = napi_set_named_property(env, exports, "state", state);
    const struct dvt_node_function functions[] = {
        {"open", open_scope}, {"close", close_scope}, {"commit", commit}, {"name", name}, {"current", current},
        {"onKept", on_kept}};
    if (rc == napi_ok)
        rc = dvt_node_functions(env, exports, functions, sizeof functions / sizeof *functions);
    if (rc == napi_ok)
        rc = napi_add_env_cleanup_hook(env, end, o);
    if (rc != napi_ok) {
        free(o);
        return rc;
    }
    memset(memory, 0, sizeof(struct lane));
    o->shared = memory;
    tl = o;
    return napi_ok;
}
