/* wire_cols: columns of numbers come back as they were, in few bytes, and any bytes are refused or read in
 * bounds. */
#include <CUnit/Basic.h>

#include <stdlib.h>

#include "../../proto/wire_cols.h"
#include "../../proto/wire_cur.h"

enum { MAX_N = 400 };
static const enum dvt_col_form forms[] = {DVT_COL_SMALL, DVT_COL_NEAR, DVT_COL_RISING};

static struct dvt_buf buf;
static uint64_t state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? state % n : state;
}

/* The bytes of the column that a packer wrote into buf. */
static struct dvt_str packed(struct dvt_packer *k)
{
    struct dvt_str bin = {0};
    CU_ASSERT_EQUAL(dvt_pack_end(k), 0);
    struct dvt_cur c = dvt_cur((struct dvt_str){(const char *)buf.p, buf.n});
    CU_ASSERT(dvt_cur_bin(&c, &bin) && c.p == c.end);
    return bin;
}

static struct dvt_str pack(const uint64_t *v, uint32_t n, enum dvt_col_form form, unsigned width_min)
{
    struct dvt_packer k;
    uint64_t *copy = malloc((n + 1) * sizeof *copy);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, v, n * sizeof *copy);
    buf.n = 0;
    dvt_pack_begin(&k, &buf);
    dvt_col_pack(&k, copy, n, form, width_min);
    free(copy);
    return packed(&k);
}

/* Parses a copy in a block of exactly its size, which the caller frees. */
static bool parse(struct dvt_str bin, uint32_t n, struct dvt_col *ret, char **ret_copy)
{
    *ret_copy = malloc(bin.n ? bin.n : 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*ret_copy);
    memcpy(*ret_copy, bin.p, bin.n);
    return dvt_col_parse((struct dvt_str){*ret_copy, bin.n}, n, ret);
}

static bool is_refused(struct dvt_str bin, uint32_t n)
{
    struct dvt_col c;
    char *copy;
    bool good = parse(bin, n, &c, &copy);
    free(copy);
    return !good;
}

static uint64_t max_of(const uint64_t *v, uint32_t n)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < n; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

/* Whether the bounds that are told, if they are, hold the values. */
static bool keeps_range(const struct dvt_col *c, const uint64_t *v, uint32_t n)
{
    uint64_t min, max;
    bool holds = true;
    if (dvt_col_range(c, &min, &max))
        for (uint32_t i = 0; i < n; i++)
            holds &= v[i] >= min && v[i] <= max;
    return holds;
}

static struct dvt_col expect_round_trip(const uint64_t *v, uint32_t n, enum dvt_col_form form)
{
    static uint64_t wide[MAX_N];
    struct dvt_str bin = pack(v, n, form, 0);
    struct dvt_col c = {0};
    CU_ASSERT_FATAL(dvt_col_parse(bin, n, &c));
    dvt_col_expand_u64(&c, wide);
    CU_ASSERT_EQUAL(memcmp(wide, v, n * sizeof *v), 0);
    uint64_t bits = dvt_col_bits(&c), others = 0;
    for (uint32_t i = 0; i < n; i++)
        others |= v[i] & ~bits;
    CU_ASSERT_EQUAL(others, 0);
    CU_ASSERT(keeps_range(&c, v, n));
    return c;
}

/* What the checks of columns of small numbers say must be so. */
static void expect_small(const struct dvt_col *c, const uint64_t *v, uint32_t n)
{
    static uint32_t narrow[MAX_N];
    uint64_t max = max_of(v, n), sum = 0;
    uint32_t wrong = 0;
    if (max >= UINT32_MAX || c->kind == DVT_COL_SIGNED)
        return;
    dvt_col_expand_u32(c, narrow);
    for (uint32_t i = 0; i < n; sum += v[i++])
        wrong += narrow[i] != v[i];
    CU_ASSERT_EQUAL(wrong, 0);
    uint64_t least, most;
    CU_ASSERT(dvt_col_range(c, &least, &most) && (n == 0 || most == max));
    CU_ASSERT(dvt_col_is_below(c, max + 1));
    CU_ASSERT_EQUAL(dvt_col_is_below(c, max), n == 0);
    if (c->kind == DVT_COL_PLAIN)
        CU_ASSERT_EQUAL(dvt_col_sum(c), sum);
}

/* Numbers of mixed sizes: most of up to `bits` bits, some of more, in eights or not, rising or not. */
static uint32_t make_values(uint64_t *v)
{
    uint32_t n = (uint32_t)random_below(MAX_N);
    unsigned bits = (unsigned)random_below(65), large = (unsigned)random_below(65);
    uint64_t rare = random_below(40), scale = random_below(3) ? 1 : 8, at = 0;
    bool rises = random_below(2);
    for (uint32_t i = 0; i < n; i++) {
        unsigned b = rare && random_below(rare + 1) == 0 ? large : bits;
        uint64_t x = b ? random_below(0) >> (64 - b) : 0;
        v[i] = (rises ? at += x : x) * scale;
    }
    return n;
}

static void test_random_columns_of_every_form_round_trip(void)
{
    static uint64_t v[MAX_N];
    for (int round = 0; round < 3000; round++) {
        uint32_t n = make_values(v);
        for (size_t f = 0; f < 3; f++) {
            struct dvt_col c = expect_round_trip(v, n, forms[f]);
            expect_small(&c, v, n);
        }
    }
}

static void test_parts_of_32_bits_are_written_as_values_of_64_are(void)
{
    static uint64_t v[MAX_N];
    for (int round = 0; round < 1000; round++) {
        uint32_t n = make_values(v), x[MAX_N];
        struct dvt_parts parts = {.x = x, .kind = DVT_COL_PLAIN};
        for (uint32_t i = 0; i < n; i++) {
            v[i] &= UINT32_MAX;
            x[i] = (uint32_t)v[i];
            parts.bits |= x[i];
        }
        struct dvt_str expected = pack(v, n, DVT_COL_SMALL, 0);
        char *copy = malloc(expected.n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
        memcpy(copy, expected.p, expected.n);
        struct dvt_packer k;
        buf.n = 0;
        dvt_pack_begin(&k, &buf);
        dvt_col_pack_parts(&k, &parts, n);
        struct dvt_str bin = packed(&k);
        CU_ASSERT(bin.n == expected.n && memcmp(bin.p, copy, bin.n) == 0);
        free(copy);
    }
}

/* ---- few bytes ---- */

static void test_equal_values_are_sent_in_the_narrowest_width(void)
{
    static const struct {
        uint64_t value;
        uint8_t width, shift;
    } cases[] = {{0, 0, 0},          {1, 1, 0},           {255, 1, 0},          {256, 1, 3},
                 {257, 2, 0},        {65535, 2, 0},       {65536, 2, 3},        {UINT32_MAX, 4, 0},
                 {65537, 4, 0},      {1ull << 32, 4, 3},  {(1ull << 32) + 1, 8, 0}, {UINT64_MAX, 8, 0},
                 {1ull << 63, 8, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t v[5];
        for (size_t k = 0; k < 5; k++)
            v[k] = cases[i].value;
        struct dvt_col c = expect_round_trip(v, 5, DVT_COL_SMALL);
        CU_ASSERT(c.width == cases[i].width && c.shift == cases[i].shift && c.n_patches == 0 && c.base == 0);
        c = expect_round_trip(v, 5, DVT_COL_NEAR);
        CU_ASSERT(c.width == 0 && c.base == cases[i].value);
    }
}

static void test_the_few_large_values_do_not_widen_the_others(void)
{
    uint64_t v[MAX_N];
    for (uint32_t i = 0; i < MAX_N; i++)
        v[i] = i % 200;
    v[7] = UINT64_MAX;
    v[300] = 1000;
    struct dvt_col c = expect_round_trip(v, MAX_N, DVT_COL_SMALL);
    CU_ASSERT(c.width == 1 && c.n_patches == 2 && c.patch_width == 8);
}

static void test_rising_values_are_sent_as_steps_and_falling_ones_as_steps_either_way(void)
{
    uint64_t v[MAX_N];
    for (uint32_t i = 0; i < MAX_N; i++)
        v[i] = ((uint64_t)1 << 60) + 201 * i;
    struct dvt_col c = expect_round_trip(v, MAX_N, DVT_COL_RISING);
    CU_ASSERT(c.kind == DVT_COL_DELTA && c.width == 1 && c.base == v[0] && c.n_patches == 0);
    v[9] -= 300;
    c = expect_round_trip(v, MAX_N, DVT_COL_RISING);
    CU_ASSERT(c.kind == DVT_COL_SIGNED && c.width == 2);
    for (uint32_t i = 0; i < MAX_N; i++)
        v[i] = 7;
    v[200] = 8;
    c = expect_round_trip(v, 200, DVT_COL_RISING);
    CU_ASSERT(c.width == 0 && c.n_patches == 0);
    c = expect_round_trip(v, MAX_N, DVT_COL_RISING);
    CU_ASSERT(c.kind == DVT_COL_SIGNED && c.width == 0 && c.n_patches == 2);
}

static void test_values_take_at_least_the_bytes_asked_for(void)
{
    uint64_t v[10] = {0}, wide[10];
    struct dvt_col c;
    v[9] = 100000;
    CU_ASSERT(dvt_col_parse(pack(v, 9, DVT_COL_SMALL, 1), 9, &c) && c.width == 1);
    CU_ASSERT(dvt_col_parse(pack(v, 10, DVT_COL_SMALL, 1), 10, &c) && c.width == 1 && c.n_patches == 1);
    dvt_col_expand_u64(&c, wide);
    CU_ASSERT(wide[0] == 0 && wide[8] == 0 && wide[9] == 100000);
}

/* ---- hostile ---- */

static void test_every_truncation_and_every_byte_more_is_refused(void)
{
    static uint64_t v[MAX_N];
    for (int round = 0; round < 200; round++) {
        uint32_t n = make_values(v);
        struct dvt_str bin = pack(v, n, forms[round % 3], 0);
        uint32_t accepted = 0;
        for (size_t k = 0; k < bin.n; k++)
            accepted += !is_refused((struct dvt_str){bin.p, k}, n);
        dvt_buf_append(&buf, "", 1);
        bin.p = (const char *)buf.p + (buf.n - 1 - bin.n); /* it may have moved */
        accepted += !is_refused((struct dvt_str){bin.p, bin.n + 1}, n);
        CU_ASSERT_EQUAL(accepted, 0);
    }
}

static bool bytes_are_refused(const char *bytes, size_t size, uint32_t n)
{
    return is_refused((struct dvt_str){bytes, size}, n);
}
#define REFUSED(bytes, n) bytes_are_refused(bytes, sizeof(bytes) - 1, n)

static void test_unknown_forms_are_refused(void)
{
    CU_ASSERT(!REFUSED("\0\1ab", 2));
    CU_ASSERT(REFUSED("\3\1ab", 2)); /* kind */
    CU_ASSERT(REFUSED("\20\1ab", 2)); /* a bit of the head that means nothing */
    CU_ASSERT(REFUSED("\0\3abcdef", 2)); /* widths */
    CU_ASSERT(REFUSED("\0\11", 0));
    CU_ASSERT(REFUSED("\0\x30\1\0\0\0abc", 1));
    CU_ASSERT(REFUSED("\0", 0) && REFUSED("", 0));
}

static void test_patches_outside_or_out_of_order_are_refused(void)
{
    CU_ASSERT(!REFUSED("\0\x10\2\0\0\0\2\0ab", 3));
    CU_ASSERT(REFUSED("\0\x10\2\0\0\0\3\0ab", 3)); /* outside */
    CU_ASSERT(REFUSED("\0\x10\2\0\2\0\0\0ab", 3)); /* falling */
    CU_ASSERT(REFUSED("\0\x10\2\0\2\0\2\0ab", 3)); /* twice */
    CU_ASSERT(REFUSED("\0\x10\3\0\0\0\2\0ab", 3)); /* more of them than there is room for */
    CU_ASSERT(REFUSED("\0\x10\1\0\0\0a", 0));
    CU_ASSERT(!REFUSED("\0\x10\0\0", 5)); /* none, though announced: no harm */
}

static void test_values_wrap_modulo_two_to_the_64(void)
{
    struct dvt_col c;
    uint64_t v[2];
    CU_ASSERT(dvt_col_parse((struct dvt_str){"\x08\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\2\3", 12}, 2, &c));
    dvt_col_expand_u64(&c, v);
    CU_ASSERT(v[0] == 1 && v[1] == 2);
    CU_ASSERT(dvt_col_parse((struct dvt_str){"\x09\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\2\3", 12}, 2, &c));
    dvt_col_expand_u64(&c, v);
    CU_ASSERT(v[0] == 1 && v[1] == 4);
    CU_ASSERT(!dvt_col_is_below(&c, (uint64_t)UINT32_MAX + 1));
    /* loses its top bits */
    CU_ASSERT(dvt_col_parse((struct dvt_str){"\4\x08\1\0\0\0\0\0\0\xE0", 10}, 1, &c));
    dvt_col_expand_u64(&c, v);
    CU_ASSERT_EQUAL(v[0], 8);
    CU_ASSERT(!dvt_col_is_below(&c, 9)); /* though cut it would be */
}

static void test_parts_of_signed_columns_and_their_patches_have_signs(void)
{
    struct dvt_col c;
    uint64_t v[4];
    static const char bytes[] = "\x0A\x21\x64\0\0\0\0\0\0\0\1\0\xFF\x80\0\x7F\2\0\0\xFF";
    CU_ASSERT(dvt_col_parse((struct dvt_str){bytes, sizeof bytes - 1}, 4, &c));
    dvt_col_expand_u64(&c, v); /* 100: -1, -128, -256 by a patch, 127 */
    CU_ASSERT(v[0] == 99 && v[1] == (uint64_t)-29 && v[2] == (uint64_t)-285 && v[3] == (uint64_t)-158);
    CU_ASSERT_EQUAL(dvt_col_bits(&c), UINT64_MAX);
}

static void test_bits_of_small_columns_are_told(void)
{
    const uint64_t v[6] = {4, 0, 0, 0, 0, 512};
    struct dvt_col c;
    CU_ASSERT(dvt_col_parse(pack(v, 5, DVT_COL_SMALL, 0), 5, &c));
    CU_ASSERT_EQUAL(dvt_col_bits(&c), 4);
    CU_ASSERT(dvt_col_parse(pack(v, 6, DVT_COL_SMALL, 0), 6, &c));
    CU_ASSERT_EQUAL(dvt_col_bits(&c), 516);
}

static void test_steps_that_add_up_to_the_bound_are_refused(void)
{
    struct dvt_col c;
    CU_ASSERT(dvt_col_parse((struct dvt_str){"\1\1\0\1\2", 5}, 3, &c));
    CU_ASSERT(dvt_col_is_below(&c, 4) && !dvt_col_is_below(&c, 3));
    CU_ASSERT(dvt_col_parse((struct dvt_str){"\1\x21\1\0\0\1\2\1\0\7\0", 11}, 3, &c)); /* 0, 7, 9 */
    CU_ASSERT(dvt_col_is_below(&c, 10) && !dvt_col_is_below(&c, 9));
    c.kind = DVT_COL_SIGNED;
    CU_ASSERT(!dvt_col_is_below(&c, 1000)); /* its largest value is not looked for */
}

/* Bytes at random, but the widths are some and the length is mostly right. */
static size_t make_bytes(char bytes[80], uint32_t n)
{
    static const uint8_t widths[] = {0, 1, 2, 4, 8};
    size_t width = widths[random_below(5)], patch_width = widths[random_below(5)];
    size_t n_patches = random_below(4);
    bool has_base = random_below(2);
    size_t head = 2 + 8u * has_base + (patch_width ? 2 : 0);
    for (size_t i = 0; i < 80; i++)
        bytes[i] = (char)random_below(random_below(3) ? 4u : 256u);
    bytes[0] = (char)(random_below(8) | (has_base ? 8 : 0u));
    bytes[1] = (char)(width | patch_width << 4);
    if (patch_width)
        bytes[head - 2] = (char)n_patches, bytes[head - 1] = 0;
    return head + n * width + (patch_width ? n_patches * (2 + patch_width) : 0) + (random_below(8) == 0);
}

/* A promise of the parser on any bytes: what is accepted is read within its block (run under ASan). */
static void test_random_bytes_are_refused_or_read_within_their_block(void)
{
    static uint64_t wide[MAX_N];
    static uint32_t narrow[MAX_N];
    uint32_t n_accepted = 0, n_wrong = 0;
    for (int round = 0; round < 100000; round++) {
        char bytes[80];
        uint32_t n = (uint32_t)random_below(5);
        struct dvt_str bin = {bytes, make_bytes(bytes, n)};
        struct dvt_col c;
        char *copy;
        if (parse(bin, n, &c, &copy)) {
            dvt_col_expand_u64(&c, wide);
            dvt_col_expand_u32(&c, narrow);
            n_wrong += !keeps_range(&c, wide, n);
            n_wrong += dvt_col_is_below(&c, 100) && n > 0 && max_of(wide, n) >= 100;
            n_accepted++;
        }
        free(copy);
    }
    CU_ASSERT(n_accepted > 10000 && n_wrong == 0);
}

int main(void)
{
    dvt_buf_init(&buf, 1 << 20);
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wire_cols", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_random_columns_of_every_form_round_trip);
    T(test_parts_of_32_bits_are_written_as_values_of_64_are);
    T(test_equal_values_are_sent_in_the_narrowest_width);
    T(test_the_few_large_values_do_not_widen_the_others);
    T(test_rising_values_are_sent_as_steps_and_falling_ones_as_steps_either_way);
    T(test_values_take_at_least_the_bytes_asked_for);
    T(test_every_truncation_and_every_byte_more_is_refused);
    T(test_unknown_forms_are_refused);
    T(test_patches_outside_or_out_of_order_are_refused);
    T(test_values_wrap_modulo_two_to_the_64);
    T(test_parts_of_signed_columns_and_their_patches_have_signs);
    T(test_bits_of_small_columns_are_told);
    T(test_steps_that_add_up_to_the_bound_are_refused);
    T(test_random_bytes_are_refused_or_read_within_their_block);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    dvt_buf_fini(&buf);
    return failures ? 1 : 0;
}
