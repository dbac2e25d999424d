/*
 * cmd_tags: which labels (or tags) the traces carry, with how many traces, samples and how much CPU time each
 * stands for.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "json.h"
#include "text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_KEY = 1, OPT_TAGS, OPT_JSON, OPT_STORE, OPT_TAG };

static const struct args_option options[] = {
    {OPT_KEY, 'k', "--key", "KEY", "only labels of that key, with all their values"},
    {OPT_TAGS, 0, "--tags", NULL, "tags instead of labels"},
    {OPT_TAG, 0, "--tag", "PREFIX", "only tags that begin so; '*part*' for any part (implies --tags)"},
    {OPT_JSON, 0, "--json", NULL, "one JSON object a line"},
    {OPT_STORE, 0, "--store", "DIR", "read this store; repeat to merge several"},
    {0},
};

struct request {
    struct filter filter; /* only its stores */
    const char *key, *tag;
    bool tags, json;
};

struct row {
    char *key, *value;
    uint64_t traces, samples, on_cpu_ns;
};
struct rows {
    struct row *v;
    size_t n, cap;
};

static const char sql_labels[] = "SELECT key, value, count(*), sum(samples), sum(on_cpu_ns) FROM labels"
                                 " WHERE ?1 IS NULL OR key = ?1 GROUP BY key, value";
static const char sql_tags[] = "SELECT 'tag', g.tag, count(*), sum(t.samples), sum(t.on_cpu_ns) FROM tags g"
                               " JOIN traces t ON t.id = g.trace_id"
                               " WHERE ?1 IS NULL OR matches(?1, g.tag) GROUP BY g.tag";

static char *copy_column(sqlite3_stmt *st, int column)
{
    struct dvt_str s = catalog_column(st, column);
    return alloc_text(s.p, s.n);
}

static void take_row(struct rows *rows, sqlite3_stmt *st)
{
    alloc_grow(&rows->v, &rows->cap, rows->n + 1, sizeof *rows->v);
    rows->v[rows->n++] =
        (struct row){copy_column(st, 0), copy_column(st, 1), (uint64_t)sqlite3_column_int64(st, 2),
                     (uint64_t)sqlite3_column_int64(st, 3), (uint64_t)sqlite3_column_int64(st, 4)};
}

static int read_store(struct catalog *c, size_t store, const struct request *r, struct rows *rows,
                      struct dvt_err *err)
{
    sqlite3_stmt *st;
    int step, rc = catalog_prepare(c, store, r->tags ? sql_tags : sql_labels, &st, err);
    if (rc) {
        return rc;
    }
    /* "matches" is a glob over the whole: a prefix gets its star */
    char *pattern = !r->tags  ? NULL
                    : !r->tag ? NULL
                              : alloc_printf("%s%s", r->tag, strchr(r->tag, '*') ? "" : "*");
    const char *condition = r->tags ? pattern : r->key;
    if (condition) {
        sqlite3_bind_text(st, 1, condition, -1, SQLITE_STATIC);
    }
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        take_row(rows, st);
    }
    rc = step == SQLITE_DONE ? 0 : catalog_fail(c, store, "cannot list labels", err);
    sqlite3_finalize(st);
    free(pattern);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : strcmp(x->value, y->value);
}

/* By key, within it the most CPU time first. */
static int by_weight(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    if (order || x->on_cpu_ns == y->on_cpu_ns) {
        return order ? order : strcmp(x->value, y->value);
    }
    return x->on_cpu_ns < y->on_cpu_ns ? 1 : -1;
}

/* Rows of the same label in several stores become one. */
static void merge_same(struct rows *rows)
{
    size_t kept = 0;
    qsort(rows->v, rows->n, sizeof *rows->v, by_name);
    for (size_t i = 1; i < rows->n; i++) {
        if (by_name(&rows->v[kept], &rows->v[i]) != 0) {
            rows->v[++kept] = rows->v[i];
            continue;
        }
        rows->v[kept].traces += rows->v[i].traces;
        rows->v[kept].samples += rows->v[i].samples;
        rows->v[kept].on_cpu_ns += rows->v[i].on_cpu_ns;
        free(rows->v[i].key);
        free(rows->v[i].value);
    }
    rows->n = rows->n ? kept + 1 : 0;
}

static void print_json(const struct request *r, const struct row *row)
{
    struct json j = {.out = stdout};
    json_open(&j, NULL, '{');
    if (!r->tags) {
        json_text(&j, "key", dvt_str(row->key));
    }
    json_text(&j, r->tags ? "tag" : "value", dvt_str(row->value));
    json_u64(&j, "traces", row->traces);
    json_u64(&j, "samples", row->samples);
    json_u64(&j, "on_cpu_ns", row->on_cpu_ns);
    json_close(&j, '}');
    putchar('\n');
}

static void print_table(const struct request *r, const struct rows *rows)
{
    struct term term = term_of(STDOUT_FILENO);
    struct table *t = table_new(4);
    table_heading(t, "TRACES", TABLE_RIGHT);
    table_heading(t, "SAMPLES", TABLE_RIGHT);
    table_heading(t, "ON-CPU", TABLE_RIGHT);
    table_heading(t, r->tags ? "TAG" : "LABEL", TABLE_LEFT);
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->v[i];
        char n[TEXT_NUMBER_MAX];
        text_count(row->traces, n);
        table_cellf(t, "%s", n);
        text_count(row->samples, n);
        table_cellf(t, "%s", n);
        text_duration(row->on_cpu_ns, n);
        table_cellf(t, "%s", n);
        table_cellf(t, "%s%s%s", r->tags ? "" : row->key, r->tags ? "" : "=", row->value);
    }
    table_print(t, &term, stdout);
    table_free(t);
}

static int list(const struct request *r)
{
    struct dvt_err err = {0};
    struct catalog *c = NULL;
    struct rows rows = {0};
    int rc = catalog_open(r->filter.stores, r->filter.n_stores, &c, &err);
    for (size_t s = 0; rc == 0 && s < catalog_stores(c); s++) {
        rc = read_store(c, s, r, &rows, &err);
    }
    merge_same(&rows);
    if (rows.n) {
        qsort(rows.v, rows.n, sizeof *rows.v, by_weight);
    }
    if (rc == 0 && rows.n == 0) {
        rc = dvt_fail(&err, DVT_ENOENT, 0, r->tags ? "no tag matches" : "no trace carries such a label");
    } else if (rc == 0 && !r->json) {
        print_table(r, &rows);
    }
    for (size_t i = 0; i < rows.n; i++) {
        if (rc == 0 && r->json) {
            print_json(r, &rows.v[i]);
        }
        free(rows.v[i].key);
        free(rows.v[i].value);
    }
    free(rows.v);
    catalog_close(c);
    return rc ? cli_report(&err) : CLI_DONE;
}

static int take_option(struct request *r, int id, const char *value, struct dvt_err *err)
{
    switch (id) {
    case OPT_KEY:
        r->key = value;
        return 0;
    case OPT_TAG:
        r->tag = value;
        r->tags = true;
        return 0;
    case OPT_TAGS:
        r->tags = true;
        return 0;
    case OPT_JSON:
        r->json = true;
        return 0;
    case OPT_STORE:
        return filter_take_store(&r->filter, value, err);
    case ARGS_OTHER:
        return dvt_fail(err, DVT_EINVAL, 0, "tags takes no \"%.40s\"; --key KEY shows one label's values",
                        value);
    default:
        return id;
    }
}

static int run(struct args *a)
{
    struct request r = {0};
    struct dvt_err err = {0};
    const char *value;
    int id, rc = 0;
    while (rc == 0 && (id = cli_next(&cmd_tags, a, &value, &err)) != ARGS_END) {
        rc = take_option(&r, id, value, &err);
    }
    return rc ? cli_report(&err) : list(&r);
}

const struct command cmd_tags = {
    .name = "tags",
    .synopsis = "[--key KEY] [--tags] [--tag PREFIX] [--json]",
    .summary = "labels of the traces, with their counts and CPU time",
    .details = "A label's samples are those under scopes that carry it. A trace can carry several values of "
               "one key.",
    .examples = "  dovetail tags\n"
                "  dovetail tags --key tenant\n"
                "  dovetail tags --tag '*checkout*'",
    .options = options,
    .run = run,
};
