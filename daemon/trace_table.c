/*
 * trace_table: see trace_table.h.
 */
#include "trace_table.h"

#include <stdlib.h>

static uint64_t hash_id(const struct dvt_trace_id *id)
{
    uint64_t w[2];
    memcpy(w, id->b, sizeof w);
    return ptrmap_hash(w[0], w[1]);
}

static bool entry_eq(const void *value, const void *key)
{
    return memcmp(&((const struct trace_entry *)value)->id, key, sizeof(struct dvt_trace_id)) == 0;
}

static bool memory_eq(const void *value, const void *key)
{
    return memcmp(&((const struct trace_memory *)value)->id, key, sizeof(struct dvt_trace_id)) == 0;
}

void trace_table_init(struct trace_table *t)
{
    *t = (struct trace_table){.next_due_ns = UINT64_MAX};
}

void trace_table_fini(struct trace_table *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        trace_build_free(t->all[i]->build);
        free(t->all[i]);
    }
    free(t->all);
    free(t->memory);
    ptrmap_fini(&t->map);
    ptrmap_fini(&t->memory_map);
    trace_table_init(t);
}

struct trace_entry *trace_table_find(const struct trace_table *t, const struct dvt_trace_id *id)
{
    return ptrmap_get(&t->map, hash_id(id), id, entry_eq);
}

static int list_entry(struct trace_table *t, struct trace_entry *e)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        struct trace_entry **v = realloc(t->all, cap * sizeof(*v));
        if (!v)
            return DVT_ENOMEM;
        t->all = v;
        t->cap = cap;
    }
    e->place = t->n;
    t->all[t->n++] = e;
    return 0;
}

struct trace_entry *trace_table_enter(struct trace_table *t, const struct dvt_trace_id *id, uint64_t now_ns)
{
    uint64_t hash = hash_id(id);
    struct trace_entry *e = ptrmap_get(&t->map, hash, id, entry_eq);
    if (e)
        return e;
    e = calloc(1, sizeof *e);
    if (!e || ptrmap_add(&t->map, hash, e)) {
        free(e);
        return NULL;
    }
    if (list_entry(t, e)) {
        ptrmap_remove(&t->map, hash, e);
        free(e);
        return NULL;
    }
    const struct trace_memory *before = ptrmap_get(&t->memory_map, hash, id, memory_eq);
    e->id = *id;
    e->hash = hash;
    e->part = before ? before->next_part : 0;
    e->news_ns = e->part_ns = now_ns;
    return e;
}

struct trace_build *trace_entry_build(struct trace_entry *e, uint64_t now_ns)
{
    if (e->build)
        return e->build;
    e->build = trace_build_new(&e->id, e->part);
    if (!e->n_open)
        e->part_ns = now_ns;
    return e->build;
}

/* Without memory the next part counts from 0 again: two parts of one number beat a trace refused. */
static void remember(struct trace_table *t, const struct trace_entry *e)
{
    if (!t->memory)
        t->memory = calloc(TRACE_TABLE_REMEMBERED, sizeof *t->memory);
    if (!t->memory)
        return;
    struct trace_memory *m = ptrmap_get(&t->memory_map, e->hash, &e->id, memory_eq);
    if (m) {
        m->next_part = e->part;
        return;
    }
    m = &t->memory[t->memory_at++ % TRACE_TABLE_REMEMBERED];
    ptrmap_remove(&t->memory_map, m->hash, m);
    *m = (struct trace_memory){e->id, e->part, e->hash};
    if (ptrmap_add(&t->memory_map, m->hash, m))
        *m = (struct trace_memory){0};
}

void trace_table_remove(struct trace_table *t, struct trace_entry *e)
{
    if (e->part)
        remember(t, e);
    ptrmap_remove(&t->map, e->hash, e);
    t->all[e->place] = t->all[--t->n];
    t->all[e->place]->place = e->place;
    trace_build_free(e->build);
    free(e);
}

static bool root_ended(const struct trace_entry *e)
{
    return e->build && e->n_roots && !e->n_open_roots;
}

enum trace_due trace_entry_due(const struct trace_entry *e, const struct trace_rules *r, uint64_t now_ns)
{
    if (root_ended(e) && now_ns >= e->news_ns + r->root_grace_ns)
        return TRACE_DUE_ROOT;
    if (!e->n_open && now_ns >= e->news_ns + r->idle_close_ns)
        return TRACE_DUE_IDLE;
    if ((e->build || e->n_open) && now_ns >= e->part_ns + r->part_cap_ns)
        return TRACE_DUE_PART;
    return TRACE_OPEN;
}

uint64_t trace_entry_next(const struct trace_entry *e, const struct trace_rules *r)
{
    uint64_t at = UINT64_MAX;
    if (e->build || e->n_open)
        at = e->part_ns + r->part_cap_ns;
    if (!e->n_open && e->news_ns + r->idle_close_ns < at)
        at = e->news_ns + r->idle_close_ns;
    if (root_ended(e) && e->news_ns + r->root_grace_ns < at)
        at = e->news_ns + r->root_grace_ns;
    return at;
}
