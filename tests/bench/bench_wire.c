/*
 * bench_wire: what a scope costs on the wire, against msgpack-c in the same run.
 *
 * The peer is what a plain design would send: one msgpack array of five integers for each scope (name, start,
 * duration, thread, trace reference), packed into an sbuffer and unpacked by msgpack_unpack_next. Ours
 * carries more (ids, parent, ring offsets, labels, flags). Each figure is the best of many short rounds over
 * a batch of 1,000 scopes.
 *
 * Prints ns a scope and the ratios to the peer. The target is on the way of a scope from shim to join,
 * encoding and decoding together, without the MAC; exits with 1 if it is missed.
 */
#include "../../proto/wire.h"

#include <msgpack.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_SCOPES = 1000, N_ROUNDS = 200, N_REPEATS = 15, N_NAMES = 12, N_TENANTS = 6, REQUEST = 5 };
#define TARGET_RATIO 0.2

static struct dvt_scope_rec scopes[N_SCOPES];
static struct dvt_label labels[N_TENANTS][2];
static char names[N_NAMES][32], tenants[N_TENANTS][16];
static struct dvt_buf body, sealed;
static const uint8_t key[DVT_KEY_BYTES] = {1, 2, 3};
static struct dvt_str map;
static volatile uint64_t sink;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Best of the rounds, ns a scope. */
static double measure(void (*once)(void))
{
    double best = 1e9;
    for (int round = 0; round < N_ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < N_REPEATS; i++)
            once();
        double ns = (now_ns() - start) / ((double)N_REPEATS * (double)N_SCOPES);
        best = ns < best ? ns : best;
    }
    return best;
}

static void require(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, rc);
    exit(2);
}

static void random_bytes(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(rand() >> 7);
}

static void make_texts(void)
{
    for (int i = 0; i < N_NAMES; i++)
        snprintf(names[i], sizeof names[i], "GET /api/v1/resource/%d", i);
    for (int i = 0; i < N_TENANTS; i++) {
        snprintf(tenants[i], sizeof tenants[i], "tenant-%d", i);
        labels[i][0] = (struct dvt_label){dvt_str("tenant"), dvt_str(tenants[i])};
        labels[i][1] = (struct dvt_label){dvt_str("http.method"), dvt_str("GET")};
    }
}

/* Four scopes within a fifth, which closes last and has a remote parent. */
static void link_request(struct dvt_scope_rec *first, uint64_t request)
{
    struct dvt_scope_rec *root = first + REQUEST - 1;
    for (uint64_t i = 0; i < REQUEST; i++) {
        struct dvt_scope_rec *s = &first[i];
        s->serial = request * REQUEST + (s == root ? 1 : i + 2);
        random_bytes(s->span.b, sizeof s->span.b);
        s->n_labels = 2;
        s->labels = labels[request % N_TENANTS];
    }
    random_bytes(root->trace.b, sizeof root->trace.b);
    random_bytes(root->parent_span.b, sizeof root->parent_span.b);
    root->start_ns = first->start_ns - 5000;
    root->head_open = first->head_open;
    for (struct dvt_scope_rec *s = first; s < root; s++) {
        s->trace = root->trace;
        s->parent_span = root->span;
        s->parent_serial = root->serial;
    }
}

/* A thread of a service: requests of five scopes, each 10 to 500 us, a tenant a request. Ids are random. */
static void make_scopes(void)
{
    uint64_t t = 1000000000000, head = 4096;
    srand(1);
    make_texts();
    for (uint64_t i = 0; i < N_SCOPES; i++) {
        uint64_t dur = 10000 + (uint64_t)rand() % 490000;
        t += dur + (uint64_t)rand() % 20000;
        head += 40 * ((uint64_t)rand() % 4);
        scopes[i] = (struct dvt_scope_rec){.start_ns = t - dur,
                                           .end_ns = t,
                                           .head_open = head - 40 * ((uint64_t)rand() % 2),
                                           .head_close = head,
                                           .name = dvt_str(names[rand() % N_NAMES])};
        if (i % REQUEST == REQUEST - 1)
            link_request(&scopes[i + 1 - REQUEST], i / REQUEST);
    }
}

static void encode(void)
{
    body.n = 0;
    require(dvt_wire_put_scopes(&body, 42, 1, 1 << 20, 1000000, scopes, N_SCOPES), "encode");
}

static void decode(void)
{
    static uint64_t wide[5][N_SCOPES], parent_serial[N_SCOPES];
    static uint32_t narrow[4][N_SCOPES], first[N_SCOPES + 1], work[N_SCOPES];
    static struct dvt_span_id spans[N_SCOPES], parent_spans[N_SCOPES];
    static struct dvt_str name_table[N_SCOPES];
    static struct dvt_label label_table[N_SCOPES];
    struct dvt_scopes s;
    require(dvt_wire_get_scopes(map, &s, NULL), "decode");
    require(dvt_wire_names(&s, name_table), "names");
    require(dvt_wire_labelsets(&s, label_table, N_SCOPES, first), "labels");
    const struct dvt_col *wides[] = {&s.end, &s.dur, &s.head_close, &s.head_span, &s.serial};
    const struct dvt_col *narrows[] = {&s.trace, &s.name, &s.labelset, &s.flags};
    for (int i = 0; i < 5; i++)
        dvt_col_expand_u64(wides[i], wide[i]);
    for (int i = 0; i < 4; i++)
        dvt_col_expand_u32(narrows[i], narrow[i]);
    require(dvt_wire_parents(&s, wide[4], work, spans, parent_spans, parent_serial), "parents");
    sink = wide[0][N_SCOPES - 1] + parent_serial[1] + narrow[0][N_SCOPES - 1] + first[s.n_labelsets];
}

static void seal(void)
{
    sealed.n = 0;
    require(dvt_wire_seal(&sealed, 1, 2, key, body.p, body.n), "seal");
}

static void verify(void)
{
    struct dvt_envelope env;
    require(dvt_wire_open(sealed.p, sealed.n, &env, NULL), "open");
    require(dvt_wire_verify(&env, key), "verify");
}

static msgpack_sbuffer peer;

static void peer_encode(void)
{
    msgpack_packer pk;
    msgpack_sbuffer_clear(&peer);
    msgpack_packer_init(&pk, &peer, msgpack_sbuffer_write);
    for (uint64_t i = 0; i < N_SCOPES; i++) {
        const struct dvt_scope_rec *s = &scopes[i];
        msgpack_pack_array(&pk, 5);
        msgpack_pack_uint64(&pk, i % N_NAMES);
        msgpack_pack_uint64(&pk, s->start_ns);
        msgpack_pack_uint64(&pk, s->end_ns - s->start_ns);
        msgpack_pack_uint64(&pk, 42);
        msgpack_pack_uint64(&pk, i / 5);
    }
}

static void peer_decode(void)
{
    msgpack_unpacked item;
    uint64_t sum = 0;
    size_t at = 0;
    msgpack_unpacked_init(&item);
    while (msgpack_unpack_next(&item, peer.data, peer.size, &at) == MSGPACK_UNPACK_SUCCESS)
        for (uint32_t i = 0; i < item.data.via.array.size; i++)
            sum += item.data.via.array.ptr[i].via.u64;
    msgpack_unpacked_destroy(&item);
    sink = sum;
}

static void print_ratio(const char *what, double ours, double theirs)
{
    printf("%-26s %7.2f ns/scope   msgpack-c %7.2f   ratio %.3f\n", what, ours, theirs, ours / theirs);
}

static bool compare(void)
{
    double put = measure(encode), peer_put = measure(peer_encode);
    double get = measure(decode), peer_get = measure(peer_decode);
    double ratio = (put + get) / (peer_put + peer_get);
    print_ratio("encode", put, peer_put);
    print_ratio("decode, check and expand", get, peer_get);
    print_ratio("both", put + get, peer_put + peer_get);
    printf("target for both: %.2f: %s\n", TARGET_RATIO, ratio <= TARGET_RATIO ? "met" : "MISSED");
    return ratio <= TARGET_RATIO;
}

int main(void)
{
    uint32_t type;
    make_scopes();
    dvt_buf_init(&body, DVT_MAX_MESSAGE);
    dvt_buf_init(&sealed, DVT_MAX_MESSAGE);
    msgpack_sbuffer_init(&peer);
    encode();
    seal();
    peer_encode();
    require(dvt_wire_type((struct dvt_str){(const char *)body.p, body.n}, &type, &map, NULL), "type");
    printf("batch of %d scopes: %.1f bytes a scope (msgpack-c, five fields: %.1f)\n", N_SCOPES,
           (double)body.n / (double)N_SCOPES, (double)peer.size / (double)N_SCOPES);
    bool met = compare();
    printf("%-26s %7.2f ns/scope\n", "seal (HMAC-SHA256)", measure(seal));
    printf("%-26s %7.2f ns/scope\n", "open and verify", measure(verify));
    dvt_buf_fini(&body);
    dvt_buf_fini(&sealed);
    msgpack_sbuffer_destroy(&peer);
    return met ? 0 : 1;
}
