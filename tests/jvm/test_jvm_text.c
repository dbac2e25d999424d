/*
 * What HotSpot writes down of lines and names, read back; what a program and its service are called.
 */
#include <CUnit/Basic.h>

#include "../../shims/core/resource.h"
#include "../../shims/jvm/names.h"
#include "../../shims/jvm/program.h"
#include "../../shims/jvm/walker.h"

static uint32_t line(int major, const char *bytes, size_t n, int64_t bci)
{
    return dvt_jvm_line(major, (struct dvt_str){bytes, n}, bci);
}

/* One byte an entry: five bits of index, three of line. */
static void test_line_of_an_index_is_that_of_the_last_entry_up_to_it(void)
{
    const char table[] = {(char)(0 << 3 | 7), (char)(4 << 3 | 2), (char)(6 << 3 | 1), 0};
    CU_ASSERT_EQUAL(line(17, table, sizeof table, 0), 7);
    CU_ASSERT_EQUAL(line(17, table, sizeof table, 3), 7);
    CU_ASSERT_EQUAL(line(17, table, sizeof table, 4), 9);
    CU_ASSERT_EQUAL(line(17, table, sizeof table, 10), 10);
    CU_ASSERT_EQUAL(line(17, table, sizeof table, 60000), 10);
    CU_ASSERT_EQUAL(line(17, table, sizeof table, -1), 7);
}

/* FF, then two signed numbers: index + 5, line + 300; then line - 100 at index + 1. */
static void test_line_of_escaped_entries_goes_back_too_in_both_encodings(void)
{
    /* 5 is 10 as unsigned, 300 is 600: 600 = 216 + 6 * 64; -100 is 199: 199 = 199 + 0 * 64 */
    const char old[] = {(char)0xFF, 10, (char)216, 6, (char)0xFF, 2, (char)199, 0, 0};
    const char now[] = {(char)0xFF, 11, (char)217, 7, (char)0xFF, 3, (char)200, 1, 0};
    CU_ASSERT_EQUAL(line(17, old, sizeof old, 5), 300);
    CU_ASSERT_EQUAL(line(17, old, sizeof old, 6), 200);
    CU_ASSERT_EQUAL(line(21, now, sizeof now, 5), 300);
    CU_ASSERT_EQUAL(line(21, now, sizeof now, 6), 200);
    CU_ASSERT_EQUAL(line(17, old, sizeof old, 4), 0); /* before the first */
}

static void test_line_table_ends_at_its_mark_or_is_cut_off(void)
{
    const uint8_t table[] = {7, 34, (uint8_t)0xFF, 10, 216, 6, 0, 9, 9};
    CU_ASSERT_EQUAL(dvt_jvm_line_bytes(17, table, sizeof table), 7);
    for (size_t n = 0; n < 7; n++)
        CU_ASSERT_EQUAL(dvt_jvm_line_bytes(17, table, n), 0);
    CU_ASSERT_EQUAL(line(17, "", 0, 0), 0);
}

static void test_unsigned5_reads_what_hotspot_writes_and_stops_at_the_end(void)
{
    const uint8_t old[] = {191, 192, 0, 255, 255, 255, 255, 255}, now[] = {192 - 1, 192, 1, 0};
    size_t at = 0;
    uint32_t v = 0;
    CU_ASSERT_TRUE(dvt_jvm_read_u5(17, old, sizeof old, &at, &v) && v == 191 && at == 1);
    CU_ASSERT_TRUE(dvt_jvm_read_u5(17, old, sizeof old, &at, &v) && v == 192 && at == 3);
    CU_ASSERT_TRUE(dvt_jvm_read_u5(17, old, sizeof old, &at, &v) && at == 8);
    CU_ASSERT_EQUAL(v, 255u + (255u << 6) + (255u << 12) + (255u << 18) + (255u << 24));
    CU_ASSERT_FALSE(dvt_jvm_read_u5(17, old, sizeof old, &at, &v));
    at = 0;
    CU_ASSERT_TRUE(dvt_jvm_read_u5(25, now, sizeof now, &at, &v) && v == 190);
    CU_ASSERT_TRUE(dvt_jvm_read_u5(25, now, sizeof now, &at, &v) && v == 191 && at == 3);
    CU_ASSERT_FALSE(dvt_jvm_read_u5(25, now, sizeof now, &at, &v)); /* 0 is no byte of a number since JDK 20 */
}

static bool full_name_is(const char *class_name, const char *method, const char *want)
{
    char out[64];
    size_t n = dvt_jvm_full_name(dvt_str(class_name), dvt_str(method), out, sizeof out);
    return n == strlen(want) && memcmp(out, want, n) == 0;
}

static void test_names_are_as_java_says_them_in_utf8(void)
{
    CU_ASSERT_TRUE(full_name_is("a/b/C$D", "run", "a.b.C$D.run"));
    CU_ASSERT_TRUE(full_name_is("", "jbyte_arraycopy", "jbyte_arraycopy"));
    CU_ASSERT_TRUE(full_name_is("Gr\xc3\xbc\xc3\x9f" "e", "\xe5\x90\x8d", "Gr\xc3\xbc\xc3\x9f" "e.\xe5\x90\x8d"));
    CU_ASSERT_TRUE(full_name_is("C", "\xed\xa0\xb5\xed\xb2\xbb", "C.\xf0\x9d\x92\xbb")); /* U+1D4BB as two surrogates */
    CU_ASSERT_TRUE(full_name_is("C", "\xed\xa0\xb5", "C.\xed\xa0\xb5")); /* half a pair: left to the reader to refuse */
}

static void test_full_name_is_cut_at_its_room(void)
{
    char out[4] = "....";
    CU_ASSERT_EQUAL(dvt_jvm_full_name(dvt_str("abc"), dvt_str("def"), out, 3), 3);
    CU_ASSERT_EQUAL(memcmp(out, "abc.", 4), 0);
}

static void test_stable_length_leaves_out_only_a_hidden_class_s_address(void)
{
    static const struct {
        const char *name;
        size_t n;
    } cases[] = {{"a/B$$Lambda+0x00007f01", 11}, {"a/B$$Lambda$14+0x0000000800c03000", 14}, {"a/B", 3}, {"deadbeef", 8},
                 {"a+0xyz", 6}, {"+0x1", 4}, {"a/0xff", 6}, {"", 0}, {"0x12", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_EQUAL(dvt_jvm_stable_length(cases[i].name, strlen(cases[i].name)), cases[i].n);
}

static void test_a_program_is_its_main_class_or_jar(void)
{
    static const struct {
        const char *command, *program;
    } cases[] = {{"com.acme.Main", "com.acme.Main"},     {"com.acme.Main in.jar x", "com.acme.Main"}, {"shop.jar", "shop.jar"},
                 {"/opt/shop.jar a/b c.jar", "shop.jar"}, {"/opt/my app/shop.jar x", "shop.jar"},     {"shop/com.acme.Main x", "com.acme.Main"},
                 {"x.jarl y", "x.jarl"},                 {"", ""},                                   {"/", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char program[32];
        dvt_jvm_program_of(cases[i].command, program, sizeof program);
        CU_ASSERT_STRING_EQUAL(program, cases[i].program);
    }
    char cut[4];
    dvt_jvm_program_of("abcdef", cut, sizeof cut);
    CU_ASSERT_STRING_EQUAL(cut, "abc");
}

static void test_a_service_is_named_by_resource_attributes(void)
{
    static const struct {
        const char *text, *service;
    } cases[] = {{"service.name=shop", "shop"},       {"a=b, service.name=my%20shop ,c=d", "my shop"}, {"x.service.name=shop", ""},
                 {"service.name=", ""},               {"service.name=%4", "%4"},                       {"service.name=%zz%41", "%zzA"},
                 {"a=service.name=x", ""},            {NULL, ""},                                      {",,service.name=x,", "x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char service[16];
        dvt_resource_service(cases[i].text, service, sizeof service);
        CU_ASSERT_STRING_EQUAL(service, cases[i].service);
    }
    char cut[4];
    dvt_resource_service("service.name=abcdef", cut, sizeof cut);
    CU_ASSERT_STRING_EQUAL(cut, "abc");
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("jvm_text", NULL, NULL);
    CU_ADD_TEST(s, test_line_of_an_index_is_that_of_the_last_entry_up_to_it);
    CU_ADD_TEST(s, test_line_of_escaped_entries_goes_back_too_in_both_encodings);
    CU_ADD_TEST(s, test_line_table_ends_at_its_mark_or_is_cut_off);
    CU_ADD_TEST(s, test_unsigned5_reads_what_hotspot_writes_and_stops_at_the_end);
    CU_ADD_TEST(s, test_names_are_as_java_says_them_in_utf8);
    CU_ADD_TEST(s, test_full_name_is_cut_at_its_room);
    CU_ADD_TEST(s, test_stable_length_leaves_out_only_a_hidden_class_s_address);
    CU_ADD_TEST(s, test_a_program_is_its_main_class_or_jar);
    CU_ADD_TEST(s, test_a_service_is_named_by_resource_attributes);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
