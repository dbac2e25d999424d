/*
 * test_wait_log: what switch records add up to over any stretch, and what they leave unknown.
 */
#include <CUnit/Basic.h>

#include "../../daemon/wait_log.h"

#include <stdlib.h>

enum { FROM = 1000 };

static void put(struct wait_log *w, const struct switch_rec *v, uint32_t n)
{
    struct switches *s = malloc(sizeof *s + n * sizeof *v);
    *s = (struct switches){.from_ns = FROM, .n = n};
    for (uint32_t i = 0; i < n; i++)
        s->v[i] = v[i];
    CU_ASSERT_EQUAL(wait_log_put(w, s), 0);
    free(s);
}

#define PUT(w, ...)                                                                                          \
    do {                                                                                                     \
        const struct switch_rec v[] = {__VA_ARGS__};                                                         \
        put(w, v, sizeof v / sizeof *v);                                                                     \
    } while (0)

static void check(const struct wait_log *w, uint64_t start, uint64_t end, uint64_t until, struct wait_sums want)
{
    struct wait_sums got = wait_log_sum(w, start, end, until);
    CU_ASSERT_EQUAL(got.on_cpu_ns + got.blocked_ns + got.runnable_ns + got.unknown_ns, end > start ? end - start : 0);
    CU_ASSERT_EQUAL(got.on_cpu_ns, want.on_cpu_ns);
    CU_ASSERT_EQUAL(got.blocked_ns, want.blocked_ns);
    CU_ASSERT_EQUAL(got.runnable_ns, want.runnable_ns);
    CU_ASSERT_EQUAL(got.unknown_ns, want.unknown_ns);
    CU_ASSERT_EQUAL(got.waits, want.waits);
    CU_ASSERT_EQUAL(got.preemptions, want.preemptions);
}

/* Runs from 1000, blocked 1100 to 1300, runs, preempted 1400 to 1450, runs. */
static void put_plain(struct wait_log *w)
{
    wait_log_init(w);
    PUT(w, {1100, SWITCH_OUT}, {1300, SWITCH_IN}, {1400, SWITCH_OUT_PREEMPTED}, {1450, SWITCH_IN});
}

static void test_whole_and_cut_stretches_are_told_apart_by_kind(void)
{
    struct wait_log w;
    put_plain(&w);
    check(&w, 1000, 2000, 9000, (struct wait_sums){750, 200, 50, 0, 1, 1});
    check(&w, 1200, 1420, 9000, (struct wait_sums){100, 100, 20, 0, 1, 1});
    check(&w, 1150, 1250, 9000, (struct wait_sums){0, 100, 0, 0, 1, 0});
    check(&w, 1300, 1400, 9000, (struct wait_sums){.on_cpu_ns = 100});
    check(&w, 1400, 1400, 9000, (struct wait_sums){0});
    check(&w, 1400, 1300, 9000, (struct wait_sums){0});
    wait_log_fini(&w);
}

static void test_a_stretch_off_the_cpu_goes_on_until_its_end_is_told(void)
{
    struct wait_log w;
    wait_log_init(&w);
    PUT(&w, {1100, SWITCH_OUT});
    check(&w, 1000, 1500, 1400, (struct wait_sums){.on_cpu_ns = 100, .blocked_ns = 300, .unknown_ns = 100, .waits = 1});
    PUT(&w, {1450, SWITCH_IN});
    check(&w, 1000, 1500, 1600, (struct wait_sums){.on_cpu_ns = 150, .blocked_ns = 350, .waits = 1});
    wait_log_fini(&w);
}

static void test_time_before_the_first_record_and_behind_the_last_word_is_unknown(void)
{
    struct wait_log w;
    wait_log_init(&w);
    check(&w, 1000, 1500, 9000, (struct wait_sums){.unknown_ns = 500}); /* no word at all */
    put(&w, NULL, 0);
    check(&w, 900, 1500, 1200, (struct wait_sums){.on_cpu_ns = 200, .unknown_ns = 400});
    PUT(&w, {1600, SWITCH_IN}); /* it was off the CPU when recording began: why is not known */
    check(&w, 900, 1700, 9000, (struct wait_sums){.on_cpu_ns = 100, .unknown_ns = 700});
    wait_log_fini(&w);
}

static void test_a_thread_that_slept_when_recording_began_was_blocked_until_it_ran(void)
{
    struct wait_log w;
    const struct switches slept = {.from_ns = FROM, .slept = true};
    wait_log_init(&w);
    CU_ASSERT_EQUAL(wait_log_put(&w, &slept), 0);
    check(&w, 900, 1200, 9000, (struct wait_sums){.blocked_ns = 200, .unknown_ns = 100, .waits = 1});
    PUT(&w, {1600, SWITCH_IN});
    check(&w, 1000, 1700, 9000, (struct wait_sums){.on_cpu_ns = 100, .blocked_ns = 600, .waits = 1});
    wait_log_fini(&w);
    wait_log_init(&w); /* it fell asleep just before it was looked at */
    CU_ASSERT_EQUAL(wait_log_put(&w, &slept), 0);
    PUT(&w, {1100, SWITCH_OUT}, {1600, SWITCH_IN});
    check(&w, 1000, 1700, 9000, (struct wait_sums){.on_cpu_ns = 200, .blocked_ns = 500, .waits = 1});
    wait_log_fini(&w);
}

static void test_lost_records_make_their_time_unknown(void)
{
    struct wait_log w;
    put_plain(&w);
    PUT(&w, {1500, SWITCH_OUT}, {0, SWITCH_GAP});
    check(&w, 1450, 1800, 9000, (struct wait_sums){.on_cpu_ns = 50, .unknown_ns = 300});
    PUT(&w, {1900, SWITCH_OUT}, {2000, SWITCH_IN});
    check(&w, 1450, 2100, 9000, (struct wait_sums){.on_cpu_ns = 150, .blocked_ns = 100, .unknown_ns = 400, .waits = 1});
    PUT(&w, {2200, SWITCH_IN}); /* in again without an out: one was lost, and nobody said so */
    check(&w, 2000, 2300, 9000, (struct wait_sums){.on_cpu_ns = 100, .unknown_ns = 200});
    wait_log_fini(&w);
}

static void test_times_that_run_backwards_do_not_make_time(void)
{
    struct wait_log w;
    put_plain(&w);
    PUT(&w, {1200, SWITCH_OUT}, {1100, SWITCH_IN}, {1600, SWITCH_OUT}, {1700, SWITCH_IN});
    check(&w, 1450, 1800, 9000, (struct wait_sums){.on_cpu_ns = 250, .blocked_ns = 100, .waits = 1});
    wait_log_fini(&w);
}

static void test_a_long_log_is_bounded_and_never_wrong(void)
{
    struct wait_log w;
    const uint64_t n = 5 * WAIT_LOG_MAX; /* every 100 ns: 70 on the CPU, 30 blocked */
    wait_log_init(&w);
    for (uint64_t i = 0; i < n; i++)
        PUT(&w, {FROM + 100 * i + 70, SWITCH_OUT}, {FROM + 100 * i + 100, SWITCH_IN});
    CU_ASSERT_TRUE(w.n <= WAIT_LOG_MAX && wait_log_bytes(&w) <= 2 * WAIT_LOG_MAX * sizeof *w.spans);
    check(&w, FROM, FROM + 100 * n, UINT64_MAX, (struct wait_sums){70 * n, 30 * n, 0, 0, (uint32_t)n, 0});
    struct wait_sums late = wait_log_sum(&w, FROM + 100 * (n - 50), FROM + 100 * n, UINT64_MAX);
    CU_ASSERT_TRUE(late.blocked_ns == 1500 && late.waits == 50 && late.unknown_ns == 0);
    struct wait_sums old = wait_log_sum(&w, FROM + 70, FROM + 100, UINT64_MAX); /* inside a folded span */
    CU_ASSERT_TRUE(old.unknown_ns == 30 && old.blocked_ns == 0);
    wait_log_forget(&w);
    check(&w, FROM, FROM + 200, UINT64_MAX, (struct wait_sums){.unknown_ns = 200});
    wait_log_fini(&w);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wait_log", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_whole_and_cut_stretches_are_told_apart_by_kind);
    T(test_a_stretch_off_the_cpu_goes_on_until_its_end_is_told);
    T(test_time_before_the_first_record_and_behind_the_last_word_is_unknown);
    T(test_a_thread_that_slept_when_recording_began_was_blocked_until_it_ran);
    T(test_lost_records_make_their_time_unknown);
    T(test_times_that_run_backwards_do_not_make_time);
    T(test_a_long_log_is_bounded_and_never_wrong);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
