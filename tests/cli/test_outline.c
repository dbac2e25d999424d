/* outline: which lines the text view of a tree has. */
#include "check.h"

#include "../../cli/outline.h"
#include "../../proto/chunk.h"

#include <stdio.h>

static uint32_t add(struct tree *t, uint32_t parent, uint8_t kind, const char *name, uint64_t samples)
{
    struct tree_key key = {TREE_FRAME, kind, dvt_str(name), dvt_str(""), dvt_str("")};
    uint32_t node = tree_child(t, parent, &key);
    tree_add(t, node, samples * 1000000, samples);
    return node;
}

/* main: heavy (90), and page faults of 4 samples five frames down; then six functions of one sample. */
static void make(struct tree *t)
{
    static const char *const faults[] = {"asm_exc_page_fault", "exc_page_fault", "handle_mm_fault",
                                         "do_anonymous_page", "clear_page"};
    tree_init(t);
    uint32_t top = add(t, 0, DVT_FRAME_MANAGED, "main", 0), node = top;
    add(t, top, DVT_FRAME_MANAGED, "heavy", 90);
    for (size_t i = 0; i < 5; i++) {
        node = add(t, node, DVT_FRAME_KERNEL, faults[i], i == 4 ? 4 : 0);
    }
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "rare_%d", i);
        add(t, top, DVT_FRAME_MANAGED, name, 1);
    }
    tree_finish(t);
}

static bool is_named(const struct tree *t, uint32_t node, const char *name)
{
    return dvt_str_eq(t->nodes[node].name, dvt_str(name));
}

static void test_a_chain_of_light_kernel_frames_is_one_line(void)
{
    struct tree t;
    struct outline o;
    make(&t);
    outline_init(&o, &t, &(struct outline_options){.min_share = 0.02, .folds = true});
    CU_ASSERT_EQUAL_FATAL(o.n, 4);
    CU_ASSERT_TRUE(is_named(&t, o.lines[1].node, "heavy"));
    CU_ASSERT_TRUE(is_named(&t, o.lines[2].node, "asm_exc_page_fault"));
    CU_ASSERT_TRUE(is_named(&t, o.lines[2].last, "clear_page"));
    outline_fini(&o);
    outline_init(&o, &t, &(struct outline_options){.min_share = 0.02});
    CU_ASSERT_EQUAL(o.n, 8);
    outline_fini(&o);
    tree_fini(&t);
}

static void test_heavy_kernel_frames_keep_their_lines(void)
{
    struct tree t;
    struct outline o;
    tree_init(&t);
    add(&t, add(&t, add(&t, 0, DVT_FRAME_MANAGED, "main", 94), DVT_FRAME_KERNEL, "a", 0), DVT_FRAME_KERNEL,
        "b", 6);
    tree_finish(&t);
    outline_init(&o, &t, &(struct outline_options){.folds = true});
    CU_ASSERT_EQUAL(o.n, 3);
    outline_fini(&o);
    tree_fini(&t);
}

/* run, work, call of a library with `self` samples in work; app's main and loop below. */
static size_t lines_of_library_chain(uint64_t self, bool folds)
{
    struct tree t;
    struct outline o;
    tree_init(&t);
    uint32_t node = add(&t, 0, DVT_FRAME_MANAGED, "java.run", 0);
    node = add(&t, node, DVT_FRAME_MANAGED, "java.work", self);
    node = add(&t, node, DVT_FRAME_MANAGED, "java.call", 0);
    struct tree_key app = {TREE_FRAME, DVT_FRAME_MANAGED, dvt_str("main"), dvt_str("Shop.java"), dvt_str("")};
    tree_add(&t, tree_child(&t, node, &app), 50000000, 50);
    tree_finish(&t);
    outline_init(&o, &t, &(struct outline_options){.folds = folds});
    size_t n = o.n;
    CU_ASSERT_TRUE(!folds || self || is_named(&t, o.lines[0].last, "java.call"));
    outline_fini(&o);
    tree_fini(&t);
    return n;
}

static void test_a_chain_of_library_frames_is_one_line_unless_one_has_samples(void)
{
    CU_ASSERT_EQUAL(lines_of_library_chain(0, true), 2);
    CU_ASSERT_EQUAL(lines_of_library_chain(5, true), 4);
    CU_ASSERT_EQUAL(lines_of_library_chain(0, false), 4);
}

/* big: 60 functions of 1.5%; small: 8% in 5 functions, of which one has most; tiny: 0.5%. */
static void test_a_service_of_few_samples_still_shows_where_most_of_it_goes(void)
{
    struct tree t;
    struct outline o;
    tree_init(&t);
    static const char *const names[] = {"big", "small", "tiny"};
    for (size_t s = 0; s < 3; s++) {
        uint32_t service = tree_child(&t, 0, &(struct tree_key){.kind = TREE_SERVICE, .name = dvt_str(names[s])});
        for (uint64_t i = 0; i < (s == 0 ? 60 : s == 1 ? 5 : 1); i++) {
            char name[24];
            snprintf(name, sizeof name, "%s_%d", names[s], (int)i);
            add(&t, service, DVT_FRAME_MANAGED, name, s == 0 ? 15 : s == 1 ? (i ? 8 : 50) : 5);
        }
    }
    tree_finish(&t);
    outline_init(&o, &t, &(struct outline_options){.min_share = -1});
    CU_ASSERT_EQUAL(o.min_share, 0.02);
    bool most = false, least = false, tiny = false;
    for (size_t i = 0; i < o.n; i++) {
        most |= is_named(&t, o.lines[i].node, "small_0");
        least |= is_named(&t, o.lines[i].node, "small_1");
        tiny |= is_named(&t, o.lines[i].node, "tiny");
    }
    CU_ASSERT_TRUE(most);
    CU_ASSERT_FALSE(least || tiny);
    outline_fini(&o);
    tree_fini(&t);
}

static void test_hidden_siblings_are_one_line_with_their_sum(void)
{
    struct tree t;
    struct outline o;
    make(&t);
    outline_init(&o, &t, &(struct outline_options){.min_share = 0.02, .folds = true});
    const struct outline_line *last = &o.lines[o.n - 1];
    CU_ASSERT_EQUAL(last->n_hidden, 6);
    CU_ASSERT_EQUAL(last->hidden_samples, 6);
    CU_ASSERT_EQUAL(last->stroke, OUTLINE_LAST);
    CU_ASSERT_EQUAL(o.lines[1].stroke, OUTLINE_MIDDLE);
    CU_ASSERT_EQUAL(o.lines[0].stroke, OUTLINE_NONE);
    CU_ASSERT_TRUE(o.hides);
    outline_fini(&o);
    outline_init(&o, &t, &(struct outline_options){.min_share = 0});
    CU_ASSERT_EQUAL(o.n, t.n_nodes - 1);
    CU_ASSERT_FALSE(o.hides);
    outline_fini(&o);
    tree_fini(&t);
}

/* 50 functions of 1.4% and 10 of 3%: with a bound of 1% there were 61 lines. */
static void test_by_itself_it_leaves_out_what_60_lines_do_not_hold(void)
{
    struct tree t;
    struct outline o;
    tree_init(&t);
    uint32_t top = add(&t, 0, DVT_FRAME_MANAGED, "main", 0);
    for (uint64_t i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", (int)i);
        add(&t, top, DVT_FRAME_MANAGED, name, i < 10 ? 30 : 14);
    }
    tree_finish(&t);
    outline_init(&o, &t, &(struct outline_options){.min_share = -1});
    CU_ASSERT_EQUAL(o.n, 12);
    CU_ASSERT_EQUAL(o.min_share, 0.02);
    CU_ASSERT_EQUAL(o.lines[11].n_hidden, 50);
    outline_fini(&o);
    outline_init(&o, &t, &(struct outline_options){.min_share = 0.01});
    CU_ASSERT_EQUAL(o.n, 61);
    outline_fini(&o);
    tree_fini(&t);
}

static void test_depth_is_a_bound(void)
{
    struct tree t;
    struct outline o;
    make(&t);
    outline_init(&o, &t, &(struct outline_options){.max_depth = 1});
    CU_ASSERT_EQUAL(o.n, 1);
    outline_fini(&o);
    tree_fini(&t);
}

static const struct check_case cases[] = {
    CASE(test_a_chain_of_light_kernel_frames_is_one_line), CASE(test_heavy_kernel_frames_keep_their_lines),
    CASE(test_a_chain_of_library_frames_is_one_line_unless_one_has_samples),
    CASE(test_a_service_of_few_samples_still_shows_where_most_of_it_goes),
    CASE(test_hidden_siblings_are_one_line_with_their_sum),
    CASE(test_by_itself_it_leaves_out_what_60_lines_do_not_hold), CASE(test_depth_is_a_bound)};
CHECK_MAIN("outline", cases)
