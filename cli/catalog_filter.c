/*
 * catalog_filter: a filter as one SQL statement. Every condition is a set of trace rows (`t.id IN (...)`), so
 * that SQLite begins with whichever is small and has an index. Values are bound, never pasted.
 */
#include "alloc.h"
#include "catalog_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void glob_function(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    (void)n;
    const char *pattern = (const char *)sqlite3_value_text(v[0]),
               *text = (const char *)sqlite3_value_text(v[1]);
    bool matches =
        pattern && text && filter_glob(pattern, (struct dvt_str){text, (size_t)sqlite3_value_bytes(v[1])});
    sqlite3_result_int(ctx, matches);
}

void catalog_filter_install(sqlite3 *db)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    sqlite3_create_function_v2(db, "matches", 2, flags, NULL, glob_function, NULL, NULL, NULL);
}

/* The statement under construction: text and the values in the order of their question marks. */
struct build {
    char sql[6000];
    size_t n;
    struct {
        const void *p;
        size_t n;
        int64_t i;
        enum { BIND_TEXT, BIND_BLOB, BIND_INT } kind;
    } values[2 * FILTER_MAX_LABELS + 24];
    int n_values;
    struct dvt_trace_id trace_lo, trace_hi;
    struct dvt_span_id span_lo, span_hi;
};

static void add(struct build *b, const char *sql)
{
    b->n += (size_t)snprintf(b->sql + b->n, sizeof b->sql - b->n, "%s",
                             sql); /* bounded by FILTER_MAX_LABELS: fits */
}

static void bind_text(struct build *b, const char *p, size_t n)
{
    b->values[b->n_values].kind = BIND_TEXT;
    b->values[b->n_values].p = p;
    b->values[b->n_values++].n = n;
}

static void bind_blob(struct build *b, const void *p, size_t n)
{
    b->values[b->n_values].kind = BIND_BLOB;
    b->values[b->n_values].p = p;
    b->values[b->n_values++].n = n;
}

static void bind_int(struct build *b, int64_t v)
{
    b->values[b->n_values].kind = BIND_INT;
    b->values[b->n_values++].i = v;
}

/* "column = ?" or "matches(?, column)". */
static void add_match(struct build *b, const char *column, const char *pattern)
{
    add(b, filter_has_glob(pattern) ? "matches(?, " : "? = ");
    add(b, column);
    add(b, filter_has_glob(pattern) ? ")" : "");
    bind_text(b, pattern, strlen(pattern));
}

/* The first and the last id that begin with the hex digits. */
static void prefix_range(const char *hex, uint8_t *lo, uint8_t *hi, size_t bytes)
{
    size_t n = strlen(hex);
    for (size_t i = 0; i < 2 * bytes; i++) {
        char c = i < n ? hex[i] : 0;
        unsigned digit = c >= 'a'   ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' ? (unsigned)(c - 'A' + 10)
                                    : (unsigned)(c - '0');
        unsigned low = i < n ? digit : 0, high = i < n ? digit : 15;
        lo[i / 2] = (uint8_t)(i % 2 ? lo[i / 2] | low : low << 4);
        hi[i / 2] = (uint8_t)(i % 2 ? hi[i / 2] | high : high << 4);
    }
}

static void add_ids(struct build *b, const struct filter *f)
{
    if (f->trace) {
        prefix_range(f->trace, b->trace_lo.b, b->trace_hi.b, sizeof b->trace_lo.b);
        add(b, " AND t.trace BETWEEN ? AND ?");
        bind_blob(b, b->trace_lo.b, sizeof b->trace_lo.b);
        bind_blob(b, b->trace_hi.b, sizeof b->trace_hi.b);
    }
    if (f->span) {
        prefix_range(f->span, b->span_lo.b, b->span_hi.b, sizeof b->span_lo.b);
        add(b, " AND t.id IN (SELECT trace_id FROM spans WHERE span BETWEEN ? AND ?)");
        bind_blob(b, b->span_lo.b, sizeof b->span_lo.b);
        bind_blob(b, b->span_hi.b, sizeof b->span_hi.b);
    }
}

static void add_labels(struct build *b, const struct filter *f)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        add(b, " AND t.id IN (SELECT trace_id FROM labels WHERE key = ? AND ");
        bind_text(b, f->labels[i].key.p, f->labels[i].key.n);
        add_match(b, "value", f->labels[i].value);
        add(b, ")");
    }
}

static void add_tag(struct build *b, const char *tag)
{
    if (!tag) {
        return;
    }
    if (strchr(tag, '*')) {
        add(b, " AND t.id IN (SELECT trace_id FROM tags WHERE matches(?, tag))");
        bind_text(b, tag, strlen(tag));
        return;
    }
    add(b,
        " AND t.id IN (SELECT trace_id FROM tags WHERE tag >= ? AND tag < ? || char(1114111))"); /* U+10FFFF
                                                                                                    sorts
                                                                                                    last */
    bind_text(b, tag, strlen(tag));
    bind_text(b, tag, strlen(tag));
}

static void add_names(struct build *b, const struct filter *f)
{
    if (f->name) {
        add(b, " AND t.id IN (SELECT trace_id FROM names WHERE ");
        add_match(b, "name", f->name);
        add(b, ")");
    }
    if (f->service) {
        add(b, " AND t.id IN (SELECT trace_id FROM names WHERE ");
        add_match(b, "service", f->service);
        add(b, ")");
    }
}

static void add_times(struct build *b, const struct filter *f)
{
    if (f->since_ns) {
        add(b, " AND t.start_ns >= ?");
        bind_int(b, f->since_ns);
    }
    if (f->until_ns) {
        add(b, " AND t.start_ns < ?");
        bind_int(b, f->until_ns);
    }
    if (f->min_duration_ns) {
        add(b, " AND t.duration_ns >= ?");
        bind_int(b, (int64_t)f->min_duration_ns);
    }
}

static void bind_all(sqlite3_stmt *st, const struct build *b)
{
    for (int i = 0; i < b->n_values; i++) {
        if (b->values[i].kind == BIND_TEXT) {
            sqlite3_bind_text64(st, i + 1, b->values[i].p, b->values[i].n, SQLITE_STATIC, SQLITE_UTF8);
        } else if (b->values[i].kind == BIND_BLOB) {
            sqlite3_bind_blob64(st, i + 1, b->values[i].p, b->values[i].n, SQLITE_STATIC);
        } else {
            sqlite3_bind_int64(st, i + 1, b->values[i].i);
        }
    }
}

static bool is_one_label(const struct filter *f)
{
    bool others = f->trace || f->span || f->tag || f->name || f->service;
    return f->n_labels == 1 && !others && !f->since_ns && !f->until_ns && !f->min_duration_ns;
}

static void add_conditions(struct build *b, const struct filter *f)
{
    add(b, " FROM traces t WHERE 1");
    add_ids(b, f);
    add_labels(b, f);
    add_tag(b, f->tag);
    add_names(b, f);
    add_times(b, f);
}

int catalog_filter_count(struct catalog *c, uint32_t store, const struct filter *f, size_t max, size_t *ret,
                         struct dvt_err *err)
{
    struct build *b = alloc_bytes(sizeof *b);
    sqlite3_stmt *st = NULL;
    add(b, "SELECT count(*) FROM (SELECT ");
    if (is_one_label(
            f)) { /* ends at max; as one of several conditions it would be a set of all its traces first */
        add(b, "DISTINCT trace_id FROM labels WHERE key = ? AND ");
        bind_text(b, f->labels[0].key.p, f->labels[0].key.n);
        add_match(b, "value", f->labels[0].value);
    } else {
        add(b, "1");
        add_conditions(b, f);
    }
    add(b, " LIMIT ?)");
    bind_int(b, (int64_t)max);
    int rc = catalog_prepare(c, store, b->sql, &st, err);
    if (rc == 0) {
        bind_all(st, b);
        bool counted = sqlite3_step(st) == SQLITE_ROW;
        *ret = counted ? (size_t)sqlite3_column_int64(st, 0) : 0;
        rc = counted ? 0 : catalog_fail(c, store, "cannot count traces", err);
        sqlite3_finalize(st);
    }
    free(b);
    return rc;
}

int catalog_filter_run(struct catalog *c, uint32_t store, const struct filter *f, size_t limit,
                       struct catalog_list *list, struct dvt_err *err)
{
    struct build *b = alloc_bytes(sizeof *b);
    sqlite3_stmt *st = NULL;
    add(b, "SELECT " CATALOG_TRACE_COLUMNS);
    add_conditions(b, f);
    add(b, " ORDER BY t.duration_ns DESC, t.trace");
    if (limit) {
        add(b, " LIMIT ?");
        bind_int(b, (int64_t)limit);
    }
    int rc = catalog_prepare(c, store, b->sql, &st, err), step;
    if (rc == 0) {
        bind_all(st, b);
        while ((step = sqlite3_step(st)) == SQLITE_ROW) {
            catalog_take_row(list, st, store);
        }
        rc = step == SQLITE_DONE ? 0 : catalog_fail(c, store, "cannot list traces", err);
        sqlite3_finalize(st);
    }
    free(b);
    return rc;
}
