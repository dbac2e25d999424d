/*
 * api: scopes of dovetail.h. Fills a frame from the caller's arguments; the rest is in scope.h.
 */
#include "arena.h"
#include "scope.h"

/* ---- opening ---- */

/* Ids are a thread's random base plus the scope's number times an odd constant (a Weyl sequence): as good as random for being
 * distinct, for two instructions. The part that varies comes first, so that short prefixes tell traces apart. */
static inline uint64_t weyl(const struct dvt_slot *s)
{
    return dvt_next_serial(s) * 0x9e3779b97f4a7c15u;
}

static inline void new_trace(const struct dvt_slot *s, struct dvt_frame *f)
{
    uint64_t id[2] = {s->id_base[0] + weyl(s), s->id_base[1]};
    memcpy(f->trace.b, id, sizeof id);
}

static inline void new_span(const struct dvt_slot *s, struct dvt_frame *f)
{
    uint64_t id = s->id_base[2] + weyl(s);
    id += id == 0;
    memcpy(f->span.b, &id, sizeof id);
}

static void inherit(struct dvt_frame *f)
{
    const struct dvt_frame *outer = f - 1;
    f->trace = outer->trace;
    f->parent_span = outer->span;
    f->flags |= outer->flags & DVT_SCOPE_UNSAMPLED;
}

static void explicit_trace(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    memcpy(f->trace.b, a->trace_id, sizeof f->trace.b);
    if (f > s->frames && memcmp(f[-1].trace.b, f->trace.b, sizeof f->trace.b) == 0)
        inherit(f);
}

static bool remote_parent(struct dvt_slot *s, struct dvt_frame *f, const char *traceparent)
{
    uint8_t flags;
    size_t n = strnlen(traceparent, 256);
    if (dvt_traceparent_parse(traceparent, n, &f->trace, &f->parent_span, &flags) != 0) {
        dvt_count(&s->n.traceparents_bad);
        return false;
    }
    f->flags |= DVT_SCOPE_REMOTE_PARENT | (flags & 1 ? 0 : DVT_SCOPE_UNSAMPLED);
    return true;
}

/* Trace and parent as the caller says. */
static __attribute__((noinline)) void given_context(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    bool remote = a->traceparent && remote_parent(s, f, a->traceparent);
    if (!remote && a->trace_id)
        explicit_trace(s, f, a);
    else if (!remote && f->parent_serial)
        inherit(f);
    else if (!remote)
        new_trace(s, f);
    if (!remote && a->parent_span_id)
        memcpy(f->parent_span.b, a->parent_span_id, sizeof f->parent_span.b);
    else if (!remote && !f->parent_serial)
        f->flags |= DVT_SCOPE_ROOT;
    if (a->span_id)
        memcpy(f->span.b, a->span_id, sizeof f->span.b);
}

static inline bool gives_context(const struct dvt_scope_args *a)
{
    return (uintptr_t)a->traceparent | (uintptr_t)a->trace_id | (uintptr_t)a->span_id | (uintptr_t)a->parent_span_id;
}

/* Trace, span and parent where the caller gives none: the enclosing scope's, else a new trace. */
static inline void own_context(struct dvt_slot *s, struct dvt_frame *f)
{
    if (f->parent_serial) {
        inherit(f);
    } else {
        new_trace(s, f);
        f->parent_span = (struct dvt_span_id){0};
        f->flags |= DVT_SCOPE_ROOT;
    }
}

/* Trace, span, parent and flags: traceparent, else the given ids, else its own. */
static inline void set_context(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    new_span(s, f);
    f->flags |= a->always ? DVT_SCOPE_ALWAYS : 0;
    if (gives_context(a)) {
        f->parent_span = (struct dvt_span_id){0};
        given_context(s, f, a);
    } else {
        own_context(s, f);
    }
}

static void keep_text(struct dvt_slot *s, const char *name)
{
    size_t n = strnlen(name, DVT_MAX_NAME + 4);
    dvt_count(&s->n.names_over);
    dvt_arena_add(s, dvt_depth(s), DVT_BLOB_NAME, (struct dvt_str){"", 0},
                  (struct dvt_str){name, dvt_utf8_cut(name, n, DVT_MAX_NAME)});
}

static __attribute__((noinline)) void name_by_text(struct dvt_slot *s, struct dvt_frame *f, const char *name)
{
    f->name = dvt_name(name);
    if (!f->name)
        keep_text(s, name);
}

static inline void set_name(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    f->name = a->interned;
    if (!f->name && a->name)
        name_by_text(s, f, a->name);
}

static void add_links(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    size_t n = a->n_links < DVT_MAX_LINKS ? a->n_links : DVT_MAX_LINKS;
    for (size_t i = 0; i < n; i++) {
        struct dvt_trace_id trace;
        struct dvt_span_id span;
        uint8_t flags;
        const char *text = a->links[i] ? a->links[i] : "";
        if (dvt_traceparent_parse(text, strnlen(text, 256), &trace, &span, &flags) != 0) {
            dvt_count(&s->n.traceparents_bad);
            continue;
        }
        dvt_arena_add(s, dvt_depth(s), DVT_BLOB_LINK, (struct dvt_str){"", 0},
                      (struct dvt_str){(const char *)trace.b, sizeof trace.b});
        f->flags |= DVT_SCOPE_SHARED;
    }
    if (a->n_links > n)
        dvt_count(&s->n.labels_cut);
}

static __attribute__((noinline)) void add_extras(struct dvt_slot *s, struct dvt_frame *f, const struct dvt_scope_args *a)
{
    for (size_t i = 0; i < a->n_labels; i++)
        dvt_arena_label(s, dvt_depth(s), a->labels[i].key, a->labels[i].value);
    if (a->n_links)
        add_links(s, f, a);
}

/* Any scope on any thread. */
static __attribute__((noinline)) struct dvt_scope open_any(const struct dvt_scope_args *a)
{
    struct dvt_slot *s = dvt_enter();
    if (DVT_UNLIKELY(!s))
        return (struct dvt_scope){0};
    struct dvt_frame *f = dvt_frame_begin(s);
    if (DVT_UNLIKELY(!f))
        return (struct dvt_scope){s, DVT_SERIAL_OVERFLOW};
    set_context(s, f, a);
    set_name(s, f, a);
    if (a->n_labels | a->n_links)
        add_extras(s, f, a);
    return dvt_frame_publish(s, f);
}

/* What most scopes are: an interned name or none, no context given, no labels, on a thread about which nothing is unusual. It calls
 * nothing but its stand-in, in place of returning, so that no register need be saved. */
struct dvt_scope dvt_scope_open(const struct dvt_scope_args *args)
{
    static const struct dvt_scope_args none;
    const struct dvt_scope_args *a = args ? args : &none;
    if (!dvt_is_recording())
        return (struct dvt_scope){0};
    struct dvt_slot *s = dvt_tls_slot;
    if (DVT_UNLIKELY(!dvt_is_plain(s) || gives_context(a) || (a->n_labels | a->n_links) || (!a->interned && a->name)))
        return open_any(a);
    struct dvt_frame *f = dvt_frame_begin_ticks(s);
    new_span(s, f);
    f->flags |= a->always ? DVT_SCOPE_ALWAYS : 0;
    own_context(s, f);
    f->name = a->interned;
    return dvt_frame_publish(s, f);
}

/* ---- closing ---- */

void dvt_scope_close(struct dvt_scope scope)
{
    if (scope.thread && DVT_UNLIKELY(!dvt_scope_drop_fast(scope, NULL)))
        dvt_scope_close_slow(scope, false);
}

void dvt_scope_close_always(struct dvt_scope scope)
{
    dvt_scope_close_slow(scope, true);
}

/* ---- while open ---- */

/* The innermost scope that is not being closed; -1 if there is none. */
static int innermost(const struct dvt_slot *s)
{
    int i = (int)dvt_depth(s) - 1;
    while (i >= 0 && (s->frames[i].flags & DVT_F_CLOSING))
        i--;
    return i;
}

void dvt_label(const char *key, const char *value)
{
    struct dvt_slot *s = dvt_tls_slot;
    int i = s ? innermost(s) : -1;
    if (i < 0)
        return;
    if (s->overflow) /* the scope it is meant for is not recorded */
        dvt_count(&s->n.labels_cut);
    else
        dvt_arena_label(s, (uint32_t)i, key, value);
}

void dvt_scope_label(struct dvt_scope scope, const char *key, const char *value)
{
    struct dvt_slot *s = scope.thread;
    if (!s)
        return;
    if (s != dvt_tls_slot || (scope.serial & DVT_SERIAL_OVERFLOW)) {
        dvt_scope_count_stale();
        return;
    }
    int i = dvt_scope_find(s, scope.serial);
    if (i < 0)
        dvt_count(&s->n.misuse_stale);
    else
        dvt_arena_label(s, (uint32_t)i, key, value);
}

bool dvt_traceparent(char out[56])
{
    struct dvt_slot *s = dvt_tls_slot;
    int i = s ? innermost(s) : -1;
    if (i < 0)
        return false;
    const struct dvt_frame *f = &s->frames[i];
    dvt_traceparent_format(&f->trace, &f->span, f->flags & DVT_SCOPE_UNSAMPLED ? 0 : 1, out);
    return true;
}

void dvt_thread_start(void)
{
    if (dvt_is_recording())
        (void)dvt_enter();
}
