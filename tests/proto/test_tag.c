/* tag: templates are checked and rendered, whatever the names contain. */
#include <CUnit/Basic.h>
#include "../../proto/limits.h"
#include "../../proto/tag.h"

#include <stdlib.h>

#define FFFD "\xEF\xBF\xBD"

static const struct dvt_trace_id trace = {{0x4b, 0xf9}};
static const struct dvt_span_id span = {{0, 0xf0}};
static struct dvt_label labels[] = {
    {{"tenant", 6}, {"acme", 4}}, {{"region", 6}, {"eu", 2}}, {{"tenant", 6}, {"globex", 6}}};

static struct dvt_tag_in input(void)
{
    return (struct dvt_tag_in){&trace, &span, dvt_str("GET /"), dvt_str("shop"), labels, 2};
}

static void expect(const char *tmpl, const struct dvt_tag_in *in, const char *expected)
{
    char out[2 * DVT_MAX_TAG];
    CU_ASSERT_EQUAL(dvt_tag_check(dvt_str(tmpl), NULL), 0);
    CU_ASSERT_EQUAL(dvt_tag_render(dvt_str(tmpl), in, out, sizeof out), strlen(expected));
    CU_ASSERT_STRING_EQUAL(out, expected);
}

static void test_every_field_renders(void)
{
    struct dvt_tag_in in = input();
    expect(DVT_TAG_DEFAULT, &in, "4bf90000000000000000000000000000/00f0000000000000/GET /");
    expect("{service}|{label:region}|{tenant}|{label:tenant}", &in, "shop|eu|acme|acme");
    expect("plain", &in, "plain");
}

static void test_the_last_value_of_a_label_counts(void)
{
    struct dvt_tag_in in = input();
    in.n_labels = 3;
    expect("{tenant}", &in, "globex");
}

static void test_missing_values_render_as_dash(void)
{
    struct dvt_trace_id zero = {{0}};
    struct dvt_tag_in in = {.trace = &zero};
    expect("{trace}/{span}/{name}/{service}/{tenant}/{label:x}", &in, "-/-/-/-/-/-");
}

static void test_doubled_braces_are_literal(void)
{
    struct dvt_tag_in in = input();
    expect("{{{name}}}", &in, "{GET /}");
    expect("{{name}}", &in, "{name}");
}

static void test_hostile_values_render_clean(void)
{
    struct dvt_tag_in in = input();
    in.name = dvt_str("a\r\nb\x1B[2J\xFF<script>\"'");
    expect("{name}", &in, "a" FFFD FFFD "b" FFFD "[2J" FFFD "<script>\"'");
}

static void test_ten_kilobyte_name_is_cut_at_a_border(void)
{
    static char name[10000], out[2 * DVT_MAX_TAG];
    for (size_t i = 0; i + 2 < sizeof name; i += 3)
        memcpy(name + i, "\xE2\x82\xAC", 3);
    struct dvt_tag_in in = input();
    in.name = (struct dvt_str){name, sizeof name - 1};
    size_t n = dvt_tag_render(dvt_str("{name}/{service}"), &in, out, sizeof out);
    CU_ASSERT_EQUAL(n, DVT_MAX_TAG / 3 * 3);
    CU_ASSERT_PTR_NULL(strstr(out, "shop")); /* nothing follows a cut */
    CU_ASSERT_PTR_NULL(strstr(out, FFFD));
}

static void test_render_fits_any_cap(void)
{
    struct dvt_tag_in in = input();
    char whole[64];
    size_t len = dvt_tag_render(dvt_str("{service}-\xC3\xA9-{name}"), &in, whole, sizeof whole);
    for (size_t cap = 0; cap <= len + 2; cap++) {
        char *out = malloc(cap + 1); /* one byte as a fence */
        out[cap] = 'Z';
        size_t n = dvt_tag_render(dvt_str("{service}-\xC3\xA9-{name}"), &in, out, cap);
        CU_ASSERT(cap == 0 ? n == 0 : n < cap && out[n] == 0 && memcmp(out, whole, n) == 0);
        CU_ASSERT_EQUAL(out[cap], 'Z');
        free(out);
    }
}

static void expect_refused(const char *tmpl, int code, const char *part)
{
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(dvt_tag_check(dvt_str(tmpl), &err), code);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, part));
}

static void test_bad_templates_are_refused_by_name(void)
{
    expect_refused("", DVT_EINVAL, "empty");
    expect_refused("{trace}/{user}", DVT_EINVAL, "{user}");
    expect_refused("{}", DVT_EINVAL, "{}");
    expect_refused("{label:}", DVT_EINVAL, "{label:}");
    expect_refused("{Trace}", DVT_EINVAL, "{Trace}");
    expect_refused("{trace", DVT_EINVAL, "'{trace'");
    expect_refused("trace}", DVT_EINVAL, "'}'");
    expect_refused("{a\nb}", DVT_EINVAL, "{a" FFFD "b}");
}

static void test_template_bounds_are_exact(void)
{
    char longest[DVT_MAX_TAG + 2], key[DVT_MAX_LABEL_KEY + 16];
    memset(longest, 'x', sizeof longest);
    longest[DVT_MAX_TAG] = 0;
    CU_ASSERT_EQUAL(dvt_tag_check(dvt_str(longest), NULL), 0);
    longest[DVT_MAX_TAG] = 'x';
    longest[DVT_MAX_TAG + 1] = 0;
    expect_refused(longest, DVT_ELIMIT, "1025");
    memset(key, 'k', sizeof key);
    memcpy(key, "{label:", 7);
    memcpy(key + 7 + DVT_MAX_LABEL_KEY, "}", 2);
    CU_ASSERT_EQUAL(dvt_tag_check(dvt_str(key), NULL), 0);
    memcpy(key + 7 + DVT_MAX_LABEL_KEY, "k}", 3);
    expect_refused(key, DVT_EINVAL, "{label:kkk");
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("tag", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_every_field_renders);
    T(test_the_last_value_of_a_label_counts);
    T(test_missing_values_render_as_dash);
    T(test_doubled_braces_are_literal);
    T(test_hostile_values_render_clean);
    T(test_ten_kilobyte_name_is_cut_at_a_border);
    T(test_render_fits_any_cap);
    T(test_bad_templates_are_refused_by_name);
    T(test_template_bounds_are_exact);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
