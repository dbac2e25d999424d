/*
 * handler: see handler.h. Why SIGURG: its default action is to be ignored, so nothing dies before the handler
 * is there or after an exec; SIGPROF and real-time signals kill.
 */
#include "handler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "arena.h"
#include "scope.h"
#include "sender.h"

enum { FDS = 1 << 16 };

static _Atomic uint64_t period_ns;
static _Atomic uint32_t jitter_permille;
static const struct dvt_runtime *_Atomic runtime;
static _Atomic uint64_t own_fds[FDS / 64];
/* The application's handler: written to the other place, then published, so that the handler never reads one
 * in change. */
static struct sigaction chained[2];
static _Atomic uint32_t chained_at;
static __thread int chain_depth __attribute__((tls_model("initial-exec")));

void dvt_handler_configure(uint64_t period, uint32_t jitter, const struct dvt_runtime *rt)
{
    atomic_store_explicit(&period_ns, period, memory_order_relaxed);
    atomic_store_explicit(&jitter_permille, jitter < 1000 ? jitter : 1000, memory_order_relaxed);
    atomic_store_explicit(&runtime, rt, memory_order_release); /* pairs with take_stack */
}

void dvt_handler_own_fd(int fd, bool ours)
{
    if (fd < 0 || fd >= FDS)
        return;
    uint64_t bit = UINT64_C(1) << (fd % 64);
    if (ours)
        atomic_fetch_or_explicit(&own_fds[fd / 64], bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&own_fds[fd / 64], ~bit, memory_order_relaxed);
}

static bool fd_is_ours(int fd)
{
    return fd >= 0 && fd < FDS &&
           (atomic_load_explicit(&own_fds[fd / 64], memory_order_relaxed) >> (fd % 64) & 1);
}

/* ---- period ---- */

void dvt_handler_next_period(struct dvt_slot *s, int fd)
{
    uint64_t mean = atomic_load_explicit(&period_ns, memory_order_relaxed);
    if (!mean)
        return;
    /* xorshift64 (Marsaglia 2003) */
    uint64_t x = atomic_load_explicit(&s->handler_rng, memory_order_relaxed);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    atomic_store_explicit(&s->handler_rng, x, memory_order_relaxed);
    struct dvt_plan plan = {atomic_load_explicit(&s->plan_ns, memory_order_relaxed),
                            atomic_load_explicit(&s->due_ns, memory_order_relaxed),
                            atomic_load_explicit(&s->late_ns, memory_order_relaxed)};
    uint64_t period = dvt_plan_next(&plan, dvt_clock_ns(s->cpu_clock), mean,
                                    atomic_load_explicit(&jitter_permille, memory_order_relaxed), x);
    atomic_store_explicit(&s->plan_ns, plan.next_ns, memory_order_relaxed);
    atomic_store_explicit(&s->due_ns, plan.due_ns, memory_order_relaxed);
    atomic_store_explicit(&s->late_ns, plan.late_ns, memory_order_relaxed);
    /* A failure leaves the old period. If the sender has just closed the descriptor and it is now another
     * file's, the request is unknown there. */
    (void)ioctl(fd, PERF_EVENT_IOC_PERIOD, &period);
}

/* ---- one sample ---- */

/* Only a scope with a sample inside: the signal comes some microseconds after its sample, and a scope opened
 * in between may yet be dropped, but one that was announced must be told again when it closes. */
static void announce(struct dvt_slot *s, uint32_t i, uint64_t head, uint64_t now_ns, uint32_t epoch)
{
    struct dvt_frame *f = &s->frames[i];
    uint64_t head_open = f->epoch == epoch ? f->head_open : 0;
    struct dvt_str region = dvt_arena_region(s, i);
    struct dvt_scope_entry e;
    if ((f->flags & (DVT_F_ANNOUNCED | DVT_F_CLOSING)) || head <= head_open)
        return;
    uint8_t *p = dvt_ring_reserve(&s->stacks, (uint32_t)(sizeof e + region.n), DVT_ENTRY_SCOPE);
    if (!p)
        return; /* at the next sample */
    dvt_scope_fill_entry(f, (uint32_t)region.n, &e);
    e.flags = (f->flags & ~(uint32_t)DVT_F_INTERNAL) | (f->flags & DVT_F_TICKS) | DVT_SCOPE_OPEN;
    e.flags |= f->epoch != epoch ? DVT_SCOPE_REARMED : 0;
    e.flags |= dvt_scope_is_late_armed(s, f) ? DVT_SCOPE_LATE_ARMED : 0;
    e.head_open = head_open;
    e.epoch = epoch;
    e.head_close = head;
    e.end = now_ns;
    memcpy(p, &e, sizeof e);
    memcpy(p + sizeof e, region.p, region.n);
    dvt_ring_commit(&s->stacks);
    f->flags |= DVT_F_ANNOUNCED;
}

/* The signal comes some microseconds after its sample, whose record is the ring's last. Whether another scope has become the
 * innermost in between: what the thread does now is then not what the sample's scope did. */
static bool is_late(const struct dvt_slot *s, uint64_t head, uint32_t epoch)
{
    if (atomic_load_explicit(&s->left_head, memory_order_relaxed) == head &&
        atomic_load_explicit(&s->left_epoch, memory_order_relaxed) == epoch)
        return true;
    uint32_t depth = atomic_load_explicit(&s->depth, memory_order_acquire);
    if (depth == 0 || atomic_load_explicit(&s->busy, memory_order_relaxed))
        return false;
    const struct dvt_frame *f = &s->frames[depth - 1];
    return f->epoch == epoch && f->head_open >= head;
}

/* Without a walker the record holds no frames: it tells the daemon that all scopes open at this sample are
 * announced. */
static void take_stack(struct dvt_slot *s, uint64_t head, uint64_t now_ns, uint32_t epoch, void *context)
{
    const struct dvt_runtime *rt = atomic_load_explicit(&runtime, memory_order_acquire);
    struct dvt_stack_entry e = {.head = head, .time_ns = now_ns, .epoch = epoch};
    size_t frame = sizeof(struct dvt_rt_frame);
    bool truncated = false, walks = rt && rt->walk;
    int max = walks ? DVT_MAX_FRAMES : 0;
    uint8_t *p = dvt_ring_reserve(&s->stacks, (uint32_t)(sizeof e + (size_t)max * frame), DVT_ENTRY_STACK);
    if (!p) {
        dvt_count(&s->n.stacks_lost);
        return;
    }
    int n = -DVT_STACK_NO_THREAD_STATE;
    if (walks && is_late(s, head, epoch))
        n = -DVT_STACK_LATE;
    else if (walks)
        n = rt->walk(context, (struct dvt_rt_frame *)(void *)(p + sizeof e), max, &truncated);
    e.reason = n < 0 ? -n : 0;
    e.n_frames = n > 0 ? (uint32_t)n : 0;
    e.truncated = truncated;
    memcpy(p, &e, sizeof e);
    dvt_ring_shrink(&s->stacks, (uint32_t)(sizeof e + e.n_frames * frame));
    dvt_ring_commit(&s->stacks);
    if (dvt_ring_used(&s->stacks) > DVT_HANDLER_RING_BYTES / 4)
        dvt_sender_wake(); /* a write to an eventfd: allowed here */
}

static void sampled(struct dvt_slot *s, int fd, void *context)
{
    bool stable;
    uint32_t word;
    uint64_t head = dvt_read_head(s, &word, &stable);
    dvt_count(&s->n.signals);
    dvt_handler_next_period(s, fd);
    if (!stable || head == 0)
        return;
    uint64_t now_ns = dvt_now_ns();
    uint32_t depth = atomic_load_explicit(&s->depth, memory_order_acquire), epoch = word & ~DVT_EPOCH_PENDING;
    if (!atomic_load_explicit(&s->busy, memory_order_relaxed) && !dvt_slot_is_void(s))
        for (uint32_t i = 0; i < depth; i++)
            announce(s, i, head, now_ns, epoch);
    take_stack(s, head, now_ns, epoch, context);
}

/* ---- the signal ---- */

static void chain(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *old = &chained[atomic_load_explicit(&chained_at, memory_order_acquire)];
    if (chain_depth || old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)
        return; /* chain_depth: the application's handler calls the one it replaced, which is this */
    chain_depth++;
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(sig, info, context);
    else
        old->sa_handler(sig);
    chain_depth--;
}

static void on_sigurg(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    struct dvt_slot *s = dvt_tls_slot;
    bool ours = info->si_code > 0 && fd_is_ours(info->si_fd); /* POLL_*: from F_SETSIG */
    if (ours && s && atomic_load_explicit(&s->fd, memory_order_acquire) == info->si_fd)
        sampled(s, info->si_fd, context);
    else if (!ours)
        chain(sig, info, context);
    errno = saved;
}

void dvt_handler_install(void)
{
    struct sigaction now, mine = {.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK};
    if (sigaction(SIGURG, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigurg))
        return;
    uint32_t other = !atomic_load_explicit(&chained_at, memory_order_relaxed);
    chained[other] = now;
    atomic_store_explicit(&chained_at, other, memory_order_release); /* pairs with chain */
    mine.sa_sigaction = on_sigurg;
    sigemptyset(&mine.sa_mask);
    (void)sigaction(SIGURG, &mine, NULL); /* cannot fail for SIGURG and a valid struct */
}
