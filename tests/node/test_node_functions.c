/* functions: V8's names of code, and one id for all tiers of a function. */
#include <CUnit/Basic.h>

#include <string.h>

#include "functions.h"

static void check(const char *text, const char *name, const char *file, uint32_t line, uint32_t column)
{
    struct dvt_node_function_text t = dvt_node_parse(dvt_str(text));
    CU_ASSERT_EQUAL(t.name.n, strlen(name));
    CU_ASSERT_NSTRING_EQUAL(t.name.p, name, strlen(name));
    CU_ASSERT_EQUAL(t.file.n, strlen(file));
    CU_ASSERT_NSTRING_EQUAL(t.file.p, file, strlen(file));
    CU_ASSERT_EQUAL(t.line, line);
    CU_ASSERT_EQUAL(t.column, column);
}

static void test_names_of_all_versions_and_tiers(void)
{
    check("JS:*checkout /srv/app.js:12:7", "checkout", "/srv/app.js", 12, 7);
    check("LazyCompile:~checkout /srv/app.js:12:7", "checkout", "/srv/app.js", 12, 7);
    check("LazyCompile:~checkout /srv/app.js:12", "checkout", "/srv/app.js", 12, 0);
    check("JS:^checkout file:///srv/app.mjs:12:7", "checkout", "/srv/app.mjs", 12, 7);
    check("JS:+'emit node:events:511:44", "emit", "node:events", 511, 44);
    check("Builtin:ArrayPrototypeSort", "ArrayPrototypeSort", "", 0, 0);
    check("RegExp:(a:b)", "(a:b)", "", 0, 0);
    check("BytecodeHandler:LdaSmi", "LdaSmi", "", 0, 0);
}

static void test_names_and_paths_with_spaces(void)
{
    check("JS:~get total /srv/my app/a b.js:3:4", "get total", "/srv/my app/a b.js", 3, 4);
    check("JS:~static async x evalmachine.<anonymous>:1:2", "static async x", "evalmachine.<anonymous>", 1, 2);
}

static void test_code_without_a_name_or_a_file(void)
{
    check("JS:~ /srv/app.js:1:1", "(module)", "/srv/app.js", 1, 1);
    check("JS:~ /srv/app.js:9:20", "(anonymous)", "/srv/app.js", 9, 20);
    check("JS:*work_5 :3:23", "work_5", "", 3, 23);
    check("JS:~", "(anonymous)", "", 0, 0);
    check("", "", "", 0, 0);
}

static void test_numbers_that_are_none(void)
{
    check("JS:~f /srv/app.js:99999999999:1", "f", "/srv/app.js:99999999999", 1, 0);
    check("JS:~f /srv/app.js:5x", "f", "/srv/app.js:5x", 0, 0);
    check("JS:~f 12", "f", "12", 0, 0);
}

static void test_one_id_for_all_tiers_of_a_function(void)
{
    uint32_t id = dvt_node_function(dvt_str("JS:~a /x.js:1:2"));
    CU_ASSERT_TRUE(id >= DVT_NODE_FIRST);
    CU_ASSERT_EQUAL(dvt_node_function(dvt_str("JS:^a /x.js:1:2")), id);
    CU_ASSERT_EQUAL(dvt_node_function(dvt_str("LazyCompile:*a /x.js:1:2")), id);
    CU_ASSERT_NOT_EQUAL(dvt_node_function(dvt_str("JS:~a /x.js:1:3")), id);
    CU_ASSERT_NOT_EQUAL(dvt_node_function(dvt_str("JS:~a /y.js:1:2")), id);
    CU_ASSERT_NOT_EQUAL(dvt_node_function(dvt_str("Builtin:a /x.js:1:2")), id);
}

static void test_texts_stay_over_many_functions(void)
{
    char text[64];
    uint32_t first = dvt_node_function(dvt_str("JS:~first /x.js:1:2"));
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof text, "JS:~f%d /x.js:%d:2", i, i + 1);
        (void)dvt_node_function(dvt_str(text));
    }
    struct dvt_node_function_text t = dvt_node_function_text(first);
    CU_ASSERT_NSTRING_EQUAL(t.name.p, "first", 5);
    CU_ASSERT_EQUAL(dvt_node_function(dvt_str("JS:*f7 /x.js:8:2")), dvt_node_function(dvt_str("JS:~f7 /x.js:8:2")));
}

static void test_javascript_is_told_from_what_runs_it(void)
{
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("JS:*a /x.js:1:2")), DVT_NODE_JS);
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("LazyCompile:~a /x.js:1")), DVT_NODE_JS);
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("JS:")), DVT_NODE_JS);
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("BytecodeHandler:LdaSmi")), DVT_NODE_BYTECODE_HANDLER);
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("Builtin:*")), DVT_NODE_BUILTIN);
    CU_ASSERT_EQUAL(dvt_node_kind(dvt_str("")), DVT_NODE_BUILTIN);
}

static void test_special_ids_have_texts(void)
{
    CU_ASSERT_NSTRING_EQUAL(dvt_node_function_text(DVT_NODE_GC).name.p, "GC", 2);
    CU_ASSERT_NSTRING_EQUAL(dvt_node_function_text(DVT_NODE_OTHER).name.p, "(other", 6);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("functions", NULL, NULL);
    CU_ADD_TEST(s, test_names_of_all_versions_and_tiers);
    CU_ADD_TEST(s, test_names_and_paths_with_spaces);
    CU_ADD_TEST(s, test_code_without_a_name_or_a_file);
    CU_ADD_TEST(s, test_numbers_that_are_none);
    CU_ADD_TEST(s, test_one_id_for_all_tiers_of_a_function);
    CU_ADD_TEST(s, test_texts_stay_over_many_functions);
    CU_ADD_TEST(s, test_javascript_is_told_from_what_runs_it);
    CU_ADD_TEST(s, test_special_ids_have_texts);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
