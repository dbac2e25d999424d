/*
 * wire_intern: numbers the distinct traces, names and label sets of one batch, private to wire_scopes.c.
 *
 * A table of indexes of records, open addressing, at most half full. Two records are the same entry if a
 * caller's function says so; each entry keeps the first record it was seen in.
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
    uint32_t mask, n;
};

typedef bool dvt_intern_same(const void *records, uint32_t a, uint32_t b);

/* Slots for n_records: a power of two of at least twice as many. */
static inline uint32_t dvt_intern_slots(size_t n_records)
{
    uint32_t n = 16;
    while (n < 2 * n_records)
        n *= 2;
    return n;
}

/* Both halves of the product: names often differ in their last byte only, which the low half alone keeps in
 * its high bits. */
static inline uint64_t dvt_intern_mix(uint64_t h, uint64_t x)
{
    __extension__ unsigned __int128 product = (unsigned __int128)(h ^ x) * 0x9E3779B97F4A7C15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Hashes any bytes eight at a time; the last eight may overlap. */
static inline uint64_t dvt_intern_hash(uint64_t h, const char *p, size_t n)
{
    uint64_t x = 0;
    if (n < 8) {
        for (size_t i = 0; i < n; i++)
            x = x << 8 | (uint8_t)p[i];
        return dvt_intern_mix(h, x ^ (uint64_t)n << 56);
    }
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
    t->slots[at] = ++t->n;
    return t->n - 1;
}

#endif
