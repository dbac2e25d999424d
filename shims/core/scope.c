/*
 * scope: the slow half of scope.h: kept scopes, misuse, closes by other threads, the end of a thread.
 *
 * Order in a close: mark the frame (so that the handler does not announce it any more), publish the record,
 * then remove the frame. The sender therefore finds a scope in the ring, or still open; never in neither
 * place.
 */
#include "scope.h"

#include "arena.h"
#include "names.h"
#include "sender.h"

_Atomic uint64_t dvt_stale_elsewhere;

struct dvt_slot *dvt_enter_slow(void)
{
    struct dvt_slot *s = dvt_tls_slot;
    if (!s)
        return dvt_slot_take();
    dvt_scope_take_remote(s);
    return s;
}

/* ---- giving up ---- */

/* What is open counts as dropped. */
static void give_up(struct dvt_slot *s)
{
    s->void_serial = atomic_load_explicit(&s->serial, memory_order_relaxed);
    for (uint32_t depth; (depth = dvt_depth(s)) > 0;) {
        dvt_count_drop(s, s->frames[depth - 1].name);
        dvt_frame_pop(s, &s->frames[depth - 1], depth);
    }
}

void dvt_scope_count_missing(struct dvt_slot *s, uint64_t serial)
{
    if (serial > s->void_serial)
        dvt_count(&s->n.misuse_stale);
}

void dvt_scope_overflow(struct dvt_slot *s)
{
    s->overflow++;
    dvt_count(&s->n.misuse_depth);
}

int dvt_scope_find(const struct dvt_slot *s, uint64_t serial)
{
    for (uint32_t i = dvt_depth(s); i-- > 0;)
        if (s->frames[i].serial == serial)
            return (int)i;
    return -1;
}

void dvt_scope_count_stale(void)
{
    struct dvt_slot *mine = dvt_tls_slot;
    if (mine)
        dvt_count(&mine->n.misuse_stale);
    else
        atomic_fetch_add_explicit(&dvt_stale_elsewhere, 1, memory_order_relaxed);
}

/* ---- decide ---- */

bool dvt_scope_is_late_armed(const struct dvt_slot *s, const struct dvt_frame *f)
{
    const _Atomic uint64_t *armed = f->flags & DVT_F_TICKS ? &s->armed_ticks : &s->armed_ns;
    return f->start < atomic_load_explicit(armed, memory_order_acquire);
}

/* Scopes that the daemon joins by their end read the clock for it. */
static void set_end(struct dvt_frame *f)
{
    bool by_time = f->flags & (DVT_SCOPE_CROSS_THREAD | DVT_F_PENDING);
    if (by_time || !dvt_tick_is_used()) {
        f->end = dvt_now_ns();
        return;
    }
    f->flags |= DVT_F_END_TICKS;
    f->end = dvt_tick_read();
}

bool dvt_scope_decide(struct dvt_slot *s, struct dvt_frame *f, bool always)
{
    uint32_t word;
    bool stable;
    uint64_t head;
    f->flags |= DVT_F_CLOSING; /* from here on the handler does not announce it */
    atomic_signal_fence(memory_order_seq_cst);
    do
        head = dvt_read_head(s, &word, &stable);
    while (!stable);
    if ((word & ~DVT_EPOCH_PENDING) != f->epoch) {
        f->epoch = word & ~DVT_EPOCH_PENDING;
        f->head_open = 0;
        f->flags |= DVT_SCOPE_REARMED;
    }
    if (head < f->head_open) /* the daemon hung up: the ring is gone, and who would have read it too */
        f->head_open = head;
    bool is_late = dvt_scope_is_late_armed(s, f);
    if (is_late)
        f->flags |= DVT_SCOPE_LATE_ARMED;
    /* The daemon may count samples that this thread could not see when it opened the scope: let it decide by time. */
    bool pending = is_late && (word & DVT_EPOCH_PENDING);
    if (pending)
        f->flags |= DVT_SCOPE_CROSS_THREAD | DVT_F_PENDING;
    if (always)
        f->flags |= DVT_SCOPE_ALWAYS;
    f->head_close = head;
    bool keep = pending || head != f->head_open || (f->flags & DVT_SCOPE_ALWAYS);
    if (keep)
        set_end(f);
    return keep;
}

/* ---- remove ---- */

/* Takes frame i out from under those above it. */
static void remove_below(struct dvt_slot *s, uint32_t i, uint32_t depth)
{
    atomic_store_explicit(&s->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    dvt_arena_clear(s, i);
    memmove(&s->frames[i], &s->frames[i + 1], (depth - i - 1) * sizeof s->frames[0]);
    atomic_store_explicit(&s->depth, depth - 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&s->busy, 0, memory_order_relaxed);
    if (i > 0)
        return;
    atomic_store_explicit(&s->root_head, DVT_ROOT_OPENING, memory_order_release);
    dvt_root_publish(s, &s->frames[0]);
}

static void remove_frame(struct dvt_slot *s, uint32_t i)
{
    uint32_t depth = dvt_depth(s);
    if (i + 1 == depth)
        dvt_frame_pop(s, &s->frames[i], depth);
    else
        remove_below(s, i, depth);
}

void dvt_scope_drop(struct dvt_slot *s, uint32_t i)
{
    dvt_count_drop(s, s->frames[i].name);
    remove_frame(s, i);
}

/* ---- keep ---- */

/* What of `late` goes into the record: the labels that the frame does not have itself, and the links. */
struct extra {
    struct dvt_str name; /* if it could not be interned */
    const struct dvt_label *labels;
    const struct dvt_trace_id *links;
    size_t n_labels, n_links, bytes;
    bool skip[DVT_MAX_LABELS];
};

static bool region_has(struct dvt_str region, struct dvt_str key, size_t *ret_n_labels)
{
    const uint8_t *p = (const uint8_t *)region.p, *end = p + region.n;
    struct dvt_blob_item item;
    bool has = false;
    *ret_n_labels = 0;
    while (dvt_blob_next(&p, end, &item)) {
        *ret_n_labels += item.kind == DVT_BLOB_LABEL;
        has |= item.kind == DVT_BLOB_LABEL && dvt_str_eq(item.key, key);
    }
    return has;
}

static struct dvt_str bounded(struct dvt_slot *s, struct dvt_str v, size_t cap)
{
    if (v.n <= cap)
        return v;
    dvt_count(&s->n.labels_cut);
    return (struct dvt_str){v.p, dvt_utf8_cut(v.p, v.n, cap)};
}

static void measure_late(struct dvt_slot *s, struct dvt_frame *f, struct dvt_str region,
                         const struct dvt_rt_late *late, struct extra *x)
{
    size_t own = 0, used = 0;
    if (!f->name && late->name.n && !(f->name = dvt_name_intern(late->name.p, late->name.n))) {
        x->name = bounded(s, late->name, DVT_MAX_NAME);
        x->bytes += dvt_blob_bytes(0, x->name.n);
        dvt_count(&s->n.names_over);
    }
    x->labels = late->labels;
    for (; x->n_labels < late->n_labels && x->n_labels < DVT_MAX_LABELS; x->n_labels++) {
        const struct dvt_label *l = &late->labels[x->n_labels];
        x->skip[x->n_labels] = region_has(region, l->key, &own) || !l->key.n || own + used >= DVT_MAX_LABELS;
        if (x->skip[x->n_labels])
            continue;
        used++;
        x->bytes += dvt_blob_bytes(bounded(s, l->key, DVT_MAX_LABEL_KEY).n,
                                   bounded(s, l->value, DVT_MAX_LABEL_VALUE).n);
    }
    if (late->n_labels > x->n_labels)
        dvt_count(&s->n.labels_cut);
    x->links = late->links;
    x->n_links = late->n_links < DVT_MAX_LINKS ? late->n_links : DVT_MAX_LINKS;
    x->bytes += x->n_links * dvt_blob_bytes(0, sizeof(struct dvt_trace_id));
    if (x->n_links)
        f->flags |= DVT_SCOPE_SHARED;
}

static void put_late(uint8_t *p, const struct extra *x)
{
    struct dvt_str none = {"", 0};
    if (x->name.n)
        p = dvt_blob_put(p, DVT_BLOB_NAME, none, x->name);
    for (size_t i = 0; i < x->n_labels; i++) {
        struct dvt_str k = x->labels[i].key, v = x->labels[i].value;
        k.n = k.n > DVT_MAX_LABEL_KEY ? dvt_utf8_cut(k.p, k.n, DVT_MAX_LABEL_KEY) : k.n;
        v.n = v.n > DVT_MAX_LABEL_VALUE ? dvt_utf8_cut(v.p, v.n, DVT_MAX_LABEL_VALUE) : v.n;
        if (!x->skip[i])
            p = dvt_blob_put(p, DVT_BLOB_LABEL, k, v);
    }
    for (size_t i = 0; i < x->n_links; i++)
        p = dvt_blob_put(p, DVT_BLOB_LINK, none,
                         (struct dvt_str){(const char *)x->links[i].b, sizeof x->links[i].b});
}

void dvt_scope_fill_entry(const struct dvt_frame *f, uint32_t blob_bytes, struct dvt_scope_entry *e)
{
    *e = (struct dvt_scope_entry){
        .serial = f->serial,
        .parent_serial = f->parent_serial,
        .start = f->start,
        .end = f->end,
        .head_open = f->head_open,
        .head_close = f->head_close,
        .name = f->name,
        .epoch = f->epoch,
        .flags = f->flags,
        .blob_bytes = blob_bytes,
        .trace = f->trace,
        .span = f->span,
        .parent_span = f->parent_span,
    };
}

static void publish(struct dvt_slot *s, struct dvt_frame *f, struct dvt_str region, const struct extra *x)
{
    uint32_t blob = (uint32_t)(region.n + x->bytes);
    struct dvt_scope_entry e;
    uint8_t *p = dvt_ring_reserve(&s->ring, (uint32_t)sizeof e + blob, DVT_ENTRY_SCOPE);
    if (!p) {
        dvt_count(&s->n.lost_ring);
        return;
    }
    dvt_scope_fill_entry(f, blob, &e);
    memcpy(p, &e, sizeof e);
    memcpy(p + sizeof e, region.p, region.n);
    put_late(p + sizeof e + region.n, x);
    dvt_ring_commit(&s->ring);
    dvt_count(&s->n.kept);
}

static void wake_if_full(struct dvt_slot *s)
{
    if (dvt_ring_used(&s->ring) < DVT_RING_BYTES / 4 ||
        atomic_load_explicit(&s->wake_sent, memory_order_relaxed))
        return;
    atomic_store_explicit(&s->wake_sent, 1, memory_order_relaxed);
    dvt_sender_wake();
}

void dvt_scope_keep(struct dvt_slot *s, uint32_t i, const struct dvt_rt_late *late)
{
    struct dvt_frame *f = &s->frames[i];
    struct dvt_str region = dvt_arena_region(s, i);
    struct extra x = {0};
    if (late)
        measure_late(s, f, region, late, &x);
    publish(s, f, region, &x);
    uint64_t head = f->head_close;
    uint32_t epoch = f->epoch;
    remove_frame(s, i);
    atomic_store_explicit(&s->left_epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&s->left_head, head, memory_order_relaxed);
    wake_if_full(s);
}

/* ---- unusual closes ---- */

static void finish(struct dvt_slot *s, uint32_t i, bool always)
{
    if (dvt_scope_decide(s, &s->frames[i], always))
        dvt_scope_keep(s, i, NULL);
    else
        dvt_scope_drop(s, i);
}

void dvt_scope_close_slow(struct dvt_scope h, bool always)
{
    struct dvt_slot *s = h.thread;
    if (!s)
        return;
    if (s != dvt_tls_slot) {
        dvt_scope_close_remote(h, always, NULL);
        return;
    }
    dvt_scope_take_remote(s);
    if (h.serial & DVT_SERIAL_OVERFLOW) {
        s->overflow -= s->overflow > 0;
        return;
    }
    int i = dvt_scope_find(s, h.serial);
    if (i < 0 || (s->frames[i].flags & DVT_F_CLOSING)) {
        dvt_scope_count_missing(s, h.serial);
        return;
    }
    dvt_scope_note_order(s, (uint32_t)i);
    finish(s, (uint32_t)i, always);
}

void dvt_scope_note_order(struct dvt_slot *s, uint32_t i)
{
    if (i + 1 == dvt_depth(s))
        return;
    dvt_count(&s->n.misuse_order);
    s->frames[i].flags |= DVT_SCOPE_OUT_OF_ORDER;
}

void dvt_scope_close_remote(struct dvt_scope h, bool always, const struct dvt_name *name)
{
    struct dvt_slot *s = h.thread;
    if (!dvt_slot_is_live(s) || (h.serial & DVT_SERIAL_OVERFLOW)) {
        dvt_scope_count_stale();
        return;
    }
    for (size_t k = 0; k < DVT_REMOTE_CLOSES; k++) {
        struct dvt_remote_close *r = &s->remote[k];
        uint32_t is_free = 0;
        if (!atomic_compare_exchange_strong_explicit(&r->state, &is_free, 1, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        r->always = always;
        r->name = name;
        r->serial = h.serial;
        r->end_ns = dvt_now_ns();
        atomic_store_explicit(&r->state, 2, memory_order_release); /* pairs with dvt_scope_take_remote */
        atomic_fetch_add_explicit(&s->remote_pending, 1, memory_order_release);
        return;
    }
    dvt_scope_count_stale();
}

static void take_one(struct dvt_slot *s, const struct dvt_remote_close *r)
{
    int i = dvt_scope_find(s, r->serial);
    if (i < 0 || (s->frames[i].flags & DVT_F_CLOSING)) {
        dvt_scope_count_missing(s, r->serial);
        return;
    }
    struct dvt_frame *f = &s->frames[i];
    dvt_count(&s->n.misuse_thread);
    f->flags |= DVT_SCOPE_CROSS_THREAD;
    f->name = r->name ? r->name : f->name;
    if (!dvt_scope_decide(s, f, r->always)) {
        dvt_scope_drop(s, (uint32_t)i);
        return;
    }
    f->end = r->end_ns;
    dvt_scope_keep(s, (uint32_t)i, NULL);
}

void dvt_scope_take_remote(struct dvt_slot *s)
{
    if (!atomic_load_explicit(&s->remote_pending, memory_order_relaxed))
        return;
    if (dvt_slot_is_void(s)) { /* the mark goes last: drain.c looks at it before it looks at root_head */
        give_up(s);
        atomic_fetch_and_explicit(&s->remote_pending, ~DVT_REMOTE_VOID, memory_order_release);
    }
    for (size_t k = 0; k < DVT_REMOTE_CLOSES; k++) {
        struct dvt_remote_close *r = &s->remote[k];
        if (atomic_load_explicit(&r->state, memory_order_acquire) != 2)
            continue;
        take_one(s, r);
        atomic_store_explicit(&r->state, 0, memory_order_release); /* pairs with the closers' exchange */
        atomic_fetch_sub_explicit(&s->remote_pending, 1, memory_order_relaxed);
    }
}

void dvt_scope_close_all(struct dvt_slot *s)
{
    dvt_scope_take_remote(s);
    for (uint32_t depth; (depth = dvt_depth(s)) > 0;)
        if (s->frames[depth - 1].flags & DVT_F_CLOSING) /* a runtime did not come to commit it */
            dvt_scope_keep(s, depth - 1, NULL);
        else
            finish(s, depth - 1, false);
}
