/*
 * wire_scopes_put: encodes SCOPES, one thread's batch of scopes in column form; PROTOCOL.md "SCOPES".
 *
 * One pass over the records spreads their fields into columns and numbers the distinct traces, names and
 * label sets; then each column is packed by itself. Called by a shim's sender thread, never on an
 * application's thread.
 */
#include "wire_cols.h"
#include "wire_intern.h"
#include "wire_scopes.h"

/* Shims keep one copy of a name: an address met before needs no look at the bytes. */
struct seen_name {
    const char *p;
    size_t n;
    uint32_t entry;
};
enum { N_SEEN = 64 };

/* All that one call works on, in the buffer's working memory. */
struct work {
    const struct dvt_scope_rec *v;
    size_t n;
    uint64_t *col[DVT_N_SCOPES_COLS]; /* [n] each */
    struct dvt_intern traces, names, labelsets;
    struct seen_name seen[N_SEEN];
    size_t n_with_links;
    bool has_parent_spans;
};

static int check(const struct dvt_scope_rec *v, size_t n)
{
    if (n > DVT_MAX_BATCH)
        return DVT_ELIMIT;
    for (size_t i = 0; i < n; i++) {
        if (v[i].n_labels > DVT_MAX_LABELS || v[i].n_links > DVT_MAX_LINKS)
            return DVT_ELIMIT;
        if (v[i].parent_serial && v[i].parent_serial >= v[i].serial)
            return DVT_EINVAL;
    }
    return 0;
}

static int work_init(struct work *w, struct dvt_buf *b, const struct dvt_scope_rec *v, size_t n)
{
    uint32_t n_slots = dvt_intern_slots(n);
    size_t cols_bytes = DVT_N_SCOPES_COLS * n * sizeof(uint64_t);
    char *p = dvt_buf_work(b, cols_bytes + 3 * (n_slots + n) * sizeof(uint32_t));
    if (!p)
        return DVT_ENOMEM;
    *w = (struct work){.v = v, .n = n};
    for (unsigned i = 0; i < DVT_N_SCOPES_COLS; i++)
        w->col[i] = (uint64_t *)p + i * n;
    uint32_t *u = (uint32_t *)(p + cols_bytes);
    memset(u, 0, 3 * n_slots * sizeof *u);
    struct dvt_intern *tables[] = {&w->traces, &w->names, &w->labelsets};
    for (size_t i = 0; i < 3; i++)
        *tables[i] = (struct dvt_intern){u + i * n_slots, u + 3 * n_slots + i * n, n_slots - 1, 0};
    return 0;
}

/* ---- what is the same ---- */

/* Ids as numbers: a call of memcmp for each would show in the profile. */
struct id128 {
    uint64_t a, b;
};

static inline struct id128 trace_number(const struct dvt_scope_rec *s)
{
    struct id128 id;
    memcpy(&id, &s->trace, sizeof id);
    return id;
}

static inline uint64_t parent_number(const struct dvt_scope_rec *s)
{
    uint64_t id;
    memcpy(&id, &s->parent_span, sizeof id);
    return id;
}

static bool same_trace(const void *records, uint32_t a, uint32_t b)
{
    const struct dvt_scope_rec *v = records;
    struct id128 x = trace_number(&v[a]), y = trace_number(&v[b]);
    return x.a == y.a && x.b == y.b;
}

static bool same_name(const void *records, uint32_t a, uint32_t b)
{
    const struct dvt_scope_rec *v = records;
    return dvt_str_eq(v[a].name, v[b].name);
}

static bool same_labels(const void *records, uint32_t a, uint32_t b)
{
    const struct dvt_scope_rec *x = (const struct dvt_scope_rec *)records + a;
    const struct dvt_scope_rec *y = (const struct dvt_scope_rec *)records + b;
    if (x->n_labels != y->n_labels)
        return false;
    if (x->labels == y->labels)
        return true;
    for (uint32_t i = 0; i < x->n_labels; i++)
        if (!dvt_str_eq(x->labels[i].key, y->labels[i].key) ||
            !dvt_str_eq(x->labels[i].value, y->labels[i].value))
            return false;
    return true;
}

static uint64_t hash_labels(const struct dvt_scope_rec *s)
{
    uint64_t h = s->n_labels;
    for (uint32_t i = 0; i < s->n_labels; i++) {
        h = dvt_intern_hash(h, s->labels[i].key.p, s->labels[i].key.n);
        h = dvt_intern_hash(h, s->labels[i].value.p, s->labels[i].value.n);
    }
    return h;
}

/* ---- spreading ---- */

static void spread_numbers(struct work *w, size_t i)
{
    const struct dvt_scope_rec *s = &w->v[i];
    w->col[DVT_COL_END][i] = s->end_ns;
    w->col[DVT_COL_DUR][i] = s->end_ns - s->start_ns;
    w->col[DVT_COL_HEAD_CLOSE][i] = s->head_close;
    w->col[DVT_COL_HEAD_SPAN][i] = s->head_close - s->head_open;
    w->col[DVT_COL_SERIAL][i] = s->serial;
    w->col[DVT_COL_PARENT_BACK][i] = s->parent_serial ? s->serial - s->parent_serial : 0;
    w->col[DVT_COL_FLAGS][i] = s->flags;
    w->n_with_links += s->n_links > 0;
    w->has_parent_spans |= parent_number(s) != 0;
}

/* Most scopes follow one of the same trace and labels: that is looked at before any hash. */

static uint64_t trace_entry(struct work *w, uint32_t i)
{
    struct id128 id = trace_number(&w->v[i]);
    if (i > 0 && same_trace(w->v, i - 1, i))
        return w->col[DVT_COL_TRACE][i - 1];
    return dvt_intern(&w->traces, dvt_intern_mix(dvt_intern_mix(0, id.a), id.b), i, w->v, same_trace);
}

static uint64_t name_entry(struct work *w, uint32_t i)
{
    struct dvt_str name = w->v[i].name;
    uintptr_t address = (uintptr_t)name.p;
    struct seen_name *seen = &w->seen[(address >> 3 ^ address >> 9) % N_SEEN];
    if (seen->p == name.p && seen->n == name.n && i > 0)
        return seen->entry;
    uint32_t entry = dvt_intern(&w->names, dvt_intern_hash(0, name.p, name.n), i, w->v, same_name);
    *seen = (struct seen_name){name.p, name.n, entry};
    return entry;
}

static uint64_t labelset_entry(struct work *w, uint32_t i)
{
    const struct dvt_scope_rec *s = &w->v[i];
    if (i > 0 && s->n_labels == s[-1].n_labels && (s->n_labels == 0 || s->labels == s[-1].labels))
        return w->col[DVT_COL_LABELSET][i - 1];
    return dvt_intern(&w->labelsets, hash_labels(s), i, w->v, same_labels);
}

static void spread_references(struct work *w, uint32_t i)
{
    w->col[DVT_COL_TRACE][i] = trace_entry(w, i);
    w->col[DVT_COL_NAME][i] = name_entry(w, i);
    w->col[DVT_COL_LABELSET][i] = labelset_entry(w, i);
}

/* ---- packing ---- */

static void pack_ids(struct dvt_packer *k, const struct work *w)
{
    uint8_t *p;
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_SPANS);
    p = dvt_pack_bin_room(k, w->n * sizeof(struct dvt_span_id));
    for (size_t i = 0; p && i < w->n; i++)
        memcpy(p + i * sizeof(struct dvt_span_id), &w->v[i].span, sizeof(struct dvt_span_id));
    if (w->has_parent_spans) {
        msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_PARENT_SPANS);
        p = dvt_pack_bin_room(k, w->n * sizeof(struct dvt_span_id));
        for (size_t i = 0; p && i < w->n; i++)
            memcpy(p + i * sizeof(struct dvt_span_id), &w->v[i].parent_span, sizeof(struct dvt_span_id));
    }
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_TRACES);
    p = dvt_pack_bin_room(k, w->traces.n * sizeof(struct dvt_trace_id));
    for (uint32_t i = 0; p && i < w->traces.n; i++)
        memcpy(p + i * sizeof(struct dvt_trace_id), &w->v[w->traces.first[i]].trace,
               sizeof(struct dvt_trace_id));
}

static void pack_cut(struct dvt_packer *k, struct dvt_str s, size_t max)
{
    s.n = dvt_utf8_cut(s.p, s.n, max);
    dvt_pack_str(k, s);
}

static void pack_names(struct dvt_packer *k, const struct work *w)
{
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_NAMES);
    msgpack_pack_array(&k->pk, w->names.n);
    for (uint32_t i = 0; i < w->names.n; i++)
        pack_cut(k, w->v[w->names.first[i]].name, DVT_MAX_NAME);
}

static void pack_labelsets(struct dvt_packer *k, const struct work *w)
{
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_LABELSETS);
    msgpack_pack_array(&k->pk, w->labelsets.n);
    for (uint32_t i = 0; i < w->labelsets.n; i++) {
        const struct dvt_scope_rec *s = &w->v[w->labelsets.first[i]];
        msgpack_pack_array(&k->pk, 2 * (size_t)s->n_labels);
        for (uint32_t l = 0; l < s->n_labels; l++) {
            pack_cut(k, s->labels[l].key, DVT_MAX_LABEL_KEY);
            pack_cut(k, s->labels[l].value, DVT_MAX_LABEL_VALUE);
        }
    }
}

static void pack_links(struct dvt_packer *k, const struct work *w)
{
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_LINKS);
    msgpack_pack_array(&k->pk, w->n_with_links);
    for (size_t i = 0; i < w->n; i++) {
        if (w->v[i].n_links == 0)
            continue;
        msgpack_pack_array(&k->pk, 2);
        msgpack_pack_uint64(&k->pk, i);
        msgpack_pack_bin_with_body(&k->pk, w->v[i].links, w->v[i].n_links * sizeof(struct dvt_trace_id));
    }
}

static void pack_cols(struct dvt_packer *k, const struct work *w)
{
    for (unsigned i = 0; i < DVT_N_SCOPES_COLS; i++) {
        bool rises = i == DVT_COL_END || i == DVT_COL_HEAD_CLOSE || i == DVT_COL_SERIAL;
        msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_COLS + i);
        dvt_col_pack(k, w->col[i], w->n, rises ? DVT_COL_RISING : DVT_COL_SMALL, 0);
    }
}

int dvt_wire_put_scopes(struct dvt_buf *b, uint32_t tid, uint32_t epoch, uint64_t settled_head,
                        uint64_t settled_ns, const struct dvt_scope_rec *v, size_t n)
{
    struct work w;
    struct dvt_packer k;
    int rc = check(v, n);
    if (!rc)
        rc = work_init(&w, b, v, n);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        spread_numbers(&w, i);
        spread_references(&w, (uint32_t)i);
    }
    dvt_pack_begin(&k, b);
    unsigned n_pairs = DVT_SCOPES_ALWAYS_PAIRS + (unsigned)w.has_parent_spans + (w.n_with_links > 0);
    dvt_pack_message(&k, DVT_MSG_SCOPES, n_pairs);
    dvt_pack_key_uint(&k, DVT_SCOPES_TID, tid);
    dvt_pack_key_uint(&k, DVT_SCOPES_EPOCH, epoch);
    dvt_pack_key_uint(&k, DVT_SCOPES_N, n);
    dvt_pack_key_uint(&k, DVT_SCOPES_SETTLED_HEAD, settled_head);
    dvt_pack_key_uint(&k, DVT_SCOPES_SETTLED_NS, settled_ns);
    pack_ids(&k, &w);
    pack_names(&k, &w);
    pack_labelsets(&k, &w);
    if (w.n_with_links > 0)
        pack_links(&k, &w);
    pack_cols(&k, &w);
    return dvt_pack_end(&k);
}
