/*
 * wire_seal: the envelope of ZeroMQ messages and its authentication.
 *
 * HMAC (RFC 2104) over OpenSSL's SHA-256 with its state on the stack. EVP_MAC takes and frees locked global
 * objects at each message (3.1 us for 100 bytes against 0.4 us here, OpenSSL 3.0); those locks may also be
 * held by another thread of the host program at the moment it forks, and the child's sender would wait for
 * ever.
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_*: see above; EVP is what they are deprecated in favour of */
#include "sha256_pair.h"
#include "wire_fields.h"

#include <openssl/crypto.h>

enum { HMAC_INNER = 0x36, HMAC_OUTER = 0x5C, HEAD_BYTES = 16 };

static void hmac_pad(SHA256_CTX *s, const uint8_t key[DVT_KEY_BYTES], uint8_t with)
{
    uint8_t block[SHA256_CBLOCK];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)((i < DVT_KEY_BYTES ? key[i] : 0) ^ with);
    SHA256_Init(s); /* these return 1 always */
    SHA256_Update(s, block, sizeof block);
    OPENSSL_cleanse(block, sizeof block);
}

static void put_be64(uint8_t out[8], uint64_t v)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(v >> (56 - 8 * i));
}

static void mac_begin(SHA256_CTX *s, uint64_t session, uint64_t seq, const uint8_t key[DVT_KEY_BYTES])
{
    uint8_t head[HEAD_BYTES];
    put_be64(head, session);
    put_be64(head + 8, seq);
    hmac_pad(s, key, HMAC_INNER);
    SHA256_Update(s, head, sizeof head);
}

static void mac_end(SHA256_CTX *s, const uint8_t key[DVT_KEY_BYTES], uint8_t out[DVT_MAC_BYTES])
{
    static_assert(DVT_MAC_BYTES == SHA256_DIGEST_LENGTH, "");
    uint8_t inner[SHA256_DIGEST_LENGTH];
    SHA256_Final(inner, s);
    hmac_pad(s, key, HMAC_OUTER);
    SHA256_Update(s, inner, sizeof inner);
    SHA256_Final(out, s);
    OPENSSL_cleanse(s, sizeof *s);
}

/* HMAC-SHA256(key, be64(session) be64(seq) body) */
static void mac_of(uint64_t session, uint64_t seq, const void *body, size_t n,
                   const uint8_t key[DVT_KEY_BYTES], uint8_t out[DVT_MAC_BYTES])
{
    SHA256_CTX s;
    mac_begin(&s, session, seq, key);
    SHA256_Update(&s, body, n);
    mac_end(&s, key, out);
}

int dvt_wire_seal(struct dvt_buf *out, uint64_t session, uint64_t seq, const uint8_t key[DVT_KEY_BYTES],
                  const void *body, size_t n)
{
    uint8_t mac[DVT_MAC_BYTES];
    struct dvt_packer k;
    mac_of(session, seq, body, n, key, mac);
    dvt_pack_begin(&k, out);
    msgpack_pack_array(&k.pk, 5);
    msgpack_pack_unsigned_int(&k.pk, DVT_WIRE_MAJOR);
    msgpack_pack_uint64(&k.pk, session);
    msgpack_pack_uint64(&k.pk, seq);
    msgpack_pack_bin_with_body(&k.pk, mac, sizeof mac);
    msgpack_pack_bin_with_body(&k.pk, body, n);
    return dvt_pack_end(&k);
}

static int fail_version(uint64_t major, struct dvt_err *err)
{
    return dvt_fail(err, DVT_EVERSION, 0, "message of protocol %llu.x; this daemon speaks %d.%d: update %s",
                    (unsigned long long)major, DVT_WIRE_MAJOR, DVT_WIRE_MINOR,
                    major > DVT_WIRE_MAJOR ? "dovetaild" : "the sender's dovetail");
}

int dvt_wire_open(const void *p, size_t n, struct dvt_envelope *ret_env, struct dvt_err *err)
{
    struct dvt_cur c = dvt_cur((struct dvt_str){p, n});
    struct dvt_envelope env;
    struct dvt_str mac;
    uint64_t n_fields, major;
    if (!dvt_cur_array(&c, &n_fields) || n_fields < 1 || !dvt_cur_uint(&c, &major))
        return dvt_fail(err, DVT_EFORMAT, 0, "message of %zu bytes is no envelope", n);
    if (major != DVT_WIRE_MAJOR) /* what follows may mean anything */
        return fail_version(major, err);
    if (n_fields != 5 || !dvt_cur_uint(&c, &env.session) || !dvt_cur_uint(&c, &env.seq) ||
        !dvt_cur_bin(&c, &mac) || mac.n != DVT_MAC_BYTES || !dvt_cur_bin(&c, &env.body) || c.p != c.end)
        return dvt_fail(err, DVT_EFORMAT, 0, "envelope of %zu bytes is damaged", n);
    env.mac = (const uint8_t *)mac.p;
    *ret_env = env;
    return 0;
}

static int compare_mac(const struct dvt_envelope *env, const uint8_t mac[DVT_MAC_BYTES])
{
    return CRYPTO_memcmp(mac, env->mac, DVT_MAC_BYTES) == 0 ? 0 : DVT_EAUTH;
}

int dvt_wire_verify(const struct dvt_envelope *env, const uint8_t key[DVT_KEY_BYTES])
{
    uint8_t mac[DVT_MAC_BYTES];
    mac_of(env->session, env->seq, env->body.p, env->body.n, key, mac);
    return compare_mac(env, mac);
}

/* Where both bodies have whole blocks, these go together. */
void dvt_wire_verify_pair(const struct dvt_envelope env[2], const uint8_t *const key[2], int ret_rc[2])
{
    enum { LEAD = SHA256_CBLOCK - HEAD_BYTES }; /* what makes the head a whole block */
    size_t least = env[0].body.n < env[1].body.n ? env[0].body.n : env[1].body.n;
    size_t lead = least < LEAD ? least : LEAD, common = (least - lead) / SHA256_CBLOCK * SHA256_CBLOCK;
    const uint8_t *const p[2] = {(const uint8_t *)env[0].body.p, (const uint8_t *)env[1].body.p};
    const uint8_t *const after[2] = {p[0] + lead, p[1] + lead};
    SHA256_CTX s[2];
    for (int i = 0; i < 2; i++) {
        mac_begin(&s[i], env[i].session, env[i].seq, key[i]);
        SHA256_Update(&s[i], p[i], lead);
    }
    if (common > 0)
        dvt_sha256_pair(s, after, common);
    for (int i = 0; i < 2; i++) {
        uint8_t mac[DVT_MAC_BYTES];
        SHA256_Update(&s[i], after[i] + common, env[i].body.n - lead - common);
        mac_end(&s[i], key[i], mac);
        ret_rc[i] = compare_mac(&env[i], mac);
    }
}

int dvt_wire_type(struct dvt_str body, uint32_t *ret_type, struct dvt_str *ret_map, struct dvt_err *err)
{
    struct dvt_cur c = dvt_cur(body);
    uint64_t n_fields, type, n_pairs;
    if (!dvt_cur_array(&c, &n_fields) || n_fields != 2 || !dvt_cur_uint(&c, &type) || type > UINT32_MAX)
        return dvt_fail(err, DVT_EFORMAT, 0, "%zu bytes are no message: [type, map] expected", body.n);
    struct dvt_str map = {(const char *)c.p, dvt_cur_left(&c)};
    if (!dvt_cur_map(&c, &n_pairs))
        return dvt_fail(err, DVT_EFORMAT, 0, "message of type %u has no map", (unsigned)type);
    *ret_type = (uint32_t)type;
    *ret_map = map;
    return 0;
}
