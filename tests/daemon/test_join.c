/*
 * test_join: borders, nesting and overlap in the columns, and random columns against the definition.
 */
#include <CUnit/Basic.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../../daemon/join.h"

enum { MAX = 64 };

static void innermost(const uint64_t *open, const uint64_t *close, const uint64_t *serial, uint32_t n,
                      uint64_t off, uint32_t want)
{
    uint32_t stack[MAX], row = 12345;
    struct join_scopes s = {open, close, serial, n};
    join_innermost(&s, &off, 1, stack, &row);
    CU_ASSERT_EQUAL(row, want);
}

static void test_sample_at_open_head_is_outside_at_close_head_inside(void)
{
    const uint64_t open[] = {10}, close[] = {20}, serial[] = {1};
    innermost(open, close, serial, 1, 10, JOIN_NONE);
    innermost(open, close, serial, 1, 11, 0);
    innermost(open, close, serial, 1, 20, 0);
    innermost(open, close, serial, 1, 21, JOIN_NONE);
}

static void test_nested_sample_is_in_the_inner_scope(void)
{
    const uint64_t open[] = {12, 10}, close[] = {15, 20}, serial[] = {2, 1};
    innermost(open, close, serial, 2, 13, 0);
    innermost(open, close, serial, 2, 16, 1);
    innermost(open, close, serial, 2, 11, 1);
}

static void test_overlap_goes_to_last_opened(void)
{
    const uint64_t open[] = {10, 15}, close[] = {20, 30}, serial[] = {1, 2};
    innermost(open, close, serial, 2, 14, 0);
    innermost(open, close, serial, 2, 18, 1);
    innermost(open, close, serial, 2, 25, 1);
}

static void test_equal_heads_are_told_apart_by_serial(void)
{
    const uint64_t open[] = {10, 10}, close[] = {20, 20}, serial[] = {2, 1};
    innermost(open, close, serial, 2, 15, 0);
    const uint64_t swapped[] = {1, 2};
    innermost(open, close, swapped, 2, 15, 1);
}

static void test_equal_serials_are_ambiguous_only_where_both_hold_it(void)
{
    const uint64_t open[] = {10, 15}, close[] = {20, 30}, serial[] = {1, 1};
    innermost(open, close, serial, 2, 18, JOIN_AMBIGUOUS);
    innermost(open, close, serial, 2, 12, 0);
    innermost(open, close, serial, 2, 25, 1);
}

static void test_no_samples_and_no_scopes(void)
{
    struct join_scopes none = {NULL, NULL, NULL, 0};
    uint64_t off = 5;
    uint32_t row = 0, stack[1];
    join_innermost(&none, NULL, 0, stack, NULL);
    join_innermost(&none, &off, 1, stack, &row);
    CU_ASSERT_EQUAL(row, JOIN_NONE);
    CU_ASSERT_EQUAL(join_filter(&none, &off, 1, stack), 0);
}

static void test_filter_keeps_enclosing_scopes_and_drops_empty_ones(void)
{
    const uint64_t open[] = {10, 14, 8, 40}, close[] = {12, 18, 30, 50}, serial[] = {2, 3, 1, 4},
                   offs[] = {15, 40};
    struct join_scopes s = {open, close, serial, 4};
    uint32_t keep[4];
    CU_ASSERT_EQUAL_FATAL(join_filter(&s, offs, 2, keep), 2);
    CU_ASSERT_EQUAL(keep[0], 1);
    CU_ASSERT_EQUAL(keep[1], 2);
    CU_ASSERT_EQUAL(join_filter(&s, offs, 0, keep), 0);
}

static void test_count_upto(void)
{
    const uint64_t offs[] = {3, 5, 9};
    CU_ASSERT_EQUAL(join_count_upto(offs, 3, 2), 0);
    CU_ASSERT_EQUAL(join_count_upto(offs, 3, 5), 2);
    CU_ASSERT_EQUAL(join_count_upto(offs, 3, UINT64_MAX), 3);
    CU_ASSERT_EQUAL(join_count_upto(NULL, 0, 2), 0);
}

/* ---- random columns, also such as no honest peer sends ---- */

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 20) % n;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool holds(const struct join_scopes *s, uint32_t i, uint64_t off)
{
    return s->open[i] < off && off <= s->close[i];
}

static uint32_t by_definition(const struct join_scopes *s, uint64_t off)
{
    uint32_t best = JOIN_NONE, n_best = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (!holds(s, i, off) || (best != JOIN_NONE && s->serial[i] < s->serial[best]))
            continue;
        n_best = best != JOIN_NONE && s->serial[i] == s->serial[best] ? n_best + 1 : 1;
        best = i;
    }
    return n_best > 1 ? JOIN_AMBIGUOUS : best;
}

static void test_random_columns_agree_with_the_definition(void)
{
    uint64_t open[MAX], close[MAX], serial[MAX], offs[MAX];
    uint32_t stack[MAX], rows[MAX], keep[MAX], wrong = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t n = (uint32_t)below(MAX), m = (uint32_t)below(MAX), n_want = 0;
        for (uint32_t i = 0; i < n; i++)
            close[i] = 1 + below(200), serial[i] = 1 + below(round % 2 ? 1000000 : 40);
        qsort(close, n, sizeof *close, ascending);
        for (uint32_t i = 0; i < n; i++)
            open[i] = below(close[i] + 1);
        for (uint32_t i = 0; i < m; i++)
            offs[i] = 1 + below(210);
        qsort(offs, m, sizeof *offs, ascending);
        struct join_scopes s = {open, close, serial, n};
        join_innermost(&s, offs, m, stack, rows);
        for (uint32_t i = 0; i < m; i++)
            wrong += rows[i] != by_definition(&s, offs[i]);
        uint32_t n_keep = join_filter(&s, offs, m, keep);
        for (uint32_t i = 0; i < n; i++) {
            bool any = false;
            for (uint32_t k = 0; k < m; k++)
                any = any || holds(&s, i, offs[k]);
            if (any && (n_want >= n_keep || keep[n_want] != i))
                wrong++;
            n_want += any;
        }
        wrong += n_want != n_keep;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("join", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_sample_at_open_head_is_outside_at_close_head_inside);
    T(test_nested_sample_is_in_the_inner_scope);
    T(test_overlap_goes_to_last_opened);
    T(test_equal_heads_are_told_apart_by_serial);
    T(test_equal_serials_are_ambiguous_only_where_both_hold_it);
    T(test_no_samples_and_no_scopes);
    T(test_filter_keeps_enclosing_scopes_and_drops_empty_ones);
    T(test_count_upto);
    T(test_random_columns_agree_with_the_definition);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
