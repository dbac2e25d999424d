/*
 * test_life: the library's life: daemon absent, killed, restarted, refusing; forks, execs, exits, threads that come and go.
 */
#include <CUnit/Basic.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "fake_daemon.h"
#include "../../shims/core/runtime.h"

static char dir[64] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;
static struct dvt_shim_counts before;

static void reset(void)
{
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
}

static int start(void)
{
    return dvt_start(&(struct dvt_options){.socket = fake.path, .service = "test"});
}

static void wait_armed(void)
{
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_heartbeats > 0 && fake_knows(&fake, my_tid(), false)));
    before = fake_counts(&fake);
}

static void begin(void)
{
    reset();
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    wait_armed();
}

static void end(void)
{
    dvt_stop(5000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    CU_ASSERT_EQUAL(fake.n_bad, 0);
    CU_ASSERT_EQUAL(fake.counts.closed, fake.counts.kept + fake.counts.dropped + fake.counts.lost_ring);
    fake_kill(&fake);
}

static void always(const char *name)
{
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = name, .always = true}));
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static bool wait_active(bool wanted)
{
    for (int i = 0; i < 6000 && dvt_rt_active() != wanted; i++)
        pause_ms(10);
    return dvt_rt_active() == wanted;
}

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static size_t count_maps(void)
{
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

/* ---- start ---- */

static void test_off_by_environment_makes_everything_inert(void)
{
    reset();
    setenv("DOVETAIL", "off", 1);
    errno = 0;
    CU_ASSERT_EQUAL(start(), -1);
    CU_ASSERT_EQUAL(errno, ECANCELED);
    unsetenv("DOVETAIL");
    struct dvt_scope s = dvt_scope_open(NULL);
    CU_ASSERT_PTR_NULL(s.thread);
    dvt_label("k", "v");
    dvt_scope_close(s);
}

static void test_a_bad_tag_template_is_refused_with_its_reason(void)
{
    errno = 0;
    CU_ASSERT_EQUAL(dvt_start(&(struct dvt_options){.tag_template = "{nonsense}"}), -1);
    CU_ASSERT_EQUAL(errno, EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dvt_last_error(), "nonsense"));
}

static void test_an_absent_daemon_leaves_the_library_inert_after_a_while(void)
{
    reset();
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    always("nobody");
    CU_ASSERT(wait_active(false));
    CU_ASSERT_PTR_NULL(dvt_scope_open(NULL).thread);
    CU_ASSERT_PTR_NOT_NULL(strstr(dvt_last_error(), fake.path));
    dvt_stop(100);
}

static void test_a_daemon_that_comes_later_is_found(void)
{
    reset();
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    CU_ASSERT(wait_active(false));
    fake_start(&fake);
    CU_ASSERT(wait_active(true));
    wait_armed();
    always("at last");
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "at last"), 1);
}

static void test_a_refused_hello_leaves_the_daemons_words(void)
{
    reset();
    fake.refuse_hello = true;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    for (int i = 0; i < 6000 && !strstr(dvt_last_error(), "version 9"); i++)
        pause_ms(10);
    CU_ASSERT_STRING_EQUAL(dvt_last_error(), "this daemon speaks version 9");
    dvt_stop(100);
    fake_kill(&fake);
}

static void test_a_dormant_library_connects_when_woken(void)
{
    reset();
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path, .dormant = true}), 0);
    CU_ASSERT_PTR_NULL(dvt_scope_open(NULL).thread);
    pause_ms(50);
    CU_ASSERT_EQUAL(fake.n_hellos, 0);
    dvt_wake();
    CU_ASSERT(wait_active(true));
    wait_armed();
    always("awake");
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "awake"), 1);
}

/* ---- arming ---- */

static void test_a_scope_closed_while_its_arming_is_under_way_is_dropped_if_no_sample_fell(void)
{
    reset();
    fake.arm = FAKE_HOLD;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_heartbeats > 0));
    before = fake_counts(&fake);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_armed > 0));
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "early"}));
    fake_release(&fake, FAKE_MEMFD);
    CU_ASSERT(fake_wait(&fake, fake_knows(&fake, my_tid(), false)));
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "early"), 0);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "early"), 1);
    CU_ASSERT_EQUAL(fake.counts.kept - before.kept, 0);
    CU_ASSERT_EQUAL(fake.counts.dropped - before.dropped, 1);
}

static void test_a_scope_closed_while_its_arming_is_under_way_is_sent_if_a_sample_fell(void)
{
    reset();
    fake.arm = FAKE_HOLD;
    fake.first_head = 64;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_armed > 0));
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "early"}));
    fake_release(&fake, FAKE_MEMFD);
    CU_ASSERT(fake_wait(&fake, fake_count(&fake, "early") == 1));
    end();
    const struct fake_scope *o = fake_find(&fake, "early");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->head_open, 0);
    CU_ASSERT_EQUAL(o->head_close, 64);
    CU_ASSERT(o->flags & DVT_SCOPE_LATE_ARMED);
    CU_ASSERT(o->flags & DVT_SCOPE_CROSS_THREAD);
}

/* The library's call that arms the signal comes here: with the ring there, and the arming not yet over. */
static _Atomic int held_up; /* 1: wait there, 2: waiting, 0: go on */

__attribute__((visibility("default"))) int fcntl(int fd, int op, ...)
{
    va_list args;
    va_start(args, op);
    void *arg = va_arg(args, void *);
    va_end(args);
    int hold = 1;
    if (op == F_SETOWN_EX && atomic_compare_exchange_strong(&held_up, &hold, 2))
        while (atomic_load(&held_up))
            sched_yield();
    return (int)syscall(SYS_fcntl, fd, op, arg);
}

static void test_a_scope_opened_when_its_ring_was_there_is_dropped_though_the_arming_is_not_over(void)
{
    reset();
    fake.arm = FAKE_MEMFD;
    fake.use_signal = true;
    fake.first_head = 64;
    fake_start(&fake);
    atomic_store(&held_up, 1);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    dvt_thread_start();
    while (atomic_load(&held_up) != 2)
        sched_yield();
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "empty"}));
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "sampled"});
    CU_ASSERT(fake_wait(&fake, fake_head(&fake, my_tid()) != NULL));
    fake_sample(&fake, my_tid());
    dvt_scope_close(s);
    atomic_store(&held_up, 0);
    CU_ASSERT(fake_wait(&fake, fake_count(&fake, "sampled") == 1));
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "empty"), 0);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "empty"), 1);
    const struct fake_scope *o = fake_find(&fake, "sampled");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT(o->head_open == 64 && o->head_close == 128);
    CU_ASSERT_FALSE(o->flags & (DVT_SCOPE_LATE_ARMED | DVT_SCOPE_CROSS_THREAD));
}

static void test_a_scope_opened_before_its_arming_counts_from_the_rings_start(void)
{
    reset();
    fake.arm = FAKE_HOLD;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "late armed"});
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_armed > 0));
    fake_release(&fake, FAKE_MEMFD);
    CU_ASSERT(fake_wait(&fake, fake_knows(&fake, my_tid(), false)));
    fake_sample(&fake, my_tid());
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "late armed");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->head_open, 0);
    CU_ASSERT_EQUAL(o->head_close, 64);
    CU_ASSERT(o->flags & DVT_SCOPE_LATE_ARMED);
    CU_ASSERT_FALSE(o->flags & DVT_SCOPE_CROSS_THREAD);
}

static void test_a_thread_that_cannot_be_sampled_is_counted_and_can_still_keep_always(void)
{
    reset();
    fake.arm = FAKE_REFUSE;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(start(), 0);
    wait_armed();
    always("kept");
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "dropped"}));
    CU_ASSERT_STRING_EQUAL(dvt_last_error(), "not allowed here");
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "kept"), 1);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "dropped"), 1);
    CU_ASSERT(fake.counts.threads_unarmed >= 1);
}

/* ---- a daemon that dies ---- */

static void test_reporting_resumes_with_a_new_daemon_under_a_new_arming_number(void)
{
    begin();
    uint32_t first_epoch = fake.armed[0].epoch;
    fake_sample(&fake, my_tid());
    struct dvt_scope across = dvt_scope_open(&(struct dvt_scope_args){.name = "across", .always = true});
    fake_kill(&fake);
    always("told to nobody");
    for (int i = 0; i < 100000; i++)
        dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "meanwhile"}));
    begin();
    CU_ASSERT(fake.armed[0].epoch > first_epoch);
    fake_sample(&fake, my_tid());
    dvt_scope_close(across);
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "resumed"});
    fake_sample(&fake, my_tid());
    dvt_scope_close(s);
    end();
    const struct fake_scope *a = fake_find(&fake, "across"), *r = fake_find(&fake, "resumed");
    CU_ASSERT_FATAL(a && r);
    CU_ASSERT(a->flags & DVT_SCOPE_REARMED);
    CU_ASSERT_EQUAL(a->head_open, 0);
    CU_ASSERT_EQUAL(a->head_close, 64);
    CU_ASSERT_EQUAL(r->head_open, 64);
    CU_ASSERT_EQUAL(r->head_close, 128);
    CU_ASSERT_FALSE(r->flags & (DVT_SCOPE_REARMED | DVT_SCOPE_LATE_ARMED));
}

static _Atomic bool stop_working;

static void *work(void *p)
{
    (void)p;
    for (int i = 0; !atomic_load(&stop_working); i++) {
        struct dvt_scope a = dvt_scope_open(&(struct dvt_scope_args){.name = "a"});
        struct dvt_scope b = dvt_scope_open(&(struct dvt_scope_args){.name = "b", .always = i % 1000 == 0});
        dvt_label("k", "v");
        dvt_scope_close(b);
        dvt_scope_close(a);
    }
    return NULL;
}

static void test_a_scope_that_was_open_over_a_stop_and_a_start_counts_for_nothing(void)
{
    begin();
    struct dvt_scope old = dvt_scope_open(&(struct dvt_scope_args){.name = "old"});
    dvt_stop(5000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    fake_kill(&fake);

    begin();
    fake_sample(&fake, my_tid());
    struct dvt_scope now = dvt_scope_open(&(struct dvt_scope_args){.name = "now"});
    dvt_scope_close(old); /* it is not there any more, and closing it no misuse */
    fake_sample(&fake, my_tid());
    dvt_scope_close(now);
    end();
    const struct fake_scope *f = fake_find(&fake, "now");
    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT(f->head_open == 64 && f->head_close == 128);
    CU_ASSERT_EQUAL(f->parent_serial, 0);
    CU_ASSERT_EQUAL(fake_count(&fake, "old"), 0);
    CU_ASSERT_EQUAL(fake.counts.misuse_stale, before.misuse_stale);
    CU_ASSERT_EQUAL(fake.counts.opened, fake.counts.closed);
}

static void test_a_scope_that_was_open_while_nothing_was_recorded_counts_for_nothing(void)
{
    begin();
    struct dvt_scope around = dvt_scope_open(&(struct dvt_scope_args){.name = "around"});
    fake_kill(&fake);
    CU_ASSERT_FATAL(wait_active(false));
    struct dvt_scope inner = dvt_scope_open(&(struct dvt_scope_args){.name = "inner"});
    begin(); /* the daemon is there again; the thread is in inner, of which nothing is known */
    fake_sample(&fake, my_tid());
    dvt_scope_close(inner);
    dvt_scope_close(around);
    always("later");
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "around") + fake_count(&fake, "inner"), 0);
    CU_ASSERT_EQUAL(fake_count(&fake, "later"), 1);
    CU_ASSERT_EQUAL(fake.counts.misuse_stale, before.misuse_stale);
}

static void test_threads_go_on_through_restarts_of_the_daemon(void)
{
    pthread_t t[3];
    atomic_store(&stop_working, false);
    begin();
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, work, NULL), 0);
    for (int round = 0; round < 3; round++) {
        CU_ASSERT(fake_wait(&fake, fake.n_armed >= 4 && fake_find(&fake, "b")));
        fake_kill(&fake);
        begin();
    }
    atomic_store(&stop_working, true);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    end();
}

/* ---- fork, exec, exit ---- */

#if !defined(__SANITIZE_THREAD__)
static bool session_has(const char *name, uint64_t *ret_session)
{
    const struct fake_scope *o = fake_find(&fake, name);
    *ret_session = o ? o->session : 0;
    return o != NULL;
}

static void test_a_forked_child_reports_for_itself(void)
{
    uint64_t parent, child;
    begin();
    struct dvt_scope open = dvt_scope_open(&(struct dvt_scope_args){.name = "parent's", .always = true});
    pid_t pid = fork();
    if (pid == 0) {
        char tp[56];
        bool has = dvt_traceparent(tp);
        dvt_scope_close(open); /* not the child's: nothing */
        always("child's");
        pause_ms(1);
        dvt_stop(5000);
        _exit(has);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    dvt_scope_close(open);
    CU_ASSERT(fake_wait(&fake, fake_find(&fake, "child's") && fake.n_byes == 1));
    dvt_stop(5000);
    CU_ASSERT(fake_wait(&fake, fake.n_byes == 2));
    CU_ASSERT(session_has("parent's", &parent) && session_has("child's", &child) && parent != child);
    CU_ASSERT_EQUAL(fake_count(&fake, "parent's"), 1);
    CU_ASSERT(fake.pids[0] == (uint32_t)getpid() || fake.pids[1] == (uint32_t)getpid());
    fake_kill(&fake);
}

static void test_forks_of_a_busy_process_do_not_hang(void)
{
    pthread_t t[2];
    atomic_store(&stop_working, false);
    begin();
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, work, NULL), 0);
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            always("from a child");
            dvt_stop(60000);
            _exit(0);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
    }
    atomic_store(&stop_working, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    CU_ASSERT(fake_wait(&fake, fake_count(&fake, "from a child") == 10));
    dvt_stop(5000);
    fake_kill(&fake);
}

#endif

/* Runs this program again with argv[1] = mode; returns its wait status. */
static int run_self(const char *mode)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_life", mode, fake.path, (char *)NULL);
        _exit(126);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static int short_life(const char *path)
{
    if (dvt_start(&(struct dvt_options){.socket = path}) != 0)
        return 1;
    always("one request");
    return 0;
}

static void test_a_process_of_one_short_scope_is_reported(void)
{
    reset();
    fake_start(&fake);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(run_self("--short"), 0);
    CU_ASSERT(fake_wait(&fake, fake_count(&fake, "one request") == 5 && fake.n_byes == 5));
    fake_kill(&fake);
}

static void burn_ms(uint64_t ms)
{
    struct timespec t;
    uint64_t until = 0, now;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
        until = until ? until : now + ms;
    } while (now < until);
}

static int exec_under_fire(const char *path)
{
    if (dvt_start(&(struct dvt_options){.socket = path}) != 0)
        return 1;
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "exec"});
    (void)s;
    burn_ms(20);
    execl("/bin/true", "true", (char *)NULL);
    return 126;
}

static bool perf_is_allowed(void)
{
    long fd = fake_perf_open(my_tid(), 10000000);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
}

static void test_a_program_lives_through_exec_with_signals_on_their_way(void)
{
    if (!perf_is_allowed()) {
        fprintf(stderr, "skipped: perf_event_open is not allowed here\n");
        return;
    }
    reset();
    fake.arm = FAKE_PERF;
    fake.use_signal = true;
    fake.period_ns = 500000;
    fake_start(&fake);
    for (int i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(run_self("--exec"), 0);
    fake_kill(&fake);
}

/* ---- threads ---- */

static void *one_scope(void *p)
{
    (void)p;
    prctl(PR_SET_NAME, "comes-and-goes");
    always("brief");
    return NULL;
}

static void run_threads(int n)
{
    for (int i = 0; i < n; i += 20) {
        pthread_t t[20];
        for (int k = 0; k < 20; k++)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&t[k], NULL, one_scope, NULL), 0);
        for (int k = 0; k < 20; k++)
            pthread_join(t[k], NULL);
    }
}

static size_t count_ended(void)
{
    size_t n = 0;
    for (size_t i = 0; i < fake.n_threads; i++)
        n += fake.threads[i].ended && strcmp(fake.threads[i].name, "comes-and-goes") == 0;
    return n;
}

static void forget_rings(void)
{
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < fake.n_armed; i++)
        if (fake.armed[i].tid != my_tid() && fake.armed[i].map) {
            munmap(fake.armed[i].map, FAKE_MAP_BYTES);
            close(fake.armed[i].fd);
            fake.armed[i].map = NULL;
        }
    pthread_mutex_unlock(&fake.lock);
}

static void test_thousands_of_threads_come_and_go_and_leave_nothing_behind(void)
{
    begin();
    run_threads(200);
    CU_ASSERT_FATAL(fake_wait(&fake, count_ended() == 200));
    forget_rings();
    size_t fds = count_fds(), maps = count_maps();
    for (int i = 1; i <= 10; i++) {
        run_threads(200);
        CU_ASSERT(fake_wait(&fake, count_ended() == 200 + 200 * (size_t)i));
        forget_rings();
    }
    CU_ASSERT_EQUAL(count_fds(), fds);
    CU_ASSERT(count_maps() < maps + 200); /* slots are reused: 2,000 threads would have 2,000 more */
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "brief"), 2200);
    CU_ASSERT(fake.n_disarmed > 0 && fake.n_disarmed <= 2200); /* one for whom the socket is full is not waited for */
    CU_ASSERT_EQUAL(fake.counts.threads_ended - before.threads_ended, 2200);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return strcmp(argv[1], "--short") == 0 ? short_life(argv[2]) : exec_under_fire(argv[2]);
    if (!mkdtemp(dir) || CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("life", NULL, NULL);
#define ADD(t) CU_add_test(s, #t, t)
    ADD(test_off_by_environment_makes_everything_inert);
    ADD(test_a_bad_tag_template_is_refused_with_its_reason);
    ADD(test_an_absent_daemon_leaves_the_library_inert_after_a_while);
    ADD(test_a_daemon_that_comes_later_is_found);
    ADD(test_a_refused_hello_leaves_the_daemons_words);
    ADD(test_a_dormant_library_connects_when_woken);
    ADD(test_a_scope_closed_while_its_arming_is_under_way_is_dropped_if_no_sample_fell);
    ADD(test_a_scope_closed_while_its_arming_is_under_way_is_sent_if_a_sample_fell);
    ADD(test_a_scope_opened_when_its_ring_was_there_is_dropped_though_the_arming_is_not_over);
    ADD(test_a_scope_opened_before_its_arming_counts_from_the_rings_start);
    ADD(test_a_thread_that_cannot_be_sampled_is_counted_and_can_still_keep_always);
    ADD(test_reporting_resumes_with_a_new_daemon_under_a_new_arming_number);
    ADD(test_a_scope_that_was_open_over_a_stop_and_a_start_counts_for_nothing);
    ADD(test_a_scope_that_was_open_while_nothing_was_recorded_counts_for_nothing);
    ADD(test_threads_go_on_through_restarts_of_the_daemon);
#if !defined(__SANITIZE_THREAD__) /* ThreadSanitizer cannot follow threads started in a forked child */
    ADD(test_a_forked_child_reports_for_itself);
    ADD(test_forks_of_a_busy_process_do_not_hang);
#endif
    ADD(test_a_process_of_one_short_scope_is_reported);
    ADD(test_a_program_lives_through_exec_with_signals_on_their_way);
    ADD(test_thousands_of_threads_come_and_go_and_leave_nothing_behind);
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
