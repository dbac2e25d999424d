/*
 * scope: opening and closing frames of a slot. The part that runs for every scope is inline; what only
 * misuse, a kept scope or a first scope needs is in scope.c.
 *
 * Opening reads the processor's counter (tick.h), closing a dropped scope nothing: it compares data_head with
 * its value at open. Owner's thread only, unless a function says otherwise.
 */
#ifndef DVT_SCOPE_H
#define DVT_SCOPE_H

#include "names.h"
#include "slot.h"
#include "tick.h"

#define DVT_SERIAL_OVERFLOW (UINT64_C(1) << 63) /* handle of a scope beyond DVT_MAX_DEPTH */

void dvt_scope_overflow(struct dvt_slot *s);
void dvt_scope_take_remote(struct dvt_slot *s);
/* Index of the open frame with this serial, or -1. */
int dvt_scope_find(const struct dvt_slot *s, uint64_t serial);
/* Decides whether a frame must be kept, and sets its end, head_close and flags, DVT_F_CLOSING among them;
 * always: keep in any case. dvt_scope_keep or dvt_scope_drop must follow. */
bool dvt_scope_decide(struct dvt_slot *s, struct dvt_frame *f, bool always);
/* Publishes frame i's record in the ring (late may be NULL), then removes the frame. */
void dvt_scope_keep(struct dvt_slot *s, uint32_t i, const struct dvt_rt_late *late);
/* Counts frame i as dropped under its name and removes it. */
void dvt_scope_drop(struct dvt_slot *s, uint32_t i);
/* Everything but the plain close of the innermost scope. Any thread. */
void dvt_scope_close_slow(struct dvt_scope h, bool always);
/* A close by a thread that is not the owner: left for the owner. Any thread. */
void dvt_scope_close_remote(struct dvt_scope h, bool always, const struct dvt_name *name);
void dvt_scope_count_stale(void);
/* A close found no such scope on its thread: misuse, unless the scope was given up. */
void dvt_scope_count_missing(struct dvt_slot *s, uint64_t serial);
/* Counts and marks frame i if it is not the innermost. */
void dvt_scope_note_order(struct dvt_slot *s, uint32_t i);
/* Whether the frame was opened before its thread's ring was there. Async-signal-safe. */
bool dvt_scope_is_late_armed(const struct dvt_slot *s, const struct dvt_frame *f);
/* The record of a frame as it is now. Async-signal-safe. */
void dvt_scope_fill_entry(const struct dvt_frame *f, uint32_t blob_bytes, struct dvt_scope_entry *e);
/* At the thread's end: closes what is open. */
void dvt_scope_close_all(struct dvt_slot *s);

static inline uint32_t dvt_depth(const struct dvt_slot *s)
{
    return atomic_load_explicit(&s->depth, memory_order_relaxed);
}

struct dvt_slot *dvt_enter_slow(void);

/* The calling thread's slot, if recording is on (the caller has looked). */
static inline struct dvt_slot *dvt_enter(void)
{
    struct dvt_slot *s = dvt_tls_slot;
    if (DVT_UNLIKELY(!s || atomic_load_explicit(&s->remote_pending, memory_order_relaxed)))
        return dvt_enter_slow();
    return s;
}
static inline bool dvt_is_recording(void)
{
    return __atomic_load_n(&dvt_recording, __ATOMIC_RELAXED);
}

static inline uint64_t dvt_next_serial(const struct dvt_slot *s)
{
    return atomic_load_explicit(&s->serial, memory_order_relaxed) + 1;
}

/* A scope that is being opened: what is not yet in its frame, so that it can stay in registers. */
struct dvt_opening {
    struct dvt_slot *slot;
    struct dvt_frame *frame; /* the caller fills trace, span, parent_span and name; NULL: too many are open */
    uint64_t serial, parent_serial, start;
    uint32_t depth, flags; /* flags: the unit of start, and what the caller adds */
};

/* Whether the thread's next scope may be opened by dvt_frame_begin_plain: nothing is unusual about it. */
static inline bool dvt_is_plain(const struct dvt_slot *s)
{
    return s && !atomic_load_explicit(&s->remote_pending, memory_order_relaxed) &&
           dvt_depth(s) < DVT_MAX_DEPTH;
}

/* Before the start is read: see dvt_frame_publish. */
static inline void dvt_root_opening(struct dvt_slot *s)
{
    if (dvt_depth(s) == 0)
        atomic_store_explicit(&s->root_head, DVT_ROOT_OPENING, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline struct dvt_opening dvt_frame_next(struct dvt_slot *s, uint64_t start, uint32_t unit)
{
    struct dvt_opening o = {.slot = s, .start = start, .depth = dvt_depth(s), .flags = unit};
    o.serial = dvt_next_serial(s);
    o.frame = &s->frames[o.depth];
    __asm__("" : "+r"(o.frame)); /* its address is computed once */
    o.frame->arena_at = s->arena_top;
    o.parent_serial = o.depth ? o.frame[-1].serial : 0;
    return o;
}

/* Starts opening a scope of a plain thread, where ticks are in use. */
static inline struct dvt_opening dvt_frame_begin_plain(struct dvt_slot *s)
{
    dvt_root_opening(s);
    return dvt_frame_next(s, dvt_tick_read(), DVT_F_TICKS);
}

/* The same for any thread and any clock. Counts what is too deep. */
static inline struct dvt_opening dvt_frame_begin(struct dvt_slot *s)
{
    if (dvt_depth(s) >= DVT_MAX_DEPTH) {
        dvt_scope_overflow(s);
        return (struct dvt_opening){.slot = s};
    }
    if (dvt_tick_is_used())
        return dvt_frame_begin_plain(s);
    dvt_root_opening(s);
    return dvt_frame_next(s, dvt_now_ns(), 0);
}

/* Reads the ring's head with the epoch it belongs to. The sender takes a ring's pointer away before it stores
 * the next epoch, and publishes one between setting and clearing that epoch's pending bit: the same word on
 * both sides vouches for the pointer read in between. Pairs with arm.c. */
static inline uint64_t dvt_read_head(const struct dvt_slot *s, uint32_t *ret_epoch_word, bool *ret_stable)
{
    uint32_t before = atomic_load_explicit(&s->epoch_word, memory_order_acquire);
    const _Atomic uint64_t *p = atomic_load_explicit(&s->head_ptr, memory_order_acquire);
    uint64_t head = atomic_load_explicit(p, memory_order_acquire);
    uint32_t after = atomic_load_explicit(&s->epoch_word, memory_order_relaxed);
    *ret_epoch_word = after;
    *ret_stable = before == after;
    return head;
}

/* Tells the sender of the outermost frame. */
static inline void dvt_root_publish(struct dvt_slot *s, const struct dvt_frame *f)
{
    uint32_t unit = f->flags & DVT_F_TICKS ? DVT_EPOCH_TICKS : 0;
    atomic_store_explicit(&s->root_start, f->start, memory_order_relaxed);
    atomic_store_explicit(&s->root_epoch, f->epoch | unit, memory_order_relaxed);
    atomic_store_explicit(&s->root_head, f->head_open, memory_order_release); /* pairs with drain.c */
}

/* The head for the fast ways, with the epoch's word as it was before it was read. A word that is out of date
 * is found to be so at the close, where the frame's is compared with it. */
static inline uint64_t dvt_glance_at_head(const struct dvt_slot *s, uint32_t *ret_epoch_word)
{
    *ret_epoch_word = atomic_load_explicit(&s->epoch_word, memory_order_acquire);
    const _Atomic uint64_t *p = atomic_load_explicit(&s->head_ptr, memory_order_acquire);
    return atomic_load_explicit(p, memory_order_acquire);
}

/*
 * Publishes a frame. Why settled_head (drain.c) can trust root_head: samples of this thread are taken by
 * interrupts of this thread, so "OPENING" is stored before any sample that the head loaded here does not
 * count yet. The sender loads data_head first and root_head second; if it sees such a sample it also sees
 * OPENING or what followed.
 */
static inline struct dvt_scope dvt_frame_publish(const struct dvt_opening *o)
{
    struct dvt_slot *s = o->slot;
    struct dvt_frame *f = o->frame;
    uint32_t word;
    f->serial = o->serial;
    f->parent_serial = o->parent_serial;
    f->start = o->start;
    f->flags = o->flags;
    atomic_signal_fence(memory_order_seq_cst);
    f->head_open = dvt_glance_at_head(s, &word);
    f->epoch = word & ~DVT_EPOCH_PENDING;
    f->drop_word = word;
    if (DVT_UNLIKELY((word & DVT_EPOCH_PENDING) || (o->flags & DVT_SCOPE_ALWAYS)))
        f->drop_word = 0;
    atomic_store_explicit(&s->serial, o->serial, memory_order_relaxed);
    atomic_store_explicit(&s->depth, o->depth + 1, memory_order_release); /* for the handler */
    if (o->depth == 0)
        dvt_root_publish(s, f);
    return (struct dvt_scope){s, o->serial};
}

/* Removes the innermost frame. What it published in the ring is visible before root_head says that nothing is
 * open. */
static inline void dvt_frame_pop(struct dvt_slot *s, const struct dvt_frame *f, uint32_t depth)
{
    s->arena_top = f->arena_at;
    s->overflow = 0;
    atomic_store_explicit(&s->depth, depth - 1, memory_order_release);
    if (depth == 1)
        atomic_store_explicit(&s->root_head, DVT_ROOT_NONE, memory_order_release); /* pairs with drain.c */
}

/* The sender makes the totals of it. */
static inline void dvt_count_drop(struct dvt_slot *s, const struct dvt_name *name)
{
    _Atomic uint32_t *by = &s->dropped_by[name ? name->id : 0];
    atomic_store_explicit(by, atomic_load_explicit(by, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* The plain close: the innermost scope of this thread, no sample inside, nothing unusual. False: not that,
 * nothing done. Counts under name, else under the scope's own. */
static inline bool dvt_scope_drop_fast(struct dvt_scope h, const struct dvt_name *name)
{
    struct dvt_slot *s = h.thread;
    uint32_t depth, word;
    if (s != dvt_tls_slot || !s || atomic_load_explicit(&s->remote_pending, memory_order_relaxed))
        return false;
    depth = dvt_depth(s);
    if (depth == 0)
        return false;
    struct dvt_frame *f = &s->frames[depth - 1];
    __asm__("" : "+r"(f)); /* its address is computed once */
    if (f->serial != h.serial)
        return false;
    uint64_t head = dvt_glance_at_head(s, &word);
    if (head != f->head_open || word != f->drop_word)
        return false;
    /* A sample since then may have had the handler announce the scope: it must then be told again. */
    atomic_store_explicit(&s->depth, depth - 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (DVT_UNLIKELY(f->flags & DVT_F_ANNOUNCED)) {
        atomic_store_explicit(&s->depth, depth, memory_order_relaxed);
        return false;
    }
    dvt_count_drop(s, name ? name : f->name);
    dvt_frame_pop(s, f, depth);
    return true;
}

#endif
