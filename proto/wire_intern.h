/*
 * wire_intern: numbers the distinct traces, names and label sets of one batch, private to the wire modules.
 *
 * A table of indexes of records, open addressing, at most half full; it begins small and grows, because
 * clearing one for the worst case would cost more than the few entries of most batches. Two records are the
 * same entry if a caller's function says so; each entry keeps the first record it was seen in.
 */
#ifndef DVT_WIRE_INTERN_H
#define DVT_WIRE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dvt_intern {
    uint32_t *slots; /* [mask + 1] entry + 1, 0 empty */
    uint32_t *first; /* [n] the record an entry was first seen in */
    uint32_t *hash;  /* [n] the low bits of its hash */
    uint32_t mask, n;
    uint32_t n_steps; /* of a column of entries: how often one differs from the one before */
    bool falls;       /* ... and whether it is ever less */
};
enum { DVT_INTERN_FEWEST_SLOTS = 64 };

typedef bool dvt_intern_same(const void *records, uint32_t a, uint32_t b);

/* The slots that n_records may come to need: a power of two above twice as many. */
static inline uint32_t dvt_intern_slots(size_t n_records)
{
    uint32_t n = DVT_INTERN_FEWEST_SLOTS;
    while (n <= 2 * n_records)
        n *= 2;
    return n;
}

/* memory: dvt_intern_slots(n_records) + 2 * n_records numbers. */
static inline struct dvt_intern dvt_intern_begin(uint32_t *memory, size_t n_records)
{
    uint32_t most = dvt_intern_slots(n_records), *first = memory + most;
    uint32_t n_slots = most / 4 > DVT_INTERN_FEWEST_SLOTS ? most / 4 : DVT_INTERN_FEWEST_SLOTS;
    memset(memory, 0, n_slots * sizeof *memory);
    return (struct dvt_intern){
        .slots = memory, .first = first, .hash = first + n_records, .mask = n_slots - 1};
}

static inline void dvt_intern_grow(struct dvt_intern *t)
{
    t->mask = 2 * t->mask + 1;
    memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots);
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t at = t->hash[i] & t->mask;
        while (t->slots[at])
            at = (at + 1) & t->mask;
        t->slots[at] = i + 1;
    }
}

/* Both halves of the product: names often differ in their last byte only, which the low half alone keeps in
 * its high bits. */
static inline uint64_t dvt_intern_mix(uint64_t h, uint64_t x)
{
    __extension__ unsigned __int128 product = (unsigned __int128)(h ^ x) * 0x9E3779B97F4A7C15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Less than eight bytes as a number. */
static inline uint64_t dvt_intern_short(const char *p, size_t n)
{
    uint32_t head, tail;
    if (n < 4)
        return n ? (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1] : 0;
    memcpy(&head, p, 4);
    memcpy(&tail, p + n - 4, 4);
    return (uint64_t)tail << 32 | head;
}

/* Hashes any bytes eight at a time; the last may overlap. */
static inline uint64_t dvt_intern_hash(uint64_t h, const char *p, size_t n)
{
    uint64_t x = 0;
    if (n < 8)
        return dvt_intern_mix(h, dvt_intern_short(p, n) ^ (uint64_t)n << 56);
    for (size_t i = 0; i + 8 < n; i += 8) {
        memcpy(&x, p + i, 8);
        h = dvt_intern_mix(h, x);
    }
    memcpy(&x, p + n - 8, 8);
    return dvt_intern_mix(h, x ^ (uint64_t)n << 56);
}

/* The entry of record i, a new one if it is the first of its kind. */
static inline __attribute__((always_inline)) uint32_t
dvt_intern(struct dvt_intern *t, uint64_t hash, uint32_t i, const void *records, dvt_intern_same *same)
{
    uint32_t at = (uint32_t)hash & t->mask;
    while (t->slots[at]) {
        uint32_t entry = t->slots[at] - 1;
        if (same(records, t->first[entry], i))
            return entry;
        at = (at + 1) & t->mask;
    }
    t->first[t->n] = i;
    t->hash[t->n] = (uint32_t)hash;
    t->slots[at] = ++t->n;
    if (2 * t->n > t->mask)
        dvt_intern_grow(t);
    return t->n - 1;
}

#endif
