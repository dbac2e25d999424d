/*
 * test_bell: a C program that is woken and put to sleep from outside, again and again, and who may do that.
 */
#include <CUnit/Basic.h>
#include <sys/wait.h>

#include "fake_daemon.h"
#include "../../proto/bell.h"
#include "../../shims/core/runtime.h"

static char dir[64] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;

static void begin(void)
{
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake_start(&fake);
}

static void end(void)
{
    dvt_stop(5000);
    fake_kill(&fake);
}

/* The answer to a packet; 0: none. */
static char ring_with(const char *p, size_t n)
{
    struct sockaddr_un a;
    socklen_t n_a = dvt_bell_address(getpid(), &a);
    char answer = 0;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, n_a) == 0 && (n == 0 || send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n) &&
        recv(fd, &answer, 1, 0) != 1)
        answer = 0;
    close(fd);
    return answer;
}

static char ring(char op)
{
    struct dvt_bell b = {.op = op, .socket = fake.path, .service = "from outside"};
    char packet[DVT_BELL_MAX];
    return ring_with(packet, dvt_bell_put(&b, packet));
}

static int start_dormant(void)
{
    return dvt_start(&(struct dvt_options){.socket = "/nowhere/s", .dormant = true});
}

/* For the n-th time; until the daemon samples this thread. */
static void wake(size_t n)
{
    CU_ASSERT_EQUAL(ring(DVT_BELL_WAKE), DVT_BELL_AWAKE);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_hellos == n));
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_heartbeats > 0 && fake_knows(&fake, my_tid(), false)));
}

static void test_it_is_woken_and_put_to_sleep_again_and_again(void)
{
    enum { ROUNDS = 12 };
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), DVT_BELL_ASLEEP);
    CU_ASSERT_PTR_NULL(dvt_scope_open(NULL).thread);
    for (size_t i = 1; i <= ROUNDS; i++) {
        wake(i);
        dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "awake", .always = true}));
        CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), DVT_BELL_AWAKE);
        CU_ASSERT_EQUAL(ring(DVT_BELL_SLEEP), DVT_BELL_ASLEEP);
        CU_ASSERT_FALSE(dvt_rt_active());
        CU_ASSERT_PTR_NULL(dvt_scope_open(NULL).thread);
        CU_ASSERT(fake_wait(&fake, fake.n_byes == i)); /* and what there was came before it */
        CU_ASSERT_EQUAL(fake_count(&fake, "awake"), i);
    }
    CU_ASSERT_EQUAL(fake.n_bad, 0);
    end();
}

/* What is open over a sleep is of a time that nothing is known of. */
static void test_a_scope_that_is_open_over_a_sleep_is_not_sent(void)
{
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    wake(1);
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "over it", .always = true});
    CU_ASSERT_EQUAL(ring(DVT_BELL_SLEEP), DVT_BELL_ASLEEP);
    wake(2);
    dvt_scope_close(s);
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "after it", .always = true}));
    dvt_stop(5000);
    CU_ASSERT(fake_wait(&fake, fake.n_byes == 2));
    fake_kill(&fake);
    CU_ASSERT_EQUAL(fake_count(&fake, "after it"), 1);
    CU_ASSERT_EQUAL(fake_count(&fake, "over it"), 0);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nobody asked for what a thread did while the library slept. */
static void test_cpu_time_of_a_sleep_is_not_missing(void)
{
    enum { ASLEEP_NS = 200000000 };
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    wake(1);
    CU_ASSERT_EQUAL(ring(DVT_BELL_SLEEP), DVT_BELL_ASLEEP);
    uint64_t until = cpu_ns() + ASLEEP_NS;
    while (cpu_ns() < until)
        ;
    size_t n_threads = fake.n_threads;
    CU_ASSERT_EQUAL(ring(DVT_BELL_WAKE), DVT_BELL_AWAKE);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_threads > n_threads));
    end();
    CU_ASSERT(fake.counts.uncovered_ns < ASLEEP_NS / 2);
    for (size_t i = 0; i < fake.n_threads; i++)
        CU_ASSERT(fake.threads[i].uncovered_ns < ASLEEP_NS / 2);
}

static void test_what_is_not_said_right_changes_nothing(void)
{
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    CU_ASSERT_EQUAL(ring(DVT_BELL_SLEEP), DVT_BELL_ASLEEP); /* it was */
    CU_ASSERT_EQUAL(ring_with("hello", 5), DVT_BELL_BAD);
    CU_ASSERT_EQUAL(ring_with("wno path\0\0", 10), DVT_BELL_BAD);
    CU_ASSERT_EQUAL(ring_with("", 0), 0); /* who says nothing is let go */
    CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), DVT_BELL_ASLEEP);
    CU_ASSERT_EQUAL(ring(DVT_BELL_WAKE), DVT_BELL_AWAKE);
    CU_ASSERT_EQUAL(ring(DVT_BELL_WAKE), DVT_BELL_AWAKE);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_hellos == 1));
    end();
    CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), 0);
}

static void test_other_users_are_not_heard(void)
{
    if (geteuid() != 0)
        return; /* only root can be somebody else */
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        struct sockaddr_un a;
        socklen_t n = dvt_bell_address(parent, &a);
        char answer = 0;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        bool is_heard = setuid(65534) != 0 || connect(fd, (struct sockaddr *)&a, n) != 0 ||
                        (send(fd, "r", 1, MSG_NOSIGNAL) == 1 && recv(fd, &answer, 1, 0) == 1); /* it may have hung up before */
        _exit(is_heard);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), DVT_BELL_ASLEEP);
    end();
}

#if !defined(__SANITIZE_THREAD__) /* ThreadSanitizer cannot follow threads started in a forked child */
/* The bell of a forked child is its own, from its own start on. */
static void test_a_child_does_not_answer_for_its_parent(void)
{
    begin();
    CU_ASSERT_EQUAL_FATAL(start_dormant(), 0);
    pid_t child = fork();
    if (child == 0) {
        bool had_none = ring(DVT_BELL_REPORT) == 0;
        bool starts = start_dormant() == 0 && ring(DVT_BELL_REPORT) == DVT_BELL_ASLEEP;
        dvt_stop(100);
        _exit(had_none && starts ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(ring(DVT_BELL_REPORT), DVT_BELL_ASLEEP);
    end();
}

#endif

#define ADD(test) CU_add_test(s, #test, test)

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("bell", NULL, NULL);
    ADD(test_it_is_woken_and_put_to_sleep_again_and_again);
    ADD(test_a_scope_that_is_open_over_a_sleep_is_not_sent);
    ADD(test_cpu_time_of_a_sleep_is_not_missing);
    ADD(test_what_is_not_said_right_changes_nothing);
    ADD(test_other_users_are_not_heard);
#if !defined(__SANITIZE_THREAD__)
    ADD(test_a_child_does_not_answer_for_its_parent);
#endif
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    fake_free(&fake);
    rmdir(dir);
    return failed ? 1 : 0;
}
