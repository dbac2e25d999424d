/*
 * test_scope_index: rows keep together through growth, sorting and keeping.
 */
#include <CUnit/Basic.h>

#include "../../daemon/scope_index.h"

static void put(struct scope_index *x, uint64_t open, uint64_t close, uint64_t serial)
{
    CU_ASSERT_EQUAL_FATAL(scope_index_reserve(x, 1), 0);
    scope_index_put(x, open, close, serial, NULL);
}

static void test_rows_survive_growth(void)
{
    struct scope_index x;
    scope_index_init(&x);
    for (uint64_t i = 1; i <= 10000; i++)
        put(&x, i, i + 5, i * 3);
    CU_ASSERT_EQUAL(x.n, 10000);
    for (uint32_t i = 0; i < x.n; i++)
        CU_ASSERT_TRUE(x.open[i] == i + 1 && x.close[i] == i + 6 && x.serial[i] == 3 * (i + 1u));
    CU_ASSERT_TRUE(x.is_sorted);
    scope_index_fini(&x);
    CU_ASSERT_EQUAL(x.n, 0);
}

static void test_straggler_is_sorted_in_with_its_row(void)
{
    struct scope_index x;
    scope_index_init(&x);
    put(&x, 1, 10, 101);
    put(&x, 2, 30, 102);
    put(&x, 3, 20, 103);
    put(&x, 4, 30, 104);
    CU_ASSERT_FALSE(x.is_sorted);
    CU_ASSERT_EQUAL(scope_index_sort(&x), 0);
    const uint64_t want[] = {101, 103, 102, 104}; /* equal closes in order of arrival */
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(x.serial[i], want[i]);
    CU_ASSERT_EQUAL(x.open[1], 3);
    CU_ASSERT_TRUE(x.is_sorted);
    scope_index_fini(&x);
}

static void test_keep_leaves_the_named_rows(void)
{
    struct scope_index x;
    const uint32_t keep[] = {0, 3};
    scope_index_init(&x);
    for (uint64_t i = 0; i < 5; i++)
        put(&x, i, i + 10, i + 100);
    scope_index_keep(&x, keep, 2);
    CU_ASSERT_EQUAL(x.n, 2);
    CU_ASSERT_EQUAL(x.serial[0], 100);
    CU_ASSERT_EQUAL(x.serial[1], 103);
    CU_ASSERT_EQUAL(x.close[1], 13);
    scope_index_fini(&x);
}

static void test_absurd_reserve_is_refused(void)
{
    struct scope_index x;
    scope_index_init(&x);
    CU_ASSERT_NOT_EQUAL(scope_index_reserve(&x, UINT32_MAX), 0);
    scope_index_fini(&x);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("scope_index", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_rows_survive_growth);
    T(test_straggler_is_sorted_in_with_its_row);
    T(test_keep_leaves_the_named_rows);
    T(test_absurd_reserve_is_refused);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
