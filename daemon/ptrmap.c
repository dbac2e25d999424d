/*
 * ptrmap: see ptrmap.h. Linear probing; the table doubles when it is half full.
 */
#include "ptrmap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "../proto/err.h"

void ptrmap_fini(struct ptrmap *m)
{
    free(m->slots);
    *m = (struct ptrmap){0};
}

void *ptrmap_get(const struct ptrmap *m, uint64_t hash, const void *key, ptrmap_eq eq)
{
    if (!m->slots)
        return NULL;
    for (uint32_t i = (uint32_t)hash & m->mask; m->slots[i].value; i = (i + 1) & m->mask)
        if (m->slots[i].hash == hash && eq(m->slots[i].value, key))
            return m->slots[i].value;
    return NULL;
}

static void place(struct ptrmap *m, uint64_t hash, void *value)
{
    uint32_t i = (uint32_t)hash & m->mask;
    while (m->slots[i].value)
        i = (i + 1) & m->mask;
    m->slots[i] = (struct ptrmap_slot){hash, value};
}

static int grow(struct ptrmap *m)
{
    uint32_t cap = m->slots ? (m->mask + 1) * 2 : 16;
    struct ptrmap bigger = {.slots = calloc(cap, sizeof *m->slots), .mask = cap - 1, .n = m->n};
    if (!bigger.slots)
        return DVT_ENOMEM;
    for (uint32_t i = 0; m->slots && i <= m->mask; i++)
        if (m->slots[i].value)
            place(&bigger, m->slots[i].hash, m->slots[i].value);
    free(m->slots);
    *m = bigger;
    return 0;
}

int ptrmap_add(struct ptrmap *m, uint64_t hash, void *value)
{
    if ((!m->slots || m->n * 2 > m->mask) && grow(m))
        return DVT_ENOMEM;
    place(m, hash, value);
    m->n++;
    return 0;
}

/* Moves later entries of the same run back, so that no probe is cut short by the hole at i. */
static void close_hole(struct ptrmap *m, uint32_t i)
{
    for (uint32_t j = (i + 1) & m->mask; m->slots[j].value; j = (j + 1) & m->mask) {
        uint32_t home = (uint32_t)m->slots[j].hash & m->mask;
        if (((j - home) & m->mask) < ((j - i) & m->mask))
            continue; /* its home lies behind the hole */
        m->slots[i] = m->slots[j];
        i = j;
    }
    m->slots[i].value = NULL;
}

void ptrmap_remove(struct ptrmap *m, uint64_t hash, const void *value)
{
    if (!m->slots)
        return;
    for (uint32_t i = (uint32_t)hash & m->mask; m->slots[i].value; i = (i + 1) & m->mask) {
        if (m->slots[i].value != value)
            continue;
        close_hole(m, i);
        m->n--;
        return;
    }
}

/* The high and low half of a 128-bit product, folded. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 x = (unsigned __int128)a * b;
    return (uint64_t)x ^ (uint64_t)(x >> 64);
}

uint64_t ptrmap_hash(uint64_t a, uint64_t b)
{
    static uint64_t seed[3]; /* set once, before the first table is used; one thread */
    if (!seed[2] && getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        struct timespec t; /* no entropy source: still differs from run to run */
        clock_gettime(CLOCK_MONOTONIC, &t);
        seed[0] = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u;
        seed[1] = (uint64_t)t.tv_sec * 0xd1b54a32d192ed03u;
    }
    seed[2] |= 1;
    return fold(fold(a ^ seed[0], b ^ seed[1]) ^ seed[2], 0x9e3779b97f4a7c15u ^ seed[0]);
}
