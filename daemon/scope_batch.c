/*
 * scope_batch: see scope_batch.h. The loops over columns are kept apart and free of branches so that
 * compilers vectorise them.
 */
#include "scope_batch.h"

#include <stdlib.h>

void scope_batch_init(struct scope_batch *b)
{
    *b = (struct scope_batch){0};
}

void scope_batch_fini(struct scope_batch *b)
{
    free(b->open);
    free(b->keep);
    free(b->names);
    free(b->labels);
    free(b->first_label);
    free(b->links);
    free(b->n_links);
    scope_batch_init(b);
}

/* old if it holds n elements (at least one), else a larger block without its content; NULL without memory. */
static void *fit(void *old, uint32_t *cap, uint32_t n, size_t size)
{
    if (n <= *cap && *cap)
        return old;
    free(old);
    void *p = malloc((n ? n : 1) * size);
    *cap = !p ? 0 : n ? n : 1;
    return p;
}

/* Two blocks: eight columns of 64 bits, five of 32. */
static int fit_columns(struct scope_batch *b, uint32_t n)
{
    uint32_t cap = b->cap, cap32 = b->cap;
    n = n < 4096 ? 4096 : n;
    b->open = fit(b->open, &cap, n, 8 * sizeof *b->open);
    b->keep = fit(b->keep, &cap32, n, 5 * sizeof *b->keep);
    b->cap = cap < cap32 ? cap : cap32;
    if (!b->cap) {
        free(b->open);
        free(b->keep);
        b->open = NULL;
        b->keep = NULL;
        return DVT_ENOMEM;
    }
    n = b->cap;
    b->close = b->open + n, b->start = b->close + n, b->end = b->start + n, b->serial = b->end + n;
    b->parent_serial = b->serial + n, b->spans = (struct dvt_span_id *)(b->parent_serial + n);
    b->parent_spans = b->spans + n;
    b->flags = b->keep + n, b->trace = b->flags + n, b->name = b->trace + n, b->labelset = b->name + n;
    return 0;
}

bool scope_batch_is_bad(const struct scope_batch *b, uint32_t i)
{
    return (b->start[i] > b->end[i]) | (b->end[i] > b->future_ns) | (b->open[i] > b->close[i]) |
           (b->serial[i] == 0);
}

/* from_end holds durations or spans when it begins. A duration above the end wraps to a start above the
 * end. */
static void subtract(uint64_t *restrict from_end, const uint64_t *restrict end, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        from_end[i] = end[i] - from_end[i];
}

static void survey_heads(struct scope_batch *b)
{
    uint64_t min_open = UINT64_MAX, max_close = 0, last = 0;
    uint32_t falls = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t close = b->close[i], open = close - b->open[i]; /* there was its span */
        b->open[i] = open;
        falls |= close < last;
        last = close;
        min_open = open < min_open ? open : min_open;
        max_close = close > max_close ? close : max_close;
    }
    b->is_sorted = !falls;
    b->min_open = min_open;
    b->max_close = max_close;
}

static void survey_flags(struct scope_batch *b)
{
    const struct dvt_col *c = &b->msg->flags;
    b->all_flags = b->n ? (uint32_t)c->base : 0;
    if (c->width == 0 && c->n_patches == 0)
        return; /* all the same */
    dvt_col_expand_u32(c, b->flags);
    for (uint32_t i = 0; i < b->n; i++)
        b->all_flags |= b->flags[i];
}

int scope_batch_load(struct scope_batch *b, const struct dvt_scopes *msg, uint64_t now_ns)
{
    if (fit_columns(b, msg->n))
        return DVT_ENOMEM;
    b->msg = msg;
    b->n = msg->n;
    b->future_ns = now_ns + SCOPE_BATCH_FUTURE_NS;
    dvt_col_expand_u64(&msg->head_close, b->close);
    dvt_col_expand_u64(&msg->head_span, b->open);
    survey_heads(b);
    survey_flags(b);
    return 0;
}

void scope_batch_rows(struct scope_batch *b)
{
    dvt_col_expand_u64(&b->msg->end, b->end);
    dvt_col_expand_u64(&b->msg->dur, b->start);
    dvt_col_expand_u64(&b->msg->serial, b->serial);
    dvt_col_expand_u32(&b->msg->flags, b->flags);
    subtract(b->start, b->end, b->n);
}

static int load_links(struct scope_batch *b)
{
    uint32_t cap = b->cap_links, row, n_ids;
    const uint8_t *ids;
    if (!b->msg->links_raw.n)
        return 0;
    b->links = fit(b->links, &cap, b->n, sizeof(*b->links));
    b->n_links = fit(b->n_links, &b->cap_links, b->n, sizeof *b->n_links);
    b->cap_links = cap < b->cap_links ? cap : b->cap_links;
    if (!b->cap_links)
        return DVT_ENOMEM;
    memset(b->n_links, 0, b->n * sizeof *b->n_links);
    for (size_t pos = 0; dvt_wire_next_links(b->msg, &pos, &row, &ids, &n_ids) > 0;) {
        if (row >= b->n)
            return DVT_EFORMAT;
        b->links[row] = ids;
        b->n_links[row] = n_ids > DVT_MAX_LINKS ? DVT_MAX_LINKS : n_ids;
    }
    return 0;
}

static int load_labels(struct scope_batch *b)
{
    const struct dvt_scopes *m = b->msg;
    b->first_label = fit(b->first_label, &b->cap_sets, m->n_labelsets + 1, sizeof *b->first_label);
    if (!b->first_label)
        return DVT_ENOMEM;
    b->first_label[0] = 0;
    b->labels = fit(b->labels, &b->cap_labels, m->n_labels, sizeof *b->labels);
    if (!b->labels)
        return DVT_ENOMEM;
    return dvt_wire_labelsets(m, b->labels, m->n_labels, b->first_label);
}

int scope_batch_details(struct scope_batch *b)
{
    const struct dvt_scopes *m = b->msg;
    b->names = fit(b->names, &b->cap_names, m->n_names, sizeof *b->names);
    if (!b->names)
        return DVT_ENOMEM;
    if (m->n_names && dvt_wire_names(m, b->names))
        return DVT_EFORMAT;
    if (dvt_wire_parents(m, b->serial, b->trace, b->spans, b->parent_spans, b->parent_serial))
        return DVT_EFORMAT;
    dvt_col_expand_u32(&m->trace, b->trace);
    dvt_col_expand_u32(&m->name, b->name);
    dvt_col_expand_u32(&m->labelset, b->labelset);
    int rc = load_labels(b);
    return rc ? rc : load_links(b);
}

static void rec_labels(const struct scope_batch *b, uint32_t i, struct dvt_scope_rec *ret)
{
    uint32_t set = b->labelset[i];
    if (set >= b->msg->n_labelsets)
        return;
    uint32_t first = b->first_label[set], n = b->first_label[set + 1] - first;
    ret->labels = b->labels + first;
    ret->n_labels = n > DVT_MAX_LABELS ? DVT_MAX_LABELS : n;
}

static void rec_links(struct scope_batch *b, uint32_t i, struct dvt_scope_rec *ret)
{
    if (!b->msg->links_raw.n || !b->n_links[i])
        return;
    memcpy(b->link_ids, b->links[i], b->n_links[i] * sizeof *b->link_ids);
    ret->links = b->link_ids;
    ret->n_links = b->n_links[i];
}

bool scope_batch_rec(struct scope_batch *b, uint32_t i, struct dvt_scope_rec *ret)
{
    const struct dvt_scopes *m = b->msg;
    if (b->trace[i] >= m->n_traces || b->name[i] >= m->n_names || b->parent_serial[i] >= b->serial[i])
        return false;
    *ret = (struct dvt_scope_rec){
        .serial = b->serial[i],
        .parent_serial = b->parent_serial[i],
        .start_ns = b->start[i],
        .end_ns = b->end[i],
        .head_open = b->open[i],
        .head_close = b->close[i],
        .span = b->spans[i],
        .parent_span = b->parent_spans[i],
        .name = b->names[b->name[i]],
        .flags = b->flags[i],
    };
    memcpy(ret->trace.b, m->traces + 16 * (size_t)b->trace[i], 16);
    rec_labels(b, i, ret);
    rec_links(b, i, ret);
    return !dvt_trace_id_is_zero(&ret->trace);
}
