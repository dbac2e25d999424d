/*
 * store_index: the index row of a trace, and all that is derived from its chunks.
 *
 * A new chunk adds to what is there (store_rows.c says how labels do); nothing is read back. Only recovery,
 * which finds chunks gone, makes a trace's rows anew from those that are left.
 */
#include "store_impl.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include "../proto/chunk_check.h"

struct root {
    bool is_known;
    uint32_t rank; /* dvt_chunk_root_rank */
    uint64_t start_ns;
    char name[DVT_CHUNK_MAX_STRING + 1], service[DVT_CHUNK_MAX_STRING + 1];
};

struct sums { /* of one trace */
    uint64_t parts;
    int64_t start_ns, end_ns; /* UNIX */
    uint64_t on_cpu_ns, samples, no_stack, scopes, bytes;
    bool is_cut, is_failed;
    struct root root;
};

/* ---- adding up ---- */

static void copy_text(char *out, struct dvt_str v)
{
    size_t n = v.n < DVT_CHUNK_MAX_STRING ? v.n : DVT_CHUNK_MAX_STRING;
    memcpy(out, v.n ? v.p : "", n);
    out[n] = 0;
}

static void consider_root(struct root *r, const struct dvt_chunk *c, const struct dvt_chunk_scope *sc)
{
    uint32_t rank = dvt_chunk_root_rank(sc);
    bool is_better = !r->is_known || rank > r->rank || (rank == r->rank && sc->start_ns < r->start_ns);
    if (!is_better)
        return;
    *r = (struct root){.is_known = true, .rank = rank, .start_ns = sc->start_ns};
    copy_text(r->name, sc->name);
    copy_text(r->service, store_service_of(c, sc));
}

/* A label "error" that does not say no. */
static bool is_failed(const struct dvt_chunk *c)
{
    for (uint32_t i = 0; i < c->n_labels; i++) {
        struct dvt_str v = c->labels[i].value;
        if (dvt_str_eq(c->labels[i].key, dvt_str("error")) && v.n && !dvt_str_eq(v, dvt_str("false")) &&
            !dvt_str_eq(v, dvt_str("0")))
            return true;
    }
    return false;
}

static void add_sums(struct sums *t, const struct dvt_chunk *c, uint64_t bytes)
{
    int64_t start = (int64_t)(c->start_ns + (uint64_t)c->unix_offset_ns);
    int64_t end = (int64_t)(c->end_ns + (uint64_t)c->unix_offset_ns);
    t->start_ns = t->parts == 0 || start < t->start_ns ? start : t->start_ns;
    t->end_ns = t->parts == 0 || end > t->end_ns ? end : t->end_ns;
    t->samples += c->n_samples;
    t->no_stack += c->ledger.no_stack;
    t->scopes += c->n_scopes;
    t->on_cpu_ns += store_on_cpu_ns(c);
    t->bytes += bytes;
    t->is_cut = t->is_cut || c->ledger.cut_short > 0;
    t->is_failed = t->is_failed || is_failed(c);
    for (uint32_t i = 0; i < c->n_scopes; i++)
        consider_root(&t->root, c, &c->scopes[i]);
    t->parts++;
}

/* ---- the trace's row ---- */

static uint64_t column(sqlite3_stmt *q, int at)
{
    return (uint64_t)sqlite3_column_int64(q, at);
}

static struct dvt_str text_column(sqlite3_stmt *q, int at)
{
    const char *p = (const char *)sqlite3_column_text(q, at);
    return (struct dvt_str){p, p ? (size_t)sqlite3_column_bytes(q, at) : 0};
}

static void read_sums(sqlite3_stmt *q, struct sums *t)
{
    *t = (struct sums){.parts = column(q, 0),
                       .start_ns = sqlite3_column_int64(q, 1),
                       .end_ns = sqlite3_column_int64(q, 2),
                       .on_cpu_ns = column(q, 3),
                       .samples = column(q, 4),
                       .no_stack = column(q, 5),
                       .scopes = column(q, 6),
                       .bytes = column(q, 7),
                       .is_cut = column(q, 8) != 0,
                       .is_failed = column(q, 9) != 0};
    t->root.is_known = sqlite3_column_type(q, 10) != SQLITE_NULL;
    t->root.start_ns = column(q, 10);
    t->root.rank = (uint32_t)column(q, 11);
    copy_text(t->root.name, text_column(q, 12));
    copy_text(t->root.service, text_column(q, 13));
}

static int load_sums(struct store *s, int64_t row, struct sums *t, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_TRACE_SUMS);
    sqlite3_bind_int64(q, 1, row);
    int step = sqlite3_step(q);
    if (step == SQLITE_ROW)
        read_sums(q, t);
    sqlite3_reset(q);
    return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading");
}

static int put_sums(struct store *s, int64_t row, const struct sums *t, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_TRACE_UPDATE);
    const int64_t numbers[] = {row,
                               (int64_t)t->parts,
                               t->start_ns,
                               t->end_ns,
                               t->end_ns - t->start_ns,
                               (int64_t)t->on_cpu_ns,
                               (int64_t)t->samples,
                               (int64_t)t->no_stack,
                               (int64_t)t->scopes,
                               (int64_t)t->bytes,
                               t->is_cut,
                               t->is_failed,
                               t->root.rank};
    int at = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sqlite3_bind_int64(q, ++at, numbers[i]);
    sqlite3_bind_text(q, ++at, t->root.name, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, ++at, t->root.service, -1, SQLITE_STATIC);
    if (t->root.is_known) /* else NULL */
        sqlite3_bind_int64(q, ++at, (int64_t)t->root.start_ns);
    return store_sql_run(s, q, err);
}

static int run_on_row(struct store *s, enum statement which, int64_t row, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, which);
    sqlite3_bind_int64(q, 1, row);
    return store_sql_run(s, q, err);
}

int store_index_delete(struct store *s, int64_t trace_row, struct dvt_err *err)
{
    int rc = store_rows_clear(s, trace_row, err);
    if (!rc)
        rc = run_on_row(s, SQL_CHUNKS_CLEAR, trace_row, err);
    return rc ? rc : run_on_row(s, SQL_TRACE_CLEAR, trace_row, err);
}

/* ---- a new chunk ---- */

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

/* Labels of later parts change what is shown of earlier ones. */
static int finish(struct store *s, int64_t row, const struct sums *t, struct dvt_err *err)
{
    int rc = t->parts > 1 ? store_rows_labels_again(s, row, t->samples, t->on_cpu_ns, err) : 0;
    return rc ? rc : put_sums(s, row, t, err);
}

static int add_chunk(struct store *s, int64_t row, const struct dvt_chunk *c, uint64_t bytes,
                     struct dvt_err *err)
{
    struct sums *t = calloc(1, sizeof *t);
    if (!t)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory");
    int rc = load_sums(s, row, t, err);
    if (!rc)
        rc = store_rows_add(s, row, c, err);
    add_sums(t, c, bytes);
    if (!rc)
        rc = finish(s, row, t, err);
    free(t);
    return rc;
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
    return rc ? rc : add_chunk(s, row, c, place->bytes, err);
}

/* ---- a trace anew, from what is left of it ---- */

struct part {
    uint32_t segment;
    uint64_t offset, bytes;
};

static int list_parts(struct store *s, int64_t row, struct part **ret, uint32_t *ret_n, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_CHUNKS_OF_TRACE);
    struct part *list = NULL;
    uint32_t n = 0;
    int step;
    sqlite3_bind_int64(q, 1, row);
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
    return step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading");
}

static int add_part(struct store *s, int64_t row, const struct part *part, struct sums *t,
                    struct dvt_err *err)
{
    struct dvt_chunk c;
    uint8_t *p;
    int rc = store_segment_read(s, part->segment, part->offset, part->bytes, &p, err);
    if (rc)
        return rc;
    /* A part that was damaged since is left out of the sums; `verify` tells of it. */
    if (dvt_chunk_decode(p, part->bytes, &c, NULL) == 0) {
        rc = store_rows_add(s, row, &c, err);
        add_sums(t, &c, part->bytes);
        dvt_chunk_fini(&c);
    }
    free(p);
    return rc;
}

static int index_parts(struct store *s, int64_t row, const struct part *parts, uint32_t n,
                       struct dvt_err *err)
{
    struct sums *t = calloc(1, sizeof *t);
    if (!t)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory");
    int rc = store_rows_clear(s, row, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_part(s, row, &parts[i], t, err);
    if (!rc)
        rc = finish(s, row, t, err);
    free(t);
    return rc;
}

int store_index_row(struct store *s, int64_t trace_row, struct dvt_err *err)
{
    struct part *parts = NULL;
    uint32_t n = 0;
    int rc = list_parts(s, trace_row, &parts, &n, err);
    if (!rc)
        rc = n ? index_parts(s, trace_row, parts, n, err) : store_index_delete(s, trace_row, err);
    free(parts);
    return rc;
}
