/* catalog: opening stores, traces and ids; see catalog.h. Filters to SQL: catalog_filter.c; chunks:
 * catalog_chunks.c. */
#include "catalog.h"
#include "alloc.h"
#include "catalog_internal.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *catalog_default_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/') {
        return alloc_printf("%s/dovetail", state);
    }
    if (geteuid() == 0 || !home) {
        return alloc_text("/var/lib/dovetail", strlen("/var/lib/dovetail"));
    }
    return alloc_printf("%s/.local/state/dovetail", home);
}

struct dvt_str catalog_column(sqlite3_stmt *st, int column)
{
    const char *p = (const char *)sqlite3_column_text(st, column);
    return (struct dvt_str){p ? p : "", p ? (size_t)sqlite3_column_bytes(st, column) : 0};
}

int catalog_fail(const struct catalog *c, size_t store, const char *what, struct dvt_err *err)
{
    sqlite3 *db = c->stores[store].db;
    int code = sqlite3_errcode(db);
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
    return dvt_fail(err, damaged ? DVT_EFORMAT : DVT_EIO, 0, "%s in %s/index.db: %s", what,
                    c->stores[store].dir, sqlite3_errmsg(db));
}

int catalog_prepare(const struct catalog *c, size_t store, const char *sql, sqlite3_stmt **ret,
                    struct dvt_err *err)
{
    if (sqlite3_prepare_v2(c->stores[store].db, sql, -1, ret, NULL) != SQLITE_OK) {
        return catalog_fail(c, store, "cannot ask", err);
    }
    return 0;
}

/* ---- opening ---- */

static int explain_missing(const char *dir, struct dvt_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/segments", dir);
    if (access(dir, F_OK)) {
        return dvt_fail(err, errno == ENOENT ? DVT_EIO : DVT_EPERM, errno,
                        "no store in %s: profile something (dovetail run -- CMD) or name one with --store",
                        dir);
    }
    if (access(dir, R_OK | X_OK)) {
        return dvt_fail(err, DVT_EPERM, errno,
                        "cannot read the store in %s: ask its owner, or use the account of the daemon", dir);
    }
    if (access(path, F_OK) == 0) {
        return dvt_fail(err, DVT_EFORMAT, 0,
                        "the index of the store in %s is missing: starting dovetaild --store %s once "
                        "makes it again from the segments",
                        dir, dir);
    }
    return dvt_fail(err, DVT_EIO, 0, "%s is no Dovetail store: it has no index.db", dir);
}

static int open_db(struct catalog_store *s, bool immutable)
{
    sqlite3_close(s->db);
    s->db = NULL;
    char *uri = sqlite3_mprintf("file:%s/index.db%s", s->escaped, immutable ? "?immutable=1" : "");
    int rc = sqlite3_open_v2(uri, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_free(uri);
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(s->db, 5000);
    }
    return rc;
}

static int store_version(struct catalog_store *s, int *ret_version)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &st, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st) == SQLITE_ROW ? SQLITE_OK : sqlite3_errcode(s->db);
        *ret_version = sqlite3_column_int(st, 0);
        sqlite3_finalize(st);
    }
    return rc;
}

static int check_version(const struct catalog_store *s, int version, struct dvt_err *err)
{
    if (version > DVT_STORE_VERSION) {
        return dvt_fail(err, DVT_EVERSION, 0,
                        "the store in %s has version %d, this dovetail reads up to %d: use a newer one",
                        s->dir, version, DVT_STORE_VERSION);
    }
    if (version > 0 && version < DVT_STORE_VERSION) {
        return dvt_fail(err, DVT_EVERSION, 0,
                        "the store in %s has version %d, this dovetail reads %d: start dovetaild on it, "
                        "which makes its index anew",
                        s->dir, version, DVT_STORE_VERSION);
    }
    if (version != DVT_STORE_VERSION) {
        return dvt_fail(err, DVT_EFORMAT, 0, "%s/index.db is no index of Dovetail's", s->dir);
    }
    return 0;
}

/* '?', '#' and '%' in a path would end or change an SQLite URI. */
static char *escape_uri(const char *path)
{
    char *out = alloc_bytes(strlen(path) * 3 + 1), *o = out;
    for (; *path; path++) {
        if (strchr("?#%", *path)) {
            o += sprintf(o, "%%%02X", (unsigned char)*path);
        } else {
            *o++ = *path;
        }
    }
    return out;
}

static int open_store(struct catalog_store *s, const char *dir, struct dvt_err *err)
{
    char path[4096];
    int version = 0;
    s->dir = alloc_text(dir, strlen(dir));
    s->escaped = escape_uri(dir);
    s->segment_fd = -1;
    if (snprintf(path, sizeof path, "%s/index.db", dir) >= (int)sizeof path || access(path, R_OK)) {
        return explain_missing(dir, err);
    }
    int rc = open_db(s, false);
    if (rc == SQLITE_OK) {
        rc = store_version(s, &version);
    }
    if (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY || rc == SQLITE_PERM) {
        /* WAL needs a shared-memory file beside the index; in a directory we may not write, read it as it
         * stands */
        rc = open_db(s, true);
        rc = rc == SQLITE_OK ? store_version(s, &version) : rc;
    }
    if (rc != SQLITE_OK) {
        return dvt_fail(err, rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT ? DVT_EFORMAT : DVT_EIO, 0,
                        "cannot read %s/index.db: %s", dir,
                        s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
    }
    return check_version(s, version, err);
}

int catalog_open(const char *const *dirs, size_t n, struct catalog **ret, struct dvt_err *err)
{
    char *standard = n ? NULL : catalog_default_dir();
    const char *one[] = {standard};
    struct catalog *c = alloc_bytes(sizeof *c);
    int rc = 0;
    c->n_stores = n ? n : 1;
    c->stores = alloc_array(c->n_stores, sizeof *c->stores);
    for (size_t i = 0; i < c->n_stores; i++) {
        c->stores[i].segment_fd = -1;
    }
    for (size_t i = 0; i < c->n_stores && rc == 0; i++) {
        rc = open_store(&c->stores[i], n ? dirs[i] : one[0], err);
        if (rc == 0) {
            catalog_filter_install(c->stores[i].db);
        }
    }
    free(standard);
    if (rc) {
        catalog_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void catalog_close(struct catalog *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < c->n_stores; i++) {
        struct catalog_store *s = &c->stores[i];
        for (size_t k = 0; k < sizeof s->cached / sizeof *s->cached; k++) {
            sqlite3_finalize(s->cached[k]);
        }
        sqlite3_close(s->db);
        if (s->segment_fd >= 0) {
            close(s->segment_fd);
        }
        free(s->dir);
        free(s->escaped);
    }
    free(c->stores);
    free(c);
}

size_t catalog_stores(const struct catalog *c)
{
    return c->n_stores;
}

const char *catalog_dir(const struct catalog *c, size_t store)
{
    return c->stores[store].dir;
}

/* ---- lists of traces ---- */

static void trace_fini(struct catalog_trace *t)
{
    free(t->root_name);
    free(t->root_service);
    free(t->sources);
}

void catalog_list_fini(struct catalog_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        trace_fini(&l->traces[i]);
    }
    free(l->traces);
    *l = (struct catalog_list){0};
}

uint64_t catalog_u64(sqlite3_stmt *st, int column)
{
    int64_t v = sqlite3_column_int64(st, column);
    return v > 0 ? (uint64_t)v : 0;
}

static char *column_copy(sqlite3_stmt *st, int column)
{
    struct dvt_str s = catalog_column(st, column);
    return alloc_text(s.p, s.n);
}

void catalog_take_row(struct catalog_list *l, sqlite3_stmt *st, uint32_t store)
{
    if (sqlite3_column_bytes(st, 1) != (int)sizeof(struct dvt_trace_id)) {
        return; /* a damaged row: verify reports it */
    }
    alloc_grow(&l->traces, &l->cap, l->n + 1, sizeof *l->traces);
    struct catalog_trace *t = &l->traces[l->n++];
    *t = (struct catalog_trace){
        .start_ns = sqlite3_column_int64(st, 2),
        .end_ns = sqlite3_column_int64(st, 3),
        .duration_ns = catalog_u64(st, 4),
        .on_cpu_ns = catalog_u64(st, 5),
        .blocked_ns = catalog_u64(st, 6),
        .runnable_ns = catalog_u64(st, 7),
        .has_waits = sqlite3_column_type(st, 6) != SQLITE_NULL,
        .samples = catalog_u64(st, 8),
        .no_stack = catalog_u64(st, 9),
        .scopes = catalog_u64(st, 10),
        .root_name = column_copy(st, 11),
        .root_service = column_copy(st, 12),
        .bytes = catalog_u64(st, 13),
        .is_failed = sqlite3_column_int(st, 14) != 0,
        .is_cut = sqlite3_column_int(st, 15) != 0,
    };
    memcpy(t->id.b, sqlite3_column_blob(st, 1), sizeof t->id.b);
    t->sources = alloc_array(1, sizeof *t->sources);
    t->sources[0] = (struct catalog_source){store, sqlite3_column_int64(st, 0)};
    t->n_sources = 1;
}

static int by_id(const void *a, const void *b)
{
    const struct catalog_trace *x = a, *y = b;
    return dvt_trace_id_cmp(&x->id, &y->id);
}

static int by_duration(const void *a, const void *b)
{
    const struct catalog_trace *x = a, *y = b;
    if (x->duration_ns != y->duration_ns) {
        return x->duration_ns < y->duration_ns ? 1 : -1;
    }
    return dvt_trace_id_cmp(&x->id, &y->id);
}

/* Adds what another store knows of the same trace; the longer view names it. */
static void merge(struct catalog_trace *into, struct catalog_trace *from)
{
    if (from->duration_ns > into->duration_ns) {
        char *name = into->root_name, *service = into->root_service;
        into->duration_ns = from->duration_ns;
        into->root_name = from->root_name;
        into->root_service = from->root_service;
        from->root_name = name;
        from->root_service = service;
    }
    into->start_ns = from->start_ns < into->start_ns ? from->start_ns : into->start_ns;
    into->end_ns = from->end_ns > into->end_ns ? from->end_ns : into->end_ns;
    into->on_cpu_ns += from->on_cpu_ns;
    into->blocked_ns += from->blocked_ns;
    into->runnable_ns += from->runnable_ns;
    into->has_waits = into->has_waits && from->has_waits;
    into->samples += from->samples;
    into->no_stack += from->no_stack;
    into->scopes += from->scopes;
    into->bytes += from->bytes;
    into->is_cut = into->is_cut || from->is_cut;
    into->is_failed = into->is_failed || from->is_failed;
    size_t cap = into->n_sources;
    alloc_grow(&into->sources, &cap, into->n_sources + from->n_sources, sizeof *into->sources);
    memcpy(into->sources + into->n_sources, from->sources, from->n_sources * sizeof *from->sources);
    into->n_sources += from->n_sources;
    trace_fini(from);
}

static void merge_same(struct catalog_list *l)
{
    size_t kept = 0;
    qsort(l->traces, l->n, sizeof *l->traces, by_id);
    for (size_t i = 1; i < l->n; i++) {
        if (by_id(&l->traces[kept], &l->traces[i]) == 0) {
            merge(&l->traces[kept], &l->traces[i]);
        } else {
            l->traces[++kept] = l->traces[i];
        }
    }
    l->n = l->n ? kept + 1 : 0;
}

int catalog_traces(struct catalog *c, const struct filter *f, size_t limit, struct catalog_list *ret,
                   struct dvt_err *err)
{
    struct catalog_list list = {0};
    for (uint32_t s = 0; s < c->n_stores; s++) {
        int rc = catalog_filter_run(c, s, f, c->n_stores == 1 ? limit : 0, &list, err);
        if (rc) {
            catalog_list_fini(&list);
            return rc;
        }
    }
    if (c->n_stores > 1 && list.n) {
        merge_same(&list);
        qsort(list.traces, list.n, sizeof *list.traces, by_duration);
    }
    while (limit && list.n > limit) {
        trace_fini(&list.traces[--list.n]);
    }
    *ret = list;
    return 0;
}

int catalog_row(struct catalog *c, struct catalog_source row, struct catalog_list *ret, struct dvt_err *err)
{
    sqlite3_stmt **st = &c->stores[row.store].cached[5];
    *ret = (struct catalog_list){0};
    if (!*st && catalog_prepare(c, row.store,
                                "SELECT " CATALOG_TRACE_COLUMNS " FROM traces t WHERE t.id = ?1", st, err)) {
        return err->code;
    }
    sqlite3_bind_int64(*st, 1, row.row);
    if (sqlite3_step(*st) == SQLITE_ROW) {
        catalog_take_row(ret, *st, row.store);
    }
    return sqlite3_reset(*st) == SQLITE_OK ? 0 : catalog_fail(c, row.store, "cannot read a trace", err);
}

int catalog_count(struct catalog *c, const struct filter *f, size_t max, size_t *ret, struct dvt_err *err)
{
    int rc = 0;
    *ret = 0;
    for (uint32_t s = 0; s < c->n_stores && rc == 0; s++) {
        size_t n = 0;
        rc = catalog_filter_count(c, s, f, max, &n, err);
        *ret += n;
    }
    return rc;
}

/* ---- ids ---- */

static int explain_unknown(struct catalog *c, const char *hex, struct dvt_err *err)
{
    uint64_t n = 0;
    int64_t first = 0, last = 0;
    char count[TEXT_NUMBER_MAX], from[40], to[40];
    for (size_t s = 0; s < c->n_stores; s++) {
        sqlite3_stmt *st;
        if (catalog_prepare(c, s, "SELECT count(*), min(start_ns), max(start_ns) FROM traces", &st, err)) {
            return err->code;
        }
        if (sqlite3_step(st) == SQLITE_ROW && catalog_u64(st, 0)) {
            int64_t lo = sqlite3_column_int64(st, 1), hi = sqlite3_column_int64(st, 2);
            first = n == 0 || lo < first ? lo : first;
            last = n == 0 || hi > last ? hi : last;
            n += catalog_u64(st, 0);
        }
        sqlite3_finalize(st);
    }
    if (n == 0) {
        return dvt_fail(err, DVT_ENOENT, 0, "no trace %.32s: the store in %s is empty", hex,
                        c->stores[0].dir);
    }
    text_count(n, count);
    text_time(first, false, from);
    text_time(last, false, to);
    return dvt_fail(err, DVT_ENOENT, 0, "no trace %.32s: the store has %s trace%s, from %s to %s", hex, count,
                    n == 1 ? "" : "s", from, to);
}

int catalog_find(struct catalog *c, const char *hex, struct catalog_list *ret, struct dvt_err *err)
{
    struct filter f = {0};
    int rc = filter_take(&f, FILTER_OPTION_FIRST, hex, 0, err); /* --trace */
    if (rc == 0) {
        rc = catalog_traces(c, &f, 16, ret, err);
    }
    if (rc == 0 && ret->n == 0) {
        rc = explain_unknown(c, hex, err);
    } else if (rc == 0 && ret->n > 1) {
        rc = dvt_fail(err, DVT_EINVAL, 0, "%.32s is the beginning of several trace ids: give more digits",
                      hex);
    }
    return rc;
}

static size_t common_digits(const struct dvt_trace_id *a, const struct dvt_trace_id *b)
{
    char x[DVT_TRACE_HEX + 1], y[DVT_TRACE_HEX + 1];
    size_t n = 0;
    dvt_trace_id_format(a, x);
    dvt_trace_id_format(b, y);
    while (n < DVT_TRACE_HEX && x[n] == y[n]) {
        n++;
    }
    return n;
}

size_t catalog_unique_digits(struct catalog *c, const struct dvt_trace_id *id)
{
    static const char *const neighbours[] = {
        "SELECT trace FROM traces WHERE trace > ?1 ORDER BY trace LIMIT 1",
        "SELECT trace FROM traces WHERE trace < ?1 ORDER BY trace DESC LIMIT 1"};
    size_t need = 8;
    for (size_t s = 0; s < c->n_stores; s++) {
        for (size_t k = 0; k < 2; k++) {
            sqlite3_stmt **st = &c->stores[s].cached[k];
            struct dvt_trace_id other;
            if (!*st && catalog_prepare(c, s, neighbours[k], st, NULL)) {
                return DVT_TRACE_HEX;
            }
            sqlite3_bind_blob(*st, 1, id->b, sizeof id->b, SQLITE_STATIC);
            if (sqlite3_step(*st) == SQLITE_ROW && sqlite3_column_bytes(*st, 0) == (int)sizeof other.b) {
                memcpy(other.b, sqlite3_column_blob(*st, 0), sizeof other.b);
                size_t digits = common_digits(id, &other) + 1;
                need = digits > need ? digits : need;
            }
            sqlite3_reset(*st);
        }
    }
    return need;
}
