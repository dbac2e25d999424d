/*
 * jfr_write: buffer growth, chunk header and metadata event. See jfr_write.h.
 *
 * The metadata event holds a string table and a tree of elements (root, metadata, class, field, annotation)
 * whose names and attributes are indexes into it. It is made anew for each chunk from the schema table;
 * strings are kept unique by a small hash table on the stack.
 */
#include "jfr_write.h"

#include <stdio.h>
#include <stdlib.h>
#include "err.h"
#include "jfr_schema.h"

void dvt_jfr_open(struct jfr_w *w, struct dvt_buf *b)
{
    *w = (struct jfr_w){.b = b};
    if (b->p) {
        w->p = b->p + b->n;
        w->end = b->p + b->cap;
    }
}

void dvt_jfr_close(struct jfr_w *w)
{
    if (w->b->p)
        w->b->n = jfr_at(w);
}

bool dvt_jfr_grow(struct jfr_w *w, size_t n)
{
    size_t used = w->b->p ? jfr_at(w) : 0, cap = w->b->cap ? w->b->cap : 4096;
    if (w->rc || used > w->b->max || n > w->b->max - used) {
        w->rc = w->rc ? w->rc : DVT_ELIMIT;
        return false;
    }
    while (cap < used + n)
        cap *= 2;
    uint8_t *p = realloc(w->b->p, cap);
    if (!p) {
        w->rc = DVT_ENOMEM;
        return false;
    }
    w->b->p = p;
    w->b->cap = cap;
    w->p = p + used;
    w->end = p + (cap < w->b->max ? cap : w->b->max);
    return true;
}

void dvt_jfr_padded(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < JFR_SIZE_PADDED - 1; i++, v >>= 7)
        p[i] = (uint8_t)(v | 0x80);
    p[JFR_SIZE_PADDED - 1] = (uint8_t)v;
}

size_t dvt_jfr_big_begin(struct jfr_w *w, uint32_t type)
{
    if (!jfr_room(w, 64))
        return 0;
    size_t at = jfr_at(w);
    w->p += JFR_SIZE_PADDED;
    jfr_put(w, type);
    return at;
}

void dvt_jfr_big_end(struct jfr_w *w, size_t at)
{
    if (!w->rc)
        dvt_jfr_padded(w->b->p + at, (uint32_t)(jfr_at(w) - at));
}

static void be(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = bytes; i-- > 0; v >>= 8)
        p[i] = (uint8_t)v;
}

void dvt_jfr_header(uint8_t out[JFR_HEADER_BYTES], const struct jfr_header *h)
{
    memset(out, 0, JFR_HEADER_BYTES);
    memcpy(out, "FLR", 3);
    be(out + 4, 2, 2);
    be(out + 8, h->bytes, 8);
    be(out + 16, h->checkpoint, 8);
    be(out + 24, h->metadata, 8);
    be(out + 32, (uint64_t)h->start_unix_ns, 8);
    be(out + 40, h->duration_ns, 8);
    be(out + 48, h->start_ticks, 8);
    be(out + 56, 1000000000, 8); /* ticks per second */
    out[67] = 1;                 /* compressed integers; byte 64 stays 0: finished */
}

/* ---- metadata ---- */

enum { META_STRINGS = 192, META_SLOTS = 512, META_ID_BYTES = 4 };

struct meta {
    struct jfr_w *w;
    const char *strings[META_STRINGS];
    uint32_t n;
    uint16_t slots[META_SLOTS]; /* index + 1 */
    char ids[128][META_ID_BYTES];
};

static uint32_t string_index(struct meta *m, const char *s)
{
    uint32_t h = 2166136261u;
    for (const char *p = s; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    for (;; h++) {
        uint16_t *slot = &m->slots[h % META_SLOTS];
        if (!*slot) {
            m->strings[m->n++] = s;
            *slot = (uint16_t)m->n;
        }
        if (strcmp(m->strings[*slot - 1], s) == 0)
            return *slot - 1u;
    }
}

static const char *id_text(struct meta *m, uint32_t id)
{
    snprintf(m->ids[id], META_ID_BYTES, "%u", id & 127);
    return m->ids[id];
}

/* Element trees are small: each put below needs a few bytes, covered by the 64 reserved per element. */
static bool element(struct meta *m, const char *name, uint32_t n_attributes)
{
    if (!jfr_room(m->w, 64))
        return false;
    jfr_put(m->w, string_index(m, name));
    jfr_put(m->w, n_attributes);
    return true;
}

static void attribute(struct meta *m, const char *key, const char *value)
{
    jfr_put(m->w, string_index(m, key));
    jfr_put(m->w, string_index(m, value));
}

static void annotation(struct meta *m, uint32_t type, const char *value)
{
    if (!element(m, "annotation", value ? 2 : 1))
        return;
    attribute(m, "class", id_text(m, type));
    if (value)
        attribute(m, "value", value);
    jfr_put(m->w, 0);
}

static void field(struct meta *m, const struct jfr_field *f)
{
    uint32_t pool = f->flags & JFR_POOL ? 1u : 0u, array = f->flags & JFR_ARRAY ? 1u : 0u;
    uint32_t n = (f->flags & JFR_TICKS ? 1u : 0u) + (f->flags & JFR_SPAN_TICKS ? 1u : 0u) +
                 (f->flags & JFR_CONTEXT ? 1u : 0u);
    if (!element(m, "field", 2 + pool + array))
        return;
    attribute(m, "name", f->name);
    attribute(m, "class", id_text(m, f->type));
    if (pool)
        attribute(m, "constantPool", "true");
    if (array)
        attribute(m, "dimension", "1");
    jfr_put(m->w, n);
    if (f->flags & JFR_TICKS)
        annotation(m, JFR_TIMESTAMP, "TICKS");
    if (f->flags & JFR_SPAN_TICKS)
        annotation(m, JFR_TIMESPAN, "TICKS");
    if (f->flags & JFR_CONTEXT)
        annotation(m, JFR_CONTEXTUAL, NULL);
}

static void class(struct meta *m, const struct jfr_type *t)
{
    uint32_t n = 0;
    while (t->fields[n].name)
        n++;
    if (!element(m, "class", t->kind == JFR_PLAIN ? 2 : 3))
        return;
    attribute(m, "name", t->name);
    attribute(m, "id", id_text(m, t->id));
    if (t->kind == JFR_SIMPLE)
        attribute(m, "simpleType", "true");
    if (t->kind == JFR_EVENT)
        attribute(m, "superType", "jdk.jfr.Event");
    if (t->kind == JFR_ANNOTATION)
        attribute(m, "superType", "java.lang.annotation.Annotation");
    jfr_put(m->w, n);
    for (uint32_t i = 0; i < n; i++)
        field(m, &t->fields[i]);
}

static bool is_of_wall(const struct jfr_type *t)
{
    return t->id == JFR_DVT_SCOPE_TIME;
}

static size_t count_types(bool with_wall)
{
    size_t n = 0;
    for (size_t i = 0; i < dvt_jfr_n_types; i++)
        n += with_wall || !is_of_wall(&dvt_jfr_types[i]);
    return n;
}

static void tree(struct meta *m, bool with_wall)
{
    if (!element(m, "root", 0))
        return;
    jfr_put(m->w, 2);
    if (!element(m, "metadata", 0))
        return;
    jfr_put(m->w, count_types(with_wall));
    for (size_t i = 0; i < dvt_jfr_n_types; i++)
        if (with_wall || !is_of_wall(&dvt_jfr_types[i]))
            class(m, &dvt_jfr_types[i]);
    if (!element(m, "region", 2))
        return;
    attribute(m, "locale", "en_US");
    attribute(m, "gmtOffset", "0");
    jfr_put(m->w, 0);
}

static void string_table(struct meta *m, struct jfr_w *w)
{
    if (!jfr_room(w, JFR_VARINT_MAX))
        return;
    jfr_put(w, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        struct dvt_str s = dvt_str(m->strings[i]);
        if (!jfr_room(w, s.n + 16))
            return;
        jfr_put_utf8(w, s);
    }
}

/* The strings come before the tree that collects them, so the tree is built aside first. */
void dvt_jfr_metadata(struct jfr_w *w, bool with_wall)
{
    struct dvt_buf aside = {.max = 1 << 16};
    struct jfr_w tw;
    dvt_jfr_open(&tw, &aside);
    struct meta m = {.w = &tw};
    tree(&m, with_wall);
    dvt_jfr_close(&tw);
    if (tw.rc)
        w->rc = w->rc ? w->rc : tw.rc;
    size_t at = dvt_jfr_big_begin(w, JFR_METADATA);
    if (!w->rc) {
        jfr_put(w, 0); /* start ticks */
        jfr_put(w, 0); /* duration */
        jfr_put(w, with_wall ? JFR_METADATA_WALL_ID : JFR_METADATA_ID);
        string_table(&m, w);
    }
    if (!w->rc && jfr_room(w, aside.n)) {
        memcpy(w->p, aside.p, aside.n);
        w->p += aside.n;
    }
    dvt_jfr_big_end(w, at);
    free(aside.p);
}
