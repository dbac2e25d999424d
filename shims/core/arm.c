/*
 * arm: see arm.h. Publication order (read by dvt_read_head): pending epoch, ring pointer, epoch without
 * pending; and back: the zero word, then the next epoch.
 */
#include "arm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control.h"
#include "handler.h"
#include "tick.h"

enum {
    PERF_DATA_HEAD = 1024, /* offset of data_head: linux/perf_event.h, struct perf_event_mmap_page */
    MAX_MAP_BYTES = 64 << 20,
    ARMED_MARGIN_NS = 10000,
    ARMED_MARGIN_TICKS = 1 << 15,
};

static uint64_t threads_unarmed, uncovered_ns;

void dvt_arm_add_uncovered(struct dvt_slot *s, uint64_t ns)
{
    s->uncovered_ns += ns;
    uncovered_ns += ns;
}

void dvt_arm_count(struct dvt_shim_counts *sum)
{
    sum->threads_unarmed = threads_unarmed;
    sum->uncovered_ns = uncovered_ns;
}

void dvt_arm_after_fork_child(void)
{
    threads_unarmed = uncovered_ns = 0;
}

static void refuse(struct dvt_slot *s)
{
    threads_unarmed++;
    atomic_store_explicit(&s->epoch_word, dvt_slot_epoch(s), memory_order_release);
    atomic_store_explicit(&s->arm_state, DVT_ARM_FAILED, memory_order_release);
}

/* At the address of the thread's last ring if it had one of this size: replaced in place, no reader can trip.
 * An old one of another size is left as it is, one empty page. */
static int map_ring(struct dvt_slot *s, int fd, uint32_t bytes)
{
    bool same = s->map && s->map_bytes == bytes;
    if (bytes <= PERF_DATA_HEAD + 8 || bytes > MAX_MAP_BYTES)
        return DVT_EFORMAT;
    void *p = mmap(same ? s->map : NULL, bytes, PROT_READ, MAP_SHARED | (same ? MAP_FIXED : 0), fd, 0);
    if (p == MAP_FAILED)
        return DVT_EIO;
    s->map = p;
    s->map_bytes = bytes;
    return 0;
}

/* The thread's CPU time when the event was opened: an event that counts time counts its thread's CPU ns from
 * then on. A thread that has ended left its last clock in cpu_end_ns. 0 if it cannot be told. */
static uint64_t opened_cpu_ns(const struct dvt_slot *s, int fd)
{
    uint64_t values[2]; /* count; lost records where the daemon asked for them */
    uint64_t cpu = dvt_clock_ns(s->cpu_clock);
    if (atomic_load_explicit(&s->state, memory_order_acquire) != DVT_SLOT_LIVE || cpu == 0)
        cpu = s->cpu_end_ns;
    if (read(fd, values, sizeof values) < (ssize_t)sizeof values[0] || cpu < values[0])
        return 0;
    return cpu - values[0];
}

/* For events that count time: what the event did not see, and where its first stratum ends. */
static void start_plan(struct dvt_slot *s, int fd, uint64_t period_ns)
{
    uint64_t opened = opened_cpu_ns(s, fd);
    if (opened > s->cpu_first_ns)
        dvt_arm_add_uncovered(s, opened - s->cpu_first_ns);
    atomic_store_explicit(&s->plan_ns, opened ? opened + period_ns : 0, memory_order_relaxed);
}

static int arm_signal(int fd, pid_t tid)
{
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0 || fcntl(fd, F_SETSIG, SIGURG) != 0)
        return DVT_EIO;
    return fcntl(fd, F_SETFL, flags | O_ASYNC) == 0 ? 0 : DVT_EIO;
}

/* The time is read when the ring's pointer is there for all to see (an exchange, unlike a store, waits for
 * that): a scope that read its start sooner may have found none. The margin is more than a processor reads
 * ahead; scopes in it are told from samples before them by time too. */
static void set_head(struct dvt_slot *s, const _Atomic uint64_t *head)
{
    (void)atomic_exchange_explicit(&s->head_ptr, head, memory_order_seq_cst);
    atomic_store_explicit(&s->armed_ns, dvt_now_ns() + ARMED_MARGIN_NS, memory_order_release);
    atomic_store_explicit(&s->armed_ticks, dvt_tick_read() + ARMED_MARGIN_TICKS, memory_order_release);
}

static void publish(struct dvt_slot *s, int fd, const struct dvt_sampling *how)
{
    const _Atomic uint64_t *head = (const _Atomic uint64_t *)((const char *)s->map + PERF_DATA_HEAD);
    bool live = atomic_load_explicit(&s->state, memory_order_acquire) == DVT_SLOT_LIVE;
    atomic_store_explicit(&s->fd, fd, memory_order_release);
    dvt_handler_own_fd(fd, true);
    set_head(s, head);
    if (how->use_signal && live && arm_signal(fd, s->tid) == 0) {
        s->armed_head = atomic_load_explicit(head, memory_order_acquire);
        if (s->armed_head != 0) /* the first sample fell before there was a handler to do it */
            dvt_handler_next_period(s, fd);
    }
    if (!live) /* the daemon may have unmapped the ring, and ours be a new one: its head says nothing */
        s->armed_head = DVT_HEAD_UNKNOWN;
    atomic_store_explicit(&s->epoch_word, dvt_slot_epoch(s), memory_order_seq_cst);
    /* A scope that closed while pending read the head no later than here: if it is still 0, no sample fell in
     * any. */
    s->armed_clean = live && atomic_load_explicit(head, memory_order_seq_cst) == 0;
    atomic_store_explicit(&s->arm_state, DVT_ARM_ARMED, memory_order_release);
}

void dvt_arm_take(const struct dvt_armed *m, int fd, const struct dvt_sampling *how)
{
    struct dvt_slot *s = dvt_control_waiting(m->tid, m->epoch);
    if (s && m->code == 0 && fd >= 0 && map_ring(s, fd, m->map_bytes) == 0) {
        if (how->period_ns)
            start_plan(s, fd, how->period_ns);
        publish(s, fd, how);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (s)
        refuse(s);
}

bool dvt_arm_ask_all(void)
{
    bool more = false;
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next) {
        if (!dvt_slot_is_live(s) ||
            atomic_load_explicit(&s->arm_state, memory_order_acquire) != DVT_ARM_WANTED)
            continue;
        dvt_control_arm(s);
        more |= atomic_load_explicit(&s->arm_state, memory_order_acquire) == DVT_ARM_WANTED;
    }
    return more;
}

static void close_event(struct dvt_slot *s)
{
    int fd = atomic_exchange_explicit(&s->fd, -1, memory_order_acq_rel);
    if (fd < 0)
        return;
    dvt_handler_own_fd(fd, false);
    close(fd);
}

static void disarm_live(struct dvt_slot *s)
{
    atomic_store_explicit(&s->head_ptr, &dvt_zero_word, memory_order_release);
    atomic_store_explicit(&s->epoch_word, dvt_slot_next_epoch(), memory_order_release);
    atomic_store_explicit(&s->armed_ns, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&s->armed_ticks, UINT64_MAX, memory_order_relaxed);
    if (s->map) /* MAP_FIXED: the reader that still holds the pointer finds zeros */
        mmap(s->map, s->map_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    close_event(s);
    s->settled_head = s->arm_sent_ns = s->uncovered_ns = s->armed_head = 0;
    s->cpu_first_ns = dvt_clock_ns(s->cpu_clock);
    s->known = s->armed_clean = false;
    atomic_store_explicit(&s->arm_state, DVT_ARM_WANTED, memory_order_release);
}

void dvt_arm_hang_up(void)
{
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_live(s))
            disarm_live(s);
        else if (dvt_slot_is_ours(s) &&
                 atomic_load_explicit(&s->state, memory_order_acquire) == DVT_SLOT_ENDED)
            dvt_arm_release(s);
}

void dvt_arm_quiet(void)
{
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next) {
        int fd = atomic_load_explicit(&s->fd, memory_order_acquire);
        if (fd >= 0 && dvt_slot_is_ours(s)) /* a parent's event is not a child's to end */
            (void)ioctl(fd, PERF_EVENT_IOC_DISABLE, 0); /* the sender's own descriptor: cannot fail */
    }
}

void dvt_arm_release(struct dvt_slot *s)
{
    atomic_store_explicit(&s->head_ptr, &dvt_zero_word, memory_order_release);
    close_event(s);
    if (s->map)
        munmap(s->map, s->map_bytes);
    s->map = NULL;
    s->map_bytes = 0;
    atomic_store_explicit(&s->arm_state, DVT_ARM_NONE, memory_order_release);
}
