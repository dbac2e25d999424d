/* sampler: real perf events on threads of this process: samples, progress, ends, bounds. */
#include "../../daemon/feed.h"
#include "../../daemon/sampler.h"
#include "edge_check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct rig {
    struct perf_source *source;
    struct loop *loop;
    struct queue queue;
    struct sampler *sampler;
    struct process *proc;
};

struct rig_config {
    uint32_t hz;
    enum perf_native native;
    uint32_t max_threads;
    size_t queue_bytes;
};
static const struct rig_config plain = {1000, PERF_NATIVE_DWARF, 100, 64 << 20};

static void rig_init(struct rig *r, const struct rig_config *c)
{
    struct dvt_err err = {0};
    struct perf_source_config sc = {.event = "cpu-clock", .hz = c->hz, .native = c->native,
                                    .stack_bytes = 4096};
    struct dvt_hello hello = {.pid = (uint32_t)getpid(), .service = dvt_str("test")};
    CU_ASSERT_EQUAL_FATAL(perf_source_new(&sc, &r->source, &err), 0);
    CU_ASSERT_EQUAL_FATAL(loop_new(&r->loop, &err), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r->queue, c->queue_bytes, NULL), 0);
    r->proc = process_new(&hello);
    r->proc->host_pid = (uint32_t)getpid();
    r->proc->index = 7;
    struct sampler_config cfg = {.source = r->source,
                                 .native = c->native,
                                 .stack_bytes = 4096,
                                 .max_threads = c->max_threads,
                                 .loop = r->loop,
                                 .out = &r->queue};
    CU_ASSERT_EQUAL_FATAL(sampler_new(&cfg, &r->sampler, &err), 0);
}

static void rig_fini(struct rig *r)
{
    sampler_free(r->sampler);
    queue_fini(&r->queue, feed_free);
    loop_free(r->loop);
    perf_source_free(r->source);
    process_unref(r->proc);
}

static uint32_t own_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void burn_ms(uint64_t ms)
{
    uint64_t end = edge_now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000u;
    while (edge_now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

struct seen {
    unsigned n_samples, n_up, n_progress, n_ended, n_uncovered, n_with_regs, n_with_user_ips;
    uint64_t last_end_off, last_head, last_time_ns, lost;
};

/* Takes all there is; checks the order contract on the way. */
static struct seen take_all(struct rig *r)
{
    struct seen s = {0};
    struct feed *f;
    while ((f = queue_pop(&r->queue)) != NULL) {
        if (f->type == FEED_THREAD_UP)
            s.n_up++;
        if (f->type == FEED_SAMPLE) {
            const struct sample *x = f->sample;
            CU_ASSERT_TRUE(x->end_off > s.last_head); /* not covered by a progress before it */
            CU_ASSERT_TRUE(x->end_off > s.last_end_off);
            CU_ASSERT_TRUE(x->time_ns > s.last_time_ns);
            CU_ASSERT_EQUAL(x->period, 0);
            s.last_end_off = x->end_off;
            s.last_time_ns = x->time_ns;
            s.n_with_regs += x->n_regs > 0 && x->n_stack > 0;
            s.n_with_user_ips += x->n_ips > x->n_kernel;
            s.n_samples++;
        }
        if (f->type == FEED_PROGRESS) {
            s.last_head = f->head;
            s.lost += f->lost;
            s.n_ended += f->ended;
            s.n_progress++;
        }
        feed_free(f);
    }
    s.n_uncovered = s.last_end_off > s.last_head;
    return s;
}

static void test_sampler_samples_a_busy_thread(void)
{
    struct rig r;
    struct dvt_err err = {0};
    struct sampler_thread t = {.fd = -1};
    rig_init(&r, &plain);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, &err), 0);
    CU_ASSERT_TRUE(t.fd >= 0 && t.map_bytes >= 2 * 4096);
    CU_ASSERT_TRUE(t.first_period_ns >= 500000 && t.first_period_ns <= 1000000);
    uint64_t before = edge_now_ns(CLOCK_MONOTONIC);
    burn_ms(30);
    sampler_drain_all(r.sampler);
    uint64_t after = edge_now_ns(CLOCK_MONOTONIC);
    struct seen s = take_all(&r);
    CU_ASSERT_EQUAL(s.n_up, 1);
    CU_ASSERT_TRUE(s.n_samples > 0);
    CU_ASSERT_TRUE(s.n_with_regs > 0);
    CU_ASSERT_EQUAL(s.n_with_user_ips, 0); /* dwarf: no frame pointer walk */
    CU_ASSERT_TRUE(s.last_time_ns > before && s.last_time_ns < after);
    CU_ASSERT_EQUAL(s.n_ended, 0);
    CU_ASSERT_EQUAL(s.n_uncovered, 0);
    CU_ASSERT_EQUAL(s.last_head, s.last_end_off);
    rig_fini(&r);
}

static void test_sampler_by_frame_pointers_and_by_leaf_gives_user_addresses(void)
{
    const enum perf_native ways[] = {PERF_NATIVE_FP, PERF_NATIVE_LEAF};
    for (int i = 0; i < 2; i++) {
        struct rig r;
        struct sampler_thread t;
        struct rig_config c = plain;
        c.native = ways[i];
        rig_init(&r, &c);
        CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, NULL), 0);
        burn_ms(30);
        sampler_drain_all(r.sampler);
        struct seen s = take_all(&r);
        CU_ASSERT_TRUE(s.n_samples > 0);
        CU_ASSERT_TRUE(s.n_with_user_ips > 0);
        CU_ASSERT_EQUAL(s.n_with_regs, 0);
        rig_fini(&r);
    }
}

static void test_sampler_drains_before_it_ends_a_disarmed_thread(void)
{
    struct rig r;
    struct sampler_thread t;
    rig_init(&r, &plain);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 3, own_tid(), &t, NULL), 0);
    burn_ms(10);
    sampler_disarm(r.sampler, r.proc, own_tid(), 2); /* an older arming: not meant */
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, r.proc), 1);
    sampler_disarm(r.sampler, r.proc, own_tid(), 3);
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, r.proc), 0);
    struct seen s = take_all(&r);
    CU_ASSERT_TRUE(s.n_samples > 0);
    CU_ASSERT_EQUAL(s.n_ended, 1);
    CU_ASSERT_EQUAL(s.n_uncovered, 0);
    rig_fini(&r);
}

static void test_sampler_ends_the_earlier_arming_of_a_tid(void)
{
    struct rig r;
    struct sampler_thread t;
    rig_init(&r, &plain);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 2, own_tid(), &t, NULL), 0);
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, NULL), 1);
    struct feed *f;
    unsigned n_ended = 0;
    while ((f = queue_pop(&r.queue)) != NULL) {
        n_ended += f->type == FEED_PROGRESS && f->ended && f->thread.epoch == 1;
        feed_free(f);
    }
    CU_ASSERT_EQUAL(n_ended, 1);
    rig_fini(&r);
}

struct mortal {
    _Atomic uint32_t tid;
    _Atomic bool go;
};

static void *live_and_die(void *arg)
{
    struct mortal *m = arg;
    atomic_store(&m->tid, own_tid());
    while (!atomic_load(&m->go))
        sched_yield();
    burn_ms(5);
    return NULL;
}

static void *burn_half_a_second(void *arg)
{
    struct mortal *m = arg;
    atomic_store(&m->tid, own_tid());
    while (!atomic_load(&m->go))
        sched_yield();
    burn_ms(500);
    return NULL;
}

/* An event that signals its thread wakes all who wait for it, at each sample and at the thread's cost. */
static void test_sampler_is_not_woken_by_samples_that_signal(void)
{
    struct rig r;
    struct sampler_thread t;
    struct mortal m = {0};
    pthread_t thread;
    unsigned turns = 0;
    struct rig_config c = plain;
    c.hz = 400;
    rig_init(&r, &c);
    pthread_create(&thread, NULL, burn_half_a_second, &m);
    while (!atomic_load(&m.tid))
        sched_yield();
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, m.tid, 1, m.tid, &t, NULL), 0);
    struct f_owner_ex owner = {F_OWNER_TID, (pid_t)m.tid};
    CU_ASSERT_EQUAL(fcntl(t.fd, F_SETOWN_EX, &owner), 0);
    CU_ASSERT_EQUAL(fcntl(t.fd, F_SETSIG, SIGURG), 0); /* ignored by default */
    CU_ASSERT_EQUAL(fcntl(t.fd, F_SETFL, fcntl(t.fd, F_GETFL) | O_ASYNC), 0);
    uint64_t start_ns = edge_now_ns(CLOCK_MONOTONIC);
    atomic_store(&m.go, true);
    for (; sampler_n_threads(r.sampler, NULL); turns++)
        CU_ASSERT_EQUAL_FATAL(loop_turn(r.loop, -1, NULL), 0);
    uint64_t elapsed_ms = (edge_now_ns(CLOCK_MONOTONIC) - start_ns) / 1000000;
    pthread_join(thread, NULL);
    struct seen s = take_all(&r);
    CU_ASSERT_TRUE(s.n_samples > 150);
    CU_ASSERT_TRUE(turns <= elapsed_ms / 20 + 5); /* the timer's */
    rig_fini(&r);
}

static void test_sampler_notices_that_a_thread_has_exited(void)
{
    struct rig r;
    struct sampler_thread t;
    struct mortal m = {0};
    pthread_t thread;
    rig_init(&r, &plain);
    pthread_create(&thread, NULL, live_and_die, &m);
    while (!atomic_load(&m.tid))
        sched_yield();
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, m.tid, 1, m.tid, &t, NULL), 0);
    atomic_store(&m.go, true);
    pthread_join(thread, NULL);
    while (sampler_n_threads(r.sampler, NULL)) /* the test's time limit is the assertion */
        CU_ASSERT_EQUAL_FATAL(loop_turn(r.loop, -1, NULL), 0);
    struct seen s = take_all(&r);
    CU_ASSERT_TRUE(s.n_samples > 0);
    CU_ASSERT_EQUAL(s.n_ended, 1);
    rig_fini(&r);
}

static void test_sampler_refuses_threads_that_are_not_the_process_s(void)
{
    struct rig r;
    struct dvt_err err = {0};
    struct sampler_thread t = {.fd = -1};
    rig_init(&r, &plain);
    CU_ASSERT_EQUAL(sampler_arm(r.sampler, r.proc, 1, 1, (uint32_t)getppid(), &t, &err), DVT_ENOENT);
    CU_ASSERT_EQUAL(t.fd, -1);
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, NULL), 0);
    CU_ASSERT_TRUE(queue_is_empty(&r.queue));
    rig_fini(&r);
}

static void test_sampler_stops_at_max_threads(void)
{
    struct rig r;
    struct dvt_err err = {0};
    struct sampler_thread t;
    struct rig_config c = plain;
    c.max_threads = 1;
    rig_init(&r, &c);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, NULL), 0);
    CU_ASSERT_EQUAL(sampler_arm(r.sampler, r.proc, 99999, 1, own_tid(), &t, &err), DVT_ELIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "--max-threads"));
    rig_fini(&r);
}

/* Samples that do not fit are counted; the ring moves on, and the end arrives all the same. */
static void test_sampler_counts_what_a_full_queue_drops(void)
{
    struct rig r;
    struct sampler_thread t;
    struct rig_config c = plain;
    c.queue_bytes = 1;
    rig_init(&r, &c);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, NULL), 0);
    burn_ms(20);
    sampler_disarm(r.sampler, r.proc, own_tid(), 1);
    struct seen s = take_all(&r);
    CU_ASSERT_EQUAL(s.n_samples, 0);
    CU_ASSERT_EQUAL(s.n_ended, 1);
    CU_ASSERT_TRUE(s.last_head > 0);
    CU_ASSERT_TRUE(r.proc->edge.lost_queue > 0);
    CU_ASSERT_EQUAL(r.proc->edge.lost_queue, r.proc->edge.samples);
    rig_fini(&r);
}

/* A ring that is not drained freezes; the kernel says how much it could not write when there is room again. */
static void test_sampler_tells_the_kernel_s_losses(void)
{
    struct rig r;
    struct sampler_thread t;
    struct rig_config c = plain;
    c.native = PERF_NATIVE_LEAF; /* one page: 100 records of 40 bytes */
    c.hz = 5000;
    rig_init(&r, &c);
    CU_ASSERT_EQUAL_FATAL(sampler_arm(r.sampler, r.proc, own_tid(), 1, own_tid(), &t, NULL), 0);
    burn_ms(100);
    sampler_drain_all(r.sampler);
    burn_ms(10);
    sampler_disarm(r.sampler, r.proc, own_tid(), 1);
    struct seen s = take_all(&r);
    CU_ASSERT_TRUE(s.n_samples > 100);
    CU_ASSERT_TRUE(s.lost > 0);
    rig_fini(&r);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"sampler samples a busy thread", test_sampler_samples_a_busy_thread},
        {"sampler by fp and by leaf gives user addresses",
         test_sampler_by_frame_pointers_and_by_leaf_gives_user_addresses},
        {"sampler drains before it ends a disarmed thread",
         test_sampler_drains_before_it_ends_a_disarmed_thread},
        {"sampler ends the earlier arming of a tid", test_sampler_ends_the_earlier_arming_of_a_tid},
        {"sampler notices that a thread has exited", test_sampler_notices_that_a_thread_has_exited},
        {"sampler is not woken by samples that signal", test_sampler_is_not_woken_by_samples_that_signal},
        {"sampler refuses threads of another process",
         test_sampler_refuses_threads_that_are_not_the_process_s},
        {"sampler stops at max-threads", test_sampler_stops_at_max_threads},
        {"sampler counts what a full queue drops", test_sampler_counts_what_a_full_queue_drops},
        {"sampler tells the kernel's losses", test_sampler_tells_the_kernel_s_losses},
    };
    if (!edge_perf_is_permitted()) {
        fputs("skipped: perf events are not permitted here\n", stderr);
        return 77;
    }
    return EDGE_RUN("sampler", tests);
}
