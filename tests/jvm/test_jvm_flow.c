/*
 * Compiled code's instructions by length, as a disassembler says, and where control flows: the end of a C2 method as its
 * compiler made it.
 */
#include <CUnit/Basic.h>

#include <stdlib.h>
#include <string.h>

#include "../../shims/jvm/walker.h"

/* ---- lengths ---- */

struct insn {
    size_t bytes;
    uint8_t code[16];
};

static const struct insn known[] = {
    {1, {0x55}},                                                          /* push rbp */
    {4, {0x48, 0x83, 0xEC, 0x20}},                                        /* sub rsp, 32 */
    {5, {0x48, 0x89, 0x6C, 0x24, 0x10}},                                  /* mov [rsp + 16], rbp */
    {9, {0x48, 0xC7, 0x44, 0x24, 0x08, 0xFF, 0xFF, 0xFF, 0xFF}},          /* mov qword [rsp + 8], -1 */
    {10, {0x49, 0xBA, 1, 2, 3, 4, 5, 6, 7, 8}},                           /* mov r10, imm64 */
    {5, {0xB8, 1, 0, 0, 0}},                                              /* mov eax, 1 */
    {5, {0x66, 0xC7, 0x00, 1, 0}},                                        /* mov word [rax], 1 */
    {7, {0x48, 0x8D, 0x05, 0, 0, 0, 0}},                                  /* lea rax, [rip] */
    {8, {0x42, 0x8B, 0x04, 0x85, 0, 0, 0, 0}},                            /* mov eax, [r8 * 4] */
    {6, {0xF7, 0x07, 1, 0, 0, 0}},                                        /* test dword [rdi], 1 */
    {2, {0xF7, 0xD8}},                                                    /* neg eax */
    {6, {0x0F, 0x87, 0, 0, 0, 0}},                                        /* ja */
    {4, {0x41, 0x0F, 0xAF, 0xDB}},                                        /* imul ebx, r11d */
    {9, {0x66, 0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0}},                         /* nop */
    {5, {0xF0, 0x4D, 0x0F, 0xB1, 0x16}},                                  /* lock cmpxchg [r14], r10 */
    {3, {0xC5, 0xF8, 0x77}},                                              /* vzeroupper */
    {5, {0xC5, 0xFE, 0x6F, 0x04, 0x0E}},                                  /* vmovdqu ymm0, [rsi + rcx] */
    {6, {0xC4, 0xE3, 0x7D, 0x39, 0xC1, 0x01}},                            /* vextracti128 */
    {6, {0xC4, 0xE2, 0x7D, 0x40, 0x04, 0x0E}},                            /* vpmulld */
    {7, {0x62, 0xF1, 0x7C, 0x48, 0x10, 0x46, 0x01}},                      /* vmovups zmm0, [rsi + 64] */
    {6, {0x66, 0x0F, 0x3A, 0x63, 0xCF, 0x0C}},                            /* pcmpestri */
};

static void test_lengths_are_a_disassembler_s(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CU_ASSERT_EQUAL(dvt_jvm_insn_bytes(known[i].code, sizeof known[i].code), known[i].bytes);
}

/* Blocks of their true size, so that a sanitizer sees an over-read. */
static void test_cut_or_random_bytes_stay_in_bounds(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        for (size_t n = 1; n < known[i].bytes; n++) {
            uint8_t *cut = malloc(n);
            memcpy(cut, known[i].code, n);
            CU_ASSERT_EQUAL(dvt_jvm_insn_bytes(cut, n), 0);
            free(cut);
        }
    }
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        size_t n = 1 + (size_t)random() % 64;
        uint8_t *p = malloc(n);
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)random();
        CU_ASSERT_TRUE(dvt_jvm_insn_bytes(p, n) <= n);
        (void)dvt_jvm_flows_to_end(p, n, (size_t)random() % (n + 2));
        free(p);
    }
}

/* ---- flow ---- */

/* From the end of one description to the end of the next, which is the last instruction's: a method's way out, into which all its
 * branches jump, and behind it ways into loops. */
static const uint8_t way_out[] = {
    0xEB, 0xB4,                         /*  0 jmp back into the loop */
    0x48, 0x83, 0xC4, 0x20,             /*  2 add rsp, 32 */
    0x5D,                               /*  6 pop rbp */
    0x49, 0x3B, 0x67, 0x28,             /*  7 cmp rsp, [r15 + 40] */
    0x0F, 0x87, 0x09, 0x00, 0x00, 0x00, /* 11 ja 26, where what is described ends */
    0xC3,                               /* 17 ret */
    0x33, 0xC0,                         /* 18 xor eax, eax */
    0xEB, 0xEC,                         /* 20 jmp 2 */
    0x33, 0xC9,                         /* 22 xor ecx, ecx */
    0x03, 0xC1,                         /* 24 add eax, ecx: described */
};

static void test_a_method_s_way_out_is_not_what_is_described_behind_it(void)
{
    static const size_t before[] = {0, 2, 6, 7, 11, 17, 18, 20};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        CU_ASSERT_FALSE(dvt_jvm_flows_to_end(way_out, sizeof way_out, before[i]));
    CU_ASSERT_TRUE(dvt_jvm_flows_to_end(way_out, sizeof way_out, 22));
    CU_ASSERT_TRUE(dvt_jvm_flows_to_end(way_out, sizeof way_out, 24));
    CU_ASSERT_FALSE(dvt_jvm_flows_to_end(way_out, sizeof way_out, sizeof way_out));
}

static void test_a_method_s_way_out_is_known_by_its_instructions(void)
{
    static const size_t out[] = {2, 6, 7, 11, 17}, others[] = {0, 18, 20, 22, 24, sizeof way_out};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        CU_ASSERT_TRUE(dvt_jvm_is_way_out(way_out, sizeof way_out, out[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CU_ASSERT_FALSE(dvt_jvm_is_way_out(way_out, sizeof way_out, others[i]));
    CU_ASSERT_FALSE(dvt_jvm_is_way_out(way_out, 17, 2)); /* no return to be seen */
}

/* As intrinsics are: one description with jumps among its instructions. */
static void test_loops_and_jumps_inside_are_followed(void)
{
    static const uint8_t code[] = {
        0x33, 0xC0,       /*  0 xor eax, eax */
        0xEB, 0x05,       /*  2 jmp 9 */
        0xFF, 0xC0,       /*  4 inc eax */
        0x75, 0xFC,       /*  6 jne 4 */
        0xC3,             /*  8 ret */
        0x85, 0xC9,       /*  9 test ecx, ecx */
        0x74, 0xF7,       /* 11 je 4 */
        0x90,             /* 13 nop */
    };
    CU_ASSERT_TRUE(dvt_jvm_flows_to_end(code, sizeof code, 0));
    CU_ASSERT_TRUE(dvt_jvm_flows_to_end(code, sizeof code, 9));
    CU_ASSERT_FALSE(dvt_jvm_flows_to_end(code, sizeof code, 4));
}

static void test_what_only_the_instruction_before_leads_to_is_known(void)
{
    CU_ASSERT_TRUE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out, 7));
    CU_ASSERT_TRUE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out, 17));  /* a branch goes on behind it too */
    CU_ASSERT_FALSE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out, 2));  /* jumped to */
    CU_ASSERT_FALSE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out, 18)); /* behind a return */
    CU_ASSERT_FALSE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out, 3));  /* in an instruction */
    CU_ASSERT_FALSE(dvt_jvm_is_only_fallen_into(way_out, sizeof way_out - 1, 7)); /* not all is understood */
}

/* As C2 writes a switch: what its branches share, the test for the default, the jump by the table. */
static const uint8_t switch_head[] = {
    0x83, 0xFE, 0x28,                   /*  0 cmp esi, 40 */
    0x73, 0x07,                         /*  3 jae 12 */
    0x4C, 0x63, 0xC2,                   /*  5 movsxd r8, edx */
    0xFF, 0x24, 0x0F,                   /*  8 jmp [rdi + rcx] */
    0xC3,                               /* 11 ret */
    0xEB, 0xF7,                         /* 12 jmp 5 */
    0xE8, 0x00, 0x00, 0x00, 0x00, 0xC3, /* 14 call, ret */
};

static void test_an_indirect_jump_is_found_from_what_falls_into_it(void)
{
    static const size_t before[] = {0, 3, 5, 8}, others[] = {11, 12, 14, sizeof switch_head};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        CU_ASSERT_EQUAL(dvt_jvm_next_indirect_jump(switch_head, sizeof switch_head, before[i]), 11);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CU_ASSERT_EQUAL(dvt_jvm_next_indirect_jump(switch_head, sizeof switch_head, others[i]), 0);
    CU_ASSERT_EQUAL(dvt_jvm_next_indirect_jump(switch_head, 10, 0), 0); /* cut */
}

static void test_the_first_branch_is_found_from_what_only_the_entry_leads_to(void)
{
    uint8_t code[sizeof switch_head];
    memcpy(code, switch_head, sizeof code);
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 0, 0), 5);
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 0, 3), 5);
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 0, 1), 0); /* in an instruction */
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 0, 5), 0); /* behind it */
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 3, 0), 0); /* in front of the entry */
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code - 1, 0, 0), 5);
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, 17, 0, 0), 0); /* not all is understood */
    code[13] = 0xF5; /* a jump to 3: a loop */
    CU_ASSERT_EQUAL(dvt_jvm_entry_branch(code, sizeof code, 0, 0), 0);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("jvm_flow", NULL, NULL);
    CU_ADD_TEST(s, test_lengths_are_a_disassembler_s);
    CU_ADD_TEST(s, test_cut_or_random_bytes_stay_in_bounds);
    CU_ADD_TEST(s, test_a_method_s_way_out_is_not_what_is_described_behind_it);
    CU_ADD_TEST(s, test_a_method_s_way_out_is_known_by_its_instructions);
    CU_ADD_TEST(s, test_loops_and_jumps_inside_are_followed);
    CU_ADD_TEST(s, test_what_only_the_instruction_before_leads_to_is_known);
    CU_ADD_TEST(s, test_an_indirect_jump_is_found_from_what_falls_into_it);
    CU_ADD_TEST(s, test_the_first_branch_is_found_from_what_only_the_entry_leads_to);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
