/* intern: see intern.h. Blocks of bytes that never move, and an open-addressing table of indexes. */
#include "intern.h"
#include "alloc.h"

#include <stdlib.h>

enum { BLOCK_BYTES = 64 << 10 };

struct block {
    struct block *next;
    char bytes[];
};
struct intern {
    struct block *blocks;
    size_t used, room; /* in the first block */
    struct dvt_str *items;
    size_t n, cap, bytes;
    uint32_t *table; /* index + 1; 0 free */
    size_t table_size;
};

struct intern *intern_new(void)
{
    struct intern *s = alloc_bytes(sizeof *s);
    s->table_size = 256;
    s->table = alloc_array(s->table_size, sizeof *s->table);
    return s;
}

void intern_free(struct intern *s)
{
    if (!s) {
        return;
    }
    for (struct block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(s->items);
    free(s->table);
    free(s);
}

static size_t hash(struct dvt_str x)
{
    uint64_t h = 0xcbf29ce484222325u ^ x.n, word;
    size_t i = 0;
    for (; i + 8 <= x.n; i += 8) {
        memcpy(&word, x.p + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (; i < x.n; i++) {
        h = (h ^ (uint8_t)x.p[i]) * 0x100000001b3u;
    }
    return (size_t)(h ^ h >> 29);
}

static const char *keep(struct intern *s, struct dvt_str x)
{
    if (s->used + x.n > s->room) {
        size_t room = x.n > BLOCK_BYTES ? x.n : BLOCK_BYTES;
        struct block *b = alloc_bytes(sizeof *b + room);
        b->next = s->blocks;
        s->blocks = b;
        s->used = 0;
        s->room = room;
    }
    char *p = s->blocks->bytes + s->used;
    memcpy(p, x.p, x.n);
    s->used += x.n;
    return p;
}

static void grow_table(struct intern *s)
{
    free(s->table);
    s->table_size *= 2;
    s->table = alloc_array(s->table_size, sizeof *s->table);
    for (uint32_t i = 0; i < s->n; i++) {
        size_t slot = hash(s->items[i]) & (s->table_size - 1);
        while (s->table[slot]) {
            slot = (slot + 1) & (s->table_size - 1);
        }
        s->table[slot] = i + 1;
    }
}

uint32_t intern_index(struct intern *s, struct dvt_str x)
{
    size_t slot = hash(x) & (s->table_size - 1);
    for (; s->table[slot]; slot = (slot + 1) & (s->table_size - 1)) {
        struct dvt_str *known = &s->items[s->table[slot] - 1];
        if (known->n == x.n && (x.n == 0 || memcmp(known->p, x.p, x.n) == 0)) {
            return s->table[slot] - 1;
        }
    }
    alloc_grow(&s->items, &s->cap, s->n + 1, sizeof *s->items);
    s->items[s->n++] = (struct dvt_str){x.n ? keep(s, x) : "", x.n};
    s->bytes += x.n;
    s->table[slot] = (uint32_t)s->n;
    uint32_t index = (uint32_t)s->n - 1;
    if (s->n * 2 > s->table_size) {
        grow_table(s);
    }
    return index;
}

struct dvt_str intern(struct intern *s, struct dvt_str x)
{
    uint32_t index = intern_index(s, x); /* may move items */
    return s->items[index];
}

struct dvt_str intern_at(const struct intern *s, uint32_t index)
{
    return s->items[index];
}

uint32_t intern_count(const struct intern *s)
{
    return (uint32_t)s->n;
}

size_t intern_bytes(const struct intern *s)
{
    return s->bytes;
}
