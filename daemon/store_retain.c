/*
 * store_retain: the byte budget. Whole traces are deleted, oldest first; the slowest and failed ones after
 * all others, pinned ones last of all. Then segments without live chunks are unlinked, and those with a
 * quarter or more of dead bytes are rewritten under a new number.
 *
 * Crash-safe order of a rewrite: copy, sync; one transaction moves the rows and marks the old segment doomed;
 * unlink; its row goes with the next transaction. Recovery drops doomed segments. Chunks are copied byte for
 * byte: digests hold.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 256, MAX_ROUNDS = 16 };

/* ---- which traces go ---- */

/* Durations from here up are among the slowest that are kept longest. */
static int slow_from(struct store *s, int64_t *ret, struct dvt_err *err)
{
    *ret = INT64_MAX;
    return store_sql_int(s,
                         "SELECT duration_ns FROM traces ORDER BY duration_ns DESC LIMIT 1"
                         " OFFSET (SELECT count(*) * ?1 / 1000 FROM traces)",
                         (int64_t)s->config.slow_keep_permille, 0, ret, err);
}

struct victims {
    int64_t rows[BATCH];
    uint64_t bytes[BATCH];
    uint32_t n;
};

/* class 0: plain traces, 1: slow and failed, 2: pinned. */
static int pick(struct store *s, int class, int64_t slow_ns, struct victims *v, struct dvt_err *err)
{
    static const char *const where[] = {"pinned = 0 AND failed = 0 AND duration_ns <= ?1", "pinned = 0", "1"};
    char sql[256];
    sqlite3_stmt *q;
    int step;
    v->n = 0;
    sqlite3_snprintf(sizeof sql, sql, "SELECT id, bytes FROM traces WHERE %s ORDER BY start_ns LIMIT %d",
                     where[class], BATCH);
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(s, err, "reading traces");
    sqlite3_bind_int64(q, 1, slow_ns); /* only class 0 has it */
    while ((step = sqlite3_step(q)) == SQLITE_ROW) {
        v->rows[v->n] = sqlite3_column_int64(q, 0);
        v->bytes[v->n++] = (uint64_t)sqlite3_column_int64(q, 1);
    }
    sqlite3_finalize(q);
    return step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading traces");
}

/* Deletes index rows until live bytes are at most goal; returns traces deleted or < 0. */
static int delete_traces(struct store *s, uint64_t live, uint64_t goal, struct dvt_err *err)
{
    struct victims v;
    int64_t slow_ns;
    int deleted = 0, rc = slow_from(s, &slow_ns, err);
    for (int class = 0; class < 3 && !rc && live > goal;) {
        rc = pick(s, class, slow_ns, &v, err);
        class += v.n == 0;
        for (uint32_t i = 0; i < v.n && !rc && live > goal; i++) {
            rc = store_index_delete(s, v.rows[i], err);
            live -= v.bytes[i] < live ? v.bytes[i] : live;
            deleted++;
        }
    }
    return rc ? rc : deleted;
}

/* ---- segments ---- */

struct old_segment {
    uint32_t id;
    uint64_t bytes, live;
};

/* The next sealed segment after id with a quarter or more of dead bytes; false if there is none. */
static int next_sparse(struct store *s, uint32_t after, struct old_segment *ret, bool *ret_found,
                       struct dvt_err *err)
{
    sqlite3_stmt *q;
    const char *sql =
        "SELECT id, bytes, live FROM (SELECT id, bytes,"
        " (SELECT coalesce(sum(c.bytes), 0) FROM chunks c WHERE c.segment = s.id) AS live"
        " FROM segments s WHERE id > ?1 AND sealed = 1) WHERE live <= bytes - bytes / 4 ORDER BY id LIMIT 1";
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(s, err, "reading segments");
    sqlite3_bind_int64(q, 1, after);
    int step = sqlite3_step(q);
    *ret_found = step == SQLITE_ROW;
    if (*ret_found)
        *ret =
            (struct old_segment){(uint32_t)sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1),
                                 (uint64_t)sqlite3_column_int64(q, 2)};
    sqlite3_finalize(q);
    return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : store_sql_fail(s, err, "reading segments");
}

static int append_to(int fd, const uint8_t *p, uint64_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno != EINTR)
            return errno;
        if (w > 0)
            p += w, n -= (uint64_t)w;
    }
    return 0;
}

static int move_chunk(struct store *s, int fd, const struct old_segment *old, uint64_t offset, uint64_t bytes,
                      uint32_t to, uint64_t at, struct dvt_err *err)
{
    uint8_t *p;
    sqlite3_stmt *q;
    int rc = store_segment_read(s, old->id, offset, bytes, &p, err);
    if (rc)
        return rc;
    int e = append_to(fd, p, bytes);
    free(p);
    if (e)
        return store_io_fail(s, err, e, "rewriting a segment");
    if (sqlite3_prepare_v2(s->db,
                           "UPDATE chunks SET segment = ?1, offset = ?2 WHERE segment = ?3 AND offset = ?4",
                           -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(s, err, "moving a chunk");
    sqlite3_bind_int64(q, 1, to);
    sqlite3_bind_int64(q, 2, (int64_t)at);
    sqlite3_bind_int64(q, 3, old->id);
    sqlite3_bind_int64(q, 4, (int64_t)offset);
    rc = store_sql_run(s, q, err);
    sqlite3_finalize(q);
    return rc;
}

/* Copies old's live chunks behind each other into fd, and their rows with them. */
static int move_chunks(struct store *s, int fd, const struct old_segment *old, uint32_t to,
                       struct dvt_err *err)
{
    uint64_t at = 0;
    for (;;) {
        int64_t offset = -1, bytes = 0;
        int rc = store_sql_int(s, "SELECT min(offset) FROM chunks WHERE segment = ?1 HAVING count(*) > 0",
                               old->id, 0, &offset, err);
        if (!rc && offset >= 0)
            rc = store_sql_int(s, "SELECT bytes FROM chunks WHERE segment = ?1 AND offset = ?2", old->id,
                               offset, &bytes, err);
        if (rc || offset < 0)
            return rc;
        rc = move_chunk(s, fd, old, (uint64_t)offset, (uint64_t)bytes, to, at, err);
        if (rc)
            return rc;
        at += (uint64_t)bytes;
    }
}

static int rewrite(struct store *s, const struct old_segment *old, struct dvt_err *err)
{
    uint32_t to = s->next_segment++;
    int64_t none;
    int fd = store_segment_open(s, to, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return store_io_fail(s, err, errno, "making a segment");
    int rc = move_chunks(s, fd, old, to, err);
    if (!rc && fsync(fd))
        rc = store_io_fail(s, err, errno, "syncing a segment");
    close(fd);
    if (!rc)
        rc = store_sql_int(s, "INSERT INTO segments(id, bytes, sealed) VALUES(?1, ?2, 1)", to,
                           (int64_t)old->live, &none, err);
    if (rc) {
        char name[32];
        store_segment_name(to, name);
        unlinkat(s->dir, name, 0); /* else recovery finds its chunks known and drops it */
        return rc;
    }
    s->total_bytes += old->live;
    return 0;
}

static int doom(struct store *s, const struct old_segment *old, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_SEGMENT_SEAL);
    sqlite3_bind_int64(q, 1, old->id);
    sqlite3_bind_int64(q, 2, SEGMENT_DOOMED);
    return store_sql_run(s, q, err);
}

static int unlink_segment(struct store *s, const struct old_segment *old, struct dvt_err *err)
{
    char name[32];
    int64_t none;
    store_segment_name(old->id, name);
    if (unlinkat(s->dir, name, 0) && errno != ENOENT)
        return store_io_fail(s, err, errno, "removing a segment");
    s->total_bytes -= old->bytes;
    int rc = store_begin(s, err);
    return rc ? rc : store_sql_int(s, "DELETE FROM segments WHERE id = ?1", old->id, 0, &none, err);
}

static int compact(struct store *s, struct dvt_err *err)
{
    struct old_segment old = {0};
    bool found;
    for (;;) {
        int rc = next_sparse(s, old.id, &old, &found, err);
        if (rc || !found)
            return rc;
        rc = store_begin(s, err);
        if (!rc && old.live)
            rc = rewrite(s, &old, err);
        if (!rc)
            rc = doom(s, &old, err);
        if (!rc)
            rc = store_commit(s, err);
        if (!rc)
            rc = unlink_segment(s, &old, err);
        if (rc)
            return rc;
    }
}

/* ---- the budget ---- */

static int retain_once(struct store *s, uint64_t goal, struct dvt_err *err)
{
    int64_t live = 0;
    int deleted = 0, rc = store_segment_seal(s, err);
    if (!rc)
        rc = store_begin(s, err);
    if (!rc)
        rc = store_sql_int(s, "SELECT coalesce(sum(bytes), 0) FROM chunks", 0, 0, &live, err);
    if (!rc)
        deleted = delete_traces(s, (uint64_t)live, goal, err);
    if (deleted < 0)
        rc = deleted;
    if (!rc)
        rc = store_commit(s, err);
    if (!rc)
        rc = compact(s, err);
    if (!rc)
        rc = store_commit(s, err);
    return rc ? rc : deleted;
}

/* Goes 5% below the budget, so that it is not called for each chunk; a quarter of a segment may be dead, so
 * the goal shrinks until the files themselves fit. */
int store_retain(struct store *s, struct dvt_err *err)
{
    uint64_t budget = s->config.budget_bytes, goal = budget - budget / 20;
    int sum = 0;
    for (int round = 0; round < MAX_ROUNDS && budget && s->total_bytes > budget; round++) {
        int rc = retain_once(s, goal, err);
        if (rc < 0)
            return rc;
        sum += rc;
        goal -= goal / 8;
    }
    return sum;
}
