/* text, json, args: hostile bytes come out harmless, numbers readable, command lines understood. */
#include "check.h"

#include "../../cli/args.h"
#include "../../cli/json.h"
#include "../../cli/text.h"

#include <math.h>
#include <stdlib.h>

#define FFFD "\xef\xbf\xbd"

static void expect_safe(const char *bytes, size_t n, size_t columns, const char *expected)
{
    char *text = text_safe((struct dvt_str){bytes, n}, columns);
    CU_ASSERT_STRING_EQUAL(text, expected);
    free(text);
}

static void test_control_characters_are_shown_not_sent(void)
{
    expect_safe("a\033[31mb", 7, 0, "a\\x1b[31mb");
    expect_safe("a\nb\tc\0d", 7, 0, "a\\x0ab\\x09c\\x00d");
    expect_safe("\xc2\x9b"
                "31m",
                5, 0, "\\x9b31m"); /* C1: CSI in one character */
    expect_safe("\x7f", 1, 0, "\\x7f");
}

static void test_bytes_that_are_not_utf8_are_shown(void)
{
    expect_safe("\xff\xfe", 2, 0, "\\xff\\xfe");
    expect_safe("\xc0\xaf", 2, 0, "\\xc0\\xaf");          /* overlong */
    expect_safe("\xed\xa0\x80", 3, 0, "\\xed\\xa0\\x80"); /* surrogate */
    expect_safe("\xe2\x82", 2, 0, "\\xe2\\x82");          /* cut */
    expect_safe("\xf4\x90\x80\x80", 4, 0, "\\xf4\\x90\\x80\\x80");
    expect_safe("gr\xc3\xbc\xc3\x9f \xe2\x82\xac", 10, 0, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
}

static void test_reordering_and_invisible_characters_are_replaced(void)
{
    expect_safe("a\xe2\x80\xae"
                "b",
                5, 0, "a" FFFD "b"); /* right-to-left override */
    expect_safe("a\xe2\x80\x8b"
                "b",
                5, 0, "a" FFFD "b"); /* zero width space */
}

static void test_width_is_a_bound(void)
{
    expect_safe("abcdef", 6, 6, "abcdef");
    expect_safe("abcdefg", 7, 6, "abcde\xe2\x80\xa6");
    expect_safe("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 8, 3, "\xc3\xa4\xc3\xa4\xe2\x80\xa6");
    for (size_t w = 1; w < 12; w++) {
        char *text = text_safe(dvt_str("a\033b\033cdefgh"), w);
        CU_ASSERT_TRUE(text_columns(text) <= w);
        free(text);
    }
}

static void test_numbers_for_people(void)
{
    char s[TEXT_NUMBER_MAX];
    text_duration(999, s);
    CU_ASSERT_STRING_EQUAL(s, "999 ns");
    text_duration(812400000, s);
    CU_ASSERT_STRING_EQUAL(s, "812.4 ms");
    text_duration(1234567890, s);
    CU_ASSERT_STRING_EQUAL(s, "1.23 s");
    text_duration(UINT64_C(3723000000000), s);
    CU_ASSERT_STRING_EQUAL(s, "62m03s");
    text_duration(UINT64_MAX, s);
    CU_ASSERT_TRUE(strlen(s) < sizeof s);
    text_count(1234567, s);
    CU_ASSERT_STRING_EQUAL(s, "1,234,567");
    text_count(UINT64_MAX, s);
    CU_ASSERT_STRING_EQUAL(s, "18,446,744,073,709,551,615");
    text_bytes(1536, s);
    CU_ASSERT_STRING_EQUAL(s, "1.5 KiB");
}

static void test_times_in_utc(void)
{
    char s[40];
    text_time(INT64_C(1767225600123456789), true, s);
    CU_ASSERT_STRING_EQUAL(s, "2026-01-01T00:00:00.123456789Z");
    text_time(-1, true, s);
    CU_ASSERT_STRING_EQUAL(s, "1969-12-31T23:59:59.999999999Z");
}

/* The chance that the printed interval holds the true share p: the binomial's terms of all counts for which
 * it does. */
static double coverage(double p, unsigned n)
{
    double covered = 0;
    for (unsigned k = 0; k <= n; k++) {
        struct text_interval i = text_interval95((double)k / n, n);
        if (i.low <= p && p <= i.high) {
            covered += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) +
                           (n - k) * log1p(-p));
        }
    }
    return covered;
}

static void test_interval_holds_the_truth_in_92_of_100_cases_or_more(void)
{
    static const double shares[] = {0.06, 0.1, 0.2, 0.31, 0.5, 0.75, 0.9};
    static const unsigned counts[] = {20, 30, 50, 70, 100, 150, 200, 300, 400, 600};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            CU_ASSERT_TRUE(coverage(shares[s], counts[c]) >= 0.92);
        }
    }
}

static void expect_interval(double share, uint64_t n, double low, double high)
{
    struct text_interval i = text_interval95(share, n);
    CU_ASSERT_TRUE(fabs(i.low - low) < 5e-5 && fabs(i.high - high) < 5e-5);
}

static void test_interval_stays_within_0_and_1(void)
{
    expect_interval(0.2, 100, 0.1334, 0.2888);
    expect_interval(0, 20, 0, 0.1611);
    expect_interval(1, 20, 0.8389, 1);
    expect_interval(0.5, 0, 0, 1);
    CU_ASSERT_EQUAL(text_interval95(0, 7).low, 0);
    CU_ASSERT_EQUAL(text_interval95(1, 7).high, 1);
}

static void test_shares_are_one_width_and_say_if_they_rest_on_too_few(void)
{
    static const struct {
        uint64_t part, total;
        const char *expected;
    } cases[] = {{822, 1000, " 82.2%  [79.7, 84.4] "},
                 {1, 30, "  3.3%? [ 0.6, 16.7] "},
                 {100, 100, "100.0%  [96.3, 100.0]"},
                 {0, 0, "  0.0%? [ 0.0, 100.0]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TEXT_SHARE_MAX];
        double share = cases[i].total ? (double)cases[i].part / (double)cases[i].total : 0;
        text_share(share, cases[i].part, cases[i].total, text);
        CU_ASSERT_STRING_EQUAL(text, cases[i].expected);
        CU_ASSERT_EQUAL(strlen(text), TEXT_SHARE_COLUMNS);
    }
}

static void test_few_samples_are_too_few(void)
{
    CU_ASSERT_TRUE(text_too_few(4, 1000));
    CU_ASSERT_FALSE(text_too_few(5, 20));
    CU_ASSERT_TRUE(text_too_few(19, 19));
}

static void expect_json(const char *bytes, size_t n, const char *expected)
{
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    json_string(f, (struct dvt_str){bytes, n});
    fclose(f);
    CU_ASSERT_STRING_EQUAL(text, expected);
    free(text);
}

static void test_json_strings_are_always_valid(void)
{
    expect_json("a\"\\b", 4, "\"a\\\"\\\\b\"");
    expect_json("\n\0\x1f", 3, "\"\\u000a\\u0000\\u001f\"");
    expect_json("\xff"
                "a",
                2, "\"\\ufffda\"");
    expect_json("\xe2\x80\xa8", 3, "\"\\u2028\"");
    expect_json("\xc3\xbc", 2, "\"\xc3\xbc\"");
}

static const struct args_option options[] = {
    {1, 'o', "--output", "FILE", "x"}, {2, 0, "--json", NULL, "x"}, {0}};

static void test_options_in_all_spellings(void)
{
    char *argv[] = {"--output", "a", "--output=b", "-oc", "-o", "d", "x", "--json", "--", "--json", NULL};
    struct args a = {.argc = 10, .argv = argv, .tables = {options}};
    struct dvt_err err = {0};
    const char *value = NULL;
    static const struct {
        int id;
        const char *value;
    } expected[] = {
        {1, "a"},        {1, "b"}, {1, "c"}, {1, "d"}, {ARGS_OTHER, "x"}, {2, NULL}, {ARGS_OTHER, "--json"},
        {ARGS_END, NULL}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        CU_ASSERT_EQUAL(args_next(&a, &value, &err), expected[i].id);
        if (expected[i].value) {
            CU_ASSERT_STRING_EQUAL(value, expected[i].value);
        }
    }
}

static void test_after_the_program_options_are_its_own(void)
{
    char *argv[] = {"--json", "python", "-c", "--json", NULL};
    struct args a = {.argc = 4, .argv = argv, .tables = {options}, .stop_at_other = true};
    struct dvt_err err = {0};
    const char *value = NULL;
    CU_ASSERT_EQUAL(args_next(&a, &value, &err), 2);
    CU_ASSERT_EQUAL(args_next(&a, &value, &err), ARGS_OTHER);
    CU_ASSERT_EQUAL(args_next(&a, &value, &err), ARGS_OTHER);
    CU_ASSERT_STRING_EQUAL(value, "-c");
}

static void expect_refused(char *word, const char *part)
{
    char *argv[] = {word, NULL};
    struct args a = {.argc = 1, .argv = argv, .tables = {options}};
    struct dvt_err err = {0};
    const char *value = NULL;
    CU_ASSERT_EQUAL(args_next(&a, &value, &err), DVT_EINVAL);
    CHECK_CONTAINS(err.text, part);
}

static void test_wrong_options_are_refused_with_a_hint(void)
{
    expect_refused("--ouptut", "did you mean --output?");
    expect_refused("--out", "did you mean --output?");
    expect_refused("--xyzzy", "--help");
    expect_refused("--output", "needs a value");
    expect_refused("--json=1", "takes no value");
    expect_refused("-q", "unknown option -q");
}

static void test_numbers_have_bounds(void)
{
    unsigned long v = 7;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(args_number("20", 1, 20, "--slowest", &v, &err), 0);
    CU_ASSERT_EQUAL(v, 20);
    static const char *const bad[] = {"21", "0", "-1", "", "1x", " 1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CU_ASSERT_EQUAL(args_number(bad[i], 1, 20, "--slowest", &v, &err), DVT_EINVAL);
    }
    CU_ASSERT_EQUAL(v, 20);
}

static const struct check_case cases[] = {CASE(test_control_characters_are_shown_not_sent),
                                          CASE(test_bytes_that_are_not_utf8_are_shown),
                                          CASE(test_reordering_and_invisible_characters_are_replaced),
                                          CASE(test_width_is_a_bound),
                                          CASE(test_numbers_for_people),
                                          CASE(test_times_in_utc),
                                          CASE(test_interval_holds_the_truth_in_92_of_100_cases_or_more),
                                          CASE(test_interval_stays_within_0_and_1),
                                          CASE(test_shares_are_one_width_and_say_if_they_rest_on_too_few),
                                          CASE(test_few_samples_are_too_few),
                                          CASE(test_json_strings_are_always_valid),
                                          CASE(test_options_in_all_spellings),
                                          CASE(test_after_the_program_options_are_its_own),
                                          CASE(test_wrong_options_are_refused_with_a_hint),
                                          CASE(test_numbers_have_bounds)};
CHECK_MAIN("text", cases)
