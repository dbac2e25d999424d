/*
 * wire_scopes_spread: takes scope records apart into columns of 32-bit parts, for wire_scopes_put.c.
 *
 * Some records at a time go through a few loops, each without branches or without such that mispredict,
 * while they are in the nearest cache: numbers, ids, then the tables of distinct traces, names and label
 * sets. At the end, on dense columns, which row's span is whose parent. Parts are cut to 32 bits; all bits
 * are or-ed beside, so that the rare column with larger parts is noticed and made again in 64.
 */
#include "wire_scopes.h"

enum { CHUNK = 64 };

/* Some of the records, and the one before them. Given by value: what is written to columns cannot change
 * it. */
struct chunk {
    const struct dvt_scope_rec *v, *last;
    size_t first, n;
};

static uint64_t *place64(char **at, size_t n)
{
    uint64_t *p = (uint64_t *)*at;
    *at += n * sizeof *p;
    return p;
}

static struct dvt_intern place_intern(char **at, size_t n)
{
    struct dvt_intern t = dvt_intern_begin((uint32_t *)*at, n);
    *at += (dvt_intern_slots(n) + 2 * n) * sizeof(uint32_t);
    return t;
}

static int work_init(struct dvt_scopes_work *w, struct dvt_buf *b, const struct dvt_scope_rec *v, size_t n)
{
    size_t intern_bytes = (dvt_intern_slots(n) + 2 * n) * sizeof(uint32_t);
    size_t cols_bytes = (DVT_N_SCOPES_COLS + 1) * n * sizeof(uint32_t);
    char *at = dvt_buf_work(b, (3 * n + 1) * sizeof(uint64_t) + cols_bytes + 3 * intern_bytes);
    if (!at)
        return DVT_ENOMEM;
    w->v = v;
    w->n = n;
    w->wide = place64(&at, n);
    w->spans = place64(&at, n + 1);
    w->parent_spans = place64(&at, n);
    w->traces = place_intern(&at, n);
    w->names = place_intern(&at, n);
    w->labelsets = place_intern(&at, n);
    for (unsigned i = 0; i < DVT_N_SCOPES_COLS; i++, at += n * sizeof(uint32_t))
        w->cols[i].x = (uint32_t *)at;
    w->serial = (uint32_t *)at;
    return 0;
}

/* ---- numbers and ids ---- */

static inline uint64_t span_number(const struct dvt_span_id *span)
{
    uint64_t id;
    memcpy(&id, span, sizeof id);
    return id;
}

/* Steps of end and serial, durations; serials also as they are, for find_parents. A step down has bits
 * above the 32 that are kept, so that it is noticed. */
static void spread_times(struct dvt_scopes_work *w, struct chunk c)
{
    const struct dvt_scope_rec *s = c.v, *last = c.last;
    struct dvt_parts *end = &w->cols[DVT_COL_END], *dur = &w->cols[DVT_COL_DUR];
    struct dvt_parts *step = &w->cols[DVT_COL_SERIAL];
    uint32_t *end_x = end->x + c.first, *dur_x = dur->x + c.first, *step_x = step->x + c.first;
    uint32_t *serial = w->serial + c.first, *parent_serial = w->cols[DVT_COL_PARENT_BACK].x + c.first;
    uint64_t end_bits = 0, dur_bits = 0, step_bits = 0, serial_bits = 0;
    bool is_odd = false;
    for (size_t i = 0; i < c.n; i++, last = s++) {
        uint64_t end_step = s->end_ns - last->end_ns, length = s->end_ns - s->start_ns;
        uint64_t serial_step = dvt_zigzag(s->serial - last->serial);
        is_odd |= s->parent_serial >= s->serial;
        end_bits |= end_step, dur_bits |= length, step_bits |= serial_step, serial_bits |= s->serial;
        end_x[i] = (uint32_t)end_step, dur_x[i] = (uint32_t)length, step_x[i] = (uint32_t)serial_step;
        serial[i] = (uint32_t)s->serial, parent_serial[i] = (uint32_t)s->parent_serial;
    }
    end->bits |= end_bits, dur->bits |= dur_bits, step->bits |= step_bits;
    w->serials_are_wide |= serial_bits > UINT32_MAX;
    w->serials_are_odd |= is_odd;
}

static void spread_heads(struct dvt_scopes_work *w, struct chunk c)
{
    const struct dvt_scope_rec *s = c.v, *last = c.last;
    struct dvt_parts *close = &w->cols[DVT_COL_HEAD_CLOSE], *span = &w->cols[DVT_COL_HEAD_SPAN];
    struct dvt_parts *flags = &w->cols[DVT_COL_FLAGS];
    uint32_t *close_x = close->x + c.first, *span_x = span->x + c.first, *flags_x = flags->x + c.first;
    uint64_t *spans = w->spans + c.first, *parents = w->parent_spans + c.first;
    uint64_t close_bits = 0, span_bits = 0;
    uint32_t flag_bits = 0, link_bits = 0;
    for (size_t i = 0; i < c.n; i++, last = s++) {
        uint64_t step = s->head_close - last->head_close, length = s->head_close - s->head_open;
        close_bits |= step, span_bits |= length, flag_bits |= s->flags, link_bits |= s->n_links;
        close_x[i] = (uint32_t)step, span_x[i] = (uint32_t)length, flags_x[i] = s->flags;
        spans[i] = span_number(&s->span), parents[i] = span_number(&s->parent_span);
    }
    close->bits |= close_bits, span->bits |= span_bits, flags->bits |= flag_bits;
    w->link_bits |= link_bits;
}

/* The rare scopes with links, and serials that are not above their parents'. */
static int check(struct dvt_scopes_work *w)
{
    bool is_over = false, is_own_parent = false;
    for (size_t i = 0; i < w->n; i++) {
        const struct dvt_scope_rec *s = &w->v[i];
        is_over |= s->n_links > DVT_MAX_LINKS;
        is_own_parent |= s->parent_serial && s->parent_serial >= s->serial;
        w->n_with_links += s->n_links > 0;
    }
    return is_over ? DVT_ELIMIT : is_own_parent ? DVT_EINVAL : 0;
}

static void set_kinds(struct dvt_scopes_work *w)
{
    w->cols[DVT_COL_END].kind = w->cols[DVT_COL_HEAD_CLOSE].kind = DVT_COL_DELTA;
    w->cols[DVT_COL_SERIAL].kind = DVT_COL_SIGNED;
    if (!w->n)
        return;
    w->cols[DVT_COL_END].base = w->v[0].end_ns;
    w->cols[DVT_COL_HEAD_CLOSE].base = w->v[0].head_close;
    w->cols[DVT_COL_SERIAL].base = w->v[0].serial;
}

void dvt_scopes_widen(struct dvt_scopes_work *w, enum dvt_scopes_col col)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct dvt_scope_rec *s = &w->v[i];
        uint32_t row = w->cols[DVT_COL_PARENT_ROW].x[i];
        w->wide[i] = col == DVT_COL_END          ? s->end_ns
                     : col == DVT_COL_DUR        ? s->end_ns - s->start_ns
                     : col == DVT_COL_HEAD_CLOSE ? s->head_close
                     : col == DVT_COL_HEAD_SPAN  ? s->head_close - s->head_open
                     : col == DVT_COL_SERIAL     ? s->serial
                     : row || s->parent_serial   ? s[row].serial - s->parent_serial
                                                 : 0;
    }
}

/* ---- whose span is whose parent ---- */

static inline uint32_t *recent_row(struct dvt_scopes_work *w, uint64_t span)
{
    return &w->recent[span * 0x9E3779B97F4A7C15u >> (64 - DVT_RECENT_SPANS_BITS)];
}

/* Row n stands for none: its span is 0, which is nobody's parent. */
static void forget_rows(struct dvt_scopes_work *w)
{
    for (size_t i = 0; i < sizeof w->recent / sizeof *w->recent; i++)
        w->recent[i] = (uint32_t)w->n;
}

/* The parent spans that no row holds are at the end of their column, unless they are all zero. */
static void count_kept(struct dvt_scopes_work *w, size_t n_kept)
{
    uint64_t bits = 0;
    for (size_t i = w->n - n_kept; i < w->n; i++)
        bits |= w->parent_spans[i];
    w->n_parent_spans = bits ? n_kept : 0;
}

/* Backwards, because a parent closes after its children. Returns how many spans come again later. Distances
 * of 2^31 and more may be negative: they are left to 64 bits. */
static size_t find_parents(struct dvt_scopes_work *w)
{
    const uint64_t *spans = w->spans, *parents = w->parent_spans;
    const uint32_t *serial = w->serial;
    uint32_t *rows = w->cols[DVT_COL_PARENT_ROW].x, *back = w->cols[DVT_COL_PARENT_BACK].x;
    uint32_t n = (uint32_t)w->n, row_bits = 0, back_bits = w->serials_are_wide ? UINT32_MAX : 0;
    uint64_t *kept = w->parent_spans + n;
    size_t n_repeats = 0;
    for (uint32_t i = n; i-- > 0;) {
        uint64_t span = spans[i], parent = parents[i];
        uint32_t *recent = recent_row(w, span), at = *recent_row(w, parent);
        bool found = (spans[at] == parent) & (parent != 0);
        uint32_t row = found ? at - i : 0;
        uint32_t distance = back[i] | row ? serial[i + row] - back[i] : 0;
        kept[-1] = parent;
        kept -= !found;
        rows[i] = row, back[i] = distance;
        row_bits |= row, back_bits |= distance;
        if (spans[*recent] == span && *recent < n)
            n_repeats++;
        *recent = i;
    }
    count_kept(w, (size_t)(w->parent_spans + n - kept));
    w->cols[DVT_COL_PARENT_ROW].bits = row_bits;
    w->cols[DVT_COL_PARENT_BACK].bits = back_bits > INT32_MAX ? UINT64_MAX : back_bits;
    return n_repeats;
}

/* Sends repeated spans once, where that saves more than the column that tells which is whose. */
static void number_spans(struct dvt_scopes_work *w)
{
    uint32_t *span = w->cols[DVT_COL_SPAN].x, n_spans = 0;
    forget_rows(w);
    for (size_t i = 0; i < w->n; i++) {
        uint64_t id = w->spans[i];
        uint32_t *recent = recent_row(w, id); /* an entry here, not a row */
        if (*recent >= n_spans || w->spans[*recent] != id) {
            w->spans[n_spans] = id;
            *recent = n_spans++;
        }
        span[i] = *recent;
    }
    w->n_spans = n_spans;
    w->spans_repeat = true;
    w->cols[DVT_COL_SPAN].bits = n_spans - 1;
    w->cols[DVT_COL_SPAN].width_min = 1;
}

static void link_spans(struct dvt_scopes_work *w)
{
    w->spans[w->n] = 0;
    w->n_spans = w->n;
    forget_rows(w);
    if (find_parents(w) > w->n / 4)
        number_spans(w);
}

/* ---- tables ---- */

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

/* By values alone: sets with the same keys are the rule. */
static uint64_t hash_labels(const struct dvt_scope_rec *s)
{
    uint64_t h = s->n_labels;
    for (uint32_t i = 0; i < s->n_labels; i++)
        h = dvt_intern_hash(h, s->labels[i].value.p, s->labels[i].value.n);
    return h;
}

/* Most scopes follow one of the same trace and labels, and have a name that was there before: the rest is
 * kept out of the loops. An entry other than the last one's is a step, in a column of steps. */

static __attribute__((noinline)) uint32_t other_entry(struct dvt_scopes_work *w, struct dvt_intern *t,
                                                      uint32_t row, uint64_t hash, dvt_intern_same *same,
                                                      uint32_t last)
{
    uint32_t entry = dvt_intern(t, hash, row, w->v, same);
    t->n_steps += entry != last;
    t->falls |= entry < last;
    return entry;
}

static void spread_traces(struct dvt_scopes_work *w, struct chunk c)
{
    const struct dvt_scope_rec *s = c.v;
    struct id128 last = trace_number(c.last);
    uint32_t *x = w->cols[DVT_COL_TRACE].x + c.first, entry = c.first ? x[-1] : 0;
    for (uint32_t i = 0; i < c.n; i++, s++) {
        struct id128 id = trace_number(s);
        if (id.a != last.a || id.b != last.b)
            entry = other_entry(w, &w->traces, (uint32_t)c.first + i,
                                dvt_intern_mix(dvt_intern_mix(0, id.a), id.b), same_trace, entry);
        last = id;
        x[i] = entry;
    }
}

static __attribute__((noinline)) void see_name(struct dvt_scopes_work *w, struct dvt_seen_name *seen,
                                               uint32_t row)
{
    struct dvt_str name = w->v[row].name;
    uint32_t entry = dvt_intern(&w->names, dvt_intern_hash(0, name.p, name.n), row, w->v, same_name);
    *seen = (struct dvt_seen_name){name.p, name.n, entry};
}

static void spread_names(struct dvt_scopes_work *w, struct chunk c)
{
    const struct dvt_scope_rec *s = c.v;
    uint32_t *x = w->cols[DVT_COL_NAME].x + c.first;
    for (uint32_t i = 0; i < c.n; i++, s++) {
        uintptr_t address = (uintptr_t)s->name.p;
        struct dvt_seen_name *seen = &w->seen[(address >> 3 ^ address >> 9) % DVT_N_SEEN_NAMES];
        if (seen->p != s->name.p || seen->n != s->name.n)
            see_name(w, seen, (uint32_t)c.first + i);
        x[i] = seen->entry;
    }
}

static int spread_labelsets(struct dvt_scopes_work *w, struct chunk c)
{
    const struct dvt_scope_rec *s = c.v, *last = c.last;
    uint32_t *x = w->cols[DVT_COL_LABELSET].x + c.first, entry = c.first ? x[-1] : 0;
    for (uint32_t i = 0; i < c.n; i++, last = s++) {
        bool same = (s->n_labels == last->n_labels) & ((s->n_labels == 0) | (s->labels == last->labels));
        if (!same) {
            if (s->n_labels > DVT_MAX_LABELS)
                return DVT_ELIMIT;
            entry = other_entry(w, &w->labelsets, (uint32_t)c.first + i, hash_labels(s), same_labels, entry);
        }
        x[i] = entry;
    }
    return 0;
}

/* The first record's entries are the first. */
static int begin_tables(struct dvt_scopes_work *w)
{
    const struct dvt_scope_rec *s = w->v;
    struct id128 id = trace_number(s);
    if (s->n_labels > DVT_MAX_LABELS)
        return DVT_ELIMIT;
    (void)dvt_intern(&w->traces, dvt_intern_mix(dvt_intern_mix(0, id.a), id.b), 0, s, same_trace);
    (void)dvt_intern(&w->labelsets, hash_labels(s), 0, s, same_labels);
    see_name(w, &w->seen[0], 0);
    for (size_t i = 1; i < DVT_N_SEEN_NAMES; i++)
        w->seen[i] = w->seen[0]; /* whatever comes, it is compared with a real one */
    return 0;
}

/* ---- */

static int spread_records(struct dvt_scopes_work *w)
{
    int rc = w->n ? begin_tables(w) : 0;
    for (size_t i = 0; !rc && i < w->n; i += CHUNK) {
        struct chunk c = {w->v + i, w->v + i - (i > 0), i, w->n - i < CHUNK ? w->n - i : CHUNK};
        spread_times(w, c);
        spread_heads(w, c);
        spread_traces(w, c);
        spread_names(w, c);
        rc = spread_labelsets(w, c);
    }
    w->cols[DVT_COL_TRACE].bits = w->traces.n - 1;
    w->cols[DVT_COL_NAME].bits = w->names.n - 1;
    w->cols[DVT_COL_LABELSET].bits = w->labelsets.n - 1;
    return rc;
}

int dvt_scopes_spread(struct dvt_scopes_work *w, struct dvt_buf *b, const struct dvt_scope_rec *v, size_t n)
{
    if (n > DVT_MAX_BATCH)
        return DVT_ELIMIT;
    memset(w, 0, offsetof(struct dvt_scopes_work, recent));
    int rc = work_init(w, b, v, n);
    if (!rc)
        rc = spread_records(w);
    if (!rc && (w->link_bits || w->serials_are_odd))
        rc = check(w);
    if (rc)
        return rc;
    set_kinds(w);
    link_spans(w);
    return 0;
}
