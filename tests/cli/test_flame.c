/* The HTML and SVG outputs: structure, numbers, and names that try to get out of them. */
#include <CUnit/Basic.h>
#include <stdlib.h>
#include <string.h>

#include "../../cli/flame_assets.h"
#include "../../cli/flame_order.h"
#include "../../cli/output.h"
#include "../../proto/chunk.h"

static const char evil[] = "</script><script>alert('x')</script>\"]]>&\n\xff<!--\xEF\xBF\xBF";

static uint32_t add(struct tree *t, uint32_t parent, uint8_t kind, uint8_t frame_kind, const char *name)
{
    struct tree_key k = {kind, frame_kind, dvt_str(name), dvt_str("module.so"), dvt_str("")};
    return tree_child(t, parent, &k);
}

/* service "shop": a (30) -> b (10), evil (60). */
static void make(struct tree *t)
{
    tree_init(t);
    uint32_t service = add(t, 0, TREE_SERVICE, 0, "shop");
    uint32_t a = add(t, service, TREE_FRAME, DVT_FRAME_MANAGED, "a");
    uint32_t b = add(t, a, TREE_FRAME, DVT_FRAME_NATIVE, "b");
    uint32_t e = add(t, service, TREE_FRAME, DVT_FRAME_KERNEL, evil);
    add(t, service, TREE_FRAME, DVT_FRAME_KERNEL, "without samples");
    tree_add(t, a, 20000000, 20);
    tree_add(t, b, 10000000, 10);
    tree_add(t, e, 60000000, 60);
    tree_finish(t);
}

static struct tree_meta meta_of(void)
{
    return (struct tree_meta){.title = "<b>GET /</b>",
                              .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                              .filter = "",
                              .event = "cpu-clock",
                              .service = "shop",
                              .n_traces = 1,
                              .duration_ns = 100000000,
                              .on_cpu_ns = 90000000,
                              .period_ns = 1000000,
                              .samples = 90};
}

static char *written_of(const struct output_ops *ops, const struct tree *t)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    struct tree_meta m = meta_of();
    CU_ASSERT_EQUAL(ops->write(t, &m, out), 0);
    fclose(out);
    return text;
}

static char *written(const struct output_ops *ops)
{
    struct tree t;
    make(&t);
    char *text = written_of(ops, &t);
    tree_fini(&t);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void test_order_is_parents_first_heavier_siblings_first_without_empty_nodes(void)
{
    struct tree t;
    struct flame_order o;
    make(&t);
    flame_order_init(&o, &t);
    CU_ASSERT_EQUAL_FATAL(o.n, 5);
    CU_ASSERT_EQUAL(t.nodes[o.nodes[2]].total_samples, 60);
    CU_ASSERT_EQUAL(t.nodes[o.nodes[3]].total_samples, 30);
    CU_ASSERT_EQUAL(t.nodes[o.nodes[4]].total_samples, 10);
    CU_ASSERT_EQUAL(o.depth[0], 0);
    CU_ASSERT_EQUAL(o.depth[2], 2);
    CU_ASSERT_EQUAL(o.depth[4], 3);
    flame_order_fini(&o);
    tree_fini(&t);
}

static void test_html_holds_the_columns_in_order(void)
{
    char *html = written(&out_html);
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"depth\":[0,1,2,2,3]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"selfSamples\":[0,0,60,20,10]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"self\":[0,0,60000000,20000000,10000000]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"kind\":[0,1,8,4,7]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\""));
    free(html);
}

/* Two scripts begin, two end, as without the evil name, and its brackets are nowhere. */
static void test_html_lets_no_name_out_of_the_data(void)
{
    char *html = written(&out_html);
    CU_ASSERT_EQUAL(count(html, "<script"), 2);
    CU_ASSERT_EQUAL(count(html, "</script"), 2);
    CU_ASSERT_EQUAL(count(html, "<!--"), 0);
    CU_ASSERT_EQUAL(count(html, "<b>GET"), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "<title>&lt;b&gt;GET /&lt;/b&gt; - dovetail</title>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\\u003c/script\\u003e\\u003cscript\\u003ealert"));
    free(html);
}

static void test_html_policy_forbids_every_load_and_unknown_script(void)
{
    char *html = written(&out_html);
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "Content-Security-Policy\" content=\"default-src 'none'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "script-src 'sha256-"));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "style-src 'sha256-"));
    CU_ASSERT_EQUAL(count(html, "unsafe-inline"), 0);
    CU_ASSERT_EQUAL(count(html, "http://"), 0);
    CU_ASSERT_EQUAL(count(html, "https://"), 0);
    free(html);
}

static void test_assets_may_stand_inside_their_elements(void)
{
    CU_ASSERT_EQUAL(strlen(flame_js), flame_js_bytes);
    CU_ASSERT_EQUAL(strlen(flame_css), flame_css_bytes);
    CU_ASSERT_EQUAL(count(flame_js, "</script"), 0);
    CU_ASSERT_EQUAL(count(flame_js, "<!--"), 0);
    CU_ASSERT_EQUAL(count(flame_css, "</style"), 0);
    CU_ASSERT_EQUAL(count(flame_js, "innerHTML"), 0); /* names reach the page as text only */
}

/* A checker of what matters of well-formedness: elements nest and close, text has no stray '<', '&' is an
 * entity. */
static bool is_well_formed(const char *p)
{
    char open[64][16];
    size_t depth = 0;
    for (; *p; p++) {
        if (*p == '&') {
            size_t n = strcspn(p, ";");
            if (n > 6)
                return false;
        } else if (*p == '<' && p[1] == '?') {
            p = strstr(p, "?>") + 1;
        } else if (*p == '<') {
            bool closes = p[1] == '/';
            const char *name = p + 1 + closes, *end = strchr(p, '>');
            size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz");
            if (!end || n == 0 || n > 15 || depth == 64)
                return false;
            if (closes && (depth == 0 || strncmp(open[--depth], name, n) != 0))
                return false;
            if (!closes && end[-1] != '/') {
                memcpy(open[depth], name, n);
                open[depth++][n] = 0;
            }
            p = end;
        } else if ((unsigned char)*p < 0x20 && *p != '\n') {
            return false;
        }
    }
    return depth == 0;
}

static void test_svg_is_well_formed_whatever_the_names(void)
{
    char *svg = written(&out_svg);
    CU_ASSERT_TRUE(is_well_formed(svg));
    CU_ASSERT_EQUAL(count(svg, "<script"), 0);
    CU_ASSERT_EQUAL(count(svg, "\xEF\xBF\xBF"), 0); /* U+FFFF is no character of XML */
    CU_ASSERT_EQUAL(count(svg, "<rect x="), 5 + 7); /* the boxes and the legend */
    free(svg);
}

static void test_svg_tooltip_has_share_interval_and_samples(void)
{
    char *svg = written(&out_svg);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "33.3% [24.5, 43.6], 30 of 90 samples"));
    CU_ASSERT_PTR_NULL(strstr(svg, "without samples"));
    free(svg);
}

static void test_empty_tree_is_written(void)
{
    struct tree t;
    tree_init(&t);
    tree_finish(&t);
    char *svg = written_of(&out_svg, &t), *html = written_of(&out_html, &t);
    CU_ASSERT_TRUE(is_well_formed(svg));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, "\"depth\":[0]"));
    free(svg);
    free(html);
    tree_fini(&t);
}

static void test_deep_stack_is_written_without_recursion(void)
{
    struct tree t;
    uint32_t node = 0;
    char name[16];
    tree_init(&t);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "f%d", i);
        node = add(&t, node, TREE_FRAME, DVT_FRAME_NATIVE, name);
    }
    tree_add(&t, node, 1000, 1);
    tree_finish(&t);
    char *svg = written_of(&out_svg, &t), *html = written_of(&out_html, &t);
    CU_ASSERT_TRUE(is_well_formed(svg));
    CU_ASSERT_PTR_NOT_NULL(strstr(html, ",1999,2000]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "too few samples"));
    free(svg);
    free(html);
    tree_fini(&t);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("flame", NULL, NULL);
    CU_ADD_TEST(s, test_order_is_parents_first_heavier_siblings_first_without_empty_nodes);
    CU_ADD_TEST(s, test_html_holds_the_columns_in_order);
    CU_ADD_TEST(s, test_html_lets_no_name_out_of_the_data);
    CU_ADD_TEST(s, test_html_policy_forbids_every_load_and_unknown_script);
    CU_ADD_TEST(s, test_assets_may_stand_inside_their_elements);
    CU_ADD_TEST(s, test_svg_is_well_formed_whatever_the_names);
    CU_ADD_TEST(s, test_svg_tooltip_has_share_interval_and_samples);
    CU_ADD_TEST(s, test_empty_tree_is_written);
    CU_ADD_TEST(s, test_deep_stack_is_written_without_recursion);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
