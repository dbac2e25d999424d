/*
 * test_thread_state: samples in order of their offsets, managed stacks by head, watermarks, code that is told
 * again.
 */
#include <CUnit/Basic.h>

#include <stdlib.h>

#include "../../daemon/thread_state.h"

static struct sample *make_sample(uint64_t off)
{
    struct sample *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->end_off = off;
    s->bytes = sizeof *s;
    return s;
}

static struct thread_state *with_samples(const uint64_t *offs, uint32_t n)
{
    struct thread_state *t = thread_state_new((struct thread_key){1, 2, 3}, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    for (uint32_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(thread_state_put_sample(t, make_sample(offs[i])), 0);
    return t;
}

static void test_stragglers_are_sorted_in(void)
{
    const uint64_t offs[] = {10, 30, 20, 5, 40};
    struct thread_state *t = with_samples(offs, 5);
    const uint64_t want[] = {5, 10, 20, 30, 40};
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(thread_state_offs(t)[i], want[i]);
        CU_ASSERT_EQUAL(t->samples[t->first + i]->end_off, want[i]);
    }
    thread_state_unref(t);
}

static void test_compact_closes_gaps_and_keeps_order(void)
{
    const uint64_t offs[] = {1, 2, 3, 4, 5, 6};
    struct thread_state *t = with_samples(offs, 6);
    for (uint32_t i = 0; i < 4; i += 2) { /* takes 1 and 3 out of the first four */
        free(t->samples[i]);
        t->samples[i] = NULL;
    }
    thread_state_compact(t, 4);
    const uint64_t want[] = {2, 4, 5, 6};
    CU_ASSERT_EQUAL_FATAL(thread_state_pending(t), 4);
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(t->samples[t->first + i]->end_off, want[i]);
    thread_state_unref(t);
}

static void test_long_run_of_puts_and_drops_reuses_its_memory(void)
{
    struct thread_state *t = with_samples(NULL, 0);
    for (uint64_t off = 1; off <= 100000; off++) {
        CU_ASSERT_EQUAL(thread_state_put_sample(t, make_sample(off)), 0);
        if (off % 10 == 0)
            thread_state_drop_samples(t, 9);
        if (off % 100 == 0)
            thread_state_drop_samples(t, thread_state_pending(t));
    }
    CU_ASSERT_TRUE(t->cap <= 64);
    CU_ASSERT_EQUAL(t->sample_bytes, 0);
    thread_state_unref(t);
}

static void test_settled_is_the_lower_of_drained_and_told(void)
{
    struct watermark w = {0};
    watermark_drain(&w, 100, false);
    watermark_tell(&w, 60);
    CU_ASSERT_EQUAL(watermark_settled(&w), 60);
    watermark_tell(&w, 50); /* never back */
    CU_ASSERT_EQUAL(watermark_settled(&w), 60);
    watermark_tell(&w, 500);
    CU_ASSERT_EQUAL(watermark_settled(&w), 100);
    watermark_drain(&w, 0, true);
    CU_ASSERT_EQUAL(watermark_settled(&w), 500);
}

static void test_stacks_carry_knowledge_up_to_the_last_but_one_after_the_margin(void)
{
    struct watermark w = {0};
    watermark_announce(&w, 100);
    CU_ASSERT_EQUAL(watermark_known(&w, 0, false), 100);
    watermark_stack(&w, 200, 0);
    watermark_stack(&w, 300, 0);
    CU_ASSERT_EQUAL(watermark_known(&w, WATERMARK_MARGIN_NS - 1, false), 100);
    watermark_known(&w, WATERMARK_MARGIN_NS, false);
    CU_ASSERT_EQUAL(watermark_known(&w, 2 * WATERMARK_MARGIN_NS, false), 200);
    watermark_stack(&w, 400, 0);
    CU_ASSERT_EQUAL(watermark_known(&w, 2 * WATERMARK_MARGIN_NS, true), 300); /* no message is under way */
}

static struct stack *make_stack(const struct codetable *codes, uint64_t head, uint32_t code)
{
    struct stack *s =
        stack_new(codes, &(struct dvt_stack_rec){.head = head, .n_frames = 1, .code = &code, .line = &code});
    if (!s)
        abort();
    return s;
}

static void test_stacks_are_taken_by_head_and_dropped_up_to_one(void)
{
    struct codetable codes = {0};
    struct stacks stacks = {0};
    CU_ASSERT_EQUAL(
        codetable_put(&codes, &(struct dvt_code_info){.id = 1, .name = dvt_str("f"), .file = dvt_str("a")}),
        0);
    const uint64_t heads[] = {10, 30, 20, 40};
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(stacks_put(&stacks, make_stack(&codes, heads[i], 1)), 0);
    CU_ASSERT_TRUE(stacks_has(&stacks, 20));
    struct stack *s = stacks_take(&stacks, 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_EQUAL(s->head, 20);
    CU_ASSERT_STRING_EQUAL(s->frames[0].code->name, "f");
    stack_free(s);
    CU_ASSERT_PTR_NULL(stacks_take(&stacks, 20));
    CU_ASSERT_TRUE(stacks_has(&stacks, 10));
    stacks_drop(&stacks, 30);
    CU_ASSERT_FALSE(stacks_has(&stacks, 30));
    CU_ASSERT_TRUE(stacks_has(&stacks, 40));
    stacks_fini(&stacks);
    codetable_fini(&codes);
}

static void test_code_table_refuses_what_is_out_of_bounds(void)
{
    struct codetable codes = {0};
    CU_ASSERT_EQUAL(codetable_put(&codes, &(struct dvt_code_info){.id = 0}), DVT_EINVAL);
    CU_ASSERT_EQUAL(codetable_put(&codes, &(struct dvt_code_info){.id = CODETABLE_MAX_ID}), DVT_ELIMIT);
    CU_ASSERT_PTR_NULL(codetable_get(&codes, 7));
    CU_ASSERT_PTR_NULL(codetable_get(&codes, UINT32_MAX));
    codetable_fini(&codes);
}

static void test_name_is_cleaned_and_cut(void)
{
    struct thread_state *t = with_samples(NULL, 0);
    char longer[2000];
    memset(longer, 'x', sizeof longer);
    thread_state_set_name(t, (struct dvt_str){longer, sizeof longer});
    CU_ASSERT_EQUAL(strlen(t->name), DVT_MAX_NAME);
    thread_state_set_name(t, dvt_str("a\x1b[31m"));
    CU_ASSERT_STRING_EQUAL(t->name, "a\xEF\xBF\xBD[31m");
    thread_state_unref(t);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("thread_state", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_stragglers_are_sorted_in);
    T(test_compact_closes_gaps_and_keeps_order);
    T(test_long_run_of_puts_and_drops_reuses_its_memory);
    T(test_settled_is_the_lower_of_drained_and_told);
    T(test_stacks_carry_knowledge_up_to_the_last_but_one_after_the_margin);
    T(test_stacks_are_taken_by_head_and_dropped_up_to_one);
    T(test_code_table_refuses_what_is_out_of_bounds);
    T(test_name_is_cleaned_and_cut);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
