/*
 * arena: see arena.h. Almost always the innermost frame grows at the top; a change further down moves what
 * lies above.
 */
#include "arena.h"

enum { ITEM_HEAD = 4 };

size_t dvt_blob_bytes(size_t key_n, size_t value_n)
{
    return ITEM_HEAD + key_n + value_n;
}

uint8_t *dvt_blob_put(uint8_t *p, enum dvt_blob_kind kind, struct dvt_str key, struct dvt_str value)
{
    p[0] = (uint8_t)kind;
    p[1] = (uint8_t)key.n;
    p[2] = (uint8_t)(value.n & 0xff);
    p[3] = (uint8_t)(value.n >> 8);
    if (key.n)
        memcpy(p + ITEM_HEAD, key.p, key.n);
    if (value.n)
        memcpy(p + ITEM_HEAD + key.n, value.p, value.n);
    return p + ITEM_HEAD + key.n + value.n;
}

bool dvt_blob_next(const uint8_t **p, const uint8_t *end, struct dvt_blob_item *ret)
{
    const uint8_t *q = *p;
    if (q == end)
        return false;
    size_t value_n = (size_t)q[2] | (size_t)q[3] << 8;
    ret->kind = (enum dvt_blob_kind)q[0];
    ret->key = (struct dvt_str){(const char *)q + ITEM_HEAD, q[1]};
    ret->value = (struct dvt_str){ret->key.p + ret->key.n, value_n};
    *p = q + dvt_blob_bytes(ret->key.n, value_n);
    return true;
}

static uint32_t region_end(const struct dvt_slot *s, uint32_t i)
{
    uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    return i + 1 < depth ? s->frames[i + 1].arena_at : s->arena_top;
}

struct dvt_str dvt_arena_region(struct dvt_slot *s, uint32_t i)
{
    uint32_t at = s->frames[i].arena_at;
    return (struct dvt_str){(char *)dvt_slot_arena(s) + at, region_end(s, i) - at};
}

/* Replaces del bytes at `at` in frame i's region by ins bytes of room; false if there is none. */
static bool splice(struct dvt_slot *s, uint32_t i, uint32_t at, uint32_t del, uint32_t ins)
{
    uint32_t depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
    uint8_t *a = dvt_slot_arena(s);
    if (s->arena_top - del + ins > DVT_ARENA_BYTES)
        return false;
    memmove(a + at + ins, a + at + del, s->arena_top - at - del);
    for (uint32_t k = i + 1; k < depth; k++)
        s->frames[k].arena_at += ins - del;
    s->arena_top += ins - del;
    return true;
}

/* The handler copies regions: it must not see one in motion. It runs on this thread, so a compiler barrier
 * orders. */
static void set_busy(struct dvt_slot *s, uint32_t busy)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&s->busy, busy, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static void put(struct dvt_slot *s, uint32_t i, enum dvt_blob_kind kind, struct dvt_str key,
                struct dvt_str value)
{
    uint32_t at = region_end(s, i);
    if (splice(s, i, at, 0, (uint32_t)dvt_blob_bytes(key.n, value.n)))
        dvt_blob_put(dvt_slot_arena(s) + at, kind, key, value);
    else
        dvt_count(&s->n.labels_cut);
}

void dvt_arena_add(struct dvt_slot *s, uint32_t i, enum dvt_blob_kind kind, struct dvt_str key,
                   struct dvt_str value)
{
    set_busy(s, 1);
    put(s, i, kind, key, value);
    set_busy(s, 0);
}

/* Removes frame i's label `key` if it has it; returns how many labels are left. */
static uint32_t drop_label(struct dvt_slot *s, uint32_t i, struct dvt_str key)
{
    struct dvt_str region = dvt_arena_region(s, i);
    const uint8_t *base = dvt_slot_arena(s), *p = (const uint8_t *)region.p, *end = p + region.n, *from = p;
    struct dvt_blob_item item;
    uint32_t n = 0;
    while (dvt_blob_next(&p, end, &item)) {
        if (item.kind == DVT_BLOB_LABEL && dvt_str_eq(item.key, key)) {
            uint32_t bytes = (uint32_t)(p - from);
            splice(s, i, (uint32_t)(from - base), bytes, 0);
            end -= bytes;
            p = from;
            continue;
        }
        n += item.kind == DVT_BLOB_LABEL;
        from = p;
    }
    return n;
}

static struct dvt_str cut(struct dvt_slot *s, const char *z, size_t cap)
{
    size_t n = strnlen(z, cap + 4);
    if (n <= cap)
        return (struct dvt_str){z, n};
    dvt_count(&s->n.labels_cut);
    return (struct dvt_str){z, dvt_utf8_cut(z, n, cap)};
}

void dvt_arena_label(struct dvt_slot *s, uint32_t i, const char *key, const char *value)
{
    if (!key || !*key || !value)
        return;
    struct dvt_str k = cut(s, key, DVT_MAX_LABEL_KEY), v = cut(s, value, DVT_MAX_LABEL_VALUE);
    set_busy(s, 1);
    if (drop_label(s, i, k) < DVT_MAX_LABELS)
        put(s, i, DVT_BLOB_LABEL, k, v);
    else
        dvt_count(&s->n.labels_cut);
    set_busy(s, 0);
}

void dvt_arena_clear(struct dvt_slot *s, uint32_t i)
{
    struct dvt_str region = dvt_arena_region(s, i);
    if (region.n)
        splice(s, i, s->frames[i].arena_at, (uint32_t)region.n, 0);
}
