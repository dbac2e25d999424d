/*
 * chunk_enc_pools: the constant pools of a chunk, in one checkpoint. The key of entry i is the key base + i
 * in every pool.
 */
#include "chunk_enc.h"

#include "jfr_schema.h"
#include "limits.h"

static bool pool_begin(struct enc *e, uint32_t type, uint32_t n)
{
    if (!jfr_room(&e->w, 2 * JFR_VARINT_MAX))
        return false;
    put(e, type);
    put(e, n);
    return true;
}

static void put_enum(struct enc *e, uint32_t type, const char *const *names, uint32_t n)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++)
        known += names[i] != NULL;
    if (!pool_begin(e, type, known) || !jfr_room(&e->w, 32ul * n))
        return;
    for (uint32_t i = 0; i < n; i++)
        if (names[i]) {
            put(e, i);
            jfr_put_utf8(&e->w, dvt_str(names[i]));
        }
}

static void put_enums(struct enc *e)
{
    static const char *const frame_types[] = {
        [DVT_FRAME_MANAGED] = "Interpreted", [DVT_FRAME_JIT] = "JIT compiled",
        [DVT_FRAME_INLINED] = "Inlined",     [DVT_FRAME_NATIVE] = "Native",
        [DVT_FRAME_KERNEL] = "Kernel",       [DVT_FRAME_SPECIAL] = "Special"};
    static const char *const states[] = {[STATE_DEFAULT] = "STATE_DEFAULT"};
    put_enum(e, JFR_FRAME_TYPE, frame_types, sizeof frame_types / sizeof *frame_types);
    put_enum(e, JFR_THREAD_STATE, states, sizeof states / sizeof *states);
}

static void put_strings(struct enc *e, uint32_t type, const struct dvt_strings *t)
{
    if (!t->table.n || !pool_begin(e, type, t->table.n))
        return;
    for (uint32_t i = 0; i < t->table.n && jfr_room(&e->w, t->items[i].n + 3 * JFR_VARINT_MAX); i++) {
        put(e, key(e, i));
        jfr_put_utf8(&e->w, t->items[i]);
    }
}

static void put_threads(struct enc *e)
{
    char name[DVT_MAX_NAME + 1];
    if (!e->c->n_threads || !pool_begin(e, JFR_THREAD, e->c->n_threads))
        return;
    for (uint32_t i = 0; i < e->c->n_threads && jfr_room(&e->w, sizeof name + 8 * JFR_VARINT_MAX); i++) {
        const struct dvt_chunk_thread *t = &e->c->threads[i];
        put(e, key(e, i));
        jfr_put_utf8(&e->w,
                     (struct dvt_str){name, dvt_utf8_clean(t->name.p, t->name.n, true, name, sizeof name)});
        put(e, t->tid);
        jfr_put_byte(&e->w, 0); /* no Java name: readers fall back to the OS name */
        put(e, 0);
        put(e, t->process + 1ull);
    }
}

static void put_stacks(struct enc *e)
{
    const struct dvt_chunk *c = e->c;
    if (!c->n_stacks || !pool_begin(e, JFR_STACK_TRACE, c->n_stacks))
        return;
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const struct dvt_chunk_stack *s = &c->stacks[i];
        if (!jfr_room(&e->w, (s->n + 1ul) * 4 * JFR_VARINT_MAX))
            return;
        put(e, key(e, i));
        jfr_put_byte(&e->w, s->truncated);
        put(e, s->n);
        for (uint32_t k = 0; k < s->n; k++) {
            uint32_t f = c->stack_frames[s->first + k];
            put(e, key(e, e->frame_method[f]));
            put(e, c->frames[f].line);
            put(e, 0);
            put(e, c->frames[f].kind);
        }
    }
}

static void put_methods(struct enc *e)
{
    uint32_t n = e->methods.table.n;
    if (!n || !jfr_room(&e->w, (n + 1ul) * 6 * JFR_VARINT_MAX))
        return;
    pool_begin(e, JFR_METHOD, n);
    for (uint32_t i = 0; i < n; i++) {
        put(e, key(e, i));
        put(e, key(e, e->methods.items[i][0]));
        put(e, key(e, e->methods.items[i][1]));
        put(e, key(e, 0)); /* descriptor ()V */
        put(e, 0);
        put(e, 0);
    }
}

static void put_classes(struct enc *e)
{
    uint32_t n = e->classes.table.n;
    if (!n || !jfr_room(&e->w, (n + 1ul) * 7 * JFR_VARINT_MAX))
        return;
    pool_begin(e, JFR_CLASS, n);
    for (uint32_t i = 0; i < n; i++) {
        put(e, key(e, i));
        put(e, 0);
        put(e, key(e, e->classes.items[i][0]));
        put(e, 0);
        put(e, 0);
        put(e, key(e, e->classes.items[i][1]));
        put(e, key(e, e->classes.items[i][2]));
    }
}

void dvt_enc_pools(struct enc *e)
{
    size_t at = dvt_jfr_big_begin(&e->w, JFR_CHECKPOINT);
    if (e->w.rc)
        return;
    put(e, 0); /* ticks */
    put(e, 0); /* duration */
    put(e, 0); /* no checkpoint before it */
    jfr_put_byte(&e->w, 1);
    const struct dvt_chunk *c = e->c;
    put(e, 2u + (c->n_threads > 0) + (c->n_stacks > 0) + (e->methods.table.n > 0) + (e->classes.table.n > 0) +
               (e->symbols.table.n > 0) + (e->strings.table.n > 0));
    put_enums(e);
    put_threads(e);
    put_stacks(e);
    put_methods(e);
    put_classes(e);
    put_strings(e, JFR_SYMBOL, &e->symbols);
    put_strings(e, JFR_STRING, &e->strings);
    dvt_jfr_big_end(&e->w, at);
}
