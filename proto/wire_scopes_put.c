/*
 * wire_scopes_put: encodes SCOPES, one thread's batch of scopes in column form; PROTOCOL.md "SCOPES".
 *
 * wire_scopes_spread.c has spread the records into columns and numbered the distinct traces, names and
 * label sets; here each is packed by itself. Called by a shim's sender thread, never on an application's
 * thread.
 */
#include "wire_scopes.h"

static void pack_span_ids(struct dvt_packer *k, enum dvt_scopes_key key, const uint64_t *ids, size_t n)
{
    msgpack_pack_unsigned_int(&k->pk, key);
    msgpack_pack_bin_with_body(&k->pk, ids, n * sizeof *ids);
}

static void pack_ids(struct dvt_packer *k, const struct dvt_scopes_work *w)
{
    pack_span_ids(k, DVT_SCOPES_SPANS, w->spans, w->n_spans);
    if (w->n_parent_spans)
        pack_span_ids(k, DVT_SCOPES_PARENT_SPANS, w->parent_spans + w->n - w->n_parent_spans,
                      w->n_parent_spans);
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_TRACES);
    uint8_t *p = dvt_pack_bin_room(k, w->traces.n * sizeof(struct dvt_trace_id));
    for (uint32_t i = 0; p && i < w->traces.n; i++)
        memcpy(p + i * sizeof(struct dvt_trace_id), &w->v[w->traces.first[i]].trace,
               sizeof(struct dvt_trace_id));
}

static void pack_cut(struct dvt_packer *k, struct dvt_str s, size_t max)
{
    s.n = dvt_utf8_cut(s.p, s.n, max);
    dvt_pack_str(k, s);
}

static void pack_names(struct dvt_packer *k, const struct dvt_scopes_work *w)
{
    msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_NAMES);
    msgpack_pack_array(&k->pk, w->names.n);
    for (uint32_t i = 0; i < w->names.n; i++)
        pack_cut(k, w->v[w->names.first[i]].name, DVT_MAX_NAME);
}

static void pack_labelsets(struct dvt_packer *k, const struct dvt_scopes_work *w)
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

static void pack_links(struct dvt_packer *k, const struct dvt_scopes_work *w)
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

/* The indexes of traces and label sets seldom change from one scope to the next: steps up, where that is
 * shorter. */
static void prefer_steps(struct dvt_parts *col, const struct dvt_intern *table, size_t n)
{
    uint32_t *x = col->x, bits = 0;
    if (table->falls || table->n_steps >= n / 8)
        return;
    for (size_t i = n; i-- > 1;)
        bits |= x[i] -= x[i - 1];
    col->kind = DVT_COL_DELTA;
    col->bits = bits; /* the first index is 0 */
}

static void pack_cols(struct dvt_packer *k, struct dvt_scopes_work *w)
{
    prefer_steps(&w->cols[DVT_COL_TRACE], &w->traces, w->n);
    prefer_steps(&w->cols[DVT_COL_LABELSET], &w->labelsets, w->n);
    for (enum dvt_scopes_col i = 0; i < DVT_N_SCOPES_COLS; i++) {
        if (i == DVT_COL_SPAN && !w->spans_repeat)
            continue;
        msgpack_pack_unsigned_int(&k->pk, DVT_SCOPES_COLS + i);
        if (w->cols[i].bits <= UINT32_MAX) {
            dvt_col_pack_parts(k, &w->cols[i], w->n);
            continue;
        }
        bool steps = i == DVT_COL_END || i == DVT_COL_HEAD_CLOSE || i == DVT_COL_SERIAL;
        dvt_scopes_widen(w, i);
        dvt_col_pack(k, w->wide, w->n, steps ? DVT_COL_RISING : DVT_COL_SMALL, 0);
    }
}

int dvt_wire_put_scopes(struct dvt_buf *b, uint32_t tid, uint32_t epoch, uint64_t settled_head,
                        uint64_t settled_ns, const struct dvt_scope_rec *v, size_t n)
{
    struct dvt_scopes_work w;
    struct dvt_packer k;
    int rc = dvt_scopes_spread(&w, b, v, n);
    if (rc)
        return rc;
    dvt_pack_begin(&k, b);
    unsigned n_pairs = DVT_SCOPES_ALWAYS_PAIRS + (unsigned)w.spans_repeat + (w.n_parent_spans > 0) +
                       (w.n_with_links > 0);
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
