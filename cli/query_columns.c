/*
 * query_columns: which chunks are answered by which column file, and which are read from their segment:
 * traces of several parts, and chunks younger than the file while they are few. See query_columns.h.
 */
#include "query_columns.h"
#include "alloc.h"
#include "term.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { YOUNG_MAX = 512 }; /* more chunks than this without columns: make the file anew */

struct row { /* of the index: one chunk */
    int64_t trace;
    uint64_t offset, digest;
    uint32_t segment, bytes;
};
struct scan {
    struct row *rows; /* by segment, offset */
    size_t n, cap;
    int64_t *several; /* [n_several] traces of several parts, sorted, each once */
    size_t n_several;
};
struct job {
    struct catalog *c;
    uint32_t store;
    const struct filter *f;
    const struct query_options *o;
    struct tree *tree;
    struct tree_meta *meta;
    struct scan scan;
    int64_t *direct; /* [n_direct] traces to read from segments */
    size_t n_direct, cap_direct;
    struct term_progress progress;
};

bool query_columns_can(const struct filter *f, const struct query_options *o)
{
    return !f->trace && !f->span && !f->tag && !o->processes && !o->tids && o->by == QUERY_BY_NONE;
}

/* ---- the index ---- */

static int by_trace(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void find_several(struct scan *s)
{
    int64_t *traces = alloc_array(s->n, sizeof *traces);
    for (size_t i = 0; i < s->n; i++) {
        traces[i] = s->rows[i].trace;
    }
    qsort(traces, s->n, sizeof *traces, by_trace);
    for (size_t i = 1; i < s->n; i++) {
        bool again = traces[i] == traces[i - 1],
             known = s->n_several && traces[s->n_several - 1] == traces[i];
        if (again && !known) {
            traces[s->n_several++] = traces[i]; /* behind what is still to be read: n_several <= i / 2 */
        }
    }
    s->several = traces;
}

static bool is_ascending(const struct scan *s)
{
    for (size_t i = 1; i < s->n; i++) {
        if (s->rows[i].trace <= s->rows[i - 1].trace) {
            return false;
        }
    }
    return true;
}

static int scan_chunks(struct job *j, struct dvt_err *err)
{
    struct scan *s = &j->scan;
    sqlite3_stmt *st;
    int step,
        rc = catalog_prepare(
            j->c, j->store,
            "SELECT trace_id, segment, offset, bytes, digest FROM chunks ORDER BY segment, offset", &st, err);
    if (rc) {
        return rc;
    }
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        alloc_grow(&s->rows, &s->cap, s->n + 1, sizeof *s->rows);
        struct row *r = &s->rows[s->n++];
        *r = (struct row){.trace = sqlite3_column_int64(st, 0),
                          .segment = (uint32_t)sqlite3_column_int64(st, 1),
                          .offset = (uint64_t)sqlite3_column_int64(st, 2),
                          .bytes = (uint32_t)sqlite3_column_int64(st, 3)};
        if (sqlite3_column_bytes(st, 4) >= (int)sizeof r->digest) {
            memcpy(&r->digest, sqlite3_column_blob(st, 4), sizeof r->digest);
        }
    }
    rc = step == SQLITE_DONE ? 0 : catalog_fail(j->c, j->store, "cannot read chunks", err);
    sqlite3_finalize(st);
    if (rc == 0 && !is_ascending(s)) { /* traces of one part, written in their order, need no look */
        find_several(s);
    }
    return rc;
}

static bool has_several(const struct scan *s, int64_t trace)
{
    return s->n_several && bsearch(&trace, s->several, s->n_several, sizeof *s->several, by_trace);
}

static void read_directly(struct job *j, int64_t trace)
{
    alloc_grow(&j->direct, &j->cap_direct, j->n_direct + 1, sizeof *j->direct);
    j->direct[j->n_direct++] = trace;
}

/* ---- one segment ---- */

static struct catalog_chunk where_of(const struct job *j, const struct row *r)
{
    struct catalog_chunk where = {.store = j->store,
                                  .segment = r->segment,
                                  .offset = r->offset,
                                  .bytes = r->bytes,
                                  .trace_row = r->trace};
    memcpy(where.digest, &r->digest, sizeof r->digest);
    return where;
}

static int build_chunk(struct job *j, struct columns_builder *b, const struct row *r, struct dvt_err *err)
{
    struct catalog_chunk where = where_of(j, r);
    struct parts one;
    if (has_several(&j->scan, r->trace)) {
        columns_builder_skip(b, &where);
        return 0;
    }
    int rc = parts_read_chunk(j->c, &where, &one, err);
    if (rc == 0) {
        columns_builder_add(b, &where, &one);
        parts_fini(&one);
    }
    return rc;
}

static int build(struct job *j, const struct row *rows, size_t n, struct columns_file *ret,
                 struct dvt_err *err)
{
    struct columns_builder *b = columns_builder_new();
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = build_chunk(j, b, &rows[i], err);
        term_progress_at(&j->progress, (uint64_t)(rows - j->scan.rows) + i);
    }
    if (rc == 0) {
        size_t bytes;
        uint8_t *image = columns_builder_finish(b, &bytes);
        rc = columns_file_adopt(catalog_dir(j->c, j->store), rows[0].segment, image, bytes, ret, err);
    }
    columns_builder_free(b);
    return rc;
}

/* Marks the file's chunks that are still what the index says; returns how many rows of the index it does not
 * know. */
static size_t match(const struct columns_view *v, const struct row *rows, size_t n, bool *is_live,
                    bool *is_known)
{
    size_t unknown = 0;
    uint32_t k = 0;
    memset(is_live, 0, v->n_chunks);
    for (size_t i = 0; i < n; i++) {
        while (k < v->n_chunks && v->chunks[k].offset < rows[i].offset) {
            k++;
        }
        is_known[i] =
            k < v->n_chunks && v->chunks[k].offset == rows[i].offset && v->chunks[k].digest == rows[i].digest;
        if (is_known[i]) {
            is_live[k] = true;
        }
        unknown += !is_known[i];
    }
    return unknown;
}

/* Chunks that columns do not answer go to the direct list; the file's chunks of traces that meanwhile have
 * more parts too. */
static void divide(struct job *j, const struct columns_view *v, const struct row *rows, size_t n,
                   bool *is_live, const bool *is_known)
{
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++) {
        while (is_known[i] && v->chunks[k].offset < rows[i].offset) {
            k++;
        }
        bool several = has_several(&j->scan, rows[i].trace);
        if (is_known[i] && v->chunks[k].is_whole && !several) {
            continue;
        }
        if (is_known[i]) {
            is_live[k] = false;
        }
        read_directly(j, rows[i].trace);
    }
}

static int fold_segment(struct job *j, const struct row *rows, size_t n, struct dvt_err *err)
{
    struct columns_file file;
    struct dvt_err quiet;
    bool *is_known = alloc_array(n, sizeof *is_known), *is_live = NULL;
    int rc = columns_file_open(catalog_dir(j->c, j->store), rows[0].segment, &file, &quiet);
    bool usable = rc == 0;
    if (usable) {
        is_live = alloc_array(file.view.n_chunks, sizeof *is_live);
        usable = match(&file.view, rows, n, is_live, is_known) <= YOUNG_MAX;
        if (!usable) {
            free(is_live);
            columns_file_close(&file);
        }
    }
    if (!usable) {
        rc = build(j, rows, n, &file, err);
        if (rc == 0) {
            is_live = alloc_array(file.view.n_chunks, sizeof *is_live);
            match(&file.view, rows, n, is_live, is_known);
        }
    }
    if (rc == 0) {
        divide(j, &file.view, rows, n, is_live, is_known);
        query_columns_fold(&file.view, is_live, j->f, j->o, j->tree, j->meta);
        free(is_live);
        columns_file_close(&file);
    }
    free(is_known);
    return rc;
}

/* ---- one store ---- */

static int read_direct(struct job *j, struct dvt_err *err)
{
    int rc = 0;
    if (j->n_direct) {
        qsort(j->direct, j->n_direct, sizeof *j->direct, by_trace);
    }
    for (size_t i = 0; i < j->n_direct && rc == 0; i++) {
        if (i == 0 || j->direct[i] != j->direct[i - 1]) {
            rc = query_row(j->c, (struct catalog_source){j->store, j->direct[i]}, j->f, j->o, j->tree,
                           j->meta, err);
        }
    }
    return rc;
}

static int query_store(struct job *j, struct dvt_err *err)
{
    int rc = scan_chunks(j, err);
    term_progress_start(&j->progress, "preparing columns", j->scan.n);
    for (size_t i = 0, end; i < j->scan.n && rc == 0; i = end) {
        for (end = i + 1; end < j->scan.n && j->scan.rows[end].segment == j->scan.rows[i].segment; end++) {
        }
        rc = fold_segment(j, j->scan.rows + i, end - i, err);
    }
    term_progress_end(&j->progress);
    if (rc == 0) {
        rc = read_direct(j, err);
    }
    free(j->scan.rows);
    free(j->scan.several);
    free(j->direct);
    return rc;
}

int query_columns(struct catalog *c, const struct filter *f, const struct query_options *o, struct tree *tree,
                  struct tree_meta *meta, struct dvt_err *err)
{
    int rc = 0;
    for (uint32_t s = 0; s < catalog_stores(c) && rc == 0; s++) {
        struct job j = {.c = c, .store = s, .f = f, .o = o, .tree = tree, .meta = meta};
        rc = query_store(&j, err);
    }
    if (rc == 0) {
        tree_finish(tree);
    }
    return rc;
}
