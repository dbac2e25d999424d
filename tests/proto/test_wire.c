/* wire: the envelope, the control messages and the lists. Scopes and stacks: test_wire_scopes.c; damage:
 * test_wire_bad.c. */
#include <CUnit/Basic.h>
#include "../wire_make.h"

static struct dvt_buf body;

static bool eq(struct dvt_str a, struct dvt_str b)
{
    return dvt_str_eq(a, b);
}

/* The map of the message in body, which must be of this type. */
static struct dvt_str map_of(uint32_t type)
{
    struct dvt_str map = {0};
    CU_ASSERT_EQUAL(wire_type_of(&body, &map), type);
    return map;
}

static struct dvt_str sample(uint32_t type)
{
    body.n = 0;
    CU_ASSERT_EQUAL(put_sample(&body, type), 0);
    return map_of(type);
}

/* ---- control socket ---- */

static void test_hello_round_trips(void)
{
    struct dvt_hello in = sample_hello(), m;
    CU_ASSERT_EQUAL(dvt_wire_get_hello(sample(DVT_MSG_HELLO), &m, NULL), 0);
    CU_ASSERT(m.major == in.major && m.minor == in.minor && m.role == in.role && m.pid == in.pid);
    CU_ASSERT(eq(m.runtime, in.runtime) && eq(m.runtime_version, in.runtime_version) &&
              eq(m.service, in.service));
    CU_ASSERT(eq(m.program, in.program) && eq(m.tag_template, in.tag_template));
    CU_ASSERT(m.eval_lo == in.eval_lo && m.eval_hi == in.eval_hi && m.has_walker);
}

static void test_welcome_round_trips(void)
{
    struct dvt_welcome in = sample_welcome(), m;
    CU_ASSERT_EQUAL(dvt_wire_get_welcome(sample(DVT_MSG_WELCOME), &m, NULL), 0);
    CU_ASSERT(m.session == in.session && memcmp(m.key, in.key, sizeof m.key) == 0 &&
              eq(m.endpoint, in.endpoint));
    CU_ASSERT(m.period_ns == in.period_ns && m.jitter_permille == 250 && m.flush_ms == 1000);
    CU_ASSERT_TRUE(m.use_signal);
}

static void test_small_control_messages_round_trip(void)
{
    struct dvt_refuse refuse;
    struct dvt_arm arm;
    struct dvt_armed armed;
    struct dvt_status status;
    CU_ASSERT_EQUAL(dvt_wire_get_refuse(sample(DVT_MSG_REFUSE), &refuse, NULL), 0);
    CU_ASSERT(refuse.code == DVT_EVERSION && eq(refuse.text, dvt_str("update dovetaild")));
    CU_ASSERT_EQUAL(dvt_wire_get_arm(sample(DVT_MSG_ARM), &arm, NULL), 0);
    CU_ASSERT(arm.tid == 4712 && arm.epoch == 3);
    CU_ASSERT_EQUAL(dvt_wire_get_arm(sample(DVT_MSG_DISARM), &arm, NULL), 0);
    CU_ASSERT_EQUAL(dvt_wire_get_armed(sample(DVT_MSG_ARMED), &armed, NULL), 0);
    CU_ASSERT(armed.tid == 4712 && armed.epoch == 3 && armed.code == 0 && eq(armed.text, dvt_str("ok")));
    CU_ASSERT(armed.map_bytes == 36864 && armed.first_period_ns == 1234567);
    CU_ASSERT_EQUAL(dvt_wire_get_status(sample(DVT_MSG_STATUS), &status, NULL), 0);
    CU_ASSERT(status.last && eq(status.json, dvt_str("{\"processes\":1}")));
    sample(DVT_MSG_STATUS_REQ);
    sample(DVT_MSG_FLUSH_REQ);
    sample(DVT_MSG_FLUSHED);
}

static void test_names_over_their_bound_are_cut_at_a_border(void)
{
    char name[DVT_MAX_SERVICE + 20];
    struct dvt_hello in = sample_hello(), m;
    memset(name, 'x', sizeof name);
    memcpy(name + DVT_MAX_SERVICE - 1, "\xC3\xA9", 2); /* the last byte that fits begins a character */
    in.service = (struct dvt_str){name, sizeof name};
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_hello(&body, &in), 0);
    CU_ASSERT_EQUAL(dvt_wire_get_hello(map_of(DVT_MSG_HELLO), &m, NULL), 0);
    CU_ASSERT_EQUAL(m.service.n, DVT_MAX_SERVICE - 1);
}

static void test_text_that_must_be_whole_is_refused_not_cut(void)
{
    static char text[DVT_MAX_STATUS_PART + 1];
    struct dvt_hello hello = sample_hello();
    struct dvt_welcome welcome = sample_welcome();
    struct dvt_status status = {false, {text, DVT_MAX_STATUS_PART}};
    hello.tag_template = (struct dvt_str){text, DVT_MAX_TAG + 1};
    welcome.endpoint = (struct dvt_str){text, DVT_MAX_PATH + 1};
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_hello(&body, &hello), DVT_ELIMIT);
    CU_ASSERT_EQUAL(dvt_wire_put_welcome(&body, &welcome), DVT_ELIMIT);
    CU_ASSERT_EQUAL(dvt_wire_put_status(&body, &status), 0);
    CU_ASSERT(body.n <= DVT_MAX_CONTROL);
    size_t before = body.n;
    status.json.n++;
    CU_ASSERT_EQUAL(dvt_wire_put_status(&body, &status), DVT_ELIMIT);
    CU_ASSERT_EQUAL(body.n, before);
}

static void test_handshake_of_another_major_says_what_to_update(void)
{
    struct dvt_hello hello = sample_hello();
    struct dvt_welcome welcome = sample_welcome();
    struct dvt_err err;
    hello.major = DVT_WIRE_MAJOR + 1;
    hello.minor = 4;
    welcome.major = 0;
    body.n = 0;
    dvt_wire_put_hello(&body, &hello);
    CU_ASSERT_EQUAL(dvt_wire_get_hello(map_of(DVT_MSG_HELLO), &hello, &err), DVT_EVERSION);
    CU_ASSERT_STRING_EQUAL(err.text,
                           "the peer speaks protocol 2.4; this daemon speaks 1.0: update dovetaild");
    body.n = 0;
    dvt_wire_put_welcome(&body, &welcome);
    CU_ASSERT_EQUAL(dvt_wire_get_welcome(map_of(DVT_MSG_WELCOME), &welcome, &err), DVT_EVERSION);
    CU_ASSERT_STRING_EQUAL(err.text,
                           "the daemon speaks protocol 0.0; this program speaks 1.0: update dovetaild");
}

/* ---- lists ---- */

static void test_threads_round_trip(void)
{
    struct dvt_str map = sample(DVT_MSG_THREADS);
    struct dvt_thread_info t;
    size_t pos = 0;
    CU_ASSERT_EQUAL(dvt_wire_next_thread(map, &pos, &t, NULL), 1);
    CU_ASSERT(t.tid == 1 && t.epoch == 1 && eq(t.name, dvt_str("main")) && t.uncovered_ns == 5 && !t.ended &&
              t.armed_head == 960);
    CU_ASSERT_EQUAL(dvt_wire_next_thread(map, &pos, &t, NULL), 1);
    CU_ASSERT(t.tid == 70000 && t.epoch == 2 && t.name.n == 0 && t.uncovered_ns == 0 && t.ended);
    CU_ASSERT_EQUAL(dvt_wire_next_thread(map, &pos, &t, NULL), 0);
    CU_ASSERT_EQUAL(dvt_wire_next_thread(map, &pos, &t, NULL), 0); /* the end stays the end */
}

static void test_code_round_trips(void)
{
    struct dvt_str map = sample(DVT_MSG_CODE);
    struct dvt_code_info c;
    size_t pos = 0;
    CU_ASSERT_EQUAL(dvt_wire_next_code(map, &pos, &c, NULL), 1);
    CU_ASSERT(c.id == 7 && eq(c.name, dvt_str("app.handler")) && eq(c.file, dvt_str("/srv/app.py")));
    CU_ASSERT_EQUAL(c.first_line, 31);
    CU_ASSERT_EQUAL(dvt_wire_next_code(map, &pos, &c, NULL), 1);
    CU_ASSERT(c.id == 8 && c.name.n == 0 && c.file.n == 0 && c.first_line == 0);
    CU_ASSERT_EQUAL(dvt_wire_next_code(map, &pos, &c, NULL), 0);
}

static void test_dropped_round_trips(void)
{
    struct dvt_str map = sample(DVT_MSG_DROPPED);
    struct dvt_dropped d;
    uint64_t start = 0, end = 0;
    size_t pos = 0;
    CU_ASSERT_EQUAL(dvt_wire_next_dropped(map, &pos, &d, NULL), 1);
    CU_ASSERT(eq(d.name, dvt_str("GET /")) && d.count == 4000);
    CU_ASSERT_EQUAL(dvt_wire_next_dropped(map, &pos, &d, NULL), 1);
    CU_ASSERT_EQUAL(d.count, UINT64_MAX);
    CU_ASSERT_EQUAL(dvt_wire_next_dropped(map, &pos, &d, NULL), 0);
    CU_ASSERT_EQUAL(dvt_wire_get_dropped_time(map, &start, &end, NULL), 0);
    CU_ASSERT(start == 1000 && end == 2000);
}

static void test_counts_round_trip_each_in_its_place(void)
{
    uint64_t values[sizeof(struct dvt_shim_counts) / sizeof(uint64_t)], now = 0;
    struct dvt_shim_counts in, out;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = 1000 + i;
    memcpy(&in, values, sizeof in);
    for (int bye = 0; bye < 2; bye++) {
        body.n = 0;
        CU_ASSERT_EQUAL((bye ? dvt_wire_put_bye : dvt_wire_put_heartbeat)(&body, &in, 99), 0);
        struct dvt_str map = map_of(bye ? DVT_MSG_BYE : DVT_MSG_HEARTBEAT);
        CU_ASSERT_EQUAL(dvt_wire_get_counts(map, &out, &now, NULL), 0);
        CU_ASSERT(memcmp(&in, &out, sizeof in) == 0 && now == 99);
    }
}

static void expect_threads(size_t n)
{
    struct dvt_thread_info *v = calloc(n + 1, sizeof *v), t;
    size_t pos = 0, got = 0;
    for (size_t i = 0; i < n; i++)
        v[i].tid = (uint32_t)i;
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_threads(&body, v, n), 0);
    struct dvt_str map = map_of(DVT_MSG_THREADS);
    while (dvt_wire_next_thread(map, &pos, &t, NULL) == 1 && t.tid == got)
        got++;
    CU_ASSERT_EQUAL(got, n);
    free(v);
}

static void test_lists_of_edge_lengths_round_trip(void)
{
    static struct dvt_thread_info too_many[DVT_MAX_BATCH + 1];
    static const size_t lengths[] = {0, 1, 15, 16, 65535, DVT_MAX_BATCH};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        expect_threads(lengths[i]);
    CU_ASSERT_EQUAL(dvt_wire_put_threads(&body, too_many, DVT_MAX_BATCH + 1), DVT_ELIMIT);
}

/* ---- envelope ---- */

static void test_envelope_round_trips_and_verifies(void)
{
    static const uint64_t seqs[] = {0, 127, 128, UINT32_MAX, UINT64_MAX};
    struct dvt_buf out;
    struct dvt_envelope env;
    dvt_buf_init(&out, DVT_MAX_MESSAGE);
    sample(DVT_MSG_SCOPES);
    for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++) {
        out.n = 0;
        CU_ASSERT_EQUAL(dvt_wire_seal(&out, UINT64_MAX - seqs[i], seqs[i], wire_key, body.p, body.n), 0);
        CU_ASSERT_EQUAL(dvt_wire_open(out.p, out.n, &env, NULL), 0);
        CU_ASSERT(env.session == UINT64_MAX - seqs[i] && env.seq == seqs[i]);
        CU_ASSERT(env.body.n == body.n && memcmp(env.body.p, body.p, body.n) == 0);
        CU_ASSERT_EQUAL(dvt_wire_verify(&env, wire_key), 0);
    }
    dvt_buf_fini(&out);
}

/* HMAC-SHA256 of 16 zero bytes and "Hi there" under a key of 32 bytes 0x0b, by another implementation
 * (Python's hmac). */
static void test_mac_is_hmac_sha256_of_session_seq_and_body(void)
{
    static const uint8_t expected[] = {0xdd, 0xeb, 0xd8, 0x36, 0x35, 0x70, 0x80, 0xd1, 0x5d, 0x56, 0xa8,
                                       0x73, 0x45, 0x43, 0x50, 0x10, 0x78, 0x16, 0x2c, 0x72, 0x9b, 0x44,
                                       0x9b, 0x16, 0xd4, 0x9e, 0xcd, 0x5d, 0xc1, 0xd4, 0xd1, 0xef};
    uint8_t key[DVT_KEY_BYTES];
    struct dvt_buf out;
    struct dvt_envelope env;
    memset(key, 0x0b, sizeof key);
    dvt_buf_init(&out, DVT_MAX_MESSAGE);
    CU_ASSERT_EQUAL(dvt_wire_seal(&out, 0, 0, key, "Hi there", 8), 0);
    CU_ASSERT_EQUAL(dvt_wire_open(out.p, out.n, &env, NULL), 0);
    CU_ASSERT_EQUAL(memcmp(env.mac, expected, sizeof expected), 0);
    dvt_buf_fini(&out);
}

static void test_wrong_key_session_or_sequence_fails_the_mac(void)
{
    uint8_t other[DVT_KEY_BYTES];
    struct dvt_buf out;
    struct dvt_envelope env, forged;
    memcpy(other, wire_key, sizeof other);
    other[31] ^= 1;
    dvt_buf_init(&out, DVT_MAX_MESSAGE);
    dvt_wire_seal(&out, 5, 6, wire_key, "body", 4);
    CU_ASSERT_EQUAL(dvt_wire_open(out.p, out.n, &env, NULL), 0);
    CU_ASSERT_EQUAL(dvt_wire_verify(&env, other), DVT_EAUTH);
    forged = env;
    forged.session++;
    CU_ASSERT_EQUAL(dvt_wire_verify(&forged, wire_key), DVT_EAUTH);
    forged = env;
    forged.seq++;
    CU_ASSERT_EQUAL(dvt_wire_verify(&forged, wire_key), DVT_EAUTH);
    dvt_buf_fini(&out);
}

/* A message of n bytes, sealed, and taken apart into *ret_env. */
static void seal_bytes(struct dvt_buf *out, size_t n, uint64_t seq, const uint8_t *key,
                       struct dvt_envelope *ret_env)
{
    static uint8_t bytes[5000];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + seq);
    out->n = 0;
    CU_ASSERT_EQUAL(dvt_wire_seal(out, 3, seq, key, bytes, n), 0);
    CU_ASSERT_EQUAL(dvt_wire_open(out->p, out->n, ret_env, NULL), 0);
}

/* One bit of one of the two messages is changed, or none: its answer says so, and the other's is not
 * touched. */
static void expect_pair(struct dvt_buf out[2], const size_t n[2], size_t changed, size_t at)
{
    static const uint8_t other[DVT_KEY_BYTES] = {9};
    const uint8_t *const keys[2] = {wire_key, other};
    struct dvt_envelope env[2];
    int rc[2] = {77, 77};
    for (size_t i = 0; i < 2; i++) {
        seal_bytes(&out[i], n[i], i, keys[i], &env[i]);
        if (i == changed)
            out[i].p[out[i].n - 1 - at] ^= 4; /* the body is at the end */
    }
    dvt_wire_verify_pair(env, keys, rc);
    for (size_t i = 0; i < 2; i++)
        if (rc[i] != (i == changed ? DVT_EAUTH : 0))
            CU_FAIL("a message of two got a wrong answer");
}

static void test_two_messages_of_any_lengths_are_verified_as_each_alone(void)
{
    static const size_t lengths[] = {0, 1, 47, 48, 49, 63, 64, 111, 112, 113, 128, 175, 176, 177, 1000, 4999};
    enum { N = sizeof lengths / sizeof *lengths };
    struct dvt_buf out[2];
    dvt_buf_init(&out[0], DVT_MAX_MESSAGE);
    dvt_buf_init(&out[1], DVT_MAX_MESSAGE);
    for (size_t k = 0; k < (size_t)N * N; k++) {
        const size_t n[2] = {lengths[k / N], lengths[k % N]};
        expect_pair(out, n, 2, 0);
        for (size_t i = 0; i < 2; i++)
            for (size_t at = 0; at < n[i]; at += n[i] / 40 + 1)
                expect_pair(out, n, i, at);
    }
    CU_PASS("all lengths");
    dvt_buf_fini(&out[0]);
    dvt_buf_fini(&out[1]);
}

static void test_envelope_of_another_major_says_what_to_update(void)
{
    static const uint8_t newer[] = {0x92, 0x02, 0xC0}; /* whatever follows the major */
    static const uint8_t older[] = {0x95, 0x00, 0xC0, 0xC0, 0xC0, 0xC0};
    struct dvt_envelope env;
    struct dvt_err err;
    CU_ASSERT_EQUAL(dvt_wire_open(newer, sizeof newer, &env, &err), DVT_EVERSION);
    CU_ASSERT_STRING_EQUAL(err.text, "message of protocol 2.x; this daemon speaks 1.0: update dovetaild");
    CU_ASSERT_EQUAL(dvt_wire_open(older, sizeof older, &env, &err), DVT_EVERSION);
    CU_ASSERT_STRING_EQUAL(err.text,
                           "message of protocol 0.x; this daemon speaks 1.0: update the sender's dovetail");
}

/* ---- the buffer ---- */

static void test_buffer_stops_at_its_maximum_and_stays_as_it_was(void)
{
    struct dvt_buf b;
    dvt_buf_init(&b, 1000);
    while (b.n + 7 <= 1000)
        CU_ASSERT_EQUAL(dvt_buf_append(&b, "1234567", 7), 0);
    CU_ASSERT_EQUAL(dvt_buf_append(&b, "1234567", 7), DVT_ELIMIT);
    CU_ASSERT_EQUAL(b.n, 994);
    CU_ASSERT(b.cap <= 1000);
    CU_ASSERT_EQUAL(dvt_buf_append(&b, "123456", 6), 0);
    CU_ASSERT_EQUAL(dvt_buf_append(&b, NULL, 0), 0);
    CU_ASSERT_EQUAL(dvt_buf_append(&b, "1", SIZE_MAX), DVT_ELIMIT);
    dvt_buf_fini(&b);
}

static void test_every_message_into_every_short_buffer_leaves_it_as_it_was(void)
{
    for (uint32_t i = 0; i < N_SAMPLE_TYPES; i++) {
        body.n = 0;
        CU_ASSERT_EQUAL(put_sample(&body, sample_types[i]), 0);
        for (size_t max = 1; max < body.n + 1; max++) {
            struct dvt_buf b;
            dvt_buf_init(&b, max);
            CU_ASSERT_EQUAL(dvt_buf_append(&b, "x", 1), 0);
            if (put_sample(&b, sample_types[i]) != DVT_ELIMIT || b.n != 1 || b.p[0] != 'x')
                CU_FAIL("a failed encoder left something behind");
            dvt_buf_fini(&b);
        }
    }
}

int main(void)
{
    dvt_buf_init(&body, DVT_MAX_MESSAGE);
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wire", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_hello_round_trips);
    T(test_welcome_round_trips);
    T(test_small_control_messages_round_trip);
    T(test_names_over_their_bound_are_cut_at_a_border);
    T(test_text_that_must_be_whole_is_refused_not_cut);
    T(test_handshake_of_another_major_says_what_to_update);
    T(test_threads_round_trip);
    T(test_code_round_trips);
    T(test_dropped_round_trips);
    T(test_counts_round_trip_each_in_its_place);
    T(test_lists_of_edge_lengths_round_trip);
    T(test_envelope_round_trips_and_verifies);
    T(test_mac_is_hmac_sha256_of_session_seq_and_body);
    T(test_wrong_key_session_or_sequence_fails_the_mac);
    T(test_two_messages_of_any_lengths_are_verified_as_each_alone);
    T(test_envelope_of_another_major_says_what_to_update);
    T(test_buffer_stops_at_its_maximum_and_stays_as_it_was);
    T(test_every_message_into_every_short_buffer_leaves_it_as_it_was);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    dvt_buf_fini(&body);
    return failures ? 1 : 0;
}
