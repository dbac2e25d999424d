/*
 * Class files: the calls of ThreadLocal that become ours, everything else left as it was, and what is no class file refused.
 */
#include <CUnit/Basic.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../../proto/err.h"
#include "../../shims/jvm/patch.h"
#include "../../shims/jvm/relocate.h"
#include "class_make.h"

static const struct dvt_jvm_patch how = {"attach", "a/Ours"};

struct made {
    struct class_make c;
    uint16_t set, remove, other; /* Methodrefs; other: of another class, by the same name */
    uint16_t attach, close;
};

static void begin(struct made *m)
{
    class_begin(&m->c);
    class_text(&m->c, "io/opentelemetry/context/Storage");
    uint16_t local = class_class(&m->c, "java/lang/ThreadLocal");
    m->set = class_method_ref(&m->c, local, "set", "(Ljava/lang/Object;)V");
    class_u1(&m->c, 5); /* a long: counts twice */
    class_u4(&m->c, 0);
    class_u4(&m->c, m->set);
    m->c.n_constants += 2;
    m->remove = class_method_ref(&m->c, local, "remove", "()V");
    m->other = class_method_ref(&m->c, class_class(&m->c, "java/lang/ThreadLocals"), "set", "(Ljava/lang/Object;)V");
    m->attach = class_text(&m->c, "attach");
    m->close = class_text(&m->c, "close");
    m->c.code_name = class_text(&m->c, "Code");
    class_body(&m->c);
}

/* The patched class in a block of its true size; *ret_n its length, the result the number of calls. */
static int patch(const struct made *m, uint8_t **ret_out, size_t *ret_n)
{
    *ret_out = malloc(m->c.n + DVT_JVM_PATCH_EXTRA);
    *ret_n = 0;
    return dvt_jvm_patch(m->c.p, m->c.n, &how, *ret_out, ret_n);
}

/* Where the constant of that index is. */
static size_t constant_at(const uint8_t *p, unsigned index)
{
    size_t at = 10;
    for (unsigned i = 1; i < index; i++) {
        uint8_t tag = p[at];
        at += tag == 1 ? 3u + (unsigned)(p[at + 1] << 8 | p[at + 2]) : tag == 7 ? 3 : tag == 5 ? 9 : 5;
        i += tag == 5;
    }
    return at;
}

static unsigned u2_at(const uint8_t *p, size_t at)
{
    return (unsigned)(p[at] << 8 | p[at + 1]);
}

static bool text_is(const uint8_t *p, unsigned index, const char *text)
{
    size_t at = constant_at(p, index);
    return p[at] == 1 && u2_at(p, at + 1) == strlen(text) && memcmp(p + at + 3, text, strlen(text)) == 0;
}

/* The instruction at `at` calls a/Ours.NAME with DESCRIPTOR, statically. */
static bool calls(const uint8_t *p, size_t at, const char *name, const char *descriptor)
{
    size_t ref = constant_at(p, u2_at(p, at + 1));
    size_t pair = constant_at(p, u2_at(p, ref + 3)), class = constant_at(p, u2_at(p, ref + 1));
    return p[at] == 0xb8 && p[ref] == 10 && p[pair] == 12 && p[class] == 7 && text_is(p, u2_at(p, class + 1), "a/Ours") &&
           text_is(p, u2_at(p, pair + 1), name) && text_is(p, u2_at(p, pair + 3), descriptor);
}

static void test_calls_become_ours_by_the_method_they_are_in(void)
{
    struct made m;
    uint8_t *out;
    size_t n;
    begin(&m);
    const uint8_t code[] = {0x2a, 0x2b, 0xb6, 0, (uint8_t)m.set, 0x2a, 0xb6, 0, (uint8_t)m.remove, 0xb1};
    size_t in_attach = class_method(&m.c, m.attach, code, sizeof code), in_close = class_method(&m.c, m.close, code, sizeof code);
    class_end(&m.c);
    CU_ASSERT_EQUAL_FATAL(patch(&m, &out, &n), 4);
    size_t shift = n - m.c.n;
    CU_ASSERT_TRUE(calls(out, in_attach + shift + 2, "enter", "(Ljava/lang/ThreadLocal;Ljava/lang/Object;)V"));
    CU_ASSERT_TRUE(calls(out, in_close + shift + 2, "restore", "(Ljava/lang/ThreadLocal;Ljava/lang/Object;)V"));
    CU_ASSERT_TRUE(calls(out, in_attach + shift + 6, "clear", "(Ljava/lang/ThreadLocal;)V"));
    /* Nothing else of the class has changed, or moved but by the new constants. */
    const size_t sites[] = {in_attach + 2, in_attach + 6, in_close + 2, in_close + 6};
    for (size_t i = 0; i < 4; i++)
        memcpy(out + sites[i] + shift, m.c.p + sites[i], 3);
    size_t body = m.c.methods_at - 10;
    CU_ASSERT_EQUAL(memcmp(out + body + shift, m.c.p + body, m.c.n - body), 0);
    CU_ASSERT_EQUAL(memcmp(out + 10, m.c.p + 10, body - 10), 0);
    free(out);
}

static void test_a_patched_class_has_nothing_to_patch(void)
{
    struct made m;
    uint8_t *out;
    size_t n, again_n = 0;
    begin(&m);
    const uint8_t code[] = {0xb6, 0, (uint8_t)m.set, 0xb1};
    class_method(&m.c, m.attach, code, sizeof code);
    class_end(&m.c);
    CU_ASSERT_EQUAL_FATAL(patch(&m, &out, &n), 1);
    uint8_t *again = malloc(n + DVT_JVM_PATCH_EXTRA);
    CU_ASSERT_EQUAL(dvt_jvm_patch(out, n, &how, again, &again_n), 0);
    free(again);
    free(out);
}

/* Operands that look like calls, after every kind of instruction whose length depends on what follows. */
static void test_only_instructions_are_replaced(void)
{
    struct made m;
    uint8_t *out;
    size_t n;
    begin(&m);
    uint8_t s = (uint8_t)m.set;
    const uint8_t code[] = {
        0xaa, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0xb6, 0, s, 0, 0, 0xb6, 0, s, /* tableswitch 0..1 */
        0xab, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0xb6, 0, s, 0, 0xb6, 0, s,             /* lookupswitch of one pair */
        0xc4, 0x84, 0xb6, 0, s, 0, 0xc4, 0x15, 0xb6, 0,                                  /* wide iinc, wide iload */
        0x11, 0xb6, 0, 0x10, 0xb6, 0xb9, 0xb6, 0, s, 0,                                  /* sipush, bipush, invokeinterface */
        0xb6, 0, (uint8_t)m.other, 0xb6, 0, s, 0xb1,
    };
    size_t at = class_method(&m.c, m.close, code, sizeof code);
    class_end(&m.c);
    CU_ASSERT_EQUAL_FATAL(patch(&m, &out, &n), 1);
    CU_ASSERT_TRUE(calls(out, at + sizeof code - 4 + n - m.c.n, "restore", "(Ljava/lang/ThreadLocal;Ljava/lang/Object;)V"));
    free(out);
}

static void test_a_class_without_such_calls_stays(void)
{
    struct made m;
    uint8_t *out;
    size_t n;
    begin(&m);
    const uint8_t code[] = {0xb6, 0, (uint8_t)m.other, 0xb8, 0, (uint8_t)m.set, 0xb1};
    class_method(&m.c, m.attach, code, sizeof code);
    class_end(&m.c);
    CU_ASSERT_EQUAL(patch(&m, &out, &n), 0);
    free(out);
}

/* In a block of its true size, so that a sanitizer sees an over-read. */
static int patch_bytes(const uint8_t *p, size_t n)
{
    uint8_t *in = malloc(n ? n : 1), *out = malloc(n + DVT_JVM_PATCH_EXTRA), *moved = NULL;
    size_t out_n = 0, moved_n;
    memcpy(in, p, n);
    int rc = dvt_jvm_patch(in, n, &how, out, &out_n);
    CU_ASSERT_TRUE(out_n <= n + DVT_JVM_PATCH_EXTRA);
    if (dvt_jvm_relocate(in, n, &moved, &moved_n) == 0)
        free(moved);
    free(out);
    free(in);
    return rc;
}

static void test_a_cut_class_is_refused(void)
{
    struct made m;
    begin(&m);
    const uint8_t code[] = {0xb6, 0, (uint8_t)m.set, 0xb1};
    class_method(&m.c, m.attach, code, sizeof code);
    size_t n = m.c.n;
    class_end(&m.c);
    CU_ASSERT_EQUAL(patch_bytes(m.c.p, n), 1);
    for (size_t cut = 0; cut < n; cut++)
        CU_ASSERT_EQUAL(patch_bytes(m.c.p, cut), DVT_EFORMAT);
}

static void test_instructions_beyond_their_code_are_refused(void)
{
    static const uint8_t codes[][8] = {
        {0xb6, 0},                            /* its operands are missing */
        {0xaa, 0, 0, 0, 0, 0, 0, 1},          /* no bounds */
        {0xab, 0, 0, 0, 0, 0, 0, 1},
        {0xc4},
        {0xba, 1},
        {0xcb},                               /* no instruction */
    };
    static const size_t lengths[] = {2, 8, 8, 1, 2, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct made m;
        begin(&m);
        class_method(&m.c, m.attach, codes[i], lengths[i]);
        class_end(&m.c);
        CU_ASSERT_EQUAL(patch_bytes(m.c.p, m.c.n), DVT_EFORMAT);
    }
}

static void test_names_that_do_not_fit_are_refused(void)
{
    char name[DVT_JVM_PATCH_TARGET + 2];
    uint8_t out[8] = {0};
    size_t n;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct dvt_jvm_patch too_long = {"attach", name};
    CU_ASSERT_EQUAL(dvt_jvm_patch(out, 0, &too_long, out, &n), DVT_EINVAL);
}

static void test_relocated_texts_have_their_prefix_and_new_lengths(void)
{
    struct class_make c;
    uint8_t *out;
    size_t n;
    class_begin(&c);
    class_text(&c, "(Lio/opentelemetry/api/A;Lio/opentelemetry/context/B;Lio/opentelemetry/sdk/C;)V");
    class_text(&c, "io/opentelemetry/contextual");
    class_body(&c);
    CU_ASSERT_EQUAL_FATAL(dvt_jvm_relocate(c.p, c.n, &out, &n), 0);
    CU_ASSERT_TRUE(text_is(out, 1, "(L" DVT_JVM_SHADED "io/opentelemetry/api/A;L" DVT_JVM_SHADED
                                   "io/opentelemetry/context/B;Lio/opentelemetry/sdk/C;)V"));
    CU_ASSERT_TRUE(text_is(out, 2, "io/opentelemetry/contextual"));
    CU_ASSERT_EQUAL(n, c.n + 2 * strlen(DVT_JVM_SHADED));
    CU_ASSERT_EQUAL(memcmp(out + n - 12, c.p + c.n - 12, 12), 0);
    free(out);
}

static void test_a_text_that_would_be_too_long_is_refused(void)
{
    static const char moved[] = "io/opentelemetry/api/";
    size_t n_text = 65520, n = 10 + 3 + n_text;
    uint8_t *p = calloc(1, n), *out;
    size_t out_n;
    struct class_make c;
    class_begin(&c);
    memcpy(p, c.p, c.n);
    p[9] = 2;
    p[10] = 1;
    p[11] = (uint8_t)(n_text >> 8);
    p[12] = (uint8_t)n_text;
    for (size_t at = 0; at + sizeof moved - 1 <= n_text; at += sizeof moved - 1)
        memcpy(p + 13 + at, moved, sizeof moved - 1);
    CU_ASSERT_EQUAL(dvt_jvm_relocate(p, n, &out, &out_n), DVT_EFORMAT);
    free(p);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("jvm_patch", NULL, NULL);
    CU_ADD_TEST(s, test_calls_become_ours_by_the_method_they_are_in);
    CU_ADD_TEST(s, test_a_patched_class_has_nothing_to_patch);
    CU_ADD_TEST(s, test_only_instructions_are_replaced);
    CU_ADD_TEST(s, test_a_class_without_such_calls_stays);
    CU_ADD_TEST(s, test_a_cut_class_is_refused);
    CU_ADD_TEST(s, test_instructions_beyond_their_code_are_refused);
    CU_ADD_TEST(s, test_names_that_do_not_fit_are_refused);
    CU_ADD_TEST(s, test_relocated_texts_have_their_prefix_and_new_lengths);
    CU_ADD_TEST(s, test_a_text_that_would_be_too_long_is_refused);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
