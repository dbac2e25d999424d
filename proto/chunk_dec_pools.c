/*
 * chunk_dec_pools: the constant pools of a chunk -> tables of struct dec, in whatever order the pools stand.
 * Frames are kept by their keys, each combination once, and resolved when all pools are read.
 *
 * Refused: a pool that stands twice, one whose keys do not ascend by one from their first, a count that its
 * bytes cannot hold. A pool of a type we do not use is passed over.
 */
#include "chunk_dec.h"

#include <stdlib.h>
#include "chunk_check.h"

/* ---- constant pools ---- */

/* Index of a frame by its keys, which are resolved once all pools are read. Line and type are packed: line <<
 * 3 | type. */
static uint32_t frame_index(struct dec *d, uint64_t method, uint32_t line_type)
{
    uint64_t h = (method * 31 + line_type) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(h >> 40) % RECENT_FRAMES;
    if (d->recent[at].method == method && d->recent[at].line_type == line_type) /* no key is 0 */
        return d->recent[at].index;
    const uint32_t key[DVT_TUPLE] = {(uint32_t)method, (uint32_t)(method >> 32), line_type >> 3,
                                     line_type & 7};
    uint32_t i = dvt_tuples_put(&d->frames, key);
    d->recent[at].method = method;
    d->recent[at].line_type = line_type;
    d->recent[at].index = i;
    return i;
}

static void add_frame(struct dec *d, struct jfr_r *r, struct jfr_values *v)
{
    jfr_run(&d->meta, &d->plans[R_FRAME], r, v);
    uint64_t method = v->v[FRAME_METHOD], line = v->v[FRAME_LINE], type = v->v[FRAME_TYPE];
    if (r->bad || method == 0 || line > DVT_CHUNK_MAX_LINE || type > DVT_FRAME_SPECIAL) {
        jfr_fail(r);
        return;
    }
    uint32_t i = frame_index(d, method, (uint32_t)(line << 3 | type));
    if (i == UINT32_MAX) {
        d->rc = DVT_ENOMEM;
        jfr_fail(r);
        return;
    }
    d->stack_frames[d->n_stack_frames++] = i;
}

static void read_stack_frames(void *ctx, struct jfr_r *r)
{
    struct dec *d = ctx;
    uint64_t n = jfr_get(r);
    struct jfr_values v = {0};
    if (n > (uint64_t)(r->end - r->p)) { /* a frame takes at least one byte */
        jfr_fail(r);
        return;
    }
    if (d->n_stack_frames + n > d->cap_stack_frames) {
        uint64_t cap = (d->n_stack_frames + n) * 2;
        uint32_t *p = cap <= UINT32_MAX ? realloc(d->stack_frames, cap * sizeof *p) : NULL;
        if (!p) {
            d->rc = DVT_ENOMEM;
            jfr_fail(r);
            return;
        }
        d->stack_frames = p;
        d->cap_stack_frames = (uint32_t)cap;
    }
    for (uint64_t i = 0; i < n && !r->bad; i++)
        add_frame(d, r, &v);
}

static void read_entry(struct dec *d, uint32_t record, uint32_t i, struct jfr_r *r)
{
    struct jfr_values v = {0};
    uint32_t first = d->n_stack_frames;
    if (record == R_STRING) {
        d->strings[i] = dvt_jfr_get_string(r);
        return;
    }
    v.array = record == R_STACK ? read_stack_frames : NULL;
    v.ctx = d;
    jfr_run(&d->meta, &d->plans[record], r, &v);
    if (record == R_SYMBOL)
        d->symbols[i] = v.s[0].n ? v.s[0] : dvt_str("");
    else if (record == R_THREAD)
        d->threads[i] =
            (struct dvt_chunk_thread){(uint32_t)v.v[THREAD_PROCESS] - 1, (uint32_t)v.v[THREAD_TID],
                                      v.s[THREAD_NAME].n ? v.s[THREAD_NAME] : dvt_str("")};
    else if (record == R_CLASS)
        memcpy(d->classes[i], v.v, sizeof d->classes[i]);
    else if (record == R_METHOD)
        memcpy(d->methods[i], v.v, sizeof d->methods[i]);
    else if (record == R_STACK)
        d->stacks[i] = (struct dvt_chunk_stack){first, d->n_stack_frames - first, v.v[STACK_TRUNCATED] != 0};
}

static bool pool_alloc(struct dec *d, uint32_t record, uint64_t n)
{
    void **const tables[N_RECORDS] = {[R_SYMBOL] = (void **)&d->symbols,   [R_STRING] = (void **)&d->strings,
                                      [R_THREAD] = (void **)&d->threads,   [R_CLASS] = (void **)&d->classes,
                                      [R_METHOD] = (void **)&d->methods,   [R_STACK] = (void **)&d->stacks};
    static const size_t sizes[N_RECORDS] = {
        [R_SYMBOL] = sizeof(struct dvt_str), [R_STRING] = sizeof(struct dvt_str),
        [R_THREAD] = sizeof(struct dvt_chunk_thread), [R_CLASS] = sizeof(uint64_t[2]),
        [R_METHOD] = sizeof(uint64_t[2]), [R_STACK] = sizeof(struct dvt_chunk_stack)};
    *tables[record] = calloc(n + 1, sizes[record]);
    if (!*tables[record])
        d->rc = DVT_ENOMEM;
    return *tables[record] != NULL;
}

static void read_pool(struct dec *d, uint32_t record, struct jfr_r *r)
{
    struct pool *p = &d->pools[record];
    uint64_t n = jfr_get(r);
    if (p->is_read || n == 0 || n > (uint64_t)(r->end - r->p) / 2 || !pool_alloc(d, record, n)) {
        jfr_fail(r);
        return;
    }
    p->is_read = true;
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        uint64_t key = jfr_get(r);
        if (i == 0)
            p->base = key;
        if (key == 0 || key != p->base + i)
            jfr_fail(r);
        read_entry(d, record, i, r);
    }
    p->n = (uint32_t)n;
}

/* A pool of a type we do not use. */
static void skip_pool(struct dec *d, uint32_t type, struct jfr_r *r)
{
    struct jfr_plan plan;
    struct jfr_values v = {0};
    uint64_t n = jfr_get(r);
    if (!d->meta.types[type].n || dvt_jfr_plan(&d->meta, type, NULL, 0, &plan, NULL)) {
        jfr_fail(r);
        return;
    }
    for (uint64_t i = 0; i < n && !r->bad; i++) {
        jfr_get(r); /* key */
        jfr_run(&d->meta, &plan, r, &v);
    }
}

int dvt_dec_pools(struct dec *d, const uint8_t *p, size_t n)
{
    struct jfr_r r = {p, p + n, false};
    uint64_t size = jfr_get(&r);
    if (size <= n)
        r.end = p + size;
    if (size > n || jfr_get(&r) != 1)
        return dvt_dec_damaged(d, "checkpoint");
    jfr_get(&r);
    jfr_get(&r);
    if (jfr_get(&r) != 0) /* our writer makes one checkpoint */
        return dvt_dec_damaged(d, "checkpoint");
    jfr_get_byte(&r);
    uint64_t pools = jfr_get(&r);
    for (uint64_t i = 0; i < pools && !r.bad; i++) {
        uint64_t type = jfr_get(&r);
        uint32_t record = type < JFR_MAX_TYPES ? d->record_of[type] : R_OTHER;
        if (type >= JFR_MAX_TYPES || record < N_EVENTS || record == R_FRAME)
            jfr_fail(&r);
        else if (record == R_OTHER)
            skip_pool(d, (uint32_t)type, &r);
        else
            read_pool(d, record, &r);
    }
    return r.bad || r.p != r.end ? dvt_dec_damaged(d, "constant pools") : 0;
}
