/*
 * rt_api: scopes of runtime.h, for the language shims: binary ids at open, names and labels at the close of a
 * kept scope.
 */
#include "arena.h"
#include "scope.h"

static inline struct dvt_scope open_frame(struct dvt_opening o, const struct dvt_rt_open *a)
{
    o.frame->trace = a->trace;
    o.frame->span = a->span;
    o.frame->parent_span = a->parent_span;
    o.frame->name = a->name;
    o.flags |= a->flags & ~(uint32_t)DVT_F_INTERNAL;
    return dvt_frame_publish(&o);
}

static __attribute__((noinline)) struct dvt_scope open_any(const struct dvt_rt_open *a)
{
    struct dvt_slot *s = dvt_enter();
    if (!s)
        return (struct dvt_scope){0};
    struct dvt_opening o = dvt_frame_begin(s);
    if (!o.frame)
        return (struct dvt_scope){s, DVT_SERIAL_OVERFLOW};
    return open_frame(o, a);
}

void *dvt_rt_slot(void)
{
    return dvt_tls_slot ? dvt_tls_slot : dvt_slot_take();
}

const _Atomic uint32_t *dvt_rt_recording_word(void)
{
    return (const _Atomic uint32_t *)&dvt_recording;
}

/* As dvt_scope_open. */
struct dvt_scope dvt_rt_open(const struct dvt_rt_open *args)
{
    if (!dvt_is_recording())
        return (struct dvt_scope){0};
    struct dvt_slot *s = dvt_tls_slot;
    if (DVT_UNLIKELY(!dvt_is_plain(s) || !dvt_tick_is_used()))
        return open_any(args);
    return open_frame(dvt_frame_begin_plain(s), args);
}

static bool close_slow(struct dvt_scope h, const struct dvt_name *name)
{
    struct dvt_slot *s = h.thread;
    if (!s || (s == dvt_tls_slot && (h.serial & DVT_SERIAL_OVERFLOW))) {
        dvt_scope_close_slow(h, false);
        return false;
    }
    if (s != dvt_tls_slot) {
        dvt_scope_close_remote(h, false, name);
        return false;
    }
    dvt_scope_take_remote(s);
    int i = dvt_scope_find(s, h.serial);
    if (i < 0 || (s->frames[i].flags & DVT_F_CLOSING)) {
        dvt_scope_count_missing(s, h.serial);
        return false;
    }
    struct dvt_frame *f = &s->frames[i];
    dvt_scope_note_order(s, (uint32_t)i);
    f->name = name ? name : f->name;
    bool keep = dvt_scope_decide(s, f, false); /* it stays, closing, until dvt_rt_commit */
    if (!keep)
        dvt_scope_drop(s, (uint32_t)i);
    return keep;
}

bool dvt_rt_close(struct dvt_scope scope, const struct dvt_name *name)
{
    return DVT_UNLIKELY(!dvt_scope_drop_fast(scope, name)) && close_slow(scope, name);
}

void dvt_rt_commit(struct dvt_scope scope, const struct dvt_rt_late *late)
{
    struct dvt_slot *s = scope.thread;
    int i = s && s == dvt_tls_slot ? dvt_scope_find(s, scope.serial) : -1;
    if (i < 0 || !(s->frames[i].flags & DVT_F_CLOSING)) {
        dvt_scope_count_stale();
        return;
    }
    dvt_scope_keep(s, (uint32_t)i, late);
}

bool dvt_rt_active(void)
{
    return dvt_is_recording();
}

bool dvt_rt_current(struct dvt_trace_id *ret_trace, struct dvt_span_id *ret_span)
{
    struct dvt_slot *s = dvt_tls_slot;
    uint32_t depth = s ? dvt_depth(s) : 0;
    while (depth > 0 && (s->frames[depth - 1].flags & DVT_F_CLOSING))
        depth--;
    if (depth == 0)
        return false;
    *ret_trace = s->frames[depth - 1].trace;
    *ret_span = s->frames[depth - 1].span;
    return true;
}
