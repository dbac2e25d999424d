/*
 * Up C frames without frame pointers: from a signal in the C library's qsort, and at every instruction of a function
 * with a prologue, saved registers and an epilogue.
 */
#include <CUnit/Basic.h>

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>

#include "../../shims/jvm/walker.h"

#if !defined(__x86_64__)
int main(void)
{
    return 77;
}
#else

enum { MAX = 64 };

static void *want[MAX];
static int n_want;
static uintptr_t have[MAX];
static int n_have;
static enum dvt_jvm_native_step last;
static uintptr_t stack_end;

static void climb(const ucontext_t *uc)
{
    const greg_t *g = uc->uc_mcontext.gregs;
    struct dvt_jvm_regs r = {(uintptr_t)g[REG_RIP], (uintptr_t)g[REG_RSP], (uintptr_t)g[REG_RBP]};
    n_have = 0;
    do {
        have[n_have++] = r.pc;
        last = dvt_jvm_native_up(&r, n_have == 1, stack_end);
    } while (last == DVT_JVM_NATIVE_OK && n_have < MAX);
}

static void on_usr1(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    n_want = backtrace(want, MAX);
    climb(context);
}

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 3 && y == 4)
        raise(SIGUSR1);
    return (x > y) - (x < y);
}

/* backtrace's frames end in the same; its own and the handler's come before. */
static bool ends_alike(void)
{
    int n = n_have - 1, skip = n_want - n;
    for (int i = 0; i < n && skip >= 0; i++)
        if ((uintptr_t)want[skip + i] != have[1 + i])
            return false;
    return skip >= 0 && n > 4;
}

static void test_frames_through_the_c_library_are_those_of_backtrace(void)
{
    int v[] = {4, 3, 9, 1, 7, 3, 4, 2};
    void *warm[4];
    backtrace(warm, 4); /* loads what it needs */
    n_have = 0;
    qsort(v, sizeof v / sizeof *v, sizeof *v, compare);
    CU_ASSERT_TRUE(ends_alike());
    CU_ASSERT_EQUAL(last, DVT_JVM_NATIVE_END);
}

/* ---- at any instruction ---- */

static volatile sig_atomic_t n_alarms, n_at_end, n_with_main;
static uintptr_t main_lo, main_hi;

static void on_alarm(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    climb(context);
    n_alarms++;
    n_at_end += last == DVT_JVM_NATIVE_END;
    for (int i = 0; i < n_have; i++)
        if (have[i] >= main_lo && have[i] < main_hi) {
            n_with_main++;
            break;
        }
}

__attribute__((noinline)) static long work(long x, int depth)
{
    volatile char room[40];
    room[depth] = (char)x;
    return depth ? work((x & 0xffff) * 31 + room[depth], depth - 1) + depth : x + random() % 3;
}

__attribute__((noinline)) static void run_until(int n)
{
    volatile long x = 0;
    while (n_alarms < n)
        x += work(x, 12);
}

static void test_at_any_instruction_the_chain_reaches_its_end(void)
{
    enum { N = 200 };
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    main_lo = (uintptr_t)run_until;
    main_hi = main_lo + 4096;
    setitimer(ITIMER_PROF, &every, NULL);
    run_until(N);
    setitimer(ITIMER_PROF, &never, NULL);
    CU_ASSERT_EQUAL(n_at_end, n_alarms);
    CU_ASSERT_EQUAL(n_with_main, n_alarms);
}

static void test_registers_that_lead_nowhere_are_refused(void)
{
    struct dvt_jvm_regs nowhere = {0x1000, stack_end - 64, stack_end - 64};
    CU_ASSERT_EQUAL(dvt_jvm_native_up(&nowhere, true, stack_end), DVT_JVM_NATIVE_LOST);
    struct dvt_jvm_regs above = {(uintptr_t)qsort + 8, stack_end, 0};
    CU_ASSERT_EQUAL(dvt_jvm_native_up(&above, true, stack_end), DVT_JVM_NATIVE_LOST);
}

static uintptr_t find_stack_end(void)
{
    pthread_attr_t attr;
    void *low;
    size_t n;
    if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &low, &n))
        return 0;
    pthread_attr_destroy(&attr);
    return (uintptr_t)low + n;
}

int main(void)
{
    struct sigaction on = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_RESTART};
    stack_end = find_stack_end();
    sigaction(SIGUSR1, &on, NULL);
    on.sa_sigaction = on_alarm;
    sigaction(SIGPROF, &on, NULL);
    dvt_jvm_native_init();
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("jvm_native", NULL, NULL);
    CU_ADD_TEST(s, test_frames_through_the_c_library_are_those_of_backtrace);
    CU_ADD_TEST(s, test_at_any_instruction_the_chain_reaches_its_end);
    CU_ADD_TEST(s, test_registers_that_lead_nowhere_are_refused);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
#endif
