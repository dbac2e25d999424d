/*
 * wire: what is damaged, forged or hostile is refused, without reading outside the message (run under ASan).
 * `test_wire_bad --corpus DIR` writes one sample of every message, the seeds of fuzz_wire.
 */
#include <CUnit/Basic.h>
#include "../wire_make.h"

#include <stdio.h>

static struct dvt_buf body;

/* Decodes a copy in a block of exactly n bytes. */
static int read_exact(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    must(copy);
    memcpy(copy, p, n);
    int rc = read_body(copy, n, NULL);
    free(copy);
    return rc;
}

static void test_every_sample_is_whole(void)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        body.n = 0;
        CU_ASSERT_EQUAL(put_sample(&body, sample_types[i]), 0);
        CU_ASSERT_EQUAL(read_exact(body.p, body.n), 0);
    }
}

static void test_every_truncation_of_every_message_is_refused(void)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        body.n = 0;
        put_sample(&body, sample_types[i]);
        for (size_t n = 0; n < body.n; n++)
            if (read_exact(body.p, n) >= 0)
                CU_FAIL("a truncated message was accepted");
    }
}

static void test_bytes_after_a_message_are_refused(void)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        body.n = 0;
        put_sample(&body, sample_types[i]);
        bool has_no_fields = body.p[body.n - 1] == 0x80; /* its map is empty: nobody reads it */
        dvt_buf_append(&body, "\x01", 1);
        if (!has_no_fields && read_exact(body.p, body.n) >= 0)
            CU_FAIL("trailing bytes were accepted");
    }
}

static void test_every_flipped_byte_decodes_within_the_promises_or_is_refused(void)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        body.n = 0;
        put_sample(&body, sample_types[i]);
        for (size_t at = 0; at < body.n; at++) {
            static const uint8_t flips[] = {0x01, 0x10, 0x80, 0xFF};
            for (size_t f = 0; f < sizeof flips; f++) {
                body.p[at] ^= flips[f];
                (void)read_exact(body.p, body.n); /* read_body ends the program if a promise is broken */
                body.p[at] ^= flips[f];
            }
        }
    }
    CU_PASS("survived");
}

static void test_every_flipped_byte_of_an_envelope_is_refused(void)
{
    struct dvt_buf out;
    dvt_buf_init(&out, DVT_MAX_MESSAGE);
    body.n = 0;
    put_sample(&body, DVT_MSG_SCOPES);
    CU_ASSERT_EQUAL(dvt_wire_seal(&out, 70000, 70001, wire_key, body.p, body.n), 0);
    for (size_t at = 0; at < out.n; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct dvt_envelope env;
            out.p[at] ^= (uint8_t)(1u << bit);
            if (dvt_wire_open(out.p, out.n, &env, NULL) == 0 && dvt_wire_verify(&env, wire_key) == 0)
                CU_FAIL("a changed envelope was accepted");
            out.p[at] ^= (uint8_t)(1u << bit);
        }
    }
    for (size_t n = 0; n < out.n; n++) {
        struct dvt_envelope env;
        if (dvt_wire_open(out.p, n, &env, NULL) >= 0)
            CU_FAIL("a truncated envelope was accepted");
    }
    dvt_buf_fini(&out);
}

static void test_failed_decoders_leave_the_result_alone(void)
{
    struct dvt_arm arm = {77, 78};
    struct dvt_envelope env = {.seq = 79};
    static const char no_epoch[] = "\x81\x01\x05";
    CU_ASSERT_EQUAL(dvt_wire_get_arm((struct dvt_str){no_epoch, 3}, &arm, NULL), DVT_EFORMAT);
    CU_ASSERT(arm.tid == 77 && arm.epoch == 78);
    CU_ASSERT_EQUAL(dvt_wire_open("\x95\x01", 2, &env, NULL), DVT_EFORMAT);
    CU_ASSERT_EQUAL(env.seq, 79);
}

/* ---- fields by hand: ARM is {1: tid, 2: epoch} ---- */

static int read_arm(const char *bytes, size_t n, const char *part_of_text)
{
    struct dvt_err err = {0};
    struct dvt_arm arm;
    int rc = dvt_wire_get_arm((struct dvt_str){bytes, n}, &arm, &err);
    if (part_of_text)
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, part_of_text));
    return rc;
}
#define ARM(bytes, part) read_arm(bytes, sizeof(bytes) - 1, part)

static void test_fields_of_wrong_type_range_or_count_are_named(void)
{
    CU_ASSERT_EQUAL(ARM("\x82\x01\x05\x02\x06", NULL), 0);
    CU_ASSERT_EQUAL(ARM("\x81\x01\x05", "epoch is missing"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x82\x01\x05\x01\x06", "tid is given twice"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x82\x01\xA1x\x02\x06", "tid is not of its type"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x82\x01\xFF\x02\x06", "tid is not of its type"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x82\x01\xCF\0\0\0\1\0\0\0\0\x02\x06", "tid is out of range"), DVT_ELIMIT);
    CU_ASSERT_EQUAL(ARM("\x82\xA1x\x05\x02\x06", "a key is not a number"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\xC1", "not a whole map"), DVT_EFORMAT);
}

static void test_unknown_keys_are_skipped_whatever_they_hold(void)
{
    CU_ASSERT_EQUAL(
        ARM("\x83\x01\x05\x63\x82\x01\x93\xC0\xC3\xCB\0\0\0\0\0\0\0\0\xA1x\xC7\x02\x09zz\x02\x06", NULL), 0);
    CU_ASSERT_EQUAL(ARM("\x83\x01\x05\x63\xD6\x09zzzz\x02\x06", NULL), 0);
    CU_ASSERT_EQUAL(ARM("\x83\x01\x05\x63\xC1\x02\x06", "cut off"), DVT_EFORMAT); /* never a msgpack byte */
}

static void test_numbers_in_any_encoding_are_the_same(void)
{
    CU_ASSERT_EQUAL(ARM("\x82\x01\xCF\0\0\0\0\0\0\0\x05\x02\xD0\x06", NULL), 0);
    CU_ASSERT_EQUAL(ARM("\x82\x01\xD3\0\0\0\0\0\0\0\x05\xCC\x02\xCD\0\x06", NULL), 0);
}

static void test_counts_beyond_the_message_are_refused_at_once(void)
{
    static const char deep[] = "\x91\x91\x91\x91\x91\x91\x91\x91";
    CU_ASSERT_EQUAL(ARM("\xDF\xFF\xFF\xFF\xFF", "not a whole map"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x83\x01\x05\x63\xDD\xFF\xFF\xFF\xFF\x02\x06", "cut off"), DVT_EFORMAT);
    CU_ASSERT_EQUAL(ARM("\x83\x01\x05\x63\xC6\xFF\xFF\xFF\xFFx\x02\x06", "cut off"), DVT_EFORMAT);
    body.n = 0;
    dvt_buf_append(&body, "\x92\x04\x83\x01\x05\x02\x06\x63", 8);
    for (int i = 0; i < 100000; i++) /* nesting costs no stack */
        dvt_buf_append(&body, deep, sizeof deep - 1);
    CU_ASSERT_EQUAL(read_exact(body.p, body.n), DVT_EFORMAT);
    dvt_buf_append(&body, "\x01", 1);
    CU_ASSERT_EQUAL(read_exact(body.p, body.n), 0);
}

/* ---- hostile batches: a good message with one column or table replaced ---- */

enum {
    KEY_SPANS = 6,
    KEY_PARENT_SPANS = 7,
    KEY_PARENT_ROW = 21,
    KEY_TRACE_COL = 23,
    KEY_SPAN_COL = 27,
    KEY_STACKS_DEPTH = 8,
    KEY_STACKS_REASON = 7,
};

/* The message in body with the bin under this key replaced, in a buffer that holds until the next call; a
 * key that it does not have is added at its end. */
static struct dvt_str with_bin(uint8_t key, const char *bytes, size_t n)
{
    static uint8_t out[2000];
    const uint8_t *from = body.p;
    size_t at, end;
    for (at = body.n - 2; at > 0 && !(from[at] == key && from[at + 1] == 0xC4); at--)
        ;
    end = at ? at + 3 + from[at + 2] : body.n;
    at = at ? at : body.n;
    must(body.n + n + 3 <= sizeof out && n < 256);
    memcpy(out, from, at);
    out[4] = (uint8_t)(out[4] + (at == body.n)); /* 92 11 DE 00 pairs: its map has 16 or more */
    out[at++] = key;
    out[at++] = 0xC4;
    out[at++] = (uint8_t)n;
    memcpy(out + at, bytes, n);
    memcpy(out + at + n, from + end, body.n - end);
    return (struct dvt_str){(const char *)out, at + n + body.n - end};
}
#define WITH(key, bytes) with_bin(key, bytes, sizeof(bytes) - 1)

static int read_str(struct dvt_str s)
{
    return read_exact((const uint8_t *)s.p, s.n);
}

static void make(uint32_t type)
{
    body.n = 0;
    CU_ASSERT_EQUAL(put_sample(&body, type), 0);
}

#define ZEROS11 "\0\0\0\0\0\0\0\0\0\0\0"

static void test_reference_outside_its_table_is_refused(void)
{
    make(DVT_MSG_SCOPES); /* 12 scopes, three traces */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\0\1" ZEROS11 "\2")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\0\1" ZEROS11 "\3")), DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\4\1" ZEROS11 "\1")), DVT_EFORMAT); /* eight */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\0\x10\1\0\1\0\2")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\0\x10\1\0\1\0\3")), DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\1\x10\1\0\1\0\2")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\1\x10\2\0\1\0\2\0\1\2")), DVT_EFORMAT); /* 1 + 2 */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\2\0")), DVT_EFORMAT); /* steps either way */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\x08\0\2\0\0\0\0\0\0\0")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\x08\0\3\0\0\0\0\0\0\0")), DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_TRACE_COL, "\x08\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1" ZEROS11)),
                    DVT_EFORMAT); /* base + value would wrap to a good index */
}

static void test_spans_that_do_not_fit_the_scopes_are_refused(void)
{
    make(DVT_MSG_SCOPES);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_SPANS, "8 bytes!")), DVT_EFORMAT); /* one for twelve scopes */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_SPAN_COL, "\0\1" ZEROS11 "\x0B")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_SPAN_COL, "\0\1" ZEROS11 "\x0C")), DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_SPAN_COL, "\0\0")), DVT_EFORMAT); /* no byte for each scope */
}

static void test_parents_that_lead_nowhere_are_refused(void)
{
    make(DVT_MSG_SCOPES);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_ROW, "\0\1\x0B" ZEROS11)), DVT_EFORMAT); /* too few spans */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_SPANS, ZEROS11 ZEROS11 ZEROS11 ZEROS11 ZEROS11 "\0")), /* 7 */
                    DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_SPANS, "")), 0); /* all zero */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_ROW, "\0\1\x0C" ZEROS11)), DVT_EFORMAT);
    body.n = 0; /* the last row has none after it */
    struct dvt_scope_rec v[2] = {{.serial = 2}, {.serial = 1}};
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, v, 2), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_ROW, "\0\1\1\0")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_PARENT_ROW, "\0\1\0\1")), DVT_EFORMAT);
}

static void test_depths_that_do_not_add_up_and_unknown_reasons_are_refused(void)
{
    make(DVT_MSG_STACKS); /* three, of 4, 0 and 2 frames */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_STACKS_DEPTH, "\0\1\4\0\2")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_STACKS_DEPTH, "\0\1\5\0\2")), DVT_EFORMAT);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_STACKS_DEPTH, "\1\1\4\0\2")), DVT_EFORMAT); /* 4, 4, 6 */
    CU_ASSERT_EQUAL(read_str(WITH(KEY_STACKS_REASON, "\0\1\0\7\0")), 0);
    CU_ASSERT_EQUAL(read_str(WITH(KEY_STACKS_REASON, "\0\1\0\x09\0")), DVT_EFORMAT);
}

/* Patches, eights, steps of each kind, spans that repeat, parents in and out of the batch. */
static void make_of_every_form(void)
{
    struct dvt_scope_rec v[60] = {0};
    for (uint32_t i = 0; i < 60; i++) {
        v[i].serial = i % 4 == 3 ? i - 2 : i + 2;
        v[i].parent_serial = i % 4 == 3 ? 0 : i / 4 * 4 + 1;
        v[i].span.b[0] = (uint8_t)(i % 6);
        v[i].parent_span.b[0] = (uint8_t)(i % 9);
        v[i].end_ns = i == 30 ? UINT64_C(1) << 40 : 1000 * (uint64_t)i;
        v[i].head_close = v[i].head_open = 64 * (uint64_t)i;
        v[i].head_open -= i == 7 ? 64 : 0;
        v[i].trace.b[0] = (uint8_t)(i / 20);
    }
    body.n = 0;
    must(dvt_wire_put_scopes(&body, 1, 1, 0, 0, v, 60) == 0 && read_exact(body.p, body.n) == 0);
}

static void test_scopes_of_every_form_cut_at_any_byte_are_refused(void)
{
    make_of_every_form();
    for (size_t n = 0; n < body.n; n++)
        if (read_exact(body.p, n) >= 0)
            CU_FAIL("a truncated message was accepted");
}

static void test_scopes_of_every_form_with_any_byte_changed_keep_the_promises(void)
{
    make_of_every_form();
    for (size_t at = 0; at < body.n; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            body.p[at] ^= (uint8_t)(1u << bit);
            (void)read_exact(body.p, body.n);
            body.p[at] ^= (uint8_t)(1u << bit);
        }
    }
    CU_PASS("survived");
}

static int write_every_form(const char *dir)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/scopes_of_every_form", dir);
    FILE *f = fopen(path, "wb");
    make_of_every_form();
    return !f || fwrite(body.p, 1, body.n, f) != body.n || fclose(f) != 0;
}

static int write_corpus(const char *dir)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        struct dvt_buf out;
        char path[1000];
        body.n = 0;
        dvt_buf_init(&out, DVT_MAX_MESSAGE);
        snprintf(path, sizeof path, "%s/message_%02u", dir, (unsigned)sample_types[i]);
        FILE *f = fopen(path, "wb");
        if (!f || put_sample(&body, sample_types[i]) || dvt_wire_seal(&out, 1, i, wire_key, body.p, body.n))
            return 1;
        const struct dvt_buf *from =
            sample_types[i] == DVT_MSG_SCOPES ? &out : &body; /* one in its envelope */
        if (fwrite(from->p, 1, from->n, f) != from->n || fclose(f) != 0)
            return 1;
        dvt_buf_fini(&out);
    }
    return write_every_form(dir);
}

int main(int argc, char **argv)
{
    dvt_buf_init(&body, DVT_MAX_MESSAGE);
    if (argc == 3 && strcmp(argv[1], "--corpus") == 0)
        return write_corpus(argv[2]);
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wire_bad", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_every_sample_is_whole);
    T(test_every_truncation_of_every_message_is_refused);
    T(test_bytes_after_a_message_are_refused);
    T(test_every_flipped_byte_decodes_within_the_promises_or_is_refused);
    T(test_every_flipped_byte_of_an_envelope_is_refused);
    T(test_failed_decoders_leave_the_result_alone);
    T(test_fields_of_wrong_type_range_or_count_are_named);
    T(test_unknown_keys_are_skipped_whatever_they_hold);
    T(test_numbers_in_any_encoding_are_the_same);
    T(test_counts_beyond_the_message_are_refused_at_once);
    T(test_reference_outside_its_table_is_refused);
    T(test_spans_that_do_not_fit_the_scopes_are_refused);
    T(test_parents_that_lead_nowhere_are_refused);
    T(test_depths_that_do_not_add_up_and_unknown_reasons_are_refused);
    T(test_scopes_of_every_form_cut_at_any_byte_are_refused);
    T(test_scopes_of_every_form_with_any_byte_changed_keep_the_promises);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    dvt_buf_fini(&body);
    return failures ? 1 : 0;
}
