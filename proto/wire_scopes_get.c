/*
 * wire_scopes_get: decodes SCOPES in place; PROTOCOL.md "SCOPES".
 *
 * Everything is checked here once, so that the loops over scopes need no checks: lengths of all columns,
 * index columns against their tables, every name and label against its bound. What stays for the reader are
 * values that cannot be wrong by themselves: times and ring offsets. Nothing is allocated.
 */
#include "wire_fields.h"
#include "wire_scopes.h"

struct scopes_msg {
    uint32_t tid, epoch, n;
    uint64_t settled_head, settled_ns;
    struct dvt_str spans, parent_spans, traces, names, labelsets, links;
    struct dvt_str end, dur, head_close, head_span, serial, parent_row, parent_back;
    struct dvt_str trace, name, labelset, flags, span;
};

#define COL(col, member)                                                                                     \
    DVT_ROW(struct scopes_msg, DVT_SCOPES_COLS + (uint32_t)col, BIN, member, (col) != DVT_COL_SPAN, 0)
static const struct dvt_field scopes_rows[] = {
    DVT_ROW(struct scopes_msg, DVT_SCOPES_TID, U32, tid, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_EPOCH, U32, epoch, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_N, U32, n, true, DVT_MAX_BATCH),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_SETTLED_HEAD, U64, settled_head, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_SETTLED_NS, U64, settled_ns, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_SPANS, BIN, spans, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_PARENT_SPANS, BIN, parent_spans, false, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_TRACES, BIN, traces, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_NAMES, RAW, names, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_LABELSETS, RAW, labelsets, true, 0),
    DVT_ROW(struct scopes_msg, DVT_SCOPES_LINKS, RAW, links, false, 0),
    COL(DVT_COL_END, end),
    COL(DVT_COL_DUR, dur),
    COL(DVT_COL_HEAD_CLOSE, head_close),
    COL(DVT_COL_HEAD_SPAN, head_span),
    COL(DVT_COL_SERIAL, serial),
    COL(DVT_COL_PARENT_ROW, parent_row),
    COL(DVT_COL_PARENT_BACK, parent_back),
    COL(DVT_COL_TRACE, trace),
    COL(DVT_COL_NAME, name),
    COL(DVT_COL_LABELSET, labelset),
    COL(DVT_COL_FLAGS, flags),
    COL(DVT_COL_SPAN, span),
};
static const struct dvt_fields scopes = DVT_FIELDS("SCOPES", struct scopes_msg, scopes_rows);

static int damaged(struct dvt_err *err, const char *what)
{
    return dvt_fail(err, DVT_EFORMAT, 0, "SCOPES message: %s", what);
}

/* ---- the tables ---- */

/* Counts an array of at most max strings, each of at most max_bytes. */
static bool read_strs(struct dvt_cur *c, uint64_t n, size_t max_bytes)
{
    struct dvt_str s;
    for (; n > 0; n--)
        if (!dvt_cur_str(c, &s) || s.n > max_bytes)
            return false;
    return true;
}

static bool check_names(struct dvt_str raw, uint32_t n, uint32_t *ret_n_names)
{
    struct dvt_cur c = dvt_cur(raw);
    uint64_t n_names;
    if (!dvt_cur_array(&c, &n_names) || n_names > n || !read_strs(&c, n_names, DVT_MAX_NAME))
        return false;
    *ret_n_names = (uint32_t)n_names;
    return true;
}

static bool check_labelset(struct dvt_cur *c, uint32_t *n_labels)
{
    uint64_t n;
    if (!dvt_cur_array(c, &n) || n % 2 != 0 || n > 2 * DVT_MAX_LABELS)
        return false;
    *n_labels += (uint32_t)n / 2;
    for (; n > 0; n -= 2)
        if (!read_strs(c, 1, DVT_MAX_LABEL_KEY) || !read_strs(c, 1, DVT_MAX_LABEL_VALUE))
            return false;
    return true;
}

static bool check_labelsets(struct dvt_str raw, uint32_t n, struct dvt_scopes *s)
{
    struct dvt_cur c = dvt_cur(raw);
    uint64_t n_sets;
    if (!dvt_cur_array(&c, &n_sets) || n_sets > n)
        return false;
    s->n_labelsets = (uint32_t)n_sets;
    for (; n_sets > 0; n_sets--)
        if (!check_labelset(&c, &s->n_labels))
            return false;
    return true;
}

/* [scope, ids] with scopes rising, so that a scope's links are in one place. */
static bool read_link(struct dvt_cur *c, uint64_t *ret_scope, struct dvt_str *ret_ids)
{
    uint64_t n;
    return dvt_cur_array(c, &n) && n == 2 && dvt_cur_uint(c, ret_scope) && dvt_cur_bin(c, ret_ids) &&
           ret_ids->n % sizeof(struct dvt_trace_id) == 0 && ret_ids->n > 0 &&
           ret_ids->n <= DVT_MAX_LINKS * sizeof(struct dvt_trace_id);
}

static bool check_links(struct dvt_str raw, uint32_t n, struct dvt_str *ret_items)
{
    struct dvt_cur c = dvt_cur(raw);
    uint64_t n_links, scope, min_scope = 0;
    struct dvt_str ids;
    *ret_items = (struct dvt_str){0};
    if (raw.n == 0)
        return true;
    if (!dvt_cur_array(&c, &n_links) || n_links > n)
        return false;
    struct dvt_cur items = c;
    for (; n_links > 0; n_links--) {
        if (!read_link(&c, &scope, &ids) || scope < min_scope || scope >= n)
            return false;
        min_scope = scope + 1;
    }
    *ret_items = (struct dvt_str){(const char *)items.p, dvt_cur_left(&items)};
    return true;
}

static int check_tables(const struct scopes_msg *m, struct dvt_scopes *s, struct dvt_err *err)
{
    if (!check_names(m->names, m->n, &s->n_names))
        return damaged(err, "names are damaged or over their bounds");
    if (!check_labelsets(m->labelsets, m->n, s))
        return damaged(err, "label sets are damaged or over their bounds");
    if (!check_links(m->links, m->n, &s->links_raw))
        return damaged(err, "links are damaged or over their bounds");
    s->names_raw = m->names;
    s->labelsets_raw = m->labelsets;
    return 0;
}

/* ---- the columns ---- */

/* ret_n: how many ids of size bytes these are, at most max. */
static bool count_ids(struct dvt_str ids, size_t size, uint32_t max, uint32_t *ret_n)
{
    if (ids.n % size != 0 || ids.n / size > max)
        return false;
    *ret_n = (uint32_t)(ids.n / size);
    return true;
}

static bool check_ids(const struct scopes_msg *m, struct dvt_scopes *s)
{
    s->spans = (const uint8_t *)m->spans.p;
    s->parent_spans = (const uint8_t *)m->parent_spans.p;
    s->traces = (const uint8_t *)m->traces.p;
    return count_ids(m->spans, sizeof(struct dvt_span_id), m->n, &s->n_spans) &&
           count_ids(m->parent_spans, sizeof(struct dvt_span_id), m->n, &s->n_parent_spans) &&
           count_ids(m->traces, sizeof(struct dvt_trace_id), m->n, &s->n_traces);
}

/* Which span is whose: scope i has span i, or what a column of at least a byte a scope says. So a scope
 * costs its sender a byte in any case: a small message cannot make its reader expand many. */
static bool check_span_col(const struct scopes_msg *m, struct dvt_scopes *s)
{
    if (!m->span.p)
        return s->n_spans == m->n;
    return dvt_col_parse(m->span, m->n, &s->span) && s->span.width > 0 &&
           dvt_col_is_below(&s->span, s->n_spans);
}

static bool parse_cols(const struct scopes_msg *m, struct dvt_scopes *s)
{
    return dvt_col_parse(m->end, m->n, &s->end) && dvt_col_parse(m->dur, m->n, &s->dur) &&
           dvt_col_parse(m->head_close, m->n, &s->head_close) &&
           dvt_col_parse(m->head_span, m->n, &s->head_span) && dvt_col_parse(m->serial, m->n, &s->serial) &&
           dvt_col_parse(m->parent_row, m->n, &s->parent_row) &&
           dvt_col_parse(m->parent_back, m->n, &s->parent_back) && dvt_col_parse(m->trace, m->n, &s->trace) &&
           dvt_col_parse(m->name, m->n, &s->name) && dvt_col_parse(m->labelset, m->n, &s->labelset) &&
           dvt_col_parse(m->flags, m->n, &s->flags);
}

static int check_cols(const struct scopes_msg *m, struct dvt_scopes *s, struct dvt_err *err)
{
    if (!check_ids(m, s))
        return damaged(err, "ids of spans or traces have a wrong length");
    if (!parse_cols(m, s))
        return damaged(err, "a column has a wrong length or an unknown form");
    if (!check_span_col(m, s))
        return damaged(err, "spans and scopes do not fit together");
    if (!dvt_col_is_below(&s->trace, s->n_traces) || !dvt_col_is_below(&s->name, s->n_names) ||
        !dvt_col_is_below(&s->labelset, s->n_labelsets) || !dvt_col_is_below(&s->parent_row, m->n) ||
        !dvt_col_is_below(&s->flags, (uint64_t)UINT32_MAX + 1))
        return damaged(err, "a reference lies outside its table");
    return 0;
}

int dvt_wire_get_scopes(struct dvt_str map, struct dvt_scopes *ret, struct dvt_err *err)
{
    struct scopes_msg m;
    int rc = dvt_fields_get(map, &scopes, &m, err);
    if (rc)
        return rc;
    struct dvt_scopes s = {.tid = m.tid, .epoch = m.epoch, .n = m.n};
    s.settled_head = m.settled_head;
    s.settled_ns = m.settled_ns;
    rc = check_tables(&m, &s, err);
    if (!rc)
        rc = check_cols(&m, &s, err);
    if (!rc)
        *ret = s;
    return rc;
}

/* ---- reading the tables of a decoded message ---- */

static void read_spans(const struct dvt_scopes *s, uint32_t *work, struct dvt_span_id *ret_spans)
{
    if (!s->span.n) {
        memcpy(ret_spans, s->spans, s->n * sizeof *ret_spans);
        return;
    }
    dvt_col_expand_u32(&s->span, work);
    for (uint32_t i = 0; i < s->n; i++)
        memcpy(&ret_spans[i], s->spans + work[i] * sizeof *ret_spans, sizeof *ret_spans);
}

int dvt_wire_parents(const struct dvt_scopes *s, const uint64_t *serial, uint32_t *work,
                     struct dvt_span_id *ret_spans, struct dvt_span_id *ret_parent_spans,
                     uint64_t *ret_parent_serial)
{
    const uint32_t n = s->n, n_spans = s->n_parent_spans;
    const uint8_t *spans = s->parent_spans;
    uint32_t n_given = 0; /* one for each scope whose parent is no row */
    if (n == 0)
        return n_spans ? DVT_EFORMAT : 0;
    read_spans(s, work, ret_spans);
    dvt_col_expand_u64(&s->parent_back, ret_parent_serial);
    dvt_col_expand_u32(&s->parent_row, work);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = work[i];
        uint64_t back = ret_parent_serial[i];
        struct dvt_span_id parent = {0};
        if (row >= n - i)
            return DVT_EFORMAT;
        if (row)
            parent = ret_spans[i + row];
        else if (n_given < n_spans)
            memcpy(&parent, spans + n_given * sizeof parent, sizeof parent);
        n_given += row == 0;
        ret_parent_spans[i] = parent;
        ret_parent_serial[i] = row || back ? serial[i + row] - back : 0;
    }
    return n_spans && n_spans != n_given ? DVT_EFORMAT : 0;
}

int dvt_wire_names(const struct dvt_scopes *s, struct dvt_str *ret_names)
{
    struct dvt_cur c = dvt_cur(s->names_raw);
    uint64_t n;
    if (!dvt_cur_array(&c, &n))
        return DVT_EFORMAT;
    for (uint32_t i = 0; i < s->n_names; i++)
        if (!dvt_cur_str(&c, &ret_names[i]))
            return DVT_EFORMAT;
    return 0;
}

static bool read_labels(struct dvt_cur *c, struct dvt_label *ret, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!dvt_cur_str(c, &ret[i].key) || !dvt_cur_str(c, &ret[i].value))
            return false;
    return true;
}

int dvt_wire_labelsets(const struct dvt_scopes *s, struct dvt_label *ret_labels, size_t cap_labels,
                       uint32_t *ret_first)
{
    struct dvt_cur c = dvt_cur(s->labelsets_raw);
    uint64_t n;
    uint32_t used = 0;
    if (cap_labels < s->n_labels)
        return DVT_ELIMIT;
    if (!dvt_cur_array(&c, &n))
        return DVT_EFORMAT;
    for (uint32_t i = 0; i < s->n_labelsets; i++) {
        ret_first[i] = used;
        if (!dvt_cur_array(&c, &n) || n / 2 > s->n_labels - used ||
            !read_labels(&c, ret_labels + used, n / 2))
            return DVT_EFORMAT;
        used += (uint32_t)n / 2;
    }
    ret_first[s->n_labelsets] = used;
    return 0;
}

int dvt_wire_next_links(const struct dvt_scopes *s, size_t *pos, uint32_t *ret_scope, const uint8_t **ret_ids,
                        uint32_t *ret_n_ids)
{
    if (*pos >= s->links_raw.n)
        return 0;
    struct dvt_cur c = dvt_cur((struct dvt_str){s->links_raw.p + *pos, s->links_raw.n - *pos});
    uint64_t scope;
    struct dvt_str ids;
    if (!read_link(&c, &scope, &ids))
        return DVT_EFORMAT;
    *pos = s->links_raw.n - dvt_cur_left(&c);
    *ret_scope = (uint32_t)scope;
    *ret_ids = (const uint8_t *)ids.p;
    *ret_n_ids = (uint32_t)(ids.n / sizeof(struct dvt_trace_id));
    return 1;
}
