/* filter: what users type is understood or refused with a reason. */
#include "check.h"

#include "../../cli/filter.h"

#include <stdlib.h>

static const int64_t now_ns = INT64_C(1767225600000000000); /* 2026-01-01T00:00:00Z */

static int id_of(const char *name)
{
    for (const struct args_option *o = filter_options; o->name; o++) {
        if (strcmp(o->name, name) == 0) {
            return o->id;
        }
    }
    return -1;
}

static int take(struct filter *f, const char *option, const char *value, struct dvt_err *err)
{
    return filter_take(f, id_of(option), value, now_ns, err);
}

static void expect_duration(const char *text, uint64_t expected)
{
    uint64_t ns = 0;
    CU_ASSERT_EQUAL(filter_duration(text, &ns), 0);
    CU_ASSERT_EQUAL(ns, expected);
}

static void test_durations_with_every_unit(void)
{
    expect_duration("7ns", 7);
    expect_duration("200ms", 200000000);
    expect_duration("1.5s", 1500000000);
    expect_duration("3us", 3000);
    expect_duration("3\xc2\xb5s", 3000);
    expect_duration("10m", UINT64_C(600000000000));
    expect_duration("10min", UINT64_C(600000000000));
    expect_duration("1h30m", UINT64_C(5400000000000));
    expect_duration("2d", UINT64_C(172800000000000));
}

static void test_bad_durations_are_refused(void)
{
    static const char *const bad[] = {"",      "5",      "-5s", "5x",        "s",  "0x10s",
                                      "inf s", "1e300s", "5 s", "99999999d", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ns = 42;
        CU_ASSERT_EQUAL(filter_duration(bad[i], &ns), DVT_EINVAL);
        CU_ASSERT_EQUAL(ns, 42);
    }
}

static void expect_time(const char *text, int64_t expected)
{
    int64_t ns = 0;
    CU_ASSERT_EQUAL(filter_time(text, now_ns, &ns), 0);
    CU_ASSERT_EQUAL(ns, expected);
}

static void test_times_absolute_and_relative(void)
{
    expect_time("2026-01-01T00:00:00Z", now_ns);
    expect_time("2026-01-01t01:00:00.25+01:00", now_ns + 250000000);
    expect_time("2025-12-31 18:30:00-05:30", now_ns);
    expect_time("2026-01-01T00:00Z", now_ns);
    expect_time("10m ago", now_ns - INT64_C(600000000000));
    expect_time("-10m", now_ns - INT64_C(600000000000));
    expect_time("now", now_ns);
}

static void test_a_time_without_offset_is_local(void)
{
    setenv("TZ", "UTC-2", 1); /* POSIX sign: two hours east */
    expect_time("2026-01-01T02:00:00", now_ns);
    expect_time("2026-01-01", now_ns - INT64_C(7200000000000));
    setenv("TZ", "UTC", 1);
}

static void test_bad_times_are_refused(void)
{
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "2026-13-01T00:00:00Z",
                                      "2026-01-01T25:00:00Z",
                                      "2026-1-1",
                                      "10m",
                                      "10 ago",
                                      "ago",
                                      "2026-01-01T00:00:00Zx",
                                      "2026-01-01T00:00:00+1:00",
                                      "-",
                                      "20260101T000000Z",
                                      "9999999999999999999999999999999999999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ns = 42;
        CU_ASSERT_EQUAL(filter_time(bad[i], now_ns, &ns), DVT_EINVAL);
        CU_ASSERT_EQUAL(ns, 42);
    }
}

static bool glob(const char *pattern, const char *text)
{
    return filter_glob(pattern, dvt_str(text));
}

static void test_globs(void)
{
    CU_ASSERT_TRUE(glob("acme", "acme"));
    CU_ASSERT_FALSE(glob("acme", "acme2"));
    CU_ASSERT_FALSE(glob("acme", "acm"));
    CU_ASSERT_TRUE(glob("*", ""));
    CU_ASSERT_TRUE(glob("a*e", "acme"));
    CU_ASSERT_TRUE(glob("*cm*", "acme"));
    CU_ASSERT_FALSE(glob("a*x", "acme"));
    CU_ASSERT_TRUE(glob("a**e", "acme"));
    CU_ASSERT_TRUE(glob("*ab*ab", "aab ab abab"));
    CU_ASSERT_TRUE(glob("?cme", "acme"));
    CU_ASSERT_FALSE(glob("?", ""));
    CU_ASSERT_TRUE(glob("caf?", "caf\xc3\xa9")); /* one character, two bytes */
    CU_ASSERT_TRUE(glob("[no stack]*", "[no stack]: x"));
    CU_ASSERT_TRUE(filter_glob("a*", (struct dvt_str){"a\0b", 3}));
}

static void test_a_glob_of_many_stars_is_quick(void)
{
    char text[4001];
    memset(text, 'a', 4000);
    text[4000] = 0;
    CU_ASSERT_FALSE(glob("*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

static void test_tags_by_prefix_and_by_part(void)
{
    CU_ASSERT_TRUE(filter_tag_matches("4bf9/", dvt_str("4bf9/00/GET")));
    CU_ASSERT_FALSE(filter_tag_matches("GET", dvt_str("4bf9/00/GET")));
    CU_ASSERT_TRUE(filter_tag_matches("*GET*", dvt_str("4bf9/00/GET /")));
    CU_ASSERT_FALSE(filter_tag_matches("4bf9/0000", dvt_str("4bf9/00")));
}

static void test_labels_need_key_and_value(void)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(take(&f, "--label", "tenant=a=b", &err), 0);
    CU_ASSERT_EQUAL(f.labels[0].key.n, 6);
    CU_ASSERT_STRING_EQUAL(f.labels[0].value, "a=b");
    CU_ASSERT_EQUAL(take(&f, "--label", "tenant", &err), DVT_EINVAL);
    CHECK_CONTAINS(err.text, "KEY=VALUE");
    CU_ASSERT_EQUAL(take(&f, "--label", "=x", &err), DVT_EINVAL);
    for (int i = 1; i < FILTER_MAX_LABELS; i++) {
        CU_ASSERT_EQUAL(take(&f, "--label", "k=v", &err), 0);
    }
    CU_ASSERT_EQUAL(take(&f, "--label", "k=v", &err), DVT_EINVAL);
}

static void test_ids_are_hex(void)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(take(&f, "--trace", "4BF9", &err), 0);
    CU_ASSERT_EQUAL(take(&f, "--trace", "4bg9", &err), DVT_EINVAL);
    CHECK_CONTAINS(err.text, "4bg9");
    CU_ASSERT_EQUAL(take(&f, "--trace", "", &err), DVT_EINVAL);
    CU_ASSERT_EQUAL(take(&f, "--span", "00000000000000012", &err), DVT_EINVAL);
}

static void test_a_filter_describes_itself(void)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    char *text = filter_describe(&f);
    CU_ASSERT_STRING_EQUAL(text, "");
    free(text);
    take(&f, "--label", "tenant=acme", &err);
    take(&f, "--service", "shop", &err);
    take(&f, "--min-duration", "200ms", &err);
    text = filter_describe(&f);
    CU_ASSERT_STRING_EQUAL(text, "label tenant=acme, service shop, lasting at least 200.0 ms");
    free(text);
    CU_ASSERT_TRUE(filter_picks_samples(&f));
    CU_ASSERT_FALSE(filter_takes_trace(&f, now_ns, 199999999));
    CU_ASSERT_TRUE(filter_takes_trace(&f, now_ns, 200000000));
}

static const struct check_case cases[] = {
    CASE(test_durations_with_every_unit),     CASE(test_bad_durations_are_refused),
    CASE(test_times_absolute_and_relative),   CASE(test_a_time_without_offset_is_local),
    CASE(test_bad_times_are_refused),         CASE(test_globs),
    CASE(test_a_glob_of_many_stars_is_quick), CASE(test_tags_by_prefix_and_by_part),
    CASE(test_labels_need_key_and_value),     CASE(test_ids_are_hex),
    CASE(test_a_filter_describes_itself)};
CHECK_MAIN("filter", cases)
