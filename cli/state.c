/* state: see state.h. */
#include "state.h"
#include "alloc.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct state {
    sqlite3 *db;
    sqlite3_stmt *extract;
    char *json;
    size_t n;
    bool is_item; /* of a state that owns db and extract */
};

static struct state *make(sqlite3 *db, sqlite3_stmt *extract, struct dvt_str json, bool is_item)
{
    struct state *s = alloc_bytes(sizeof *s);
    *s = (struct state){db, extract, alloc_text(json.p, json.n), json.n, is_item};
    return s;
}

int state_new(struct dvt_str json, struct state **ret, struct dvt_err *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL) ||
        sqlite3_prepare_v2(db, "SELECT json_extract(?1, ?2)", -1, &st, NULL)) {
        int code =
            dvt_fail(err, DVT_EIO, 0, "SQLite without JSON: %s", db ? sqlite3_errmsg(db) : "out of memory");
        sqlite3_close(db);
        return code;
    }
    struct state *s = make(db, st, json, false);
    if (state_text(s, "$").n < 2 || s->json[0] != '{') {
        state_free(s);
        return dvt_fail(err, DVT_EFORMAT, 0, "the daemon's state is no JSON object");
    }
    *ret = s;
    return 0;
}

void state_free(struct state *s)
{
    if (!s) {
        return;
    }
    if (!s->is_item) {
        sqlite3_finalize(s->extract);
        sqlite3_close(s->db);
    }
    free(s->json);
    free(s);
}

static bool step(struct state *s, const char *path)
{
    sqlite3_reset(s->extract);
    sqlite3_bind_text64(s->extract, 1, s->json, s->n, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_text(s->extract, 2, path, -1, SQLITE_TRANSIENT);
    return sqlite3_step(s->extract) == SQLITE_ROW;
}

uint64_t state_u64(struct state *s, const char *path)
{
    int64_t v = step(s, path) ? sqlite3_column_int64(s->extract, 0) : 0;
    return v > 0 ? (uint64_t)v : 0;
}

double state_number(struct state *s, const char *path)
{
    return step(s, path) ? sqlite3_column_double(s->extract, 0) : 0;
}

bool state_bool(struct state *s, const char *path)
{
    return step(s, path) && sqlite3_column_int(s->extract, 0) != 0;
}

struct dvt_str state_text(struct state *s, const char *path)
{
    const char *p = step(s, path) ? (const char *)sqlite3_column_text(s->extract, 0) : NULL;
    return (struct dvt_str){p ? p : "", p ? (size_t)sqlite3_column_bytes(s->extract, 0) : 0};
}

static sqlite3_stmt *each(struct state *s, const char *path)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT value FROM json_each(?1, ?2)", -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_text64(st, 1, s->json, s->n, SQLITE_STATIC, SQLITE_UTF8);
        sqlite3_bind_text(st, 2, path, -1, SQLITE_STATIC);
    }
    return st;
}

static struct dvt_str row_text(sqlite3_stmt *st)
{
    const char *p = (const char *)sqlite3_column_text(st, 0);
    return (struct dvt_str){p ? p : "", p ? (size_t)sqlite3_column_bytes(st, 0) : 0};
}

size_t state_items(struct state *s, const char *path, struct state ***ret_items)
{
    sqlite3_stmt *st = each(s, path);
    size_t n = 0, cap = 0;
    *ret_items = NULL;
    while (st && sqlite3_step(st) == SQLITE_ROW) {
        alloc_grow(ret_items, &cap, n + 1, sizeof **ret_items);
        (*ret_items)[n++] = make(s->db, s->extract, row_text(st), true);
    }
    sqlite3_finalize(st);
    return n;
}

void state_free_items(struct state **items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        state_free(items[i]);
    }
    free(items);
}

void state_texts(struct state *s, const char *path, void (*fn)(void *ctx, struct dvt_str text), void *ctx)
{
    sqlite3_stmt *st = each(s, path);
    while (st && sqlite3_step(st) == SQLITE_ROW) {
        fn(ctx, row_text(st));
    }
    sqlite3_finalize(st);
}

int64_t state_ledger_gap(struct state *s, const char *path)
{
    static const char *const parts[] = {"joined",  "outside",    "ambiguous", "repeated",
                                        "pending", "lost_queue", "lost_end"};
    char field[128];
    snprintf(field, sizeof field, "%s.samples", path);
    int64_t gap = (int64_t)state_u64(s, field);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(field, sizeof field, "%s.%s", path, parts[i]);
        gap -= (int64_t)state_u64(s, field);
    }
    return gap;
}
