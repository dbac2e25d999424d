/* perf_decode: records as the kernel lays them out, whole, cut at every byte, and lying about their
 * lengths. */
#include "../../daemon/perf_decode.h"
#include "edge_check.h"
#include "perf_records.h"

#include <stdlib.h>

enum { N_REGS = 17 };
static const struct perf_layout dwarf = {PERF_NATIVE_DWARF, 0x00ff01ff, false};
static const struct perf_layout fp = {PERF_NATIVE_FP, 0, false};
static const struct perf_layout leaf = {PERF_NATIVE_LEAF, 0, false};
#define KERNEL ((uint64_t)PERF_CONTEXT_KERNEL)
#define USER ((uint64_t)PERF_CONTEXT_USER)

/* Decodes a copy in a block of its own, so that a sanitizer sees an over-read. */
static int decode(const struct perf_layout *l, const struct record *r, enum perf_kind *kind,
                  struct sample **s,
                  uint64_t *lost)
{
    uint8_t *copy = malloc(r->n ? r->n : 1);
    memcpy(copy, r->bytes, r->n);
    int code = perf_decode(l, copy, r->n, kind, s, lost);
    free(copy);
    return code;
}

static struct sample *decode_sample(const struct perf_layout *l, const struct record *r)
{
    enum perf_kind kind = PERF_KIND_OTHER;
    struct sample *s = NULL;
    uint64_t lost = 0;
    CU_ASSERT_EQUAL_FATAL(decode(l, r, &kind, &s, &lost), 0);
    CU_ASSERT_EQUAL_FATAL(kind, PERF_KIND_SAMPLE);
    return s;
}

static void make_dwarf(struct record *r)
{
    const uint64_t chain[] = {KERNEL, 0xffffffff81000010, 0xffffffff81000020};
    record_begin(r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
    record_chain_part(r, 1234, chain, 3);
    record_user_part(r, PERF_SAMPLE_REGS_ABI_64, N_REGS, 256, 200);
    record_end(r);
}

static void test_decode_dwarf_sample_has_kernel_chain_registers_and_stack(void)
{
    struct record r;
    make_dwarf(&r);
    struct sample *s = decode_sample(&dwarf, &r);
    CU_ASSERT_EQUAL(s->time_ns, 1234);
    CU_ASSERT_TRUE(s->n_kernel == 2 && s->n_ips == 2);
    CU_ASSERT_EQUAL(s->ips[1], 0xffffffff81000020);
    CU_ASSERT_EQUAL(s->n_regs, N_REGS);
    CU_ASSERT_EQUAL(s->regs[16], 116);
    CU_ASSERT_EQUAL(s->n_stack, 200); /* what was filled, not what was reserved */
    CU_ASSERT_EQUAL(s->stack[199], 199);
    CU_ASSERT_TRUE(s->bytes >= sizeof *s + 2 * 8 + N_REGS * 8 + 200);
    free(s);
}

static void test_decode_fp_sample_splits_kernel_and_user(void)
{
    struct record r;
    const uint64_t chain[] = {KERNEL, 11, 12, USER, 21, 22, 23};
    record_begin(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
    record_chain_part(&r, 5, chain, 7);
    record_end(&r);
    struct sample *s = decode_sample(&fp, &r);
    CU_ASSERT_TRUE(s->n_kernel == 2 && s->n_ips == 5);
    CU_ASSERT_TRUE(s->ips[0] == 11 && s->ips[2] == 21 && s->ips[4] == 23);
    CU_ASSERT_TRUE(s->n_regs == 0 && s->n_stack == 0);
    free(s);
}

static void test_decode_leaves_out_contexts_it_does_not_know(void)
{
    struct record r;
    const uint64_t chain[] = {(uint64_t)PERF_CONTEXT_GUEST, 1, 2, USER, 21, (uint64_t)PERF_CONTEXT_HV, 3};
    record_begin(&r, PERF_RECORD_SAMPLE, 0);
    record_chain_part(&r, 5, chain, 7);
    record_end(&r);
    struct sample *s = decode_sample(&fp, &r);
    CU_ASSERT_TRUE(s->n_kernel == 0 && s->n_ips == 1 && s->ips[0] == 21);
    free(s);
}

static void test_decode_leaf_sample_is_kernel_or_user_by_its_mode(void)
{
    for (int k = 0; k < 2; k++) {
        struct record r;
        record_begin(&r, PERF_RECORD_SAMPLE, k ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
        record_u64(&r, 4711);
        record_u64(&r, 7);
        record_u64(&r, 99);
        record_u64(&r, 10);
        record_end(&r);
        struct sample *s = decode_sample(&leaf, &r);
        CU_ASSERT_TRUE(s->n_ips == 1 && s->ips[0] == 4711 && s->time_ns == 99);
        CU_ASSERT_EQUAL(s->n_kernel, (uint32_t)k);
        free(s);
    }
}

static void test_decode_period_is_given_only_where_it_is_true(void)
{
    struct record r;
    struct perf_layout counting = fp;
    counting.period_is_true = true;
    record_begin(&r, PERF_RECORD_SAMPLE, 0);
    record_chain_part(&r, 5, NULL, 0);
    record_end(&r);
    struct sample *s = decode_sample(&fp, &r);
    CU_ASSERT_EQUAL(s->period, 0);
    free(s);
    s = decode_sample(&counting, &r);
    CU_ASSERT_EQUAL(s->period, 10101010);
    free(s);
}

static void test_decode_without_user_context_has_no_registers(void)
{
    struct record r;
    record_begin(&r, PERF_RECORD_SAMPLE, 0);
    record_chain_part(&r, 5, NULL, 0);
    record_user_part(&r, PERF_SAMPLE_REGS_ABI_NONE, N_REGS, 0, 0);
    record_end(&r);
    struct sample *s = decode_sample(&dwarf, &r);
    CU_ASSERT_TRUE(s->n_regs == 0 && s->n_stack == 0);
    free(s);
}

static void test_decode_does_not_give_registers_of_32_bit_code(void)
{
    struct record r;
    record_begin(&r, PERF_RECORD_SAMPLE, 0);
    record_chain_part(&r, 5, NULL, 0);
    record_user_part(&r, PERF_SAMPLE_REGS_ABI_32, N_REGS, 64, 64);
    record_end(&r);
    struct sample *s = decode_sample(&dwarf, &r);
    CU_ASSERT_EQUAL(s->n_regs, 0);
    free(s);
}

static void test_decode_refuses_a_record_cut_at_any_byte(void)
{
    struct record whole;
    make_dwarf(&whole);
    for (size_t n = 0; n < whole.n; n++) {
        struct record cut = whole;
        enum perf_kind kind = PERF_KIND_OTHER;
        struct sample *s = NULL;
        uint64_t lost = 0;
        cut.n = n;
        if (n >= sizeof(struct perf_event_header))
            record_end(&cut); /* a header that agrees */
        CU_ASSERT_EQUAL(decode(&dwarf, &cut, &kind, &s, &lost), DVT_EFORMAT);
        CU_ASSERT_PTR_NULL(s);
    }
}

static void test_decode_refuses_a_header_of_another_size(void)
{
    struct record r;
    enum perf_kind kind;
    struct sample *s = NULL;
    uint64_t lost;
    make_dwarf(&r);
    r.bytes[6]++;
    CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), DVT_EFORMAT);
}

static void test_decode_refuses_lengths_beyond_the_record(void)
{
    const uint64_t huge[] = {UINT64_MAX, UINT64_MAX / 8, 1ull << 32, 1000};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        struct record r;
        enum perf_kind kind;
        struct sample *s = NULL;
        uint64_t lost;
        record_begin(&r, PERF_RECORD_SAMPLE, 0);
        record_chain_part(&r, 5, NULL, 0);
        memcpy(r.bytes + r.n - 8, &huge[i], 8); /* the chain's length */
        record_user_part(&r, PERF_SAMPLE_REGS_ABI_64, N_REGS, 64, 64);
        record_end(&r);
        CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), DVT_EFORMAT);

        record_begin(&r, PERF_RECORD_SAMPLE, 0);
        record_chain_part(&r, 5, NULL, 0);
        record_user_part(&r, PERF_SAMPLE_REGS_ABI_64, N_REGS, 64, huge[i]); /* more filled than reserved */
        record_end(&r);
        CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), DVT_EFORMAT);
    }
}

static void test_decode_lost_record_gives_the_count(void)
{
    struct record r;
    enum perf_kind kind = PERF_KIND_OTHER;
    struct sample *s = NULL;
    uint64_t lost = 0;
    record_begin(&r, PERF_RECORD_LOST, 0);
    record_u64(&r, 1);
    record_u64(&r, 77);
    record_end(&r);
    CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), 0);
    CU_ASSERT_TRUE(kind == PERF_KIND_LOST && lost == 77);
    r.n = 16;
    record_end(&r);
    CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), DVT_EFORMAT);
}

static void test_decode_other_records_are_of_no_interest(void)
{
    const uint32_t types[] = {PERF_RECORD_THROTTLE, PERF_RECORD_EXIT, 999};
    for (int i = 0; i < 3; i++) {
        struct record r;
        enum perf_kind kind = PERF_KIND_SAMPLE;
        struct sample *s = NULL;
        uint64_t lost = 0;
        record_begin(&r, types[i], 0);
        record_end(&r);
        CU_ASSERT_EQUAL(decode(&dwarf, &r, &kind, &s, &lost), 0);
        CU_ASSERT_EQUAL(kind, PERF_KIND_OTHER);
    }
}

static void test_decode_bounds_a_deep_chain(void)
{
    struct record r;
    uint64_t chain[1000];
    for (int i = 0; i < 1000; i++)
        chain[i] = 1 + (uint64_t)i;
    record_begin(&r, PERF_RECORD_SAMPLE, 0);
    record_chain_part(&r, 5, chain, 1000);
    record_end(&r);
    struct sample *s = decode_sample(&fp, &r);
    CU_ASSERT_EQUAL(s->n_ips, PERF_DECODE_MAX_IPS);
    CU_ASSERT_EQUAL(s->ips[0], 1); /* the leaf side is kept */
    free(s);
}

static void make_switch(struct record *r, uint16_t misc)
{
    record_begin(r, PERF_RECORD_SWITCH, misc);
    record_u64(r, 7 | 8ull << 32);
    record_u64(r, 4711);
    record_end(r);
}

static void test_decode_switches_are_told_apart(void)
{
    struct record r;
    struct switch_rec x = {0, SWITCH_GAP};
    make_switch(&r, PERF_RECORD_MISC_SWITCH_OUT);
    CU_ASSERT_TRUE(perf_decode_switch(r.bytes, r.n, &x) == 0 && x.time_ns == 4711 && x.kind == SWITCH_OUT);
    make_switch(&r, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
    CU_ASSERT_TRUE(perf_decode_switch(r.bytes, r.n, &x) == 0 && x.kind == SWITCH_OUT_PREEMPTED);
    make_switch(&r, 0);
    CU_ASSERT_TRUE(perf_decode_switch(r.bytes, r.n, &x) == 0 && x.kind == SWITCH_IN);
    r.n -= 8; /* without its time */
    record_end(&r);
    CU_ASSERT_EQUAL(perf_decode_switch(r.bytes, r.n, &x), DVT_EFORMAT);
    CU_ASSERT_EQUAL(perf_decode_switch(r.bytes, r.n - 1, &x), DVT_EFORMAT);
    record_begin(&r, PERF_RECORD_LOST, 0);
    record_end(&r);
    CU_ASSERT_TRUE(perf_decode_switch(r.bytes, r.n, &x) == 0 && x.kind == SWITCH_GAP);
    record_begin(&r, PERF_RECORD_EXIT, 0);
    record_end(&r);
    CU_ASSERT_EQUAL(perf_decode_switch(r.bytes, r.n, &x), DVT_ENOENT);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"a dwarf sample has kernel chain, registers and stack",
         test_decode_dwarf_sample_has_kernel_chain_registers_and_stack},
        {"an fp sample is split into kernel and user", test_decode_fp_sample_splits_kernel_and_user},
        {"unknown contexts of a chain are left out", test_decode_leaves_out_contexts_it_does_not_know},
        {"a leaf sample is kernel or user by its mode",
         test_decode_leaf_sample_is_kernel_or_user_by_its_mode},
        {"the period is given only where it is true", test_decode_period_is_given_only_where_it_is_true},
        {"without user context there are no registers", test_decode_without_user_context_has_no_registers},
        {"registers of 32-bit code are not given", test_decode_does_not_give_registers_of_32_bit_code},
        {"a record cut at any byte is refused", test_decode_refuses_a_record_cut_at_any_byte},
        {"a header of another size is refused", test_decode_refuses_a_header_of_another_size},
        {"lengths beyond the record are refused", test_decode_refuses_lengths_beyond_the_record},
        {"a lost record gives the count", test_decode_lost_record_gives_the_count},
        {"other records are of no interest", test_decode_other_records_are_of_no_interest},
        {"switches are told apart", test_decode_switches_are_told_apart},
        {"a deep chain is bounded", test_decode_bounds_a_deep_chain},
    };
    return EDGE_RUN("perf_decode", tests);
}
