/*
 * test_handler: SIGURG: whose signals it takes, stacks and announcements, periods. With real perf events on this thread where
 * a sample is needed; skipped where the kernel does not allow them.
 */
#include <CUnit/Basic.h>
#include <signal.h>

#include "fake_daemon.h"
#include "../../shims/core/handler.h"

static char dir[64] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;
static _Atomic int app_signals;
static _Atomic bool can_resolve = true;
static _Atomic int resolve_calls;

static uint64_t burn_sink;

static void burn_until(bool (*done)(void))
{
    for (long i = 0; i < 1000000000 && !done(); i++)
        for (int k = 0; k < 1000; k++)
            burn_sink += (uint64_t)k;
}

/* ---- a runtime ---- */

static int walk(void *context, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    (void)context;
    (void)cap;
    frames[0] = (struct dvt_rt_frame){1000, 1};
    frames[1] = (struct dvt_rt_frame){2000, 2};
    *ret_truncated = true;
    return 2;
}

static int resolve(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line)
{
    atomic_fetch_add(&resolve_calls, 1);
    if (!atomic_load(&can_resolve))
        return -1;
    for (size_t i = 0; i < n; i++) {
        ret_code[i] = (uint32_t)(frames[i].key / 1000);
        ret_line[i] = (uint32_t)frames[i].offset * 10;
    }
    dvt_rt_code(1, dvt_str("leaf"), dvt_str("a.py"), 7);
    dvt_rt_code(2, dvt_str("root"), dvt_str("a.py"), 9);
    return 0;
}

static const struct dvt_runtime runtime = {
    .runtime = "test", .runtime_version = "1", .walk = walk, .resolve = resolve};

static bool begin(void)
{
    long fd = fake_perf_open(my_tid(), 10000000);
    if (fd < 0) {
        fprintf(stderr, "skipped: perf_event_open: %s\n", strerror(errno));
        return false;
    }
    close((int)fd);
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake.arm = FAKE_PERF;
    fake.use_signal = true;
    fake.period_ns = 2000000;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_rt_start(&(struct dvt_options){.socket = fake.path}, &runtime), 0);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake_knows(&fake, my_tid(), false)));
    return true;
}

static void end(void)
{
    dvt_stop(5000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    CU_ASSERT_EQUAL(fake.n_bad, 0);
    fake_kill(&fake);
}

static uint64_t head_now(void)
{
    pthread_mutex_lock(&fake.lock);
    _Atomic uint64_t *head = fake_head(&fake, my_tid());
    uint64_t v = head ? atomic_load(head) : 0;
    pthread_mutex_unlock(&fake.lock);
    return v;
}

static uint64_t head_at_start;

static bool three_samples_more(void)
{
    return head_now() >= head_at_start + 3 * 24; /* header, tid, time */
}

/* ---- tests ---- */

static void test_each_sample_has_a_stack_with_its_ring_offset_before_its_scope(void)
{
    if (!begin())
        return;
    head_at_start = head_now();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "sampled"});
    burn_until(three_samples_more);
    uint64_t head = head_now();
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "sampled");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT(o->head_open >= head_at_start && o->head_close >= head);
    size_t inside = 0;
    for (size_t i = 0; i < fake.n_stacks; i++) {
        const struct fake_stack *k = &fake.stacks[i];
        CU_ASSERT_EQUAL(k->head % 24, 0);
        CU_ASSERT(k->n_frames == 2 && k->code[0] == 1 && k->code[1] == 2 && k->line[0] == 10 && k->truncated);
        inside += k->head > o->head_open && k->head <= o->head_close;
        if (k->head > o->head_open && k->head <= o->head_close)
            CU_ASSERT(k->scopes_before <= (size_t)(o - fake.scopes));
    }
    CU_ASSERT_EQUAL(inside, (o->head_close - o->head_open) / 24);
    CU_ASSERT(fake.n_codes >= 2);
    CU_ASSERT(fake.counts.signals >= inside);
}

static bool is_announced(void)
{
    bool found = false;
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < fake.n_scopes; i++)
        found |= (fake.scopes[i].flags & DVT_SCOPE_OPEN) && strcmp(fake.scopes[i].name, "long") == 0;
    pthread_mutex_unlock(&fake.lock);
    return found;
}

static void test_an_open_scope_is_announced_once_with_its_labels(void)
{
    if (!begin())
        return;
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "long"});
    dvt_label("tenant", "acme");
    burn_until(is_announced);
    head_at_start = head_now();
    burn_until(three_samples_more);
    dvt_scope_close(s);
    end();
    size_t announced = 0, announced_at = 0;
    for (size_t i = 0; i < fake.n_scopes; i++)
        if (fake.scopes[i].flags & DVT_SCOPE_OPEN) {
            announced++;
            announced_at = i;
        }
    const struct fake_scope *o = fake_find(&fake, "long"), *a = &fake.scopes[announced_at];
    CU_ASSERT_EQUAL_FATAL(announced, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(a->serial, o->serial);
    CU_ASSERT(a->head_close > a->head_open && a->end_ns <= o->end_ns);
    CU_ASSERT_STRING_EQUAL(a->labels, "tenant=acme;");
    CU_ASSERT(announced_at < (size_t)(o - fake.scopes));
}

/* The shim's own descriptor of the memfd that the fake gave it. */
static int shims_fd(void)
{
    char path[64], target[64];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (strncmp(target, "/memfd:ring", 11) == 0 && fd != fake.armed[0].fd)
            return fd;
    }
    return -1;
}

static void signal_myself(int fd)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = POLL_IN};
    info.si_fd = fd;
    CU_ASSERT_EQUAL(syscall(SYS_rt_tgsigqueueinfo, getpid(), my_tid(), SIGURG, &info), 0);
}

static void begin_without_events(void)
{
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake.arm = FAKE_MEMFD;
    fake.use_signal = true;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_rt_start(&(struct dvt_options){.socket = fake.path}, &runtime), 0);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake_knows(&fake, my_tid(), false)));
}

static struct dvt_scope open_named(const char *name)
{
    return dvt_scope_open(&(struct dvt_scope_args){.name = name});
}

static void test_a_late_signal_does_not_announce_a_scope_opened_after_its_sample(void)
{
    begin_without_events();
    int fd = shims_fd();
    struct dvt_scope outer = open_named("holds it");
    fake_sample(&fake, my_tid());
    struct dvt_scope inner = open_named("opened after it");
    signal_myself(fd);
    dvt_scope_close(inner);
    CU_ASSERT(fake_wait(&fake, fake.n_scopes > 0));
    dvt_scope_close(outer);
    end();
    CU_ASSERT_EQUAL(fake.n_scopes, 2); /* announcement and record */
    CU_ASSERT(fake.scopes[0].flags & DVT_SCOPE_OPEN);
    for (size_t i = 0; i < fake.n_scopes; i++)
        CU_ASSERT_STRING_EQUAL(fake.scopes[i].name, "holds it");
    CU_ASSERT_EQUAL(fake_dropped(&fake, "opened after it"), 1);
    CU_ASSERT_EQUAL(fake.n_stacks, 1);
}

/* The stack that a late signal sees is another scope's. */
static void test_a_late_signal_gives_no_stack_once_its_samples_scope_was_left(void)
{
    static const uint32_t reasons[] = {DVT_STACK_OK, DVT_STACK_LATE, DVT_STACK_LATE, DVT_STACK_LATE, DVT_STACK_OK, DVT_STACK_OK};
    begin_without_events();
    int fd = shims_fd();
    struct dvt_scope outer = open_named("outer"), inner = open_named("inner");
    fake_sample(&fake, my_tid());
    signal_myself(fd); /* in time */
    fake_sample(&fake, my_tid());
    dvt_scope_close(inner);
    signal_myself(fd); /* the inner scope, which has the sample, is closed */
    inner = open_named("next");
    signal_myself(fd); /* and another is open */
    dvt_scope_close(inner);
    fake_sample(&fake, my_tid());
    inner = open_named("after it");
    signal_myself(fd); /* one was opened within the scope that has the sample */
    dvt_scope_close(inner);
    signal_myself(fd); /* and is closed again */
    fake_sample(&fake, my_tid());
    inner = open_named("without samples");
    dvt_scope_close(inner);
    signal_myself(fd);
    dvt_scope_close(outer);
    end();
    CU_ASSERT_EQUAL_FATAL(fake.n_stacks, sizeof reasons / sizeof *reasons);
    for (size_t i = 0; i < fake.n_stacks; i++) {
        CU_ASSERT_EQUAL(fake.stacks[i].reason, reasons[i]);
        CU_ASSERT_EQUAL(fake.stacks[i].n_frames, reasons[i] == DVT_STACK_OK ? 2 : 0);
    }
}

static bool resolve_was_tried(void)
{
    return atomic_load(&resolve_calls) >= 2;
}

static void test_scopes_wait_for_stacks_that_cannot_be_resolved_yet(void)
{
    if (!begin())
        return;
    atomic_store(&can_resolve, false);
    atomic_store(&resolve_calls, 0);
    head_at_start = head_now();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "waits"});
    burn_until(three_samples_more);
    dvt_scope_close(s);
    burn_until(resolve_was_tried);
    CU_ASSERT_EQUAL(fake_wait(&fake, true) && fake_find(&fake, "waits") != NULL, false);
    atomic_store(&can_resolve, true);
    dvt_rt_drain_stacks(); /* as a runtime does before a code object dies */
    CU_ASSERT(fake_wait(&fake, fake_find(&fake, "waits") != NULL));
    const struct fake_scope *o = fake_find(&fake, "waits");
    CU_ASSERT(fake.n_stacks >= 3 && fake.stacks[0].scopes_before <= (size_t)(o - fake.scopes));
    end();
}

static void on_app_signal(int sig)
{
    (void)sig;
    atomic_fetch_add(&app_signals, 1);
}

static void (*replaced)(int, siginfo_t *, void *);

static void on_app_signal_that_chains(int sig, siginfo_t *info, void *context)
{
    atomic_fetch_add(&app_signals, 1);
    if (replaced)
        replaced(sig, info, context);
}

static bool a_stack_came(void)
{
    pthread_mutex_lock(&fake.lock);
    bool came = fake.n_stacks > 0;
    pthread_mutex_unlock(&fake.lock);
    return came;
}

static void test_the_applications_own_sigurg_handler_gets_its_signals_and_no_others(void)
{
    struct sigaction mine = {.sa_handler = on_app_signal};
    sigaction(SIGURG, &mine, NULL);
    if (!begin())
        return;
    atomic_store(&app_signals, 0);
    burn_until(a_stack_came);
    CU_ASSERT_EQUAL(atomic_load(&app_signals), 0);
    raise(SIGURG);
    CU_ASSERT_EQUAL(atomic_load(&app_signals), 1);
    end();
}

static void test_a_handler_installed_later_that_chains_is_put_behind_ours_without_a_loop(void)
{
    struct sigaction mine = {.sa_flags = SA_SIGINFO}, old, now;
    if (!begin())
        return;
    mine.sa_sigaction = on_app_signal_that_chains;
    sigaction(SIGURG, &mine, &old);
    replaced = old.sa_sigaction;
    size_t beats = fake.n_heartbeats;
    CU_ASSERT(fake_wait(&fake, fake.n_heartbeats >= beats + 2)); /* the sender looks each second */
    sigaction(SIGURG, NULL, &now);
    CU_ASSERT(now.sa_sigaction == old.sa_sigaction);
    atomic_store(&app_signals, 0);
    raise(SIGURG);
    CU_ASSERT_EQUAL(atomic_load(&app_signals), 1);
    burn_until(a_stack_came);
    CU_ASSERT_EQUAL(atomic_load(&app_signals), 1);
    end();
}

enum { PERIOD = 10000000 };

/* The thread's CPU time at its next sample, when the handler comes late_ns after it. */
static uint64_t next_sample(struct dvt_plan *plan, uint64_t sample_ns, uint64_t late_ns, uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return sample_ns + late_ns + dvt_plan_next(plan, sample_ns + late_ns, PERIOD, 1000, *x);
}

static void test_each_stratum_of_cpu_time_gets_one_sample_at_any_place(void)
{
    uint64_t at = 3000000, x = 88172645463325252u, places[10] = {0};
    struct dvt_plan plan = {.next_ns = PERIOD};
    for (uint64_t k = 1; k <= 100000; k++) {
        at = next_sample(&plan, at, 30000, &x);
        CU_ASSERT_FATAL(at / PERIOD == k || (at < k * PERIOD + 300000 && at > k * PERIOD)); /* late by the least distance */
        places[at % PERIOD * 10 / PERIOD]++;
    }
    for (int i = 0; i < 10; i++)
        CU_ASSERT(places[i] > 9600 && places[i] < 10400); /* 10,000 expected, deviation 95 */
}

/* 2 of every 10 ms of work in step with the period: its share is as sure as if samples were independent. */
static void test_work_in_step_with_the_period_gets_its_share(void)
{
    uint64_t at = 5000000, x = 1234567, hits = 0, n = 5000;
    struct dvt_plan plan = {.next_ns = PERIOD};
    for (uint64_t k = 0; k < n; k++) {
        at = next_sample(&plan, at, 30000, &x);
        hits += at % PERIOD >= 8000000;
    }
    CU_ASSERT(hits > 1000 - 90 && hits < 1000 + 90); /* deviation 28 */
}

static void test_plan_begins_anew_after_signals_were_off(void)
{
    uint64_t x = 1;
    struct dvt_plan plan = {.next_ns = PERIOD};
    uint64_t at = next_sample(&plan, 100 * (uint64_t)PERIOD, 0, &x);
    CU_ASSERT(at > 100 * (uint64_t)PERIOD && at <= 101 * (uint64_t)PERIOD);
    CU_ASSERT_EQUAL(plan.next_ns, 101 * (uint64_t)PERIOD);
}

/* Each sample costs the thread its delay again: with no more than that between two it would never get on. */
static void test_a_late_handler_leaves_room_before_the_next_sample(void)
{
    uint64_t at = 5000000, x = 4711, close = 0;
    struct dvt_plan plan = {.next_ns = PERIOD};
    for (int k = 0; k < 2000; k++) {
        uint64_t sample = at;
        at = next_sample(&plan, at, 800000, &x);
        CU_ASSERT(k == 0 || at >= sample + 800000 + 4 * 800000);
    }
    for (int k = 0; k < 2000; k++) { /* and back: the delays are over */
        uint64_t sample = at;
        at = next_sample(&plan, at, 30000, &x);
        close += at < sample + 3200000;
    }
    CU_ASSERT(close > 20);
    CU_ASSERT(plan.next_ns / PERIOD == 4001);
}

int main(void)
{
    if (!mkdtemp(dir) || CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("handler", NULL, NULL);
#define ADD(t) CU_add_test(s, #t, t)
    ADD(test_the_applications_own_sigurg_handler_gets_its_signals_and_no_others); /* first: before ours is installed */
    ADD(test_each_sample_has_a_stack_with_its_ring_offset_before_its_scope);
    ADD(test_an_open_scope_is_announced_once_with_its_labels);
    ADD(test_a_late_signal_does_not_announce_a_scope_opened_after_its_sample);
    ADD(test_a_late_signal_gives_no_stack_once_its_samples_scope_was_left);
    ADD(test_scopes_wait_for_stacks_that_cannot_be_resolved_yet);
    ADD(test_each_stratum_of_cpu_time_gets_one_sample_at_any_place);
    ADD(test_work_in_step_with_the_period_gets_its_share);
    ADD(test_a_late_handler_leaves_room_before_the_next_sample);
    ADD(test_plan_begins_anew_after_signals_were_off);
    ADD(test_a_handler_installed_later_that_chains_is_put_behind_ours_without_a_loop);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    fake_free(&fake);
    char path[80];
    snprintf(path, sizeof path, "%s/s.zmq", dir);
    unlink(path);
    rmdir(dir);
    return failed != 0;
}
