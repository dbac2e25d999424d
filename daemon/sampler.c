/*
 * sampler: see sampler.h.
 */
#include "sampler.h"
#include "feed.h"
#include "log.h"
#include "peer.h"
#include "perf_decode.h"
#include "perf_ring.h"
#include "switch_ring.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 4096, BATCH = 64, DRAIN_MIN_MS = 2, DRAIN_MAX_MS = 100 };
/* Of the rings of switches: 2,730 records in 64 KiB, drained so often that 100,000 switches a second find room. */
enum { SWITCH_DRAIN_MS = 10, SWITCH_PAGES = 16, SWITCH_PAGES_MANY = 2, SWITCH_ROOMY_THREADS = 128 };

struct armed {
    struct armed *next;             /* in its bucket */
    struct armed **prev_all, *next_all;
    struct sampler *sampler;
    struct process *proc;           /* a reference */
    struct thread_key key;
    uint32_t host_tid;
    int fd;
    struct perf_ring ring;
    struct switch_ring *switches;   /* NULL: not recorded */
    bool switches_lost;             /* since the last ones handed over */
    struct perf_layout layout;
    uint32_t holds;                 /* samples */
    uint64_t told_head;             /* of the last progress */
    uint64_t lost, told_lost;       /* records the kernel could not write */
};

struct sampler {
    struct sampler_config c;
    struct armed *buckets[BUCKETS]; /* by process and tid */
    struct armed *all;
    struct perf_budget budget;
    struct loop_timer *timer;
    uint32_t drain_ms;
    uint32_t n_without_switches; /* threads, so far, whose switches could not be recorded */
    uint32_t page_bytes;
    char note[240];
    uint8_t scratch[PERF_RING_SCRATCH];
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct armed **bucket_of(struct sampler *s, uint32_t process, uint32_t tid)
{
    uint32_t h = (process * 2654435761u) ^ (tid * 2246822519u);
    return &s->buckets[(h >> 8) % BUCKETS];
}

static struct armed *find(struct sampler *s, uint32_t process, uint32_t tid)
{
    struct armed *a = *bucket_of(s, process, tid);
    while (a && (a->key.process != process || a->key.tid != tid))
        a = a->next;
    return a;
}

static void link_armed(struct sampler *s, struct armed *a)
{
    struct armed **bucket = bucket_of(s, a->key.process, a->key.tid);
    a->next = *bucket;
    *bucket = a;
    a->next_all = s->all;
    a->prev_all = &s->all;
    if (s->all)
        s->all->prev_all = &a->next_all;
    s->all = a;
}

static void unlink_armed(struct sampler *s, struct armed *a)
{
    struct armed **at = bucket_of(s, a->key.process, a->key.tid);
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    *a->prev_all = a->next_all;
    if (a->next_all)
        a->next_all->prev_all = a->prev_all;
}

/* ---- draining ---- */

static void hand_sample(struct armed *a, struct sample *sample)
{
    struct feed *f = feed_new(FEED_SAMPLE);
    sample->thread = a->key;
    sample->end_off = a->ring.tail;
    if (f) {
        f->sample = sample;
        if (queue_push(a->sampler->c.out, f, sizeof *f + sample->bytes))
            return;
        feed_free(f);
    } else {
        free(sample);
    }
    edge_count(a->proc->edge.samples, 1);
    edge_count(a->proc->edge.lost_queue, 1);
    log_event(LOG_LEVEL_WARN, "SAMPLE-LOST", "pid=%u reason=queue-full", a->proc->host_pid);
}

static void take_record(struct armed *a, const uint8_t *rec, uint32_t n)
{
    enum perf_kind kind = PERF_KIND_OTHER;
    struct sample *sample = NULL;
    uint64_t lost = 0;
    int r = perf_decode(&a->layout, rec, n, &kind, &sample, &lost);
    if (r) {
        log_event(LOG_LEVEL_WARN, "RECORD-BAD", "pid=%u tid=%u bytes=%u code=%d", a->proc->host_pid,
                  a->key.tid, n, r);
        a->lost++;
    } else if (kind == PERF_KIND_SAMPLE) {
        hand_sample(a, sample);
    } else if (kind == PERF_KIND_LOST) {
        a->lost += lost;
    }
}

static void tell_progress(struct armed *a, bool ended)
{
    struct feed *f = feed_new(FEED_PROGRESS);
    if (!f)
        return; /* the next one covers it */
    f->thread = a->key;
    f->head = a->ring.tail;
    f->lost = a->lost - a->told_lost;
    f->ended = ended;
    bool taken = ended || f->lost ? queue_push_must(a->sampler->c.out, f, sizeof *f)
                                  : queue_push(a->sampler->c.out, f, sizeof *f);
    if (!taken) {
        feed_free(f);
        return;
    }
    a->told_head = a->ring.tail;
    a->told_lost = a->lost;
}

static void read_ring(struct armed *a)
{
    uint64_t head = perf_ring_head(&a->ring);
    const uint8_t *rec = NULL;
    uint32_t n = 0;
    int r;
    while ((r = perf_ring_next(&a->ring, head, a->sampler->scratch, &rec, &n)) > 0)
        take_record(a, rec, n);
    if (r < 0) {
        a->lost++;
        log_event(LOG_LEVEL_WARN, "RING-BAD", "pid=%u tid=%u", a->proc->host_pid, a->key.tid);
    }
    perf_ring_release(&a->ring);
}

/* ---- switches ---- */

static bool hand_switches(struct armed *a, struct switches *s)
{
    struct feed *f = feed_new(FEED_SWITCHES);
    if (!f) {
        free(s);
        return false;
    }
    f->thread = a->key;
    f->switches = s;
    size_t bytes = sizeof *f + sizeof *s + s->n * sizeof *s->v;
    if (queue_push(a->sampler->c.out, f, bytes))
        return true;
    s->n = 1; /* what it told is lost, and that is told in any case */
    s->v[0] = (struct switch_rec){0, SWITCH_GAP};
    if (queue_push_must(a->sampler->c.out, f, sizeof *f))
        return true;
    feed_free(f);
    return false;
}

static void read_switches(struct armed *a)
{
    bool lost = false;
    struct switches *s = a->switches ? switch_ring_take(a->switches, a->switches_lost, a->sampler->scratch, &lost) : NULL;
    if (s)
        a->switches_lost = !hand_switches(a, s);
    a->switches_lost = a->switches_lost || lost;
}

static void close_switches(struct armed *a)
{
    if (!a->switches)
        return;
    a->sampler->budget.used_bytes -= a->switches->ring.map_bytes;
    switch_ring_close(a->switches);
    a->switches = NULL;
}

/* The first word of it: from when on switches are recorded. */
static bool begin_switches(struct armed *a)
{
    struct switches *s = malloc(sizeof *s + sizeof *s->v);
    if (!s)
        return false;
    *s = (struct switches){.from_ns = a->switches->from_ns, .slept = a->switches->slept};
    return hand_switches(a, s);
}

static void open_switches(struct armed *a)
{
    struct sampler *s = a->sampler;
    uint32_t pages = s->budget.n_threads < SWITCH_ROOMY_THREADS ? SWITCH_PAGES : SWITCH_PAGES_MANY;
    uint64_t bytes = (pages + 1ull) * s->page_bytes;
    struct dvt_err err = {0};
    if (!s->budget.unlimited && s->budget.used_bytes + bytes > s->budget.limit_bytes)
        dvt_fail(&err, DVT_ELIMIT, 0, "locked memory is used up");
    else if (switch_ring_open(a->host_tid, pages, &a->switches, &err) == 0) {
        s->budget.used_bytes += a->switches->ring.map_bytes;
        if (begin_switches(a))
            return;
        close_switches(a);
    }
    snprintf(s->note, sizeof s->note, "the waits of %u threads are not known: %.180s", ++s->n_without_switches,
             err.text[0] ? err.text : "no memory");
    log_event(LOG_LEVEL_WARN, "SWITCHES-NONE", "pid=%u tid=%u %s", a->proc->host_pid, a->key.tid, err.text);
}

/* Up to when all threads' switches have been handed over: the time before their rings were read. */
static void tell_switched(struct sampler *s, uint64_t now_ns)
{
    struct feed *f = s->c.wall ? feed_new(FEED_SWITCHED) : NULL;
    if (!f)
        return; /* the next one covers it */
    f->head = now_ns;
    if (!queue_push(s->c.out, f, sizeof *f))
        feed_free(f);
}

static void drain(struct armed *a)
{
    read_switches(a);
    read_ring(a);
    if (a->ring.tail != a->told_head || a->lost != a->told_lost)
        tell_progress(a, false);
}

static void end_thread(struct armed *a)
{
    struct sampler *s = a->sampler;
    read_switches(a);
    read_ring(a);
    tell_progress(a, true);
    close_switches(a);
    unlink_armed(s, a);
    s->budget.used_bytes -= a->ring.map_bytes;
    if (--s->budget.n_threads == 0)
        loop_timer_set(s->timer, 0);
    perf_ring_close(&a->ring);
    close(a->fd);
    process_unref(a->proc);
    free(a);
}

/* One look at many descriptors: a thread that has exited, or executed another program, hung up. */
static void drain_batch(struct armed *const *batch, uint32_t n)
{
    struct pollfd polled[BATCH];
    for (uint32_t i = 0; i < n; i++)
        polled[i] = (struct pollfd){.fd = batch[i]->fd};
    (void)poll(polled, n, 0); /* a failure leaves revents 0: looked at next time */
    for (uint32_t i = 0; i < n; i++)
        if (polled[i].revents & (POLLHUP | POLLERR))
            end_thread(batch[i]);
        else
            drain(batch[i]);
}

void sampler_drain_all(struct sampler *s)
{
    struct armed *batch[BATCH], *next = s->all;
    uint64_t before_ns = monotonic_ns();
    while (next) {
        uint32_t n = 0;
        for (; next && n < BATCH; next = next->next_all)
            batch[n++] = next;
        drain_batch(batch, n);
    }
    tell_switched(s, before_ns);
}

static void on_timer(void *ctx, uint32_t events)
{
    (void)events;
    sampler_drain_all(ctx);
}

/* ---- arming ---- */

static uint64_t random_u64(void)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, 0) != sizeof v)
        v = (uint64_t)(uintptr_t)&v; /* cannot be for 8 bytes; any value keeps the sampling going */
    return v;
}

static int refuse_budget(struct sampler *s, struct dvt_err *err)
{
    snprintf(s->note, sizeof s->note,
             "locked memory for sample rings is used up: %llu KiB of %llu KiB in %u threads; raise "
             "kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK, or give the daemon CAP_IPC_LOCK",
             (unsigned long long)s->budget.used_bytes / 1024,
             (unsigned long long)s->budget.limit_bytes / 1024, s->budget.n_threads);
    log_event(LOG_LEVEL_WARN, "RING-BUDGET", "%s", s->note);
    return dvt_fail(err, DVT_ELIMIT, 0, "%s", s->note);
}

/* Opens the event and its ring by one plan. On failure nothing is left open. */
static int open_planned(struct sampler *s, struct armed *a, struct perf_plan plan, uint64_t first_period,
                        struct dvt_err *err)
{
    int r = perf_open_thread(s->c.source, a->host_tid, plan.native, first_period, &a->fd, err);
    if (r)
        return r;
    r = perf_ring_open(a->fd, plan.data_pages, &a->ring, err);
    if (r) {
        close(a->fd);
        return r == DVT_EPERM ? DVT_ELIMIT : r;
    }
    a->layout = perf_source_layout(s->c.source, plan.native);
    a->holds = perf_plan_holds(&plan, s->c.stack_bytes, s->page_bytes);
    return 0;
}

/* The kernel may count more against us than we know of (other users of perf): then a smaller ring is
 * tried. */
static int open_within_budget(struct sampler *s, struct armed *a, uint64_t first_period, struct dvt_err *err)
{
    enum perf_native native = s->c.native;
    for (;;) {
        struct perf_plan plan = perf_budget_plan(&s->budget, native, s->c.stack_bytes, s->page_bytes);
        if (plan.data_pages == 0)
            return refuse_budget(s, err);
        int r = open_planned(s, a, plan, first_period, err);
        if (r != DVT_ELIMIT)
            return r;
        if (plan.native == PERF_NATIVE_LEAF)
            return refuse_budget(s, err);
        native = plan.native + 1;
    }
}

/* The number may have gone to a thread of another process since it was translated: looked at once more,
 * with the event open (an event follows its thread, not the number). */
static int announce(struct sampler *s, const struct armed *a, const struct process *proc, struct dvt_err *err)
{
    if (!peer_has_task(proc->host_pid, a->host_tid))
        return dvt_fail(err, DVT_ENOENT, 0, "thread %u is gone", a->host_tid);
    struct feed *f = feed_new(FEED_THREAD_UP);
    if (f) {
        f->thread = a->key;
        f->host_tid = a->host_tid;
        if (queue_push_must(s->c.out, f, sizeof *f))
            return 0;
        feed_free(f);
    }
    return dvt_fail(err, DVT_ENOMEM, 0, "no memory for a thread");
}

/* Wakes are what reading costs: as few as the fullest ring allows, at 2 fifths of what it holds. */
static void keep_up_with(struct sampler *s, const struct armed *a)
{
    uint32_t hz = perf_source_info(s->c.source)->hz, ms = a->holds * 400 / (hz ? hz : 1);
    ms = ms > DRAIN_MAX_MS ? DRAIN_MAX_MS : ms < DRAIN_MIN_MS ? DRAIN_MIN_MS : ms;
    if (s->c.wall && ms > SWITCH_DRAIN_MS)
        ms = SWITCH_DRAIN_MS;
    if (s->budget.n_threads > 0 && s->drain_ms <= ms)
        return;
    s->drain_ms = ms;
    loop_timer_set(s->timer, ms);
}

static void adopt(struct sampler *s, struct armed *a, struct process *proc)
{
    a->proc = process_ref(proc);
    link_armed(s, a);
    s->budget.used_bytes += a->ring.map_bytes;
    keep_up_with(s, a);
    s->budget.n_threads++;
    edge_count(proc->edge.threads_armed, 1);
    if (s->c.wall)
        open_switches(a);
}

int sampler_arm(struct sampler *s, struct process *proc, uint32_t tid, uint32_t epoch, uint32_t host_tid,
                struct sampler_thread *ret, struct dvt_err *err)
{
    struct armed *old = find(s, proc->index, tid);
    if (old)
        end_thread(old);
    if (s->budget.n_threads >= s->c.max_threads)
        return dvt_fail(err, DVT_ELIMIT, 0, "%u threads are sampled, the most allowed (--max-threads)",
                        s->budget.n_threads);
    struct armed *a = calloc(1, sizeof *a);
    if (!a)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for a thread");
    a->sampler = s;
    a->host_tid = host_tid;
    a->key = (struct thread_key){.process = proc->index, .tid = tid, .epoch = epoch};
    const struct perf_source_info *info = perf_source_info(s->c.source);
    uint64_t first = info->is_time ? perf_first_period(info->period, random_u64()) : 0;
    int r = open_within_budget(s, a, first, err);
    if (r)
        goto out;
    r = announce(s, a, proc, err);
    if (r) {
        perf_ring_close(&a->ring);
        close(a->fd);
        goto out;
    }
    adopt(s, a, proc);
    *ret = (struct sampler_thread){a->fd, (uint32_t)a->ring.map_bytes, first};
out:
    if (r)
        free(a);
    return r;
}

void sampler_disarm(struct sampler *s, const struct process *proc, uint32_t tid, uint32_t epoch)
{
    struct armed *a = find(s, proc->index, tid);
    if (a && a->key.epoch == epoch)
        end_thread(a);
}

void sampler_drop_process(struct sampler *s, const struct process *proc)
{
    struct armed *next;
    for (struct armed *a = s->all; a; a = next) {
        next = a->next_all;
        if (a->proc == proc)
            end_thread(a);
    }
}

uint32_t sampler_n_threads(const struct sampler *s, const struct process *proc)
{
    if (!proc)
        return s->budget.n_threads;
    uint32_t n = 0;
    for (const struct armed *a = s->all; a; a = a->next_all)
        n += a->proc == proc;
    return n;
}

const char *sampler_note(const struct sampler *s)
{
    return s->note;
}

int sampler_new(const struct sampler_config *c, struct sampler **ret, struct dvt_err *err)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the sampler");
    s->c = *c;
    s->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    perf_budget_read(&s->budget);
    s->budget.hz = perf_source_info(c->source)->hz;
    int r = loop_timer_new(c->loop, on_timer, s, &s->timer, err);
    if (r)
        free(s);
    else
        *ret = s;
    return r;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    while (s->all)
        end_thread(s->all);
    loop_timer_free(s->timer);
    free(s);
}
