/*
 * test_settled: what the shim says is settled is settled: with samples falling at any instruction of open and close, no
 * scope arrives later that holds a sample at or before the settled head told earlier; and every scope with a sample
 * arrives.
 *
 * Samples are faked as the kernel makes them: by an interrupt (a timer signal) of the sampled thread itself.
 */
#include <CUnit/Basic.h>
#include <signal.h>
#include <sys/time.h>

#include "fake_daemon.h"
#include "../../shims/core/runtime.h"

static char dir[64] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;

enum { WORKERS = 2, SAMPLES = 3000 };

static __thread _Atomic uint64_t *my_head __attribute__((tls_model("initial-exec")));
static __thread volatile sig_atomic_t n_samples __attribute__((tls_model("initial-exec")));

static void on_timer(int sig)
{
    (void)sig;
    if (!my_head)
        return;
    atomic_fetch_add_explicit(my_head, 8, memory_order_release);
    n_samples = n_samples + 1;
}

static void *work(void *p)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    timer_t timer;
    struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    how._sigev_un._tid = (int)tid;
    (void)p;
    dvt_thread_start();
    CU_ASSERT(fake_wait(&fake, fake_knows(&fake, tid, false)));
    pthread_mutex_lock(&fake.lock);
    my_head = fake_head(&fake, tid);
    pthread_mutex_unlock(&fake.lock);
    CU_ASSERT_EQUAL(timer_create(CLOCK_MONOTONIC, &how, &timer), 0);
    struct itimerspec every = {{0, 100000}, {0, 100000}};
    timer_settime(timer, 0, &every, NULL);
    for (uint64_t i = 0; n_samples < SAMPLES; i++) {
        struct dvt_scope outer = dvt_scope_open(&(struct dvt_scope_args){.name = "outer"});
        for (uint64_t k = 0; k < i % 3; k++)
            dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "inner"}));
        dvt_scope_close(outer);
    }
    timer_delete(timer);
    return NULL;
}

static void test_nothing_arrives_after_it_was_said_to_be_settled(void)
{
    pthread_t t[WORKERS];
    struct sigaction on = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &on, NULL);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake.flush_ms = 10;
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path}), 0);
    for (int i = 0; i < WORKERS; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, work, NULL), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(t[i], NULL);
    dvt_stop(10000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    size_t late = 0, advanced = 0;
    for (int w = 0; w < WORKERS; w++) {
        uint64_t settled = 0, told = 0;
        for (size_t i = 0; i < fake.n_scopes; i++) {
            const struct fake_scope *o = &fake.scopes[i];
            if (o->epoch != fake.armed[w].epoch)
                continue;
            if (o->settled_head != told) { /* the next message */
                settled = told;
                told = o->settled_head;
                advanced++;
            }
            late += o->head_open < settled; /* holds a sample at head_open + 8 <= settled */
            CU_ASSERT(o->head_close > o->head_open);
        }
    }
    CU_ASSERT_EQUAL(late, 0);
    CU_ASSERT(advanced > 10);
    CU_ASSERT(fake.counts.kept > SAMPLES / 10);
    CU_ASSERT_EQUAL(fake.counts.closed, fake.counts.kept + fake.counts.dropped);
    CU_ASSERT_EQUAL(fake.n_scopes, fake.counts.kept);
    CU_ASSERT_EQUAL(fake.n_bad, 0);
    fake_kill(&fake);
}

int main(void)
{
    if (!mkdtemp(dir) || CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("settled", NULL, NULL);
    CU_add_test(s, "test_nothing_arrives_after_it_was_said_to_be_settled",
                test_nothing_arrives_after_it_was_said_to_be_settled);
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
