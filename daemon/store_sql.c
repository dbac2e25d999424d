/*
 * store_sql: the index database: opening, prepared statements, transactions.
 *
 * synchronous=NORMAL: in WAL mode a power loss may take the last transactions but not the database; their
 * chunks were synced before, so recovery indexes them again.
 */
#include "store_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const texts[SQL_COUNT] = {
    [SQL_SEGMENT_PUT] = "INSERT INTO segments(id, bytes, sealed) VALUES(?1, ?2, 0)"
                        " ON CONFLICT(id) DO UPDATE SET bytes = excluded.bytes",
    [SQL_SEGMENT_SEAL] = "UPDATE segments SET sealed = ?2 WHERE id = ?1",
    [SQL_CHUNK_PUT] = "INSERT OR REPLACE INTO chunks(trace_id, part, segment, offset, bytes, samples, digest)"
                      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [SQL_CHUNKS_OF_TRACE] = "SELECT segment, offset, bytes, part, digest FROM chunks WHERE trace_id = ?1"
                            " ORDER BY part, segment, offset",
    [SQL_TRACE_FIND] = "SELECT id FROM traces WHERE trace = ?1",
    [SQL_TRACE_PUT] =
        "INSERT INTO traces(trace, start_ns, end_ns, duration_ns, on_cpu_ns, samples, no_stack, scopes,"
        " root_name, root_service, bytes) VALUES(?1, 0, 0, 0, 0, 0, 0, 0, '', '', 0)",
    [SQL_TRACE_SUMS] = "SELECT parts, start_ns, end_ns, on_cpu_ns, samples, no_stack, scopes, bytes, cut,"
                       " failed, root_ns, root_marked, root_name, root_service FROM traces WHERE id = ?1",
    [SQL_TRACE_UPDATE] =
        "UPDATE traces SET parts = ?2, start_ns = ?3, end_ns = ?4, duration_ns = ?5, on_cpu_ns = ?6,"
        " samples = ?7, no_stack = ?8, scopes = ?9, bytes = ?10, cut = ?11, failed = ?12, root_marked = ?13,"
        " root_name = ?14, root_service = ?15, root_ns = ?16 WHERE id = ?1",
    [SQL_LABEL_PUT] =
        "INSERT INTO labels(key, value, trace_id, samples, on_cpu_ns, near_samples, near_on_cpu_ns)"
        " VALUES(?2, ?3, ?1, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET"
        " near_samples = near_samples + excluded.near_samples,"
        " near_on_cpu_ns = near_on_cpu_ns + excluded.near_on_cpu_ns",
    [SQL_LABELS_NEAR] = "UPDATE labels SET samples = near_samples, on_cpu_ns = near_on_cpu_ns"
                        " WHERE trace_id = ?1",
    [SQL_LABELS_COMMON] = "UPDATE labels SET samples = ?2, on_cpu_ns = ?3 WHERE trace_id = ?1 AND key IN"
                          " (SELECT key FROM labels WHERE trace_id = ?1 GROUP BY key HAVING count(*) = 1)",
    [SQL_SPAN_PUT] = "INSERT OR IGNORE INTO spans(span, trace_id) VALUES(?2, ?1)",
    [SQL_TAG_PUT] = "INSERT OR IGNORE INTO tags(tag, trace_id) VALUES(?2, ?1)",
    [SQL_NAME_PUT] = "INSERT INTO names(name, service, trace_id, samples) VALUES(?2, ?3, ?1, ?4)"
                     " ON CONFLICT DO UPDATE SET samples = samples + excluded.samples",
    [SQL_LABELS_CLEAR] = "DELETE FROM labels WHERE trace_id = ?1",
    [SQL_SPANS_CLEAR] = "DELETE FROM spans WHERE trace_id = ?1",
    [SQL_TAGS_CLEAR] = "DELETE FROM tags WHERE trace_id = ?1",
    [SQL_NAMES_CLEAR] = "DELETE FROM names WHERE trace_id = ?1",
    [SQL_CHUNKS_CLEAR] = "DELETE FROM chunks WHERE trace_id = ?1",
    [SQL_TRACE_CLEAR] = "DELETE FROM traces WHERE id = ?1",
    [SQL_META_PUT] = "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)",
    [SQL_DROPPED_PUT] = "INSERT INTO dropped(service, name, count) VALUES(?1, ?2, ?3)"
                        " ON CONFLICT DO UPDATE SET count = count + excluded.count",
    [SQL_PROCESS_PUT] =
        "INSERT INTO processes(boot, pid, start_ticks, service, runtime, program, first_ns, last_ns, ledger)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET service = excluded.service,"
        " runtime = excluded.runtime, program = excluded.program,"
        " last_ns = max(last_ns, excluded.last_ns), ledger = excluded.ledger",
};

static int error_code(int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return DVT_EFORMAT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return DVT_EPERM;
    case SQLITE_NOMEM:
        return DVT_ENOMEM;
    default:
        return DVT_EIO;
    }
}

int store_sql_fail(struct store *s, struct dvt_err *err, const char *what)
{
    int code = sqlite3_errcode(s->db);
    if ((code & 0xff) == SQLITE_FULL)
        return dvt_fail(err, DVT_EIO, sqlite3_system_errno(s->db),
                        "store: disk full while %s in %s/index.db: free space or lower the budget", what,
                        s->dir_name);
    return dvt_fail(err, error_code(code), sqlite3_system_errno(s->db), "store: %s in %s/index.db: %s", what,
                    s->dir_name, sqlite3_errmsg(s->db));
}

int store_sql_exec(struct store *s, const char *sql, struct dvt_err *err)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return store_sql_fail(s, err, "changing the index");
}

sqlite3_stmt *store_sql(struct store *s, enum statement which)
{
    sqlite3_reset(s->statements[which]);
    sqlite3_clear_bindings(s->statements[which]);
    return s->statements[which];
}

int store_sql_run(struct store *s, sqlite3_stmt *q, struct dvt_err *err)
{
    int rc = sqlite3_step(q) == SQLITE_DONE ? 0 : store_sql_fail(s, err, "writing");
    sqlite3_reset(q);
    return rc;
}

int store_sql_int(struct store *s, const char *sql, int64_t a, int64_t b, int64_t *ret, struct dvt_err *err)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(s, err, "reading");
    sqlite3_bind_int64(q, 1, a); /* out of range for a statement with fewer parameters: then ignored */
    sqlite3_bind_int64(q, 2, b);
    int step = sqlite3_step(q);
    if (step == SQLITE_ROW)
        *ret = sqlite3_column_int64(q, 0);
    int rc = step == SQLITE_ROW || step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading");
    sqlite3_finalize(q);
    return rc;
}

int store_begin(struct store *s, struct dvt_err *err)
{
    if (s->is_in_transaction)
        return 0;
    int rc = store_sql_exec(s, "BEGIN IMMEDIATE", err);
    s->is_in_transaction = rc == 0;
    return rc;
}

static int check_version(struct store *s, struct dvt_err *err)
{
    int64_t version = 0, tables = 0;
    int rc = store_sql_int(s, "PRAGMA user_version", 0, 0, &version, err);
    if (!rc)
        rc = store_sql_int(s, "SELECT count(*) FROM sqlite_schema", 0, 0, &tables, err);
    if (rc)
        return rc;
    if (version > DVT_STORE_VERSION)
        return dvt_fail(
            err, DVT_EVERSION, 0,
            "store: %s has format %lld, newer than this program's %d: update dovetail or use another --store",
            s->dir_name, (long long)version, DVT_STORE_VERSION);
    if (version > 0 && version < DVT_STORE_VERSION)
        return dvt_fail(err, DVT_EFORMAT, 0, "store: %s/index.db is of an older format", s->dir_name);
    if (version == 0 && tables > 0)
        return dvt_fail(err, DVT_EINVAL, 0, "store: %s/index.db is not Dovetail's: use another --store",
                        s->dir_name);
    return 0;
}

static int prepare_all(struct store *s, struct dvt_err *err)
{
    char version[64];
    snprintf(version, sizeof version, "PRAGMA user_version = %d", DVT_STORE_VERSION);
    int rc = store_sql_exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", err);
    if (!rc)
        rc = store_sql_exec(s, DVT_STORE_SCHEMA, err);
    if (!rc)
        rc = store_sql_exec(s, version, err);
    for (int i = 0; !rc && i < SQL_COUNT; i++)
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL) !=
            SQLITE_OK)
            rc = store_sql_fail(s, err, "preparing");
    return rc;
}

int store_sql_open(struct store *s, struct dvt_err *err)
{
    char *path;
    if (asprintf(&path, "%s/index.db", s->dir_name) < 0)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory");
    int open =
        sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    free(path);
    if (open != SQLITE_OK)
        return store_sql_fail(s, err, "opening");
    sqlite3_busy_timeout(s->db, 5000); /* a reader that checkpoints */
    int rc = check_version(s, err);
    return rc ? rc : prepare_all(s, err);
}

void store_sql_close(struct store *s)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(s->statements[i]);
        s->statements[i] = NULL;
    }
    sqlite3_close(s->db); /* NULL is fine; checkpoints the WAL */
    s->db = NULL;
}
