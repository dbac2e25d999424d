/* Shared by the tests of the daemon's edge: one suite per executable, skip without perf events. */
#ifndef EDGE_CHECK_H
#define EDGE_CHECK_H

#include <CUnit/Basic.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct edge_test {
    const char *name;
    void (*fn)(void);
};

/* Runs all tests; the exit code for main. */
static inline int edge_run(const char *suite, const struct edge_test *tests, size_t n)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite(suite, NULL, NULL);
    for (size_t i = 0; s && i < n; i++)
        CU_add_test(s, tests[i].name, tests[i].fn);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    bool failed = !s || CU_get_number_of_failures() > 0 || CU_get_number_of_tests_run() != n;
    CU_cleanup_registry();
    return failed;
}
#define EDGE_RUN(suite, tests) edge_run(suite, tests, sizeof tests / sizeof tests[0])

/* Whether this machine lets us sample our own threads. */
static inline bool edge_perf_is_permitted(void)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .sample_period = 10000000,
                                .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);
}

static inline uint64_t edge_now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
