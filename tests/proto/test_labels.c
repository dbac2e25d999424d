/* labels: what label counts for which scope. */
#include <CUnit/Basic.h>
#include <stdio.h>
#include "../../proto/labels.h"

enum { MAX = 8 };
static struct dvt_chunk_scope scopes[MAX];
static struct dvt_label labels[MAX * 2];
static struct dvt_chunk c;

static void reset(void)
{
    memset(scopes, 0, sizeof scopes);
    c = (struct dvt_chunk){.scopes = scopes, .labels = labels};
}

/* span and parent: small numbers, 0 none. label "k=v" or NULL. Returns the scope's index. */
static uint32_t scope(uint32_t enclosing, uint8_t span, uint8_t parent_span, const char *label)
{
    struct dvt_chunk_scope *s = &scopes[c.n_scopes];
    *s = (struct dvt_chunk_scope){.parent = enclosing, .span = {{span}}, .parent_span = {{parent_span}},
                                  .first_label = c.n_labels};
    if (label) {
        const char *eq = strchr(label, '=');
        labels[c.n_labels++] = (struct dvt_label){{label, (size_t)(eq - label)}, dvt_str(eq + 1)};
        s->n_labels = 1;
    }
    return c.n_scopes++;
}

/* The labels of scope i (DVT_NONE: of no scope), "k=v k=v", in order of first use in the chunk. */
static const char *effective_after(struct dvt_trace_labels *t, uint32_t i)
{
    static char out[512];
    struct dvt_label_sets sets;
    size_t n = 0;
    out[0] = 0;
    CU_ASSERT_EQUAL(dvt_trace_labels_add(t, &c), 0);
    CU_ASSERT_EQUAL(dvt_labels_effective(t, &c, &sets), 0);
    const struct dvt_seq *s = &sets.sets.items[i == DVT_NONE ? sets.of_no_scope : sets.of_scope[i]];
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t id = sets.sets.values[s->first + k];
        struct dvt_str key = dvt_label_key(t, id), value = dvt_label_value(t, id);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s=%.*s", k ? " " : "", (int)key.n, key.p,
                              (int)value.n, value.p);
    }
    dvt_label_sets_fini(&sets);
    return out;
}

static const char *effective(uint32_t i)
{
    struct dvt_trace_labels t = {0};
    const char *text = effective_after(&t, i);
    dvt_trace_labels_fini(&t);
    return text;
}

static void test_scope_inherits_from_the_enclosing_scopes(void)
{
    reset();
    uint32_t root = scope(DVT_NONE, 1, 0, "t=a"), other = scope(DVT_NONE, 2, 0, "t=b");
    uint32_t child = scope(root, 3, 1, NULL), leaf = scope(child, 4, 3, NULL);
    CU_ASSERT_STRING_EQUAL(effective(leaf), "t=a");
    CU_ASSERT_STRING_EQUAL(effective(other), "t=b");
    CU_ASSERT_STRING_EQUAL(effective(DVT_NONE), "");
}

static void test_scope_inherits_from_its_parent_spans_scopes_on_other_threads(void)
{
    reset();
    uint32_t worker = scope(DVT_NONE, 2, 1, NULL);
    scope(DVT_NONE, 1, 0, "t=a");
    scope(DVT_NONE, 9, 0, "t=b");
    CU_ASSERT_STRING_EQUAL(effective(worker), "t=a");
}

static void test_scopes_of_one_span_share_a_late_label(void)
{
    reset();
    uint32_t first = scope(DVT_NONE, 1, 0, NULL);
    scope(DVT_NONE, 1, 0, "t=a");
    scope(DVT_NONE, 2, 0, "t=b");
    CU_ASSERT_STRING_EQUAL(effective(first), "t=a");
}

static void test_nearer_label_hides_a_farther_one_of_its_key(void)
{
    reset();
    uint32_t root = scope(DVT_NONE, 1, 0, "t=a"), child = scope(root, 2, 1, "t=b"),
             leaf = scope(child, 3, 2, NULL);
    CU_ASSERT_STRING_EQUAL(effective(child), "t=b");
    CU_ASSERT_STRING_EQUAL(effective(leaf), "t=b");
    CU_ASSERT_STRING_EQUAL(effective(root), "t=a");
}

static void test_key_with_one_value_in_the_trace_counts_everywhere(void)
{
    reset();
    uint32_t alone = scope(DVT_NONE, 1, 0, NULL);
    scope(DVT_NONE, 2, 0, "t=a");
    CU_ASSERT_STRING_EQUAL(effective(alone), "t=a");
    CU_ASSERT_STRING_EQUAL(effective(DVT_NONE), "t=a");
}

static void test_other_value_in_another_part_ends_the_trace_wide_rule(void)
{
    struct dvt_trace_labels t = {0};
    reset();
    scope(DVT_NONE, 2, 0, "t=b");
    CU_ASSERT_EQUAL(dvt_trace_labels_add(&t, &c), 0);
    reset();
    uint32_t alone = scope(DVT_NONE, 1, 0, NULL), own = scope(DVT_NONE, 2, 0, "t=a");
    CU_ASSERT_STRING_EQUAL(effective_after(&t, alone), "");
    CU_ASSERT_STRING_EQUAL(effective_after(&t, own), "t=a");
    dvt_trace_labels_fini(&t);
}

static void test_scopes_without_span_id_are_not_one_span(void)
{
    reset();
    uint32_t a = scope(DVT_NONE, 0, 0, "t=a"), b = scope(DVT_NONE, 0, 0, "t=b");
    CU_ASSERT_STRING_EQUAL(effective(a), "t=a");
    CU_ASSERT_STRING_EQUAL(effective(b), "t=b");
}

static void test_ring_of_parent_spans_ends(void)
{
    reset();
    uint32_t a = scope(DVT_NONE, 1, 3, "t=a"), b = scope(DVT_NONE, 2, 1, NULL);
    scope(DVT_NONE, 3, 2, NULL);
    scope(DVT_NONE, 4, 4, "t=b");
    CU_ASSERT_STRING_EQUAL(effective(a), "t=a");
    CU_ASSERT_STRING_EQUAL(effective(b), "t=a");
}

static void test_chunk_without_scopes_has_an_empty_set(void)
{
    reset();
    CU_ASSERT_STRING_EQUAL(effective(DVT_NONE), "");
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("labels", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_scope_inherits_from_the_enclosing_scopes);
    T(test_scope_inherits_from_its_parent_spans_scopes_on_other_threads);
    T(test_scopes_of_one_span_share_a_late_label);
    T(test_nearer_label_hides_a_farther_one_of_its_key);
    T(test_key_with_one_value_in_the_trace_counts_everywhere);
    T(test_other_value_in_another_part_ends_the_trace_wide_rule);
    T(test_scopes_without_span_id_are_not_one_span);
    T(test_ring_of_parent_spans_ends);
    T(test_chunk_without_scopes_has_an_empty_set);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
