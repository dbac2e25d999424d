/* codemap: which code an address belongs to, while code comes, moves and dies. */
#include <CUnit/Basic.h>

#include <stdlib.h>

#include "codemap.h"

enum { PAGE = 1 << 18, BASE = 1 << 24 };

static struct dvt_node_codemap map;

static void add(uintptr_t start, uint32_t bytes, uint32_t id)
{
    dvt_node_codemap_add(&map, (struct dvt_node_code){.start = start, .bytes = bytes, .id = id});
}

static uint32_t id_at(uintptr_t addr)
{
    const struct dvt_node_code *c = dvt_node_codemap_find(&map, addr);
    return c ? c->id : 0;
}

static void begin(void)
{
    CU_ASSERT_EQUAL_FATAL(dvt_node_codemap_init(&map), 0);
}

static void end(void)
{
    dvt_node_codemap_fini(&map);
}

static void test_address_belongs_to_the_code_around_it_and_to_none_beside_it(void)
{
    begin();
    CU_ASSERT_EQUAL(id_at(BASE), 0);
    add(BASE, 16, 1);
    add(BASE + 32, 16, 2);
    CU_ASSERT_EQUAL(id_at(BASE - 1), 0);
    CU_ASSERT_EQUAL(id_at(BASE), 1);
    CU_ASSERT_EQUAL(id_at(BASE + 15), 1);
    CU_ASSERT_EQUAL(id_at(BASE + 16), 0);
    CU_ASSERT_EQUAL(id_at(BASE + 32), 2);
    end();
}

static void test_new_code_takes_the_place_of_all_it_overlaps(void)
{
    begin();
    add(BASE, 64, 1);
    add(BASE + 64, 64, 2);
    add(BASE + 128, 64, 3);
    add(BASE + 32, 100, 4);
    CU_ASSERT_EQUAL(id_at(BASE), 0);
    CU_ASSERT_EQUAL(id_at(BASE + 32), 4);
    CU_ASSERT_EQUAL(id_at(BASE + 131), 4);
    CU_ASSERT_EQUAL(id_at(BASE + 140), 0);
    end();
}

static void test_code_longer_than_a_page_is_found_from_later_pages(void)
{
    begin();
    add(BASE + 100, 3 * PAGE, 1);
    CU_ASSERT_EQUAL(id_at(BASE + 3 * PAGE), 1);
    CU_ASSERT_EQUAL(id_at(BASE + 100 + 3 * PAGE), 0);
    end();
}

static void test_moved_code_is_at_its_new_place_with_its_lines(void)
{
    struct dvt_node_line *lines = calloc(2, sizeof *lines);
    begin();
    lines[0] = (struct dvt_node_line){1, 10};
    lines[1] = (struct dvt_node_line){8, 20};
    dvt_node_codemap_add(&map, (struct dvt_node_code){.start = BASE, .bytes = 16, .id = 1, .lines = lines, .n_lines = 2});
    dvt_node_codemap_move(&map, BASE, BASE + 5 * PAGE);
    CU_ASSERT_EQUAL(id_at(BASE), 0);
    const struct dvt_node_code *c = dvt_node_codemap_find(&map, BASE + 5 * PAGE + 9);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    CU_ASSERT_EQUAL(dvt_node_code_line(c, 0), 0);
    CU_ASSERT_EQUAL(dvt_node_code_line(c, 7), 10);
    CU_ASSERT_EQUAL(dvt_node_code_line(c, 8), 20);
    dvt_node_codemap_move(&map, BASE + 1, BASE + 64); /* nothing is there */
    CU_ASSERT_EQUAL(id_at(BASE + 64), 0);
    end();
}

static void test_removed_code_is_gone(void)
{
    begin();
    add(BASE, 16, 1);
    dvt_node_codemap_remove(&map, BASE + 1);
    CU_ASSERT_EQUAL(id_at(BASE), 1);
    dvt_node_codemap_remove(&map, BASE);
    CU_ASSERT_EQUAL(id_at(BASE), 0);
    end();
}

static void test_second_mapping_means_the_first(void)
{
    begin();
    add(BASE + 64, 16, 1);
    map.original = BASE;
    map.copy = BASE + 9 * PAGE;
    map.copy_bytes = 4096;
    CU_ASSERT_EQUAL(id_at(BASE + 9 * PAGE + 70), 1);
    CU_ASSERT_EQUAL(id_at(BASE + 9 * PAGE + 4096 + 70), 0);
    end();
}

static void test_impossible_ranges_are_refused(void)
{
    begin();
    add(0, 16, 1);
    add(BASE, 0, 2);
    add(UINTPTR_MAX - 4, 16, 3);
    CU_ASSERT_EQUAL(id_at(4), 0);
    CU_ASSERT_EQUAL(id_at(BASE), 0);
    CU_ASSERT_EQUAL(id_at(UINTPTR_MAX - 2), 0);
    end();
}

static void test_reader_sees_that_something_changed(void)
{
    uint32_t version;
    begin();
    CU_ASSERT_TRUE(dvt_node_codemap_enter(&map, &version));
    CU_ASSERT_TRUE(dvt_node_codemap_leave(&map, version));
    add(BASE, 16, 1);
    CU_ASSERT_FALSE(dvt_node_codemap_leave(&map, version));
    end();
}

static void *helper(void *unused)
{
    for (uint32_t i = 0; i < 2000; i++)
        dvt_node_codemap_move(&map, BASE + 16 * (uintptr_t)i, BASE + 64 * PAGE + 16 * (uintptr_t)(i + 1));
    return unused;
}

static void test_helpers_move_what_the_owner_added(void)
{
    pthread_t thread;
    begin();
    for (uint32_t i = 0; i < 2000; i++)
        add(BASE + 16 * (uintptr_t)i, 16, i + 1);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, helper, NULL), 0);
    for (uint32_t i = 0; i < 2000; i++)
        add(BASE + 200 * PAGE + 32 * (uintptr_t)i, 16, 9);
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < 2000; i++)
        CU_ASSERT_EQUAL(id_at(BASE + 64 * PAGE + 16 * (uintptr_t)(i + 1)), i + 1);
    end();
}

/* Against a plain array: one id for each 16 bytes. */
static void test_random_changes_agree_with_a_model(void)
{
    enum { CELLS = 4 * PAGE / 16, STEPS = 20000 };
    uint32_t *model = calloc(CELLS, sizeof *model), *start = calloc(CELLS, sizeof *start);
    begin();
    srandom(7);
    for (uint32_t step = 1; step <= STEPS; step++) {
        uint32_t at = (uint32_t)random() % (CELLS - 64), n = 1 + (uint32_t)random() % 40;
        for (uint32_t i = 0; i < n; i++) /* whole codes die */
            for (uint32_t k = start[at + i], old = model[at + i]; old && k < CELLS && model[k] == old; k++)
                model[k] = 0;
        for (uint32_t i = 0; i < n; i++) {
            model[at + i] = step;
            start[at + i] = at;
        }
        add(BASE + 16 * (uintptr_t)at, 16 * n, step);
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < CELLS; i++)
        wrong += id_at(BASE + 16 * (uintptr_t)i + 5) != model[i];
    CU_ASSERT_EQUAL(wrong, 0);
    end();
    free(model);
    free(start);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("codemap", NULL, NULL);
    CU_ADD_TEST(s, test_address_belongs_to_the_code_around_it_and_to_none_beside_it);
    CU_ADD_TEST(s, test_new_code_takes_the_place_of_all_it_overlaps);
    CU_ADD_TEST(s, test_code_longer_than_a_page_is_found_from_later_pages);
    CU_ADD_TEST(s, test_moved_code_is_at_its_new_place_with_its_lines);
    CU_ADD_TEST(s, test_removed_code_is_gone);
    CU_ADD_TEST(s, test_second_mapping_means_the_first);
    CU_ADD_TEST(s, test_impossible_ranges_are_refused);
    CU_ADD_TEST(s, test_reader_sees_that_something_changed);
    CU_ADD_TEST(s, test_helpers_move_what_the_owner_added);
    CU_ADD_TEST(s, test_random_changes_agree_with_a_model);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
