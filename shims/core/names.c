/*
 * names: an open-addressed hash table of pointers into a static array of names. A name is filled before its
 * pointer is published by compare-and-swap (release; pairs with the acquire loads of look-ups), and never
 * changes. A loser of the race for one hash bucket may leave an unused entry; it is never counted under.
 */
#include "names.h"

enum { BUCKETS = 2 * DVT_MAX_NAMES, MAX_PROBES = 64 };

static struct dvt_name names[DVT_MAX_NAMES];
static _Atomic uint32_t n_names;
static struct dvt_name *_Atomic buckets[BUCKETS];
static _Atomic uint32_t filled[DVT_MAX_NAMES]; /* set once names[i] can be read by id */

/* Names are short: their bytes by eights are read in place, without calls. n <= 8: overlapping loads that
 * hold all bytes. */
static inline uint64_t up_to_8(const char *p, size_t n)
{
    uint64_t x;
    uint32_t lo, hi;
    if (n == 8) {
        memcpy(&x, p, 8);
        return x;
    }
    if (n >= 4) {
        memcpy(&lo, p, 4);
        memcpy(&hi, p + n - 4, 4);
        return lo | (uint64_t)hi << 32;
    }
    const uint8_t *b = (const uint8_t *)p;
    return n ? b[0] | (uint64_t)b[n / 2] << 8 | (uint64_t)b[n - 1] << 16 : 0;
}

static inline uint32_t hash_of(const char *p, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (; n > 8; p += 8, n -= 8) {
        h = (h ^ up_to_8(p, 8)) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h = (h ^ up_to_8(p, n)) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ (h >> 29));
}

static inline bool is_same(const char *a, const char *b, size_t n)
{
    for (; n > 8; a += 8, b += 8, n -= 8)
        if (up_to_8(a, 8) != up_to_8(b, 8))
            return false;
    return up_to_8(a, n) == up_to_8(b, n);
}

static struct dvt_name *new_name(const char *p, size_t n, uint32_t hash)
{
    uint32_t i = atomic_load_explicit(&n_names, memory_order_relaxed);
    do {
        if (i >= DVT_MAX_NAMES)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&n_names, &i, i + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    struct dvt_name *name = &names[i];
    name->id = i + 1;
    name->hash = hash;
    name->n = (uint32_t)n;
    memcpy(name->text, p, n);
    atomic_store_explicit(&filled[i], 1, memory_order_release); /* pairs with dvt_name_text */
    return name;
}

const struct dvt_name *dvt_name_intern(const char *p, size_t n)
{
    if (n > DVT_MAX_NAME)
        n = dvt_utf8_cut(p, n, DVT_MAX_NAME);
    uint32_t hash = hash_of(p, n);
    struct dvt_name *mine = NULL;
    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        struct dvt_name *_Atomic *b = &buckets[(hash + probe) % BUCKETS];
        struct dvt_name *there = atomic_load_explicit(b, memory_order_acquire);
        if (!there) {
            if (!mine && !(mine = new_name(p, n, hash)))
                return NULL;
            if (atomic_compare_exchange_strong_explicit(b, &there, mine, memory_order_acq_rel,
                                                        memory_order_acquire))
                return mine;
        }
        if (there->hash == hash && there->n == n && is_same(there->text, p, n))
            return there;
    }
    return NULL;
}

const struct dvt_name *dvt_name(const char *name)
{
    return name ? dvt_name_intern(name, strnlen(name, 4 * DVT_MAX_NAME)) : NULL;
}

uint32_t dvt_name_count(void)
{
    return atomic_load_explicit(&n_names, memory_order_relaxed);
}

struct dvt_str dvt_name_text(uint32_t id)
{
    if (id == 0)
        return dvt_str("(other)");
    if (!atomic_load_explicit(&filled[id - 1], memory_order_acquire))
        return (struct dvt_str){"", 0};
    return (struct dvt_str){names[id - 1].text, names[id - 1].n};
}
