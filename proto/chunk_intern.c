/*
 * chunk_intern: see chunk_intern.h. Open addressing, at most half full.
 */
#include "chunk_intern.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 64, ITEMS_MAX = 1 << 30 };

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = n, v = 0;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        h = mix(h, v);
    }
    v = 0;
    memcpy(&v, p, n);
    return mix(h, v);
}

static uint64_t hash_words(const uint32_t *v, uint32_t n, uint64_t h)
{
    for (uint32_t i = 0; i < n; i++)
        h = mix(h, v[i]);
    return h;
}

/* Grows the slots to hold one more; rehash is by the owner's hash of an index. */
static bool slots_reserve(struct dvt_intern *t, uint64_t (*hash)(const void *, uint32_t), const void *owner)
{
    if (t->slots && t->n < t->mask / 2)
        return true;
    uint32_t mask = t->slots ? t->mask * 2 + 1 : SLOTS_FIRST - 1;
    uint32_t *slots = t->n < ITEMS_MAX ? calloc((size_t)mask + 1, sizeof *slots) : NULL;
    if (!slots)
        return false;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t at = (uint32_t)hash(owner, i) & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask = mask;
    return true;
}

/* items[cap] of size bytes each, made to hold need. */
static bool items_reserve(void **items, uint32_t *cap, uint64_t need, size_t size)
{
    if (need <= *cap)
        return true;
    uint64_t want = *cap ? *cap : 32;
    while (want < need)
        want *= 2;
    void *p = want <= UINT32_MAX ? realloc(*items, want * size) : NULL;
    if (!p)
        return false;
    *items = p;
    *cap = (uint32_t)want;
    return true;
}

static uint64_t strings_hash(const void *owner, uint32_t i)
{
    const struct dvt_strings *t = owner;
    return hash_bytes(t->items[i].p, t->items[i].n);
}

uint32_t dvt_strings_put(struct dvt_strings *t, struct dvt_str s)
{
    void *items = t->items;
    if (!slots_reserve(&t->table, strings_hash, t) ||
        !items_reserve(&items, &t->cap, t->table.n + 1ull, sizeof *t->items))
        return UINT32_MAX;
    t->items = items;
    if (!s.n)
        s.p = "";
    uint32_t at = (uint32_t)hash_bytes(s.p, s.n) & t->table.mask;
    for (; t->table.slots[at]; at = (at + 1) & t->table.mask) {
        const struct dvt_str *x = &t->items[t->table.slots[at] - 1];
        if (x->n == s.n && memcmp(x->p, s.p, s.n) == 0)
            return t->table.slots[at] - 1;
    }
    t->items[t->table.n] = s;
    t->table.slots[at] = ++t->table.n;
    return t->table.n - 1;
}

void dvt_strings_fini(struct dvt_strings *t)
{
    free(t->items);
    free(t->table.slots);
}

static uint64_t tuples_hash(const void *owner, uint32_t i)
{
    const struct dvt_tuples *t = owner;
    return hash_words(t->items[i], DVT_TUPLE, 0);
}

uint32_t dvt_tuples_put(struct dvt_tuples *t, const uint32_t v[DVT_TUPLE])
{
    void *items = t->items;
    if (!slots_reserve(&t->table, tuples_hash, t) ||
        !items_reserve(&items, &t->cap, t->table.n + 1ull, sizeof *t->items))
        return UINT32_MAX;
    t->items = items;
    uint32_t at = (uint32_t)hash_words(v, DVT_TUPLE, 0) & t->table.mask;
    for (; t->table.slots[at]; at = (at + 1) & t->table.mask)
        if (memcmp(t->items[t->table.slots[at] - 1], v, sizeof *t->items) == 0)
            return t->table.slots[at] - 1;
    memcpy(t->items[t->table.n], v, sizeof *t->items);
    t->table.slots[at] = ++t->table.n;
    return t->table.n - 1;
}

void dvt_tuples_fini(struct dvt_tuples *t)
{
    free(t->items);
    free(t->table.slots);
}

static uint64_t seqs_hash(const void *owner, uint32_t i)
{
    const struct dvt_seqs *t = owner;
    return hash_words(t->values + t->items[i].first, t->items[i].n, t->items[i].extra);
}

static bool seq_is(const struct dvt_seqs *t, uint32_t i, const uint32_t *v, uint32_t n, uint32_t extra)
{
    const struct dvt_seq *s = &t->items[i];
    return s->n == n && s->extra == extra && (!n || memcmp(t->values + s->first, v, n * sizeof *v) == 0);
}

uint32_t dvt_seqs_put(struct dvt_seqs *t, const uint32_t *v, uint32_t n, uint32_t extra)
{
    void *items = t->items, *values = t->values;
    bool ok = slots_reserve(&t->table, seqs_hash, t) &&
              items_reserve(&items, &t->cap, t->table.n + 1ull, sizeof *t->items);
    t->items = items;
    ok = ok && items_reserve(&values, &t->cap_values, t->n_values + (uint64_t)n, sizeof *t->values);
    t->values = values;
    if (!ok)
        return UINT32_MAX;
    uint32_t at = (uint32_t)hash_words(v, n, extra) & t->table.mask;
    for (; t->table.slots[at]; at = (at + 1) & t->table.mask)
        if (seq_is(t, t->table.slots[at] - 1, v, n, extra))
            return t->table.slots[at] - 1;
    if (n)
        memcpy(t->values + t->n_values, v, n * sizeof *v);
    t->items[t->table.n] = (struct dvt_seq){t->n_values, n, extra};
    t->n_values += n;
    t->table.slots[at] = ++t->table.n;
    return t->table.n - 1;
}

void dvt_seqs_fini(struct dvt_seqs *t)
{
    free(t->items);
    free(t->values);
    free(t->table.slots);
}
