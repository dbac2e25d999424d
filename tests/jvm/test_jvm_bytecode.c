/*
 * Loops in methods' bytecodes, as javac writes them: whether control may come back to a place.
 */
#include <CUnit/Basic.h>

#include <stdlib.h>
#include <string.h>

#include "../../shims/core/guard.h"
#include "../../shims/jvm/walker.h"

static bool loops_over(const uint8_t *code, size_t n, uint32_t bci)
{
    return dvt_jvm_loops_over((uintptr_t)code, (uint32_t)n, bci);
}

/* while (i < n) i++; return; */
static const uint8_t loop[] = {
    0x03, 0x3B,       /*  0 iconst_0, istore_0 */
    0x1A, 0x1B,       /*  2 iload_0, iload_1 */
    0xA2, 0x00, 0x09, /*  4 if_icmpge 13 */
    0x84, 0x00, 0x01, /*  7 iinc 0 by 1 */
    0xA7, 0xFF, 0xF8, /* 10 goto 2 */
    0xB1,             /* 13 return */
};

static void test_a_loop_is_over_its_own_instructions_and_no_others(void)
{
    static const uint32_t inside[] = {2, 3, 4, 7, 10}, outside[] = {0, 1, 13};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        CU_ASSERT_TRUE(loops_over(loop, sizeof loop, inside[i]));
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        CU_ASSERT_FALSE(loops_over(loop, sizeof loop, outside[i]));
}

/* switch (k) { case 0: return; default: again: goto again; } with a wide iinc, and a lookupswitch in a loop behind it */
static const uint8_t switches[] = {
    0x1A,                                                                   /*  0 iload_0 */
    0xAA, 0, 0,                                                             /*  1 tableswitch */
    0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 19,                       /*  4 default 21; 0 to 0: 20 */
    0xB1,                                                                   /* 20 return */
    0xC4, 0x84, 0, 1, 0, 2,                                                 /* 21 wide iinc 1 by 2 */
    0x1A,                                                                   /* 27 iload_0 */
    0xAB, 0, 0, 0,                                                          /* 28 lookupswitch */
    0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 7, 0xFF, 0xFF, 0xFF, 0xF9,            /* 32 default 48; 7: 21 */
    0xB1,                                                                   /* 48 return */
};

static void test_switches_jump_as_their_tables_say(void)
{
    static const uint32_t inside[] = {21, 27, 28}, outside[] = {0, 1, 20, 48};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        CU_ASSERT_TRUE(loops_over(switches, sizeof switches, inside[i]));
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        CU_ASSERT_FALSE(loops_over(switches, sizeof switches, outside[i]));
    uint8_t rewritten[sizeof switches]; /* by the interpreter */
    memcpy(rewritten, switches, sizeof rewritten);
    for (uint8_t op = 228; op <= 229; op++) {
        rewritten[28] = op;
        CU_ASSERT_TRUE(loops_over(rewritten, sizeof rewritten, 27));
        CU_ASSERT_FALSE(loops_over(rewritten, sizeof rewritten, 48));
    }
}

static void test_what_cannot_be_read_may_loop(void)
{
    uint8_t bad[sizeof loop];
    CU_ASSERT_TRUE(loops_over(loop, sizeof loop, 5));      /* in an instruction */
    CU_ASSERT_TRUE(loops_over(loop, sizeof loop, 14));     /* behind the end */
    CU_ASSERT_TRUE(loops_over(loop, sizeof loop - 2, 0));  /* cut */
    CU_ASSERT_TRUE(loops_over(switches, 30, 0));           /* cut in a table */
    CU_ASSERT_TRUE(dvt_jvm_loops_over(8, 16, 0));          /* not mapped */
    CU_ASSERT_TRUE(loops_over(loop, 1 << 20, 0));
    memcpy(bad, loop, sizeof bad);
    bad[13] = 202; /* a breakpoint hides what is there */
    CU_ASSERT_TRUE(loops_over(bad, sizeof bad, 0));
    bad[13] = 255;
    CU_ASSERT_TRUE(loops_over(bad, sizeof bad, 0));
}

static void test_random_bytes_end(void)
{
    srandom(2);
    for (int round = 0; round < 20000; round++) {
        size_t n = 1 + (size_t)random() % 200;
        uint8_t *p = malloc(n);
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)random();
        (void)loops_over(p, n, (uint32_t)random() % 200);
        free(p);
    }
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("jvm_bytecode", NULL, NULL);
    if (dvt_guard_init() != 0)
        return 77;
    CU_ADD_TEST(s, test_a_loop_is_over_its_own_instructions_and_no_others);
    CU_ADD_TEST(s, test_switches_jump_as_their_tables_say);
    CU_ADD_TEST(s, test_what_cannot_be_read_may_loop);
    CU_ADD_TEST(s, test_random_bytes_end);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
