/*
 * test_trace_table: when an open trace is due, and that part numbers go on after it was closed.
 */
#include <CUnit/Basic.h>

#include <string.h>

#include "../../daemon/trace_table.h"

static const struct trace_rules rules = {.idle_close_ns = 500, .root_grace_ns = 100, .part_cap_ns = 3000};

static struct dvt_trace_id id_of(uint64_t n)
{
    struct dvt_trace_id id = {{1}};
    memcpy(id.b + 8, &n, sizeof n);
    return id;
}

static void test_due_by_root_idle_and_part(void)
{
    struct trace_table t;
    struct dvt_trace_id id = id_of(1);
    trace_table_init(&t);
    struct trace_entry *e = trace_table_enter(&t, &id, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(trace_entry_build(e, 1000));
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 1499), TRACE_OPEN);
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 1500), TRACE_DUE_IDLE);
    CU_ASSERT_EQUAL(trace_entry_next(e, &rules), 1500);
    e->n_roots = 1;
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 1099), TRACE_OPEN);
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 1100), TRACE_DUE_ROOT);
    CU_ASSERT_EQUAL(trace_entry_next(e, &rules), 1100);
    e->n_open = e->n_open_roots = 1; /* another local root still runs */
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 3999), TRACE_OPEN);
    CU_ASSERT_EQUAL(trace_entry_due(e, &rules, 4000), TRACE_DUE_PART);
    CU_ASSERT_EQUAL(trace_entry_next(e, &rules), 4000);
    trace_table_fini(&t);
}

static void test_next_is_never_later_than_due(void)
{
    struct trace_entry e = {.news_ns = 1000, .part_ns = 900};
    for (uint32_t bits = 0; bits < 16; bits++) {
        e.build = bits & 1 ? trace_build_new(&e.id, 0) : NULL;
        e.n_open = (bits & 2) != 0;
        e.n_open_roots = (bits & 4) != 0 && e.n_open;
        e.n_roots = (bits & 8) != 0;
        uint64_t next = trace_entry_next(&e, &rules);
        for (uint64_t now = 1000; now < next && now < 6000; now++)
            CU_ASSERT_EQUAL(trace_entry_due(&e, &rules, now), TRACE_OPEN);
        if (next < 6000)
            CU_ASSERT_NOT_EQUAL(trace_entry_due(&e, &rules, next), TRACE_OPEN);
        trace_build_free(e.build);
    }
}

static void test_part_number_goes_on_after_removal(void)
{
    struct trace_table t;
    struct dvt_trace_id id = id_of(1);
    trace_table_init(&t);
    struct trace_entry *e = trace_table_enter(&t, &id, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    e->part = 3;
    trace_table_remove(&t, e);
    CU_ASSERT_PTR_NULL(trace_table_find(&t, &id));
    e = trace_table_enter(&t, &id, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    CU_ASSERT_EQUAL(e->part, 3);
    trace_table_fini(&t);
}

static void test_memory_of_closed_traces_is_bounded(void)
{
    struct trace_table t;
    trace_table_init(&t);
    for (uint64_t i = 0; i < 3 * TRACE_TABLE_REMEMBERED; i++) {
        struct dvt_trace_id id = id_of(i);
        struct trace_entry *e = trace_table_enter(&t, &id, 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(e);
        e->part = 1;
        trace_table_remove(&t, e);
    }
    CU_ASSERT_EQUAL(t.memory_map.n, TRACE_TABLE_REMEMBERED);
    CU_ASSERT_EQUAL(t.n, 0);
    struct dvt_trace_id last = id_of(3 * TRACE_TABLE_REMEMBERED - 1), first = id_of(0);
    CU_ASSERT_EQUAL(trace_table_enter(&t, &last, 0)->part, 1);
    CU_ASSERT_EQUAL(trace_table_enter(&t, &first, 0)->part, 0); /* forgotten */
    trace_table_fini(&t);
}

static void test_many_traces_are_found_again_through_removals(void)
{
    struct trace_table t;
    trace_table_init(&t);
    for (uint64_t i = 0; i < 20000; i++) {
        struct dvt_trace_id id = id_of(i);
        CU_ASSERT_PTR_NOT_NULL_FATAL(trace_table_enter(&t, &id, 0));
    }
    for (uint64_t i = 0; i < 20000; i += 3) {
        struct dvt_trace_id id = id_of(i);
        trace_table_remove(&t, trace_table_find(&t, &id));
    }
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        struct dvt_trace_id id = id_of(i);
        const struct trace_entry *e = trace_table_find(&t, &id);
        wrong += i % 3 ? !e || memcmp(&e->id, &id, sizeof id) || t.all[e->place] != e : e != NULL;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    trace_table_fini(&t);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("trace_table", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_due_by_root_idle_and_part);
    T(test_next_is_never_later_than_due);
    T(test_part_number_goes_on_after_removal);
    T(test_memory_of_closed_traces_is_bounded);
    T(test_many_traces_are_found_again_through_removals);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
