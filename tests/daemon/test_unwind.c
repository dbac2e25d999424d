/* unwind, demangle, kallsyms and interned names: the pure parts below symbols, on made-up input. */
#include <CUnit/Basic.h>
#include <dwarf.h>
#include <string.h>

#include "../../daemon/demangle.h"
#include "../../daemon/perf_open.h"
#include "../../daemon/symbols_kernel.h"
#include "../../daemon/symbols_names.h"
#include "../../daemon/unwind.h"

enum { BASE = 0x1000, WORDS = 8, OTHER = 3 /* a register that calls keep */ };

static uint64_t words[WORDS];
static const struct unwind_stack stack = {(const uint8_t *)words, BASE, sizeof words};

static void fill(void)
{
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = 0x400000 + i;
}

static struct unwind_regs regs_at(uint64_t sp)
{
    struct unwind_regs r = {.pc = 0x400123};
    r.r[UNWIND_SP] = sp;
    r.r[OTHER] = 77;
    r.valid = 1u << UNWIND_SP | 1u << OTHER;
    return r;
}

/* CFA = sp + 16, return address at CFA - 8. */
static struct unwind_row plain_row(void)
{
    struct unwind_row row = {
        .valid = true, .cfa_reg = UNWIND_SP, .cfa_offset = 16, .n_rules = 1, .same = 1u << OTHER};
    row.rules[0] = (struct unwind_rule){.reg = UNWIND_RA, .kind = UNWIND_AT_CFA, .offset = -8};
    return row;
}

static struct unwind_row expression_row(const Dwarf_Op *ops, uint8_t n)
{
    struct unwind_row row = plain_row();
    row.rules[0] = (struct unwind_rule){.reg = UNWIND_RA, .kind = UNWIND_EXPRESSION, .n_ops = n, .ops = ops};
    return row;
}

static void test_step_gives_the_callers_registers(void)
{
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE);
    fill();
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.pc, 0x400001);
    CU_ASSERT_EQUAL(r.r[UNWIND_SP], BASE + 16);
    CU_ASSERT_EQUAL(r.r[OTHER], 77);
}

static void test_load_at_the_last_word_works_and_one_byte_further_is_lost(void)
{
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE + sizeof words - 16);
    fill();
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.pc, 0x400007);
    r = regs_at(BASE + sizeof words - 15);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
    r = regs_at(BASE - 16);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
    r = regs_at(UINT64_MAX - 7); /* wraps */
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
}

static void test_undefined_or_zero_return_address_is_the_end(void)
{
    struct unwind_row row = {.valid = true, .ends = true};
    struct unwind_regs r = regs_at(BASE);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_END);
    row = plain_row();
    memset(words, 0, sizeof words);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_END);
}

static void test_without_information_the_chain_is_lost(void)
{
    struct unwind_row row = {.valid = false};
    struct unwind_regs r = regs_at(BASE);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
    row = plain_row();
    row.cfa_reg = OTHER + 1; /* not known */
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
}

static void test_stack_that_does_not_grow_is_lost(void)
{
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE + 16);
    fill();
    row.cfa_offset = 0; /* the frame has no size: possible in the leaf only */
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, false, &r), UNWIND_LOST);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    row.cfa_offset = -8;
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
}

static void test_signal_frame_may_go_to_another_stack(void)
{
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE + 32);
    fill();
    row.signal = true;
    row.cfa_offset = -8;
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, false, &r), UNWIND_OK);
}

static void test_register_that_is_not_kept_is_unknown_in_the_caller(void)
{
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE);
    fill();
    row.same = 0;
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.valid >> OTHER & 1, 0);
}

static void test_expression_of_a_plt_entry(void)
{
    /* What x86-64 linkers write for the CFA in .plt: sp + 8 + ((pc & 15) >= 11) << 3; here with a constant
     * for pc. */
    static const Dwarf_Op cfa[] = {{.atom = DW_OP_breg0 + UNWIND_SP, .number = 8},
                                   {.atom = DW_OP_const1u, .number = 11},
                                   {.atom = DW_OP_lit15},
                                   {.atom = DW_OP_and},
                                   {.atom = DW_OP_lit11},
                                   {.atom = DW_OP_ge},
                                   {.atom = DW_OP_lit3},
                                   {.atom = DW_OP_shl},
                                   {.atom = DW_OP_plus}};
    struct unwind_row row = plain_row();
    struct unwind_regs r = regs_at(BASE);
    fill();
    row.cfa_ops = cfa;
    row.n_cfa_ops = sizeof cfa / sizeof *cfa;
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.r[UNWIND_SP], BASE + 16);
}

static void test_expression_as_place_and_as_value(void)
{
    static const Dwarf_Op place[] = {{.atom = DW_OP_call_frame_cfa},
                                     {.atom = DW_OP_plus_uconst, .number = 8}};
    static const Dwarf_Op value[] = {{.atom = DW_OP_constu, .number = 0x401000}, {.atom = DW_OP_stack_value}};
    struct unwind_row row = expression_row(place, 2);
    struct unwind_regs r = regs_at(BASE);
    fill();
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.pc, 0x400003);
    row = expression_row(value, 2);
    r = regs_at(BASE);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_OK);
    CU_ASSERT_EQUAL(r.pc, 0x401000);
}

static void test_damaged_expressions_are_lost(void)
{
    static const Dwarf_Op too_few[] = {{.atom = DW_OP_lit0}, {.atom = DW_OP_plus}};
    static const Dwarf_Op unknown[] = {{.atom = DW_OP_lit0}, {.atom = DW_OP_skip, .number = (Dwarf_Word)-3}};
    static Dwarf_Op deep[UNWIND_MAX_OPS];
    struct unwind_regs r = regs_at(BASE);
    struct unwind_row row = expression_row(too_few, 2);
    fill();
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
    row = expression_row(unknown, 2);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
    for (size_t i = 0; i < UNWIND_MAX_OPS; i++)
        deep[i].atom = DW_OP_lit1;
    row = expression_row(deep, UNWIND_MAX_OPS);
    CU_ASSERT_EQUAL(unwind_step(&row, &stack, true, &r), UNWIND_LOST);
}

static void test_perf_registers_get_their_dwarf_numbers(void)
{
    enum { N = 33 };
    uint64_t regs[N];
    struct unwind_regs r;
    uint32_t n = (uint32_t)__builtin_popcountll(PERF_OPEN_REGS_MASK);
    for (uint64_t i = 0; i < N; i++)
        regs[i] = 100 + i;
    CU_ASSERT_TRUE(unwind_regs_from_perf(PERF_OPEN_REGS_MASK, regs, n, &r));
    CU_ASSERT_FALSE(unwind_regs_from_perf(PERF_OPEN_REGS_MASK, regs, n - 1, &r));
    CU_ASSERT_FALSE(unwind_regs_from_perf(0, regs, 0, &r));
#if defined(__x86_64__)
    CU_ASSERT_TRUE(unwind_regs_from_perf(PERF_OPEN_REGS_MASK, regs, n, &r));
    CU_ASSERT_EQUAL(r.pc, 108);
    CU_ASSERT_EQUAL(r.r[UNWIND_SP], 107);
    CU_ASSERT_EQUAL(r.r[0], 100);  /* rax */
    CU_ASSERT_EQUAL(r.r[1], 103);  /* rdx */
    CU_ASSERT_EQUAL(r.r[3], 101);  /* rbx */
    CU_ASSERT_EQUAL(r.r[6], 106);  /* rbp */
    CU_ASSERT_EQUAL(r.r[15], 116); /* r15 */
#endif
}

static void assert_demangled(const char *symbol, const char *plain)
{
    char out[256];
    demangle(symbol, out, sizeof out);
    CU_ASSERT_STRING_EQUAL(out, plain);
}

static void test_names_are_demangled(void)
{
    assert_demangled("main", "main");
    assert_demangled("_ZN4shop5Order8discountEi", "shop::Order::discount(int)");
    assert_demangled("_ZN4shop3tax17h0123456789abcdefE", "shop::tax");
    assert_demangled("_ZN4shop3tax17h0123456789abcdeXE", "shop::tax::h0123456789abcdeX"); /* no hash */
    assert_demangled(
        "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
        "<alloc::string::String as core::fmt::Debug>::fmt");
    assert_demangled("_Zbad", "_Zbad");
    assert_demangled("", "");
}

/* Each "S_"-like reference can repeat all before it: such a name would demangle to gigabytes. */
static void test_name_that_explodes_is_left_mangled(void)
{
    char bomb[200] = "_Z1f", text[2000];
    for (int i = 0; i < 20; i++)
        strcat(bomb, "1aIS_S0_E");
    assert_demangled(bomb, bomb);
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "_Z1990", 6);
    text[sizeof text - 1] = 0;
    char out[64];
    demangle(text, out, sizeof out);
    CU_ASSERT_EQUAL(strlen(out), sizeof out - 1);
}

static void test_long_names_that_differ_stay_different(void)
{
    char a[600], b[600], cut_a[64], cut_b[64];
    memset(a, 'x', sizeof a);
    a[599] = 0;
    memcpy(b, a, sizeof b);
    b[598] = 'y';
    demangle(a, cut_a, sizeof cut_a);
    demangle(b, cut_b, sizeof cut_b);
    CU_ASSERT_EQUAL(strlen(cut_a), 63);
    CU_ASSERT_STRING_NOT_EQUAL(cut_a, cut_b);
    CU_ASSERT_NSTRING_EQUAL(cut_a, cut_b, 50);
}

static struct symbols_kernel *read_kernel(const char *text)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    struct symbols_kernel *k = symbols_kernel_read(f);
    fclose(f);
    return k;
}

static void test_kernel_address_is_in_the_function_before_it(void)
{
    struct symbols_kernel *k = read_kernel("ffffffff81000200 t second\n"
                                           "ffffffff81000100 T first\nffffffff81000100 T alias\n"
                                           "ffffffff81000180 D data\n"
                                           "garbage\n"
                                           "ffffffffc0000000 t in_module\t[ext4]\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(k);
    CU_ASSERT_PTR_NULL(symbols_kernel_find(k, 0xffffffff810000ff));
    CU_ASSERT_STRING_EQUAL(symbols_kernel_find(k, 0xffffffff81000100), "first");
    CU_ASSERT_STRING_EQUAL(symbols_kernel_find(k, 0xffffffff810001ff), "first");
    CU_ASSERT_STRING_EQUAL(symbols_kernel_find(k, 0xffffffff81000200), "second");
    CU_ASSERT_STRING_EQUAL(symbols_kernel_find(k, 0xffffffffc0000001), "in_module");
    CU_ASSERT_PTR_NULL(symbols_kernel_find(k, 0xffffffffb0000000)); /* far behind everything */
    symbols_kernel_free(k);
}

static void test_hidden_kernel_addresses_give_no_table(void)
{
    CU_ASSERT_PTR_NULL(read_kernel("0000000000000000 T first\n0000000000000000 t second\n"));
    CU_ASSERT_PTR_NULL(read_kernel(" "));
}

static void test_interned_names_are_one_and_clean(void)
{
    struct symbols_names *t = symbols_names_new();
    char text[32];
    const char *first = symbols_names_intern(t, "a", 100);
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "name %d", i);
        symbols_names_intern(t, text, 100);
    }
    CU_ASSERT_PTR_EQUAL(symbols_names_intern(t, "a", 100), first);
    CU_ASSERT_PTR_EQUAL(symbols_names_intern(t, "name 4999", 100), symbols_names_intern(t, text, 100));
    CU_ASSERT_STRING_EQUAL(symbols_names_intern(t, "x\ny\xff", 100), "x\xEF\xBF\xBDy\xEF\xBF\xBD");
    CU_ASSERT_STRING_EQUAL(symbols_names_intern(t, "abcdef", 3), "abc");
    CU_ASSERT(symbols_names_bytes(t) > 5000 * 6);
    symbols_names_free(t);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("unwind", NULL, NULL);
    CU_ADD_TEST(s, test_step_gives_the_callers_registers);
    CU_ADD_TEST(s, test_load_at_the_last_word_works_and_one_byte_further_is_lost);
    CU_ADD_TEST(s, test_undefined_or_zero_return_address_is_the_end);
    CU_ADD_TEST(s, test_without_information_the_chain_is_lost);
    CU_ADD_TEST(s, test_stack_that_does_not_grow_is_lost);
    CU_ADD_TEST(s, test_signal_frame_may_go_to_another_stack);
    CU_ADD_TEST(s, test_register_that_is_not_kept_is_unknown_in_the_caller);
    CU_ADD_TEST(s, test_expression_of_a_plt_entry);
    CU_ADD_TEST(s, test_expression_as_place_and_as_value);
    CU_ADD_TEST(s, test_damaged_expressions_are_lost);
    CU_ADD_TEST(s, test_perf_registers_get_their_dwarf_numbers);
    CU_ADD_TEST(s, test_names_are_demangled);
    CU_ADD_TEST(s, test_name_that_explodes_is_left_mangled);
    CU_ADD_TEST(s, test_long_names_that_differ_stay_different);
    CU_ADD_TEST(s, test_kernel_address_is_in_the_function_before_it);
    CU_ADD_TEST(s, test_hidden_kernel_addresses_give_no_table);
    CU_ADD_TEST(s, test_interned_names_are_one_and_clean);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
