/*
 * drain: see drain.h.
 *
 * settled_head of a thread, and why it is right. The sender loads, in this order: data_head (h), the
 * outermost open scope's head_open (root), the ring's end. It then claims: every scope with a sample at or
 * before min(h, root) is in what is sent up to that end. A scope closed before root was loaded has published
 * its record before it changed root (release; our load acquires), so the record lies before the end. A scope
 * open then lies within the root scope: its samples are after root. A scope opened later: were its head_open
 * below h, then its thread had stored OPENING before the sample that made h (the sample is an interrupt of
 * that same thread), and we, having seen h, would have seen OPENING and claimed nothing new. Stacks and
 * announcements are read after the ring's end, so what a record in the ring depends on is sent before it.
 * While DVT_REMOTE_VOID is set nothing is open, whatever root says: the thread clears it before it opens a
 * scope, so the last argument holds with it in OPENING's place.
 */
#include "drain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arm.h"
#include "batch.h"
#include "control.h"
#include "names.h"
#include "push.h"
#include "stacks.h"
#include "tick.h"

enum {
    MAX_HELD = 10,              /* drains that scopes wait for stacks that the runtime cannot resolve */
    MAX_THREADS_BATCH = 256,
    MAX_DROPPED_BATCH = 1024,
    ARM_PATIENCE_NS = 1000000000, /* scopes of a thread whose arming is under way wait that long */
    SETTLED_MARGIN_NS = 1000000,  /* a store that another CPU has not seen yet is younger than this */
};

struct view { /* one look at a thread */
    uint64_t head, settled_head, settled_ns;
    uint64_t end;
};

static struct dvt_batch batch;
static struct dvt_buf body = {.max = DVT_MAX_MESSAGE};
static struct dvt_thread_info infos[MAX_THREADS_BATCH];
static char info_names[MAX_THREADS_BATCH][16];
static size_t n_infos;
static uint64_t lost_send;
static uint64_t dropped_by[DVT_MAX_NAMES + 1], dropped_since_ns;

/* ---- threads ---- */

/* What does not go now goes with the next; the daemon goes on without it. */
static void send_threads(void)
{
    if (n_infos && dvt_wire_put_threads(&body, infos, n_infos) == 0 && dvt_push_send(&body) == 0)
        n_infos = 0;
    body.n = 0;
}

static void read_thread_name(const struct dvt_slot *s, char out[16])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)s->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 15) : 0;
    if (fd >= 0)
        close(fd);
    if (n > 0)
        out[out[n - 1] == '\n' ? n - 1 : n] = 0;
    else
        memcpy(out, s->thread_name, 16); /* it has ended: its name at its first scope */
}

static void tell_thread(struct dvt_slot *s, bool ended)
{
    if (n_infos == MAX_THREADS_BATCH)
        send_threads();
    if (n_infos == MAX_THREADS_BATCH) /* told of at the next drain; an end the daemon sees itself */
        return;
    read_thread_name(s, info_names[n_infos]);
    infos[n_infos] = (struct dvt_thread_info){
        .tid = (uint32_t)s->tid,
        .epoch = dvt_slot_epoch(s),
        .name = dvt_str(info_names[n_infos]),
        .uncovered_ns = s->uncovered_ns,
        .armed_head = s->armed_head,
        .ended = ended,
    };
    n_infos++;
    s->known = true;
}

/* ---- times ---- */

/* Makes CLOCK_MONOTONIC of a record's times. What the daemon joins by its start as well is said to start
 * rather too late than too early: the sample before it is another's. */
static void set_times(struct dvt_slot *s, struct dvt_scope_entry *e)
{
    uint64_t err_ns;
    if (e->flags & DVT_F_TICKS) {
        e->start = dvt_tick_ns(e->start, &err_ns);
        e->start += e->flags & (DVT_SCOPE_LATE_ARMED | DVT_SCOPE_REARMED) ? err_ns : 0;
    }
    if (e->flags & DVT_F_END_TICKS) {
        e->end = dvt_tick_ns(e->end, &err_ns);
        if (e->end < s->last_end_ns && s->last_end_ns - e->end <= err_ns) /* converted with other knots */
            e->end = s->last_end_ns;
        s->last_end_ns = e->end;
    }
    e->end = e->end > e->start ? e->end : e->start;
}

static uint64_t root_start_ns(const struct dvt_slot *s, uint32_t root_epoch)
{
    uint64_t start = atomic_load_explicit(&s->root_start, memory_order_relaxed), err_ns;
    return root_epoch & DVT_EPOCH_TICKS ? dvt_tick_ns(start, &err_ns) : start;
}

/* ---- scopes ---- */

static struct view look(struct dvt_slot *s)
{
    struct view v = {.settled_head = s->settled_head, .settled_ns = s->settled_ns};
    uint64_t now = dvt_now_ns();
    const _Atomic uint64_t *head_ptr = atomic_load_explicit(&s->head_ptr, memory_order_acquire);
    v.head = atomic_load_explicit(head_ptr, memory_order_acquire);
    bool is_void = dvt_slot_is_void(s);
    uint64_t root = atomic_load_explicit(&s->root_head, memory_order_acquire);
    root = is_void ? DVT_ROOT_NONE : root;
    uint32_t root_epoch = atomic_load_explicit(&s->root_epoch, memory_order_relaxed);
    uint64_t root_ns = root < DVT_ROOT_OPENING ? root_start_ns(s, root_epoch) : 0;
    v.end = dvt_ring_end(&s->ring);
    root_epoch &= ~DVT_EPOCH_TICKS;
    if (root == DVT_ROOT_OPENING || (root != DVT_ROOT_NONE && root_epoch != dvt_slot_epoch(s)))
        return v; /* nothing new can be said */
    uint64_t head = root < v.head ? root : v.head;
    uint64_t ns = root != DVT_ROOT_NONE && root_ns < now ? root_ns : now;
    if (head > v.settled_head)
        v.settled_head = head;
    if (ns > v.settled_ns + SETTLED_MARGIN_NS)
        v.settled_ns = ns - SETTLED_MARGIN_NS;
    return v;
}

static void send_batch(struct dvt_slot *s, uint64_t settled_head, uint64_t settled_ns)
{
    int rc = dvt_wire_put_scopes(&body, (uint32_t)s->tid, dvt_slot_epoch(s), settled_head, settled_ns,
                                 batch.recs, batch.n);
    if (rc != 0 || dvt_push_send(&body) != 0)
        for (size_t i = 0; i < batch.n; i++)
            lost_send += !(batch.recs[i].flags & DVT_SCOPE_OPEN);
    body.n = 0;
    dvt_batch_clear(&batch);
}

static void add(struct dvt_slot *s, const struct dvt_scope_entry *e, const uint8_t *blob)
{
    if (dvt_batch_add(&batch, e, blob))
        return;
    send_batch(s, s->settled_head, s->settled_ns);
    dvt_batch_add(&batch, e, blob);
}

/* A scope that was kept only because its thread's arming was under way, in which no sample fell after all. */
static bool undo_keep(struct dvt_slot *s, const struct dvt_scope_entry *e)
{
    if (!s->armed_clean || !(e->flags & DVT_F_PENDING) || (e->flags & DVT_SCOPE_ALWAYS) ||
        e->head_close != e->head_open)
        return false;
    s->undone++;
    s->dropped++;
    dropped_by[e->name ? e->name->id : 0]++;
    return true;
}

static bool closes(const struct dvt_slot *s, uint64_t serial, uint64_t end)
{
    struct dvt_scope_entry e;
    uint64_t pos = dvt_ring_begin(&s->ring);
    uint32_t kind;
    for (const void *p; (p = dvt_ring_next(&s->ring, &pos, end, &kind));) {
        memcpy(&e, p, sizeof e);
        if ((e.flags & DVT_F_ANNOUNCED) && e.serial == serial)
            return true;
    }
    return false;
}

/* Announcements of scopes that are still open; one whose record is about to be sent says nothing new. */
static void send_announced(struct dvt_slot *s, uint64_t end)
{
    dvt_stacks_lock();
    for (size_t at = 0; at < s->announced.n;) {
        struct dvt_scope_entry e;
        memcpy(&e, s->announced.p + at, sizeof e);
        at += sizeof e;
        if (e.epoch == dvt_slot_epoch(s) && !closes(s, e.serial, end)) {
            set_times(s, &e);
            add(s, &e, s->announced.p + at);
        }
        at += e.blob_bytes;
    }
    if (batch.n)
        send_batch(s, s->settled_head, s->settled_ns);
    dvt_buf_fini(&s->announced); /* rare, and thousands of threads must not each keep one */
    dvt_stacks_unlock();
}

static void send_records(struct dvt_slot *s, const struct view *v)
{
    uint64_t pos = dvt_ring_begin(&s->ring);
    uint32_t kind;
    for (const uint8_t *p; (p = dvt_ring_next(&s->ring, &pos, v->end, &kind));) {
        struct dvt_scope_entry e;
        memcpy(&e, p, sizeof e);
        if (e.epoch != dvt_slot_epoch(s)) {
            lost_send++; /* its daemon is gone */
            continue;
        }
        if (undo_keep(s, &e))
            continue;
        if (e.flags & DVT_F_PENDING) /* joined by time: an upper bound */
            e.head_close = s->armed_head > v->head ? s->armed_head : v->head;
        set_times(s, &e);
        add(s, &e, p + sizeof e);
    }
    if (batch.n || v->settled_head > s->settled_head)
        send_batch(s, v->settled_head, v->settled_ns);
    s->settled_head = v->settled_head;
    s->settled_ns = v->settled_ns;
    dvt_ring_release(&s->ring, pos);
    atomic_store_explicit(&s->wake_sent, 0, memory_order_relaxed);
}

static bool arming_is_overdue(const struct dvt_slot *s)
{
    return s->arm_sent_ns && dvt_now_ns() - s->arm_sent_ns > ARM_PATIENCE_NS;
}

/* Whether the thread's scopes must wait: for its arming, or for its stacks. */
static bool must_hold(struct dvt_slot *s, enum dvt_drain_mode mode, bool stacks_wait)
{
    bool arming = atomic_load_explicit(&s->arm_state, memory_order_acquire) == DVT_ARM_SENT;
    if (arming && s->arm_sent_ns == 0)
        s->arm_sent_ns = dvt_now_ns();
    if (mode != DVT_DRAIN_NORMAL || dvt_ring_used(&s->ring) > DVT_RING_BYTES / 4)
        return false;
    if (arming)
        return !arming_is_overdue(s);
    s->held = stacks_wait ? s->held + 1 : 0;
    return stacks_wait && s->held < MAX_HELD;
}

static void drain_scopes(struct dvt_slot *s, enum dvt_drain_mode mode)
{
    struct view v = look(s);
    bool stacks_wait = dvt_stacks_take(s) != 0;
    if (must_hold(s, mode, stacks_wait))
        return;
    uint32_t arm = atomic_load_explicit(&s->arm_state, memory_order_acquire);
    if (!s->known && (arm == DVT_ARM_ARMED || arm == DVT_ARM_FAILED))
        tell_thread(s, false);
    bool nothing =
        v.end == dvt_ring_begin(&s->ring) && v.settled_head == s->settled_head && s->announced.n == 0;
    if (nothing)
        return;
    send_threads();
    dvt_stacks_send();
    send_announced(s, v.end);
    send_records(s, &v);
}

/* ---- ended threads ---- */

static void discard(struct dvt_slot *s)
{
    uint64_t pos = dvt_ring_begin(&s->ring), end = dvt_ring_end(&s->ring);
    uint32_t kind;
    while (dvt_ring_next(&s->ring, &pos, end, &kind))
        lost_send++;
    dvt_ring_release(&s->ring, pos);
    dvt_stacks_lock();
    dvt_ring_release(&s->stacks, dvt_ring_end(&s->stacks));
    dvt_buf_fini(&s->announced);
    dvt_stacks_unlock();
}

static void retire(struct dvt_slot *s, bool tell)
{
    uint32_t arm = atomic_load_explicit(&s->arm_state, memory_order_acquire);
    if (arm != DVT_ARM_ARMED && s->cpu_end_ns > s->cpu_first_ns) /* never sampled: all of it */
        dvt_arm_add_uncovered(s, s->cpu_end_ns - s->cpu_first_ns);
    discard(s);
    if (tell) {
        tell_thread(s, true);
        dvt_control_disarm(s);
    }
    dvt_arm_release(s);
    dvt_slot_free(s);
}

static bool is_empty(const struct dvt_slot *s)
{
    return dvt_ring_end(&s->ring) == dvt_ring_begin(&s->ring) &&
           dvt_ring_end(&s->stacks) == dvt_ring_begin(&s->stacks);
}

/* Whether an ended thread's slot can be taken back. Its last records may still wait for its arming. */
static bool is_over(const struct dvt_slot *s, enum dvt_drain_mode mode)
{
    bool arming = atomic_load_explicit(&s->arm_state, memory_order_acquire) == DVT_ARM_SENT;
    if (mode == DVT_DRAIN_ABSENT || mode == DVT_DRAIN_FINAL)
        return true;
    return is_empty(s) && (!arming || arming_is_overdue(s));
}

static void drain_one(struct dvt_slot *s, enum dvt_drain_mode mode)
{
    /* Before its last records are read. */
    bool ended = atomic_load_explicit(&s->state, memory_order_acquire) == DVT_SLOT_ENDED;
    bool daemon = mode == DVT_DRAIN_NORMAL || mode == DVT_DRAIN_FINAL;
    if (daemon)
        drain_scopes(s, mode);
    if (ended && is_over(s, mode))
        retire(s, daemon);
}

bool dvt_drain_waits_for_arming(void)
{
    for (const struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_ours(s) &&
            atomic_load_explicit(&s->arm_state, memory_order_acquire) == DVT_ARM_SENT && !is_empty(s))
            return true;
    return false;
}

void dvt_drain(enum dvt_drain_mode mode)
{
    dvt_tick_sync();
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_ours(s) && atomic_load_explicit(&s->state, memory_order_acquire) != DVT_SLOT_FREE)
            drain_one(s, mode);
    if (mode == DVT_DRAIN_NORMAL || mode == DVT_DRAIN_FINAL) {
        send_threads();
        dvt_stacks_send();
    }
}

/* ---- counts ---- */

static void collect_dropped(struct dvt_slot *s, uint32_t n_names)
{
    uint64_t serial = atomic_load_explicit(&s->serial, memory_order_relaxed);
    uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    if (serial == s->seen_serial)
        return;
    for (uint32_t id = 0; id <= n_names; id++) {
        uint32_t now = atomic_load_explicit(&s->dropped_by[id], memory_order_relaxed);
        uint32_t more = now - s->dropped_seen[id];
        dropped_by[id] += more;
        s->dropped += more;
        s->dropped_seen[id] = now;
    }
    s->seen_serial = depth ? s->seen_serial : serial; /* what is open may yet be dropped */
}

/* Puts the next dropped counts into v and clears them; *id goes on. */
static size_t next_dropped(struct dvt_dropped *v, uint32_t *id, uint32_t n_names)
{
    size_t n = 0;
    for (; *id <= n_names && n < MAX_DROPPED_BATCH; (*id)++) {
        if (!dropped_by[*id])
            continue;
        v[n++] = (struct dvt_dropped){dvt_name_text(*id), dropped_by[*id]};
        dropped_by[*id] = 0;
    }
    return n;
}

void dvt_drain_dropped(void)
{
    static struct dvt_dropped v[MAX_DROPPED_BATCH];
    uint32_t n_names = dvt_name_count(), id = 0;
    uint64_t now = dvt_now_ns();
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_ours(s))
            collect_dropped(s, n_names);
    for (size_t n; (n = next_dropped(v, &id, n_names)) > 0;) {
        if (dvt_wire_put_dropped(&body, v, n, dropped_since_ns, now) == 0)
            (void)dvt_push_send(&body); /* the totals in the heartbeat still show them */
        body.n = 0;
    }
    dropped_since_ns = now;
}

void dvt_drain_counts(struct dvt_shim_counts *ret)
{
    *ret = (struct dvt_shim_counts){.lost_send = lost_send};
    dvt_slot_sum(ret);
    dvt_arm_count(ret);
    dvt_stacks_count(ret);
}

void dvt_drain_new_session(uint64_t now_ns)
{
    n_infos = 0;
    dropped_since_ns = now_ns;
    dvt_stacks_new_session();
}

void dvt_drain_after_fork_child(void)
{
    dvt_batch_clear(&batch);
    body.n = n_infos = 0;
    lost_send = 0;
    memset(dropped_by, 0, sizeof dropped_by);
    dropped_since_ns = dvt_now_ns();
    dvt_arm_after_fork_child();
}
