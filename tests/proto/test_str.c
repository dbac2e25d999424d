/* str and err: cuts, cleaning and the error line. */
#include <CUnit/Basic.h>
#include "../../proto/err.h"
#include "../../proto/str.h"

#include <errno.h>

#define FFFD "\xEF\xBF\xBD"

static void expect_clean(const char *in, size_t n, bool strip, const char *expected)
{
    char out[256];
    size_t len = dvt_utf8_clean(in, n, strip, out, sizeof out);
    CU_ASSERT_EQUAL(len, strlen(expected));
    CU_ASSERT_STRING_EQUAL(out, expected);
}
#define CLEAN(in, strip, expected) expect_clean(in, sizeof(in) - 1, strip, expected)

static void test_cut_never_splits_a_character(void)
{
    static const char s[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* 1 + 2 + 3 + 4 + 1 bytes */
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t cap = 0; cap < sizeof expected / sizeof *expected; cap++)
        CU_ASSERT_EQUAL(dvt_utf8_cut(s, sizeof s - 1, cap), expected[cap]);
}

static void test_cut_of_stray_continuations_makes_progress(void)
{
    static const char s[] = "\x80\x80\x80\x80\x80\x80";
    CU_ASSERT_EQUAL(dvt_utf8_cut(s, 6, 5), 5);
    CU_ASSERT_EQUAL(dvt_utf8_cut(s, 6, 2), 2);
}

static void test_well_formed_text_is_unchanged(void)
{
    CLEAN("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF", true,
          "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF");
}

static void test_ill_formed_bytes_become_replacement_characters(void)
{
    CLEAN("a\xFFz", false, "a" FFFD "z");
    CLEAN("\xC0\xAF", false, FFFD FFFD);                   /* overlong */
    CLEAN("\xE0\x80\x80", false, FFFD FFFD FFFD);          /* overlong */
    CLEAN("\xED\xA0\x80", false, FFFD FFFD FFFD);          /* surrogate */
    CLEAN("\xF4\x90\x80\x80", false, FFFD FFFD FFFD FFFD); /* above U+10FFFF */
    CLEAN("\xF0\x9F\x98"
          "a",
          false, FFFD "a");         /* one for the maximal subpart */
    CLEAN("\xE2\x82", false, FFFD); /* cut off */
}

static void test_control_characters_go_only_if_asked(void)
{
    CLEAN("a\nb\x1B[31m\x7F\xC2\x9B", true, "a" FFFD "b" FFFD "[31m" FFFD FFFD);
    CLEAN("a\nb\xC2\x9B\xC2\xA0", false, "a\nb\xC2\x9B\xC2\xA0");
    CLEAN("\xC2\xA0", true, "\xC2\xA0"); /* the first that is no C1 control */
}

static void test_clean_fits_any_cap_and_ends_at_a_border(void)
{
    static const char in[] = "\xE2\x82\xAC\xFF\xC3\xA9x";
    for (size_t cap = 0; cap < 16; cap++) {
        char out[16] = {0}, again[16];
        memset(out, 'Z', sizeof out);
        size_t n = dvt_utf8_clean(in, sizeof in - 1, true, out, cap);
        CU_ASSERT(cap == 0 ? n == 0 && out[0] == 'Z' : n < cap && out[n] == 0);
        CU_ASSERT(cap == 16 || out[cap] == 'Z');
        CU_ASSERT(cap == 0 || dvt_utf8_clean(out, n, true, again, sizeof again) == n);
    }
}

static void test_strings_compare_by_bytes(void)
{
    CU_ASSERT(dvt_str_eq(dvt_str("ab"), (struct dvt_str){"abc", 2}));
    CU_ASSERT(!dvt_str_eq(dvt_str("ab"), dvt_str("ac")));
    CU_ASSERT(!dvt_str_eq(dvt_str("ab"), dvt_str("abc")));
    CU_ASSERT(dvt_str_eq((struct dvt_str){NULL, 0}, dvt_str("")));
}

static void test_fail_fills_the_record_and_returns_the_code(void)
{
    struct dvt_err err;
    CU_ASSERT_EQUAL(dvt_fail(&err, DVT_EIO, ENOENT, "open %s", "/x"), DVT_EIO);
    CU_ASSERT_EQUAL(err.code, DVT_EIO);
    CU_ASSERT_EQUAL(err.sys_errno, ENOENT);
    CU_ASSERT_STRING_EQUAL(err.text, "open /x");
    CU_ASSERT_EQUAL(dvt_fail(NULL, DVT_ELIMIT, 0, "x"), DVT_ELIMIT);
}

static void test_fail_text_is_one_clean_line_that_fits(void)
{
    struct dvt_err err;
    char longer[2000];
    dvt_fail(&err, DVT_EINVAL, 0, "name %s", "a\nb\x1B");
    CU_ASSERT_STRING_EQUAL(err.text, "name a" FFFD "b" FFFD);
    for (size_t pad = 0; pad < 4; pad++) { /* the cut falls on each byte of the euro sign */
        for (size_t i = 0; i + 3 < sizeof longer; i += 3)
            memcpy(longer + i, "\xE2\x82\xAC", 4);
        dvt_fail(&err, DVT_EINVAL, 0, "%.*s%s", (int)pad, "xxx", longer);
        CU_ASSERT(strlen(err.text) < sizeof err.text && strlen(err.text) > sizeof err.text - 5);
        CU_ASSERT_PTR_NULL(strstr(err.text, FFFD));
    }
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("str", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_cut_never_splits_a_character);
    T(test_cut_of_stray_continuations_makes_progress);
    T(test_well_formed_text_is_unchanged);
    T(test_ill_formed_bytes_become_replacement_characters);
    T(test_control_characters_go_only_if_asked);
    T(test_clean_fits_any_cap_and_ends_at_a_border);
    T(test_strings_compare_by_bytes);
    T(test_fail_fills_the_record_and_returns_the_code);
    T(test_fail_text_is_one_clean_line_that_fits);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
