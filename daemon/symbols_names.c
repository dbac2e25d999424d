/*
 * symbols_names: see symbols_names.h. Open addressing over pointers into blocks that never move. Names are
 * never dropped, since resolved frames point at them; the bound is what thousands of large binaries hold.
 */
#include "symbols_names.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/limits.h"
#include "../proto/str.h"

enum { MAX_BYTES = 64 << 20, BLOCK_BYTES = 64 << 10, FIRST_SLOTS = 1024 };

struct block {
    struct block *next;
    size_t used;
    char bytes[BLOCK_BYTES];
};

struct symbols_names {
    const char **slots; /* [n_slots], NULL: free */
    size_t n_slots, n_names, bytes;
    struct block *blocks;
};

struct symbols_names *symbols_names_new(void)
{
    struct symbols_names *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->n_slots = FIRST_SLOTS;
    t->slots = calloc(t->n_slots, sizeof *t->slots);
    t->bytes = t->n_slots * sizeof *t->slots;
    if (!t->slots) {
        free(t);
        return NULL;
    }
    return t;
}

void symbols_names_free(struct symbols_names *t)
{
    if (!t)
        return;
    while (t->blocks) {
        struct block *next = t->blocks->next;
        free(t->blocks);
        t->blocks = next;
    }
    free(t->slots);
    free(t);
}

static size_t hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

static size_t find_slot(const struct symbols_names *t, const char *s)
{
    size_t i = hash(s) & (t->n_slots - 1);
    while (t->slots[i] && strcmp(t->slots[i], s))
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

static bool grow(struct symbols_names *t)
{
    struct symbols_names bigger = *t;
    bigger.n_slots = 2 * t->n_slots;
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i])
            bigger.slots[find_slot(&bigger, t->slots[i])] = t->slots[i];
    }
    free(t->slots);
    bigger.bytes += t->n_slots * sizeof *t->slots;
    *t = bigger;
    return true;
}

/* n bytes with the NUL, at most BLOCK_BYTES. */
static char *reserve(struct symbols_names *t, size_t n)
{
    if (!t->blocks || BLOCK_BYTES - t->blocks->used < n) {
        struct block *b = t->bytes < MAX_BYTES ? malloc(sizeof *b) : NULL;
        if (!b)
            return NULL;
        b->next = t->blocks;
        b->used = 0;
        t->blocks = b;
        t->bytes += sizeof *b;
    }
    char *p = t->blocks->bytes + t->blocks->used;
    t->blocks->used += n;
    return p;
}

const char *symbols_names_intern(struct symbols_names *t, const char *z, size_t cap_bytes)
{
    char clean[DVT_MAX_PATH + 4];
    size_t cap = cap_bytes < DVT_MAX_PATH ? cap_bytes + 1 : DVT_MAX_PATH + 1;
    size_t n = dvt_utf8_clean(z, strnlen(z, 4 * cap), true, clean, cap);
    size_t slot = find_slot(t, clean);
    if (t->slots[slot])
        return t->slots[slot];
    if (2 * t->n_names >= t->n_slots) {
        if (!grow(t))
            return "[too many names]";
        slot = find_slot(t, clean);
    }
    char *copy = reserve(t, n + 1);
    if (!copy)
        return "[too many names]";
    memcpy(copy, clean, n + 1);
    t->slots[slot] = copy;
    t->n_names++;
    return copy;
}

size_t symbols_names_bytes(const struct symbols_names *t)
{
    return t->bytes;
}
