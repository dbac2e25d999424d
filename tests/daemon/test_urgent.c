/*
 * test_urgent: the sampler's thread goes first while it is brief, and not for long.
 */
#include "../../daemon/urgent.h"

#include <CUnit/Basic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int policy(void)
{
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void test_thread_is_urgent_until_the_end(void)
{
    CU_ASSERT_EQUAL(policy(), SCHED_FIFO);
    urgent_end();
    CU_ASSERT_EQUAL(policy(), SCHED_OTHER);
}

static void test_thread_that_runs_too_long_loses_its_urgency(void)
{
    CU_ASSERT_TRUE_FATAL(urgent_begin());
    while (policy() == SCHED_FIFO) /* the kernel's limit ends it; CTest's if that fails */
        (void)time(NULL); /* ThreadSanitizer lets a signal's handler run only at a call that it knows */
    CU_ASSERT_EQUAL(policy(), SCHED_OTHER);
    urgent_end();
}

int main(void)
{
    if (!urgent_begin()) {
        puts("skipped: real-time priority is not permitted here");
        return 77;
    }
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("urgent", NULL, NULL);
    CU_add_test(s, "thread is urgent until the end", test_thread_is_urgent_until_the_end);
    CU_add_test(s, "thread that runs too long loses its urgency", test_thread_that_runs_too_long_loses_its_urgency);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
