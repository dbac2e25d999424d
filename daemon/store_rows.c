/*
 * store_rows: the index rows that a chunk adds to its trace: spans, tags, names, labels. All of them add
 * up, so that a trace of many parts is never read back.
 *
 * A label's sums are kept twice. Near: of the samples whose scopes have it by themselves or inherit it
 * (rules 1 and 2 of labels.h), which a chunk tells alone. As shown: a key with one value in the whole trace
 * counts for all of it (rule 3), which changes when a later part brings the key or a second value; these
 * are then made from the near ones and the trace's totals. Strings are those of the encoded chunk, so index
 * and chunk never disagree.
 */
#include "store_impl.h"

#include <stdlib.h>
#include "../proto/chunk_check.h"
#include "../proto/labels.h"

static void bind_str(sqlite3_stmt *q, int at, struct dvt_str v)
{
    sqlite3_bind_text(q, at, v.n ? v.p : "", (int)v.n, SQLITE_STATIC);
}

struct dvt_str store_service_of(const struct dvt_chunk *c, const struct dvt_chunk_scope *sc)
{
    return c->processes[c->threads[sc->thread].process].service;
}

uint64_t store_on_cpu_ns(const struct dvt_chunk *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; c->period_ns && i < c->n_samples; i++)
        sum += c->samples[i].weight_ns;
    return sum;
}

static int put_spans(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->n_scopes && !rc; i++) {
        if (dvt_span_id_is_zero(&c->scopes[i].span))
            continue;
        sqlite3_stmt *q = store_sql(s, SQL_SPAN_PUT);
        sqlite3_bind_int64(q, 1, row);
        sqlite3_bind_blob(q, 2, c->scopes[i].span.b, sizeof c->scopes[i].span.b, SQLITE_STATIC);
        rc = store_sql_run(s, q, err);
    }
    return rc;
}

static int put_tags(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct dvt_strings tags = {0};
    int rc = 0;
    for (uint32_t i = 0; i < c->n_scopes && !rc; i++)
        if (c->scopes[i].tag.n && dvt_strings_put(&tags, c->scopes[i].tag) == UINT32_MAX)
            rc = dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for tags");
    for (uint32_t i = 0; i < tags.table.n && !rc; i++) {
        sqlite3_stmt *q = store_sql(s, SQL_TAG_PUT);
        sqlite3_bind_int64(q, 1, row);
        bind_str(q, 2, tags.items[i]);
        rc = store_sql_run(s, q, err);
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
                                          dvt_strings_put(&n->strings, store_service_of(c, &c->scopes[i]))};
        n->of_scope[i] = dvt_tuples_put(&n->pairs, pair);
        if (pair[0] == UINT32_MAX || pair[1] == UINT32_MAX || n->of_scope[i] == UINT32_MAX)
            return DVT_ENOMEM;
    }
    for (uint32_t i = 0; i < c->n_samples; i++)
        if (c->samples[i].scope != DVT_NONE)
            n->samples[n->of_scope[c->samples[i].scope]]++;
    return 0;
}

static int put_names(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct names n = {0};
    int rc = collect_names(&n, c);
    if (rc)
        dvt_fail(err, rc, 0, "store: out of memory for names");
    for (uint32_t i = 0; i < n.pairs.table.n && !rc; i++) {
        sqlite3_stmt *q = store_sql(s, SQL_NAME_PUT);
        sqlite3_bind_int64(q, 1, row);
        bind_str(q, 2, n.strings.items[n.pairs.items[i][0]]);
        bind_str(q, 3, n.strings.items[n.pairs.items[i][1]]);
        sqlite3_bind_int64(q, 4, (int64_t)n.samples[i]);
        rc = store_sql_run(s, q, err);
    }
    dvt_strings_fini(&n.strings);
    dvt_tuples_fini(&n.pairs);
    free(n.of_scope);
    free(n.samples);
    return rc;
}

/* ---- labels ---- */

struct label_sums { /* of one chunk */
    struct dvt_trace_labels labels;
    uint64_t (*near)[2]; /* by label id: samples, ns */
    uint32_t *n_values;  /* by key string */
};

static void label_sums_fini(struct label_sums *t)
{
    dvt_trace_labels_fini(&t->labels);
    free(t->near);
    free(t->n_values);
}

static void add_near(struct label_sums *t, const struct dvt_chunk *c, const struct dvt_label_sets *sets)
{
    for (uint32_t i = 0; i < c->n_samples; i++) {
        const struct dvt_chunk_sample *x = &c->samples[i];
        uint32_t at = x->scope == DVT_NONE ? sets->of_no_scope : sets->of_scope[x->scope];
        const struct dvt_seq *set = &sets->sets.items[at];
        for (uint32_t k = 0; k < set->n; k++) {
            uint64_t *sum = t->near[sets->sets.values[set->first + k]];
            sum[0]++;
            sum[1] += c->period_ns ? x->weight_ns : 0;
        }
    }
}

static int sum_labels(struct label_sums *t, const struct dvt_chunk *c)
{
    struct dvt_label_sets sets;
    if (dvt_trace_labels_add(&t->labels, c))
        return DVT_ENOMEM;
    t->near = calloc(t->labels.labels.table.n + 1ul, sizeof *t->near);
    t->n_values = calloc(t->labels.strings.table.n + 1ul, sizeof *t->n_values);
    if (!t->near || !t->n_values || dvt_labels_near(&t->labels, c, &sets))
        return DVT_ENOMEM;
    for (uint32_t id = 0; id < t->labels.labels.table.n; id++)
        t->n_values[t->labels.labels.items[id][0]]++;
    add_near(t, c, &sets);
    dvt_label_sets_fini(&sets);
    return 0;
}

static int put_label(struct store *s, int64_t row, const struct label_sums *t, uint32_t id,
                     const uint64_t shown[2], struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_LABEL_PUT);
    sqlite3_bind_int64(q, 1, row);
    bind_str(q, 2, dvt_label_key(&t->labels, id));
    bind_str(q, 3, dvt_label_value(&t->labels, id));
    sqlite3_bind_int64(q, 4, (int64_t)shown[0]);
    sqlite3_bind_int64(q, 5, (int64_t)shown[1]);
    sqlite3_bind_int64(q, 6, (int64_t)t->near[id][0]);
    sqlite3_bind_int64(q, 7, (int64_t)t->near[id][1]);
    return store_sql_run(s, q, err);
}

/* What is shown is right if the chunk is the trace's first part. */
static int put_labels(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct label_sums t = {0};
    const uint64_t all[2] = {c->n_samples, store_on_cpu_ns(c)};
    int rc = c->n_labels ? sum_labels(&t, c) : 0;
    if (rc)
        dvt_fail(err, rc, 0, "store: out of memory for labels");
    for (uint32_t id = 0; id < t.labels.labels.table.n && !rc; id++) {
        bool is_common = t.n_values[t.labels.labels.items[id][0]] == 1;
        rc = put_label(s, row, &t, id, is_common ? all : t.near[id], err);
    }
    label_sums_fini(&t);
    return rc;
}

int store_rows_labels_again(struct store *s, int64_t row, uint64_t samples, uint64_t on_cpu_ns,
                            struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_LABELS_NEAR);
    sqlite3_bind_int64(q, 1, row);
    int rc = store_sql_run(s, q, err);
    q = store_sql(s, SQL_LABELS_COMMON);
    sqlite3_bind_int64(q, 1, row);
    sqlite3_bind_int64(q, 2, (int64_t)samples);
    sqlite3_bind_int64(q, 3, (int64_t)on_cpu_ns);
    return rc ? rc : store_sql_run(s, q, err);
}

/* ---- all of a chunk's ---- */

int store_rows_add(struct store *s, int64_t row, const struct dvt_chunk *c, struct dvt_err *err)
{
    int rc = put_spans(s, row, c, err);
    if (!rc)
        rc = put_tags(s, row, c, err);
    if (!rc)
        rc = put_names(s, row, c, err);
    return rc ? rc : put_labels(s, row, c, err);
}

int store_rows_clear(struct store *s, int64_t row, struct dvt_err *err)
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
