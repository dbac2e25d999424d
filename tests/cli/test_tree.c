/* tree: equal stacks become one path, sums add up, recursion counts once. */
#include "check.h"

#include "../../cli/intern.h"
#include "../../cli/tree.h"
#include "../../proto/chunk.h"

#include <stdio.h>

static uint32_t frame(struct tree *t, uint32_t parent, const char *name)
{
    struct tree_key key = {.kind = TREE_FRAME,
                           .frame_kind = DVT_FRAME_MANAGED,
                           .name = dvt_str(name),
                           .module = dvt_str("m.py"),
                           .file = dvt_str("")};
    return tree_child(t, parent, &key);
}

static void test_equal_children_are_one_node(void)
{
    struct tree t;
    char copy[] = "main";
    tree_init(&t);
    CU_ASSERT_EQUAL(frame(&t, 0, "main"), frame(&t, 0, copy));
    CU_ASSERT_NOT_EQUAL(frame(&t, 0, "main"), frame(&t, 0, "other"));
    CU_ASSERT_NOT_EQUAL(frame(&t, 1, "main"), frame(&t, 0, "main"));
    struct tree_key native = {.kind = TREE_FRAME,
                              .frame_kind = DVT_FRAME_NATIVE,
                              .name = dvt_str("main"),
                              .module = dvt_str("m.py"),
                              .file = dvt_str("")};
    CU_ASSERT_NOT_EQUAL(tree_child(&t, 0, &native), frame(&t, 0, "main"));
    tree_fini(&t);
}

static void test_totals_are_sums_of_what_lies_below(void)
{
    struct tree t;
    tree_init(&t);
    uint32_t a = frame(&t, 0, "a"), b = frame(&t, a, "b"), c = frame(&t, a, "c");
    tree_add(&t, a, 5, 1);
    tree_add(&t, b, 10, 2);
    tree_add(&t, c, 30, 3);
    tree_finish(&t);
    CU_ASSERT_EQUAL(t.nodes[a].total_ns, 45);
    CU_ASSERT_EQUAL(t.nodes[a].total_samples, 6);
    CU_ASSERT_EQUAL(t.nodes[a].self_ns, 5);
    CU_ASSERT_EQUAL(t.nodes[0].total_ns, 45);
    CU_ASSERT_EQUAL(t.nodes[a].first_child, c); /* heaviest first */
    CU_ASSERT_EQUAL(t.nodes[c].next_sibling, b);
    CU_ASSERT_EQUAL(t.nodes[b].next_sibling, TREE_NONE);
    tree_fini(&t);
}

static void test_parents_lie_before_children_in_a_large_tree(void)
{
    struct tree t;
    tree_init(&t);
    uint32_t node = 0;
    for (int i = 0; i < 20000; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i % 300);
        node = i % 7 ? frame(&t, node, name) : frame(&t, 0, name);
        tree_add(&t, node, 1, 1);
    }
    tree_finish(&t);
    for (uint32_t i = 1; i < t.n_nodes; i++) {
        CU_ASSERT_FATAL(t.nodes[i].parent < i);
    }
    CU_ASSERT_EQUAL(t.nodes[0].total_samples, 20000);
    tree_fini(&t);
}

static void test_the_line_with_most_weight_is_shown(void)
{
    struct tree t;
    tree_init(&t);
    uint32_t a = frame(&t, 0, "a");
    tree_line(&t, a, 10, 30);
    tree_line(&t, a, 20, 25);
    tree_line(&t, a, 20, 25);
    tree_line(&t, a, 10, 1);
    tree_line(&t, a, 20, 5);
    CU_ASSERT_EQUAL(t.nodes[a].line, 20);
    tree_fini(&t);
}

static void test_recursion_counts_once_in_a_functions_total(void)
{
    struct tree t;
    struct tree_function f[4];
    tree_init(&t);
    uint32_t a = frame(&t, 0, "fib"), b = frame(&t, a, "fib"), c = frame(&t, b, "fib"),
             d = frame(&t, 0, "other");
    tree_add(&t, a, 1, 1);
    tree_add(&t, b, 2, 1);
    tree_add(&t, c, 4, 1);
    tree_add(&t, d, 3, 1);
    tree_finish(&t);
    CU_ASSERT_EQUAL(tree_hottest(&t, f, 4), 2);
    CU_ASSERT_EQUAL(f[0].self_ns, 7);
    CU_ASSERT_EQUAL(f[0].total_ns, 7);
    CU_ASSERT_EQUAL(f[0].total_samples, 3);
    CU_ASSERT_EQUAL(f[1].self_ns, 3);
    CU_ASSERT_EQUAL(tree_hottest(&t, f, 1), 1);
    CU_ASSERT_EQUAL(f[0].self_ns, 7);
    tree_fini(&t);
}

static void test_hottest_keeps_the_largest(void)
{
    struct tree t;
    struct tree_function f[3];
    tree_init(&t);
    for (uint32_t i = 1; i <= 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        tree_add(&t, frame(&t, 0, name), i * 37 % 51, 1);
    }
    tree_finish(&t);
    CU_ASSERT_EQUAL(tree_hottest(&t, f, 3), 3);
    CU_ASSERT_EQUAL(f[0].self_ns, 50);
    CU_ASSERT_EQUAL(f[1].self_ns, 49);
    CU_ASSERT_EQUAL(f[2].self_ns, 48);
    tree_fini(&t);
}

static void test_interned_strings_are_kept_once(void)
{
    struct intern *s = intern_new();
    char text[100000];
    memset(text, 'x', sizeof text);
    struct dvt_str a = intern(s, dvt_str("abc")), empty = intern(s, (struct dvt_str){NULL, 0});
    for (size_t n = 1; n < sizeof text; n += 977) {
        struct dvt_str kept = intern(s, (struct dvt_str){text, n});
        CU_ASSERT_FATAL(kept.n == n && memcmp(kept.p, text, n) == 0);
    }
    CU_ASSERT_PTR_EQUAL(intern(s, dvt_str("abc")).p, a.p);
    CU_ASSERT_PTR_EQUAL(intern(s, dvt_str("")).p, empty.p);
    CU_ASSERT_EQUAL(intern_index(s, dvt_str("abc")), 0);
    CU_ASSERT_EQUAL(intern_at(s, 0).n, 3);
    intern_free(s);
}

static void test_a_name_of_module_and_offset_has_its_module(void)
{
    CU_ASSERT_TRUE(tree_name_has_module(dvt_str("libz.so.1+0x2f30"), dvt_str("libz.so.1")));
    CU_ASSERT_TRUE(tree_name_has_module(dvt_str("libz.so.1+0x2f30"), dvt_str("/usr/lib/libz.so.1")));
    CU_ASSERT_FALSE(tree_name_has_module(dvt_str("libz.so.1"), dvt_str("libz.so.1")));
    CU_ASSERT_FALSE(tree_name_has_module(dvt_str("inflate"), dvt_str("libz.so.1")));
    CU_ASSERT_FALSE(tree_name_has_module(dvt_str("+0x2f30"), dvt_str("")));
    CU_ASSERT_FALSE(tree_name_has_module(dvt_str("+0x2f30"), dvt_str("lib/")));
}

static const struct check_case cases[] = {CASE(test_equal_children_are_one_node),
                                          CASE(test_totals_are_sums_of_what_lies_below),
                                          CASE(test_parents_lie_before_children_in_a_large_tree),
                                          CASE(test_the_line_with_most_weight_is_shown),
                                          CASE(test_recursion_counts_once_in_a_functions_total),
                                          CASE(test_hottest_keeps_the_largest),
                                          CASE(test_interned_strings_are_kept_once),
                                          CASE(test_a_name_of_module_and_offset_has_its_module)};
CHECK_MAIN("tree", cases)
