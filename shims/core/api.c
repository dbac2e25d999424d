/*
 * api: scopes of dovetail.h. Fills a frame from the caller's arguments; the rest is in scope.h.
 */
#include "arena.h"
#include "scope.h"

/* ---- opening ---- */

/* Ids are a thread's random base plus the scope's number times an odd constant (a Weyl sequence): as good as
 * random for being distinct, for two instructions. The part that varies comes first, so that short prefixes
 * tell traces apart. */
static inline uint64_t weyl(const struct dvt_opening *o)
{
    return o->serial * 0x9e3779b97f4a7c15u;
}

static inline void new_trace(const struct dvt_opening *o)
{
    uint64_t id[2] = {o->slot->id_base[0] + weyl(o), o->slot->id_base[1]};
    memcpy(o->frame->trace.b, id, sizeof id);
}

static inline void new_span(const struct dvt_opening *o)
{
    uint64_t id = o->slot->id_base[2] + weyl(o);
    id += id == 0;
    memcpy(o->frame->span.b, &id, sizeof id);
}

static inline void inherit(struct dvt_opening *o)
{
    struct dvt_frame *f = o->frame;
    f->trace = f[-1].trace;
    f->parent_span = f[-1].span;
    o->flags |= f[-1].flags & DVT_SCOPE_UNSAMPLED;
}

/* Where the caller gives none: the enclosing scope's, else a new trace. */
static inline void own_context(struct dvt_opening *o)
{
    if (o->parent_serial) {
        inherit(o);
    } else {
        new_trace(o);
        o->frame->parent_span = (struct dvt_span_id){0};
        o->flags |= DVT_SCOPE_ROOT;
    }
}

static void explicit_trace(struct dvt_opening *o, const struct dvt_scope_args *a)
{
    struct dvt_frame *f = o->frame;
    memcpy(f->trace.b, a->trace_id, sizeof f->trace.b);
    if (o->parent_serial && memcmp(f[-1].trace.b, f->trace.b, sizeof f->trace.b) == 0)
        inherit(o);
}

static bool remote_parent(struct dvt_opening *o, const char *traceparent)
{
    uint8_t flags;
    size_t n = strnlen(traceparent, 256);
    if (dvt_traceparent_parse(traceparent, n, &o->frame->trace, &o->frame->parent_span, &flags) != 0) {
        dvt_count(&o->slot->n.traceparents_bad);
        return false;
    }
    o->flags |= DVT_SCOPE_REMOTE_PARENT | (flags & 1 ? 0 : DVT_SCOPE_UNSAMPLED);
    return true;
}

/* Trace and parent as the caller says. */
static void given_context(struct dvt_opening *o, const struct dvt_scope_args *a)
{
    struct dvt_frame *f = o->frame;
    f->parent_span = (struct dvt_span_id){0};
    bool remote = a->traceparent && remote_parent(o, a->traceparent);
    if (!remote && a->trace_id)
        explicit_trace(o, a);
    else if (!remote && o->parent_serial)
        inherit(o);
    else if (!remote)
        new_trace(o);
    if (!remote && a->parent_span_id)
        memcpy(f->parent_span.b, a->parent_span_id, sizeof f->parent_span.b);
    else if (!remote && !o->parent_serial)
        o->flags |= DVT_SCOPE_ROOT;
    if (a->span_id)
        memcpy(f->span.b, a->span_id, sizeof f->span.b);
}

static inline bool gives_context(const struct dvt_scope_args *a)
{
    return (uintptr_t)a->traceparent | (uintptr_t)a->trace_id | (uintptr_t)a->span_id |
           (uintptr_t)a->parent_span_id;
}

static void keep_text(struct dvt_slot *s, const char *name)
{
    size_t n = strnlen(name, DVT_MAX_NAME + 4);
    dvt_count(&s->n.names_over);
    dvt_arena_add(s, dvt_depth(s), DVT_BLOB_NAME, (struct dvt_str){"", 0},
                  (struct dvt_str){name, dvt_utf8_cut(name, n, DVT_MAX_NAME)});
}

static void set_name(struct dvt_opening *o, const struct dvt_scope_args *a)
{
    o->frame->name = a->interned ? a->interned : a->name ? dvt_name(a->name) : NULL;
    if (!o->frame->name && a->name)
        keep_text(o->slot, a->name);
}

static void add_links(struct dvt_opening *o, const struct dvt_scope_args *a)
{
    struct dvt_slot *s = o->slot;
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
        dvt_arena_add(s, o->depth, DVT_BLOB_LINK, (struct dvt_str){"", 0},
                      (struct dvt_str){(const char *)trace.b, sizeof trace.b});
        o->flags |= DVT_SCOPE_SHARED;
    }
    if (a->n_links > n)
        dvt_count(&s->n.labels_cut);
}

/* Any scope on any thread. */
static __attribute__((noinline)) struct dvt_scope open_any(const struct dvt_scope_args *a)
{
    struct dvt_slot *s = dvt_enter();
    if (!s)
        return (struct dvt_scope){0};
    struct dvt_opening o = dvt_frame_begin(s);
    if (!o.frame)
        return (struct dvt_scope){s, DVT_SERIAL_OVERFLOW};
    o.flags |= a->always ? DVT_SCOPE_ALWAYS : 0;
    new_span(&o);
    if (gives_context(a))
        given_context(&o, a);
    else
        own_context(&o);
    set_name(&o, a);
    for (size_t i = 0; i < a->n_labels; i++)
        dvt_arena_label(s, o.depth, a->labels[i].key, a->labels[i].value);
    if (a->n_links)
        add_links(&o, a);
    return dvt_frame_publish(&o);
}

static inline struct dvt_scope open_plain(struct dvt_opening o, const struct dvt_scope_args *a)
{
    o.flags |= a->always ? DVT_SCOPE_ALWAYS : 0;
    new_span(&o);
    own_context(&o);
    o.frame->name = a->interned;
    return dvt_frame_publish(&o);
}

/* Nothing but the arguments need outlive the clock's read. */
static __attribute__((noinline)) struct dvt_scope open_by_clock(const struct dvt_scope_args *a)
{
    dvt_root_opening(dvt_tls_slot);
    uint64_t now_ns = dvt_now_ns();
    return open_plain(dvt_frame_next(dvt_tls_slot, now_ns, 0), a);
}

/* What most scopes are: an interned name or none, no context given, no labels, on a thread about which
 * nothing is unusual. It calls nothing but its stand-ins, in place of returning, so that no register need be
 * saved. */
struct dvt_scope dvt_scope_open(const struct dvt_scope_args *args)
{
    static const struct dvt_scope_args none;
    const struct dvt_scope_args *a = args ? args : &none;
    if (!dvt_is_recording())
        return (struct dvt_scope){0};
    struct dvt_slot *s = dvt_tls_slot;
    if (DVT_UNLIKELY(!dvt_is_plain(s) || gives_context(a) || (a->n_labels | a->n_links) ||
                     (!a->interned && a->name)))
        return open_any(a);
    if (DVT_UNLIKELY(!dvt_tick_is_used()))
        return open_by_clock(a);
    return open_plain(dvt_frame_begin_plain(s), a);
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
        dvt_scope_count_missing(s, scope.serial);
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
