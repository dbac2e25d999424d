/*
 * store_index: the index rows of one trace.
 *
 * A chunk's own row is added; the rows derived from a trace's chunks are then made anew from all of them,
 * read back from their segments (a label that only a later part tells counts for the earlier parts too, so
 * sums over parts do not do). A trace of k parts is thus read k times over its life; parts are capped in
 * samples and come 30 s apart. Strings are those of the encoded chunk, so index and chunk never disagree.
 */
#include "store_impl.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include "../proto/chunk_check.h"
#include "../proto/labels.h"

struct root {
    bool is_known, is_marked; /* marked: the root, or entered from another process */
    uint64_t start_ns;
    char name[DVT_CHUNK_MAX_STRING + 1], service[DVT_CHUNK_MAX_STRING + 1];
};

struct sums { /* of one trace */
    struct store *s;
    int64_t row;
    int64_t start_ns, end_ns; /* UNIX */
    uint64_t on_cpu_ns, samples, no_stack, scopes, bytes;
    bool is_cut;
    struct root root;
    struct dvt_trace_labels labels; /* with own copies of its strings */
    uint32_t n_owned;
    uint64_t (*label_sums)[2]; /* by label id: samples, ns */
    uint32_t parts;
};

static void bind_str(sqlite3_stmt *q, int at, struct dvt_str v)
{
    sqlite3_bind_text(q, at, v.n ? v.p : "", (int)v.n, SQLITE_STATIC);
}

/* ---- first pass: what a part adds by itself ---- */

static int copy_label_strings(struct sums *t)
{
    for (; t->n_owned < t->labels.strings.table.n; t->n_owned++) {
        struct dvt_str *x = &t->labels.strings.items[t->n_owned];
        char *copy = malloc(x->n + 1);
        if (!copy)
            return DVT_ENOMEM;
        memcpy(copy, x->p, x->n);
        x->p = copy;
    }
    return 0;
}

static struct dvt_str service_of(const struct dvt_chunk *c, const struct dvt_chunk_scope *sc)
{
    return c->processes[c->threads[sc->thread].process].service;
}

static void copy_text(char *out, struct dvt_str v)
{
    size_t n = v.n < DVT_CHUNK_MAX_STRING ? v.n : DVT_CHUNK_MAX_STRING;
    memcpy(out, v.n ? v.p : "", n);
    out[n] = 0;
}

static void consider_root(struct root *r, const struct dvt_chunk *c, const struct dvt_chunk_scope *sc)
{
    bool is_marked = sc->flags & (DVT_SCOPE_ROOT | DVT_SCOPE_REMOTE_PARENT);
    bool is_better = !r->is_known || (is_marked && !r->is_marked) ||
                     (is_marked == r->is_marked && sc->start_ns < r->start_ns);
    if (!is_better)
        return;
    *r = (struct root){.is_known = true, .is_marked = is_marked, .start_ns = sc->start_ns};
    copy_text(r->name, sc->name);
    copy_text(r->service, service_of(c, sc));
}

static void add_sums(struct sums *t, const struct dvt_chunk *c)
{
    int64_t start = (int64_t)(c->start_ns + (uint64_t)c->unix_offset_ns);
    int64_t end = (int64_t)(c->end_ns + (uint64_t)c->unix_offset_ns);
    t->start_ns = t->parts == 0 || start < t->start_ns ? start : t->start_ns;
    t->end_ns = t->parts == 0 || end > t->end_ns ? end : t->end_ns;
    t->samples += c->n_samples;
    t->no_stack += c->ledger.no_stack;
    t->scopes += c->n_scopes;
    t->is_cut = t->is_cut || c->ledger.cut_short > 0;
    for (uint32_t i = 0; i < c->n_samples; i++)
        t->on_cpu_ns += c->period_ns ? c->samples[i].weight_ns : 0;
    for (uint32_t i = 0; i < c->n_scopes; i++)
        consider_root(&t->root, c, &c->scopes[i]);
    t->parts++;
}

static int put_spans(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->n_scopes && !rc; i++) {
        if (dvt_span_id_is_zero(&c->scopes[i].span))
            continue;
        sqlite3_stmt *q = store_sql(t->s, SQL_SPAN_PUT);
        sqlite3_bind_int64(q, 1, t->row);
        sqlite3_bind_blob(q, 2, c->scopes[i].span.b, sizeof c->scopes[i].span.b, SQLITE_STATIC);
        rc = store_sql_run(t->s, q, err);
    }
    return rc;
}

static int put_tags(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct dvt_strings tags = {0};
    int rc = 0;
    for (uint32_t i = 0; i < c->n_scopes && !rc; i++)
        if (c->scopes[i].tag.n && dvt_strings_put(&tags, c->scopes[i].tag) == UINT32_MAX)
            rc = dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for tags");
    for (uint32_t i = 0; i < tags.table.n && !rc; i++) {
        sqlite3_stmt *q = store_sql(t->s, SQL_TAG_PUT);
        sqlite3_bind_int64(q, 1, t->row);
        bind_str(q, 2, tags.items[i]);
        rc = store_sql_run(t->s, q, err);
    }
    dvt_strings_fini(&tags);
    return rc;
}

struct names { /* distinct (name, service), with the samples whose innermost scope is of that name */
    struct dvt_strings strings;
    struct dvt_tuples pairs;
    uint32_t *of_scope; /* [n_scopes] */
    uint64_t *samples;  /* [n_scopes], by pair */
};

static int collect_names(struct names *n, const struct dvt_chunk *c)
{
    n->of_scope = calloc(c->n_scopes + 1ul, sizeof *n->of_scope);
    n->samples = calloc(c->n_scopes + 1ul, sizeof *n->samples);
    if (!n->of_scope || !n->samples)
        return DVT_ENOMEM;
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        const uint32_t pair[DVT_TUPLE] = {dvt_strings_put(&n->strings, c->scopes[i].name),
                                          dvt_strings_put(&n->strings, service_of(c, &c->scopes[i]))};
        n->of_scope[i] = dvt_tuples_put(&n->pairs, pair);
        if (pair[0] == UINT32_MAX || pair[1] == UINT32_MAX || n->of_scope[i] == UINT32_MAX)
            return DVT_ENOMEM;
    }
    for (uint32_t i = 0; i < c->n_samples; i++)
        if (c->samples[i].scope != DVT_NONE)
            n->samples[n->of_scope[c->samples[i].scope]]++;
    return 0;
}

static int put_names(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct names n = {0};
    int rc = collect_names(&n, c);
    if (rc)
        dvt_fail(err, rc, 0, "store: out of memory for names");
    for (uint32_t i = 0; i < n.pairs.table.n && !rc; i++) {
        sqlite3_stmt *q = store_sql(t->s, SQL_NAME_PUT);
        sqlite3_bind_int64(q, 1, t->row);
        bind_str(q, 2, n.strings.items[n.pairs.items[i][0]]);
        bind_str(q, 3, n.strings.items[n.pairs.items[i][1]]);
        sqlite3_bind_int64(q, 4, (int64_t)n.samples[i]);
        rc = store_sql_run(t->s, q, err);
    }
    dvt_strings_fini(&n.strings);
    dvt_tuples_fini(&n.pairs);
    free(n.of_scope);
    free(n.samples);
    return rc;
}

static int first_pass(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err)
{
    if (dvt_trace_labels_add(&t->labels, c) || copy_label_strings(t))
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for labels");
    add_sums(t, c);
    int rc = put_spans(t, c, err);
    if (!rc)
        rc = put_tags(t, c, err);
    return rc ? rc : put_names(t, c, err);
}

/* ---- second pass: labels, once all of the trace's are known ---- */

static int second_pass(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct dvt_label_sets sets;
    if (dvt_labels_effective(&t->labels, c, &sets))
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for labels");
    for (uint32_t i = 0; i < c->n_samples; i++) {
        const struct dvt_chunk_sample *x = &c->samples[i];
        const struct dvt_seq *set =
            &sets.sets.items[x->scope == DVT_NONE ? sets.of_no_scope : sets.of_scope[x->scope]];
        for (uint32_t k = 0; k < set->n; k++) {
            uint64_t *sum = t->label_sums[sets.sets.values[set->first + k]];
            sum[0]++;
            sum[1] += c->period_ns ? x->weight_ns : 0;
        }
    }
    dvt_label_sets_fini(&sets);
    return 0;
}

static int put_labels(struct sums *t, struct dvt_err *err)
{
    int rc = 0;
    for (uint32_t id = 0; id < t->labels.labels.table.n && !rc; id++) {
        sqlite3_stmt *q = store_sql(t->s, SQL_LABEL_PUT);
        sqlite3_bind_int64(q, 1, t->row);
        bind_str(q, 2, dvt_label_key(&t->labels, id));
        bind_str(q, 3, dvt_label_value(&t->labels, id));
        sqlite3_bind_int64(q, 4, (int64_t)t->label_sums[id][0]);
        sqlite3_bind_int64(q, 5, (int64_t)t->label_sums[id][1]);
        rc = store_sql_run(t->s, q, err);
    }
    return rc;
}

static int put_trace(struct sums *t, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(t->s, SQL_TRACE_UPDATE);
    sqlite3_bind_int64(q, 1, t->row);
    sqlite3_bind_int64(q, 2, t->start_ns);
    sqlite3_bind_int64(q, 3, t->end_ns);
    sqlite3_bind_int64(q, 4, t->end_ns - t->start_ns);
    sqlite3_bind_int64(q, 5, (int64_t)t->on_cpu_ns);
    sqlite3_bind_int64(q, 6, (int64_t)t->samples);
    sqlite3_bind_int64(q, 7, (int64_t)t->no_stack);
    sqlite3_bind_int64(q, 8, (int64_t)t->scopes);
    bind_str(q, 9, dvt_str(t->root.name));
    bind_str(q, 10, dvt_str(t->root.service));
    sqlite3_bind_int64(q, 11, (int64_t)t->bytes);
    sqlite3_bind_int64(q, 12, t->is_cut);
    return store_sql_run(t->s, q, err);
}

/* ---- a trace from its chunks ---- */

struct part {
    uint32_t segment;
    uint64_t offset, bytes;
};

static int list_parts(struct sums *t, struct part **ret, uint32_t *ret_n, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(t->s, SQL_CHUNKS_OF_TRACE);
    struct part *list = NULL;
    uint32_t n = 0;
    int step;
    sqlite3_bind_int64(q, 1, t->row);
    while ((step = sqlite3_step(q)) == SQLITE_ROW) {
        struct part *p = realloc(list, (n + 1) * sizeof *p);
        if (!p)
            break;
        list = p;
        list[n++] = (struct part){(uint32_t)sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1),
                                  (uint64_t)sqlite3_column_int64(q, 2)};
    }
    sqlite3_reset(q);
    *ret = list;
    *ret_n = n;
    if (step == SQLITE_ROW)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for parts");
    return step == SQLITE_DONE ? 0 : store_sql_fail(t->s, err, "reading");
}

typedef int pass(struct sums *t, const struct dvt_chunk *c, struct dvt_err *err);

/* fresh: the chunk that was just written, the only part of most traces; NULL: none. */
static int each_part(struct sums *t, const struct part *parts, uint32_t n, const struct dvt_chunk *fresh,
                     pass *fn, struct dvt_err *err)
{
    if (n == 1 && fresh)
        return fn(t, fresh, err);
    for (uint32_t i = 0; i < n; i++) {
        struct dvt_chunk c;
        uint8_t *p;
        int rc = store_segment_read(t->s, parts[i].segment, parts[i].offset, parts[i].bytes, &p, err);
        if (rc)
            return rc;
        /* A part that was damaged since is left out of the sums; `verify` tells of it. */
        if (dvt_chunk_decode(p, parts[i].bytes, &c, NULL) == 0) {
            rc = fn(t, &c, err);
            dvt_chunk_fini(&c);
        }
        free(p);
        if (rc)
            return rc;
    }
    return 0;
}

static int clear_rows(struct store *s, int64_t row, struct dvt_err *err)
{
    static const enum statement clear[] = {SQL_LABELS_CLEAR, SQL_SPANS_CLEAR, SQL_TAGS_CLEAR,
                                           SQL_NAMES_CLEAR};
    int rc = 0;
    for (size_t i = 0; i < sizeof clear / sizeof *clear && !rc; i++) {
        sqlite3_stmt *q = store_sql(s, clear[i]);
        sqlite3_bind_int64(q, 1, row);
        rc = store_sql_run(s, q, err);
    }
    return rc;
}

static int run_on_row(struct store *s, enum statement which, int64_t row, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, which);
    sqlite3_bind_int64(q, 1, row);
    return store_sql_run(s, q, err);
}

int store_index_delete(struct store *s, int64_t trace_row, struct dvt_err *err)
{
    int rc = clear_rows(s, trace_row, err);
    if (!rc)
        rc = run_on_row(s, SQL_CHUNKS_CLEAR, trace_row, err);
    return rc ? rc : run_on_row(s, SQL_TRACE_CLEAR, trace_row, err);
}

static int index_parts(struct sums *t, const struct part *parts, uint32_t n, const struct dvt_chunk *fresh,
                       struct dvt_err *err)
{
    int rc = clear_rows(t->s, t->row, err);
    for (uint32_t i = 0; i < n; i++)
        t->bytes += parts[i].bytes;
    if (!rc)
        rc = each_part(t, parts, n, fresh, first_pass, err);
    if (rc)
        return rc;
    t->label_sums = calloc(t->labels.labels.table.n + 1ul, sizeof *t->label_sums);
    if (!t->label_sums)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for labels");
    if (t->labels.labels.table.n)
        rc = each_part(t, parts, n, fresh, second_pass, err);
    if (!rc)
        rc = put_labels(t, err);
    return rc ? rc : put_trace(t, err);
}

static int index_row(struct store *s, int64_t row, const struct dvt_chunk *fresh, struct dvt_err *err)
{
    struct sums *t = calloc(1, sizeof *t);
    struct part *parts = NULL;
    uint32_t n = 0;
    if (!t)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory");
    t->s = s;
    t->row = row;
    int rc = list_parts(t, &parts, &n, err);
    if (!rc)
        rc = n ? index_parts(t, parts, n, fresh, err) : store_index_delete(s, row, err);
    for (uint32_t i = 0; i < t->n_owned; i++)
        free((char *)(uintptr_t)t->labels.strings.items[i].p);
    dvt_trace_labels_fini(&t->labels);
    free(t->label_sums);
    free(parts);
    free(t);
    return rc;
}

/* Row id of the trace, 0 if it has none. */
static int find_row(struct store *s, const struct dvt_trace_id *trace, int64_t *ret, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_TRACE_FIND);
    sqlite3_bind_blob(q, 1, trace->b, sizeof trace->b, SQLITE_STATIC);
    int step = sqlite3_step(q);
    *ret = step == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading");
}

int store_index_row(struct store *s, int64_t trace_row, struct dvt_err *err)
{
    return index_row(s, trace_row, NULL, err);
}

int store_index_has(struct store *s, const struct dvt_chunk *c, const struct chunk_place *place, bool *ret,
                    struct dvt_err *err)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    int64_t row;
    int step, rc = find_row(s, &c->trace, &row, err);
    *ret = false;
    if (rc || !row)
        return rc;
    SHA256(place->data, place->bytes, digest);
    sqlite3_stmt *q = store_sql(s, SQL_CHUNKS_OF_TRACE);
    sqlite3_bind_int64(q, 1, row);
    while ((step = sqlite3_step(q)) == SQLITE_ROW)
        if (sqlite3_column_bytes(q, 4) == sizeof digest &&
            memcmp(sqlite3_column_blob(q, 4), digest, sizeof digest) == 0)
            *ret = true;
    sqlite3_reset(q);
    return step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading");
}

static int put_chunk_row(struct store *s, int64_t row, const struct dvt_chunk *c,
                         const struct chunk_place *at, struct dvt_err *err)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256(at->data, at->bytes, digest);
    sqlite3_stmt *q = store_sql(s, SQL_CHUNK_PUT);
    sqlite3_bind_int64(q, 1, row);
    sqlite3_bind_int64(q, 2, c->part);
    sqlite3_bind_int64(q, 3, at->segment);
    sqlite3_bind_int64(q, 4, (int64_t)at->offset);
    sqlite3_bind_int64(q, 5, (int64_t)at->bytes);
    sqlite3_bind_int64(q, 6, c->n_samples);
    sqlite3_bind_blob(q, 7, digest, sizeof digest, SQLITE_STATIC);
    return store_sql_run(s, q, err);
}

int store_index_chunk(struct store *s, const struct dvt_chunk *c, const struct chunk_place *place,
                      struct dvt_err *err)
{
    int64_t row;
    int rc = find_row(s, &c->trace, &row, err);
    if (!rc && !row) {
        sqlite3_stmt *q = store_sql(s, SQL_TRACE_PUT);
        sqlite3_bind_blob(q, 1, c->trace.b, sizeof c->trace.b, SQLITE_STATIC);
        rc = store_sql_run(s, q, err);
        row = sqlite3_last_insert_rowid(s->db);
    }
    if (!rc)
        rc = put_chunk_row(s, row, c, place, err);
    return rc ? rc : index_row(s, row, c, err);
}
