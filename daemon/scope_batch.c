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
    free(b->close);
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

enum { N_COLUMNS64 = 10, N_COLUMNS32 = 6, LEAST_CAP = 4096, APART = 40 };

/* Columns lie a bit more than their capacity apart: at a power of two they would compete for the same few
 * lines of the cache. */
static void place_columns(struct scope_batch *b)
{
    size_t n = b->cap + APART;
    uint64_t *at = b->close;
    uint64_t **const columns64[] = {&b->head_span, &b->grown_open, &b->grown_close, &b->dur,
                                    &b->end,       &b->serial,     &b->parent_serial};
    uint32_t **const columns32[] = {&b->grown, &b->flags, &b->trace, &b->name, &b->labelset};
    for (size_t i = 0; i < sizeof columns64 / sizeof(*columns64); i++)
        *columns64[i] = at += n;
    b->spans = (struct dvt_span_id *)(at += n);
    b->parent_spans = (struct dvt_span_id *)(at + n);
    for (size_t i = 0; i < sizeof columns32 / sizeof(*columns32); i++)
        *columns32[i] = b->keep + (i + 1) * n;
}

/* Two blocks, one for each width. */
static int fit_columns(struct scope_batch *b, uint32_t n)
{
    if (b->cap && n <= b->cap)
        return 0;
    free(b->close);
    free(b->keep);
    n = n < LEAST_CAP ? LEAST_CAP : n;
    b->close = malloc(N_COLUMNS64 * (n + (size_t)APART) * sizeof *b->close);
    b->keep = malloc(N_COLUMNS32 * (n + (size_t)APART) * sizeof *b->keep);
    b->cap = b->close && b->keep ? n : 0;
    if (b->cap)
        place_columns(b);
    return b->cap ? 0 : DVT_ENOMEM;
}

/* Always written, so that there is no branch to mispredict: the last may be one too many, for which
 * there is room. */
static void find_grown(struct scope_batch *b)
{
    const uint64_t *span = b->head_span;
    uint32_t *grown = b->grown, n = b->n, n_grown = 0;
    for (uint32_t i = 0; i < n; i++) {
        grown[n_grown] = i;
        n_grown += span[i] != 0;
    }
    b->n_grown = n_grown;
}

static void load_grown(struct scope_batch *b)
{
    const uint64_t *all_close = b->close, *span = b->head_span;
    uint64_t *grown_open = b->grown_open, *grown_close = b->grown_close;
    uint64_t min_open = UINT64_MAX, max_close = 0, last = 0;
    bool falls = false, wraps = false;
    for (uint32_t k = 0, n = b->n_grown; k < n; k++) {
        uint32_t i = b->grown[k];
        uint64_t close = all_close[i], open = close - span[i];
        grown_open[k] = open, grown_close[k] = close;
        falls |= close < last;
        wraps |= open > close;
        last = close;
        min_open = open < min_open ? open : min_open;
        max_close = close > max_close ? close : max_close;
    }
    b->is_sorted = !falls;
    b->is_sane = !wraps;
    b->min_open = min_open;
    b->max_close = max_close;
}

int scope_batch_load(struct scope_batch *b, const struct dvt_scopes *msg, uint64_t now_ns)
{
    if (fit_columns(b, msg->n))
        return DVT_ENOMEM;
    b->msg = msg;
    b->n = msg->n;
    b->future_ns = now_ns + SCOPE_BATCH_FUTURE_NS;
    dvt_col_expand_u64(&msg->head_close, b->close);
    dvt_col_expand_u64(&msg->head_span, b->head_span);
    find_grown(b);
    load_grown(b);
    b->all_flags = (uint32_t)dvt_col_bits(&msg->flags);
    return 0;
}

void scope_batch_flags(struct scope_batch *b)
{
    dvt_col_expand_u32(&b->msg->flags, b->flags);
}

static bool times_are_sane(const struct scope_batch *b)
{
    uint64_t first_end, last_end, shortest, longest;
    return dvt_col_range(&b->msg->end, &first_end, &last_end) && dvt_col_range(&b->msg->dur, &shortest, &longest) &&
           last_end <= b->future_ns && longest <= first_end;
}

static void load_times(struct scope_batch *b)
{
    dvt_col_expand_u64(&b->msg->end, b->end);
    dvt_col_expand_u64(&b->msg->dur, b->dur);
}

void scope_batch_serials(struct scope_batch *b)
{
    dvt_col_expand_u64(&b->msg->serial, b->serial);
    b->is_sane = b->is_sane && times_are_sane(b);
    if (!b->is_sane)
        load_times(b);
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
    if (b->is_sane)
        load_times(b); /* the others have them already */
    if (m->n_names && dvt_wire_names(m, b->names))
        return DVT_EFORMAT;
    if (dvt_wire_parents(m, b->serial, b->trace, b->spans, b->parent_spans, b->parent_serial))
        return DVT_EFORMAT;
    scope_batch_flags(b);
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
        .start_ns = b->end[i] - b->dur[i],
        .end_ns = b->end[i],
        .head_open = scope_batch_open(b, i),
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
