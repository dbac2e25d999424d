/*
 * slot: making, reusing and counting thread slots. See slot.h.
 *
 * The list of all slots only grows (head published with release, read with acquire); the free list is under a
 * mutex, taken once in a thread's life. After a fork the child takes the parent's slots again one by one,
 * resetting each when it does, so that forking a process with thousands of threads copies no pages.
 */
#include "slot.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "scope.h"
#include "sender.h"

__thread struct dvt_slot *dvt_tls_slot __attribute__((tls_model("initial-exec")));
const _Atomic uint64_t dvt_zero_word;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dvt_slot *_Atomic all;  /* under lock for writing */
static struct dvt_slot *free_list;    /* under lock */
static struct dvt_slot *from_parent;  /* under lock: rest of the parent's slots, not yet taken again */
static _Atomic uint32_t generation;
static _Atomic uint32_t next_epoch;
static _Atomic uint64_t threads_started, threads_ended;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_is_made;

uint32_t dvt_slot_next_epoch(void)
{
    return (atomic_fetch_add_explicit(&next_epoch, 1, memory_order_relaxed) + 1) & ~DVT_EPOCH_PENDING;
}

/* ---- a thread's end ---- */

static void thread_ended(void *p)
{
    struct dvt_slot *s = p;
    if (!dvt_slot_is_live(s))
        return;
    dvt_scope_close_all(s);
    s->cpu_end_ns = dvt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    dvt_tls_slot = NULL;
    atomic_fetch_add_explicit(&threads_ended, 1, memory_order_relaxed);
    atomic_store_explicit(&s->state, DVT_SLOT_ENDED, memory_order_release); /* pairs with drain.c */
}

static void make_key(void)
{
    key_is_made = pthread_key_create(&key, thread_ended) == 0;
}

/* ---- taking ---- */

static void init_rings(struct dvt_slot *s)
{
    uint8_t *rings = dvt_slot_arena(s) + DVT_ARENA_BYTES;
    dvt_ring_init(&s->ring, rings, DVT_RING_BYTES, DVT_RING_SOFT);
    dvt_ring_init(&s->stacks, rings + DVT_RING_BYTES, DVT_HANDLER_RING_BYTES, DVT_HANDLER_RING_SOFT);
}

static struct dvt_slot *map_slot(void)
{
    size_t bytes = sizeof(struct dvt_slot) + DVT_ARENA_BYTES + DVT_RING_BYTES + DVT_HANDLER_RING_BYTES;
    struct dvt_slot *s =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s == MAP_FAILED)
        return NULL;
    /* Huge pages would touch 2 MiB for a thread that uses 12 KiB. Refusal only costs memory. */
    madvise(s, bytes, MADV_NOHUGEPAGE);
    atomic_store_explicit(&s->head_ptr, &dvt_zero_word, memory_order_relaxed);
    atomic_store_explicit(&s->fd, -1, memory_order_relaxed);
    init_rings(s);
    return s;
}

/* Makes a slot of the parent's the child's own: only serials go on. */
static void reset_from_parent(struct dvt_slot *s)
{
    struct dvt_slot_counts zero = {0};
    s->n = zero;
    init_rings(s);
    s->announced.n = 0;
    s->map = NULL; /* perf mappings are not inherited: the address may be another's by now */
    s->map_bytes = 0;
    s->dropped = s->undone = 0;
    s->serial_base = s->seen_serial = atomic_load_explicit(&s->serial, memory_order_relaxed);
    memset(s->remote, 0, sizeof s->remote);
    atomic_store_explicit(&s->remote_pending, 0, memory_order_relaxed);
    memset((void *)s->dropped_by, 0, sizeof s->dropped_by);
    memset(s->dropped_seen, 0, sizeof s->dropped_seen);
}

static struct dvt_slot *pop_free(uint32_t now)
{
    struct dvt_slot *s = free_list;
    if (s) {
        free_list = s->free_next;
        return s;
    }
    if (from_parent) {
        s = from_parent;
        from_parent = s->all_next;
        reset_from_parent(s);
        atomic_store_explicit(&s->generation, now, memory_order_relaxed);
        return s;
    }
    if (!(s = map_slot()))
        return NULL;
    atomic_store_explicit(&s->generation, now, memory_order_relaxed);
    s->all_next = atomic_load_explicit(&all, memory_order_relaxed);
    atomic_store_explicit(&all, s, memory_order_release); /* pairs with dvt_slot_first */
    return s;
}

static void seed(struct dvt_slot *s)
{
    uint64_t r[4];
    if (getrandom(r, sizeof r, GRND_NONBLOCK) != sizeof r)
        for (size_t i = 0; i < 4; i++)
            r[i] = (dvt_now_ns() + i) * 0x9e3779b97f4a7c15u ^ (uint64_t)s->tid << 32 ^
                   (uint64_t)(uintptr_t)&r[i];
    memcpy(s->id_base, r, sizeof s->id_base);
    s->id_base[1] |= 1; /* so that no trace id is zero */
    atomic_store_explicit(&s->handler_rng, r[3] | 1, memory_order_relaxed);
}

static void init_for_thread(struct dvt_slot *s)
{
    s->tid = gettid();
    /* CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED, posix-timers.h */
    s->cpu_clock = (clockid_t)(~(unsigned)s->tid << 3 | 6);
    s->cpu_first_ns = dvt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    s->cpu_end_ns = 0;
    if (prctl(PR_GET_NAME, s->thread_name) != 0)
        s->thread_name[0] = 0;
    seed(s);
    s->arena_top = s->overflow = s->held = 0;
    s->known = s->armed_clean = false;
    s->settled_head = s->settled_ns = s->last_end_ns = s->uncovered_ns = s->arm_sent_ns = s->armed_head = 0;
    atomic_store_explicit(&s->head_ptr, &dvt_zero_word, memory_order_relaxed);
    atomic_store_explicit(&s->epoch_word, dvt_slot_next_epoch(), memory_order_relaxed);
    atomic_store_explicit(&s->armed_ns, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&s->armed_ticks, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&s->depth, 0, memory_order_relaxed);
    atomic_store_explicit(&s->busy, 0, memory_order_relaxed);
    atomic_store_explicit(&s->wake_sent, 0, memory_order_relaxed);
    atomic_store_explicit(&s->fd, -1, memory_order_relaxed);
    atomic_store_explicit(&s->root_head, DVT_ROOT_NONE, memory_order_relaxed);
    atomic_store_explicit(&s->arm_state, DVT_ARM_NONE, memory_order_relaxed);
    atomic_store_explicit(&s->state, DVT_SLOT_LIVE, memory_order_release); /* pairs with drain.c */
}

static struct dvt_slot *take(void)
{
    pthread_once(&key_once, make_key);
    if (!key_is_made)
        return NULL;
    pthread_mutex_lock(&lock);
    struct dvt_slot *s = pop_free(atomic_load_explicit(&generation, memory_order_relaxed));
    pthread_mutex_unlock(&lock);
    if (!s)
        return NULL;
    init_for_thread(s);
    pthread_setspecific(key, s); /* without it the thread's end is not noticed: its slot is then not reused */
    atomic_fetch_add_explicit(&threads_started, 1, memory_order_relaxed);
    dvt_tls_slot = s;
    return s;
}

struct dvt_slot *dvt_slot_take(void)
{
    int saved = errno;
    struct dvt_slot *s = take();
    if (s)
        dvt_sender_new_thread(s);
    errno = saved;
    return s;
}

/* ---- for the sender ---- */

struct dvt_slot *dvt_slot_first(void)
{
    return atomic_load_explicit(&all, memory_order_acquire);
}

bool dvt_slot_is_ours(const struct dvt_slot *s)
{
    return atomic_load_explicit(&s->generation, memory_order_relaxed) ==
           atomic_load_explicit(&generation, memory_order_relaxed);
}

bool dvt_slot_is_live(const struct dvt_slot *s)
{
    return dvt_slot_is_ours(s) && atomic_load_explicit(&s->state, memory_order_acquire) == DVT_SLOT_LIVE;
}

void dvt_slot_begin_anew(void)
{
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next) {
        if (!dvt_slot_is_live(s))
            continue;
        uint64_t now = dvt_clock_ns(s->cpu_clock);
        s->cpu_first_ns = now ? now : s->cpu_first_ns;
        if (atomic_load_explicit(&s->depth, memory_order_relaxed) > 0)
            atomic_fetch_or_explicit(&s->remote_pending, DVT_REMOTE_VOID, memory_order_relaxed);
    }
}

void dvt_slot_free(struct dvt_slot *s)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&s->state, DVT_SLOT_FREE, memory_order_relaxed);
    s->free_next = free_list;
    free_list = s;
    pthread_mutex_unlock(&lock);
}

static void add_slot(struct dvt_shim_counts *sum, const struct dvt_slot *s)
{
    const struct dvt_slot_counts *n = &s->n;
    uint64_t kept = atomic_load_explicit(&n->kept, memory_order_relaxed) - s->undone;
    uint64_t lost = atomic_load_explicit(&n->lost_ring, memory_order_relaxed);
    sum->kept += kept;
    sum->dropped += s->dropped;
    sum->lost_ring += lost;
    sum->closed += kept + s->dropped + lost;
    sum->opened += atomic_load_explicit(&s->serial, memory_order_relaxed) - s->serial_base;
    sum->misuse_order += atomic_load_explicit(&n->misuse_order, memory_order_relaxed);
    sum->misuse_thread += atomic_load_explicit(&n->misuse_thread, memory_order_relaxed);
    sum->misuse_depth += atomic_load_explicit(&n->misuse_depth, memory_order_relaxed);
    sum->misuse_stale += atomic_load_explicit(&n->misuse_stale, memory_order_relaxed);
    sum->signals += atomic_load_explicit(&n->signals, memory_order_relaxed);
    sum->stacks_lost += atomic_load_explicit(&n->stacks_lost, memory_order_relaxed);
    sum->labels_cut += atomic_load_explicit(&n->labels_cut, memory_order_relaxed);
    sum->traceparents_bad += atomic_load_explicit(&n->traceparents_bad, memory_order_relaxed);
    sum->names_over += atomic_load_explicit(&n->names_over, memory_order_relaxed);
}

void dvt_slot_sum(struct dvt_shim_counts *sum)
{
    for (const struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_ours(s))
            add_slot(sum, s);
    sum->misuse_stale += atomic_load_explicit(&dvt_stale_elsewhere, memory_order_relaxed);
    sum->threads_started = atomic_load_explicit(&threads_started, memory_order_relaxed);
    sum->threads_ended = atomic_load_explicit(&threads_ended, memory_order_relaxed);
}

/* ---- fork ---- */

void dvt_slot_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void dvt_slot_after_fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

void dvt_slot_after_fork_child(void)
{
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next) {
        int fd = atomic_load_explicit(&s->fd, memory_order_relaxed);
        if (fd >= 0 && dvt_slot_is_ours(s))
            close(fd);
    }
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    free_list = NULL;
    from_parent = dvt_slot_first();
    atomic_store_explicit(&threads_started, 0, memory_order_relaxed);
    atomic_store_explicit(&threads_ended, 0, memory_order_relaxed);
    atomic_store_explicit(&dvt_stale_elsewhere, 0, memory_order_relaxed);
    if (dvt_tls_slot)
        pthread_setspecific(key, NULL);
    dvt_tls_slot = NULL;
    pthread_mutex_unlock(&lock);
}
