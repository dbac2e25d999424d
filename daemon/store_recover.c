/*
 * store_recover: brings index and segments together after a crash, a full disk or damage.
 *
 * For each segment, by the bytes its row says are indexed (a missing row says 0, so a missing index is made
 * anew): shorter than that: the chunks beyond its end are unindexed; longer: whole chunks behind are indexed,
 * damaged bytes between whole chunks stay in place and are told of, a damaged end is saved as NNNNNNNN.torn
 * and cut. Every segment found is sealed: a daemon run appends only to segments of its own, so clock and keys
 * never mix.
 */
#include "store_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNKS_PER_COMMIT = 1000, NOTE_BYTES = 240 };

struct recovery {
    struct store *s;
    uint32_t *ids; /* of all segments, ascending once sorted; an id may be there twice */
    uint32_t n, cap;
    uint64_t indexed, unindexed, damaged_bytes, torn_bytes;
    uint32_t uncommitted;
};

static void __attribute__((format(printf, 2, 3))) note(struct store *s, const char *fmt, ...)
{
    size_t n = strlen(s->note);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->note + n, NOTE_BYTES - n, fmt, ap);
    va_end(ap);
}

/* ---- which segments there are ---- */

static int add_id(struct recovery *r, uint32_t id, struct dvt_err *err)
{
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 64;
        uint32_t *p = realloc(r->ids, cap * sizeof *p);
        if (!p)
            return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for segments");
        r->ids = p;
        r->cap = cap;
    }
    r->ids[r->n++] = id;
    return 0;
}

static int list_files(struct recovery *r, struct dvt_err *err)
{
    int rc = 0, fd = openat(r->s->dir, "segments", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d)
        return store_io_fail(r->s, err, errno, "reading segments");
    for (struct dirent *e; !rc && (e = readdir(d));) {
        char expected[32];
        unsigned id;
        if (sscanf(e->d_name, "%u", &id) != 1 || id == 0 || id == UINT32_MAX)
            continue;
        store_segment_name(id, expected);
        if (strcmp(expected + strlen("segments/"), e->d_name) == 0)
            rc = add_id(r, id, err);
    }
    closedir(d);
    return rc;
}

static int list_rows(struct recovery *r, struct dvt_err *err)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(r->s->db, "SELECT id FROM segments", -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(r->s, err, "reading segments");
    int step, rc = 0;
    while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW)
        rc = add_id(r, (uint32_t)sqlite3_column_int64(q, 0), err);
    if (!rc && step != SQLITE_DONE)
        rc = store_sql_fail(r->s, err, "reading segments");
    sqlite3_finalize(q);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* ---- chunks behind the indexed ones ---- */

static int commit_some(struct recovery *r, struct dvt_err *err)
{
    int rc = 0;
    if (++r->uncommitted < CHUNKS_PER_COMMIT)
        return 0;
    r->uncommitted = 0;
    rc = store_sql_exec(r->s, "COMMIT", err);
    r->s->is_in_transaction = false;
    return rc ? rc : store_begin(r->s, err);
}

/* Indexes the chunk at p if there is a whole one: *ret_bytes its size, or 0. */
static int try_chunk(struct recovery *r, uint32_t id, const uint8_t *file, uint64_t at, uint64_t size,
                     uint64_t *ret_bytes, struct dvt_err *err)
{
    struct dvt_chunk c;
    struct chunk_place place = {.segment = id, .offset = at, .data = file + at};
    bool is_known;
    *ret_bytes = 0;
    if (dvt_chunk_size(file + at, size - at, &place.bytes) || place.bytes > size - at)
        return 0;
    int rc = dvt_chunk_decode(file + at, place.bytes, &c, NULL);
    if (rc)
        return rc == DVT_ENOMEM ? dvt_fail(err, rc, 0, "store: out of memory in recovery") : 0;
    rc = store_index_has(r->s, &c, &place, &is_known, err);
    if (!rc && !is_known)
        rc = store_index_chunk(r->s, &c, &place, err);
    dvt_chunk_fini(&c);
    if (rc)
        return rc;
    *ret_bytes = place.bytes;
    r->indexed += !is_known;
    /* Its keys are not known here; there are fewer than bytes. */
    r->s->key_base = r->s->key_base + place.bytes < INT32_MAX ? r->s->key_base + (uint32_t)place.bytes : 1;
    return commit_some(r, err);
}

/* Indexes whole chunks from `at` on; *ret_end is the end of the last one. */
static int scan(struct recovery *r, uint32_t id, const uint8_t *file, uint64_t at, uint64_t size,
                uint64_t *ret_end, struct dvt_err *err)
{
    uint64_t end = at;
    while (at < size) {
        uint64_t bytes;
        int rc = try_chunk(r, id, file, at, size, &bytes, err);
        if (rc)
            return rc;
        if (bytes) {
            r->damaged_bytes += at - end;
            end = at += bytes;
            continue;
        }
        const uint8_t *next = memmem(file + at + 1, size - at - 1, "FLR", 4);
        at = next ? (uint64_t)(next - file) : size;
    }
    *ret_end = end;
    return 0;
}

static int save_torn(struct recovery *r, uint32_t id, const uint8_t *p, uint64_t n, struct dvt_err *err)
{
    char name[40];
    snprintf(name, sizeof name, "segments/%08u.torn", id);
    int fd = openat(r->s->dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640), e = fd < 0 ? errno : 0;
    while (!e && n > 0) {
        ssize_t w = write(fd, p, n);
        if (w > 0)
            p += w, n -= (uint64_t)w;
        else if (errno != EINTR)
            e = errno;
    }
    if (!e && fsync(fd))
        e = errno;
    if (fd >= 0)
        close(fd);
    return e ? store_io_fail(r->s, err, e, "saving a torn segment's end") : 0;
}

static int recover_tail(struct recovery *r, uint32_t id, int fd, uint64_t from, uint64_t size,
                        uint64_t *ret_end, struct dvt_err *err)
{
    void *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        return store_io_fail(r->s, err, errno, "reading a segment");
    int rc = fdatasync(fd) ? store_io_fail(r->s, err, errno, "syncing a segment") : 0;
    if (!rc)
        rc = scan(r, id, file, from, size, ret_end, err);
    if (!rc && *ret_end < size)
        rc = save_torn(r, id, (const uint8_t *)file + *ret_end, size - *ret_end, err);
    munmap(file, size);
    if (rc || *ret_end == size)
        return rc;
    r->torn_bytes += size - *ret_end;
    return ftruncate(fd, (off_t)*ret_end) ? store_io_fail(r->s, err, errno, "cutting a torn segment") : 0;
}

/* ---- indexed chunks beyond the end ---- */

static int unindex_beyond(struct recovery *r, uint32_t id, uint64_t size, struct dvt_err *err)
{
    sqlite3_stmt *q;
    const char *sql = "DELETE FROM chunks WHERE segment = ?1 AND offset + bytes > ?2 RETURNING trace_id";
    int64_t *rows = NULL;
    uint32_t n = 0;
    int step = SQLITE_DONE, rc = 0;
    if (sqlite3_prepare_v2(r->s->db, sql, -1, &q, NULL) != SQLITE_OK)
        return store_sql_fail(r->s, err, "reading chunks");
    sqlite3_bind_int64(q, 1, id);
    sqlite3_bind_int64(q, 2, (int64_t)size);
    while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t *p = realloc(rows, (n + 1) * sizeof *p);
        if (p)
            rows = p, rows[n++] = sqlite3_column_int64(q, 0);
        else
            rc = dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory in recovery");
    }
    if (!rc && step != SQLITE_DONE)
        rc = store_sql_fail(r->s, err, "deleting chunks");
    sqlite3_finalize(q);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = store_index_row(r->s, rows[i], err);
    r->unindexed += n;
    free(rows);
    return rc;
}

/* ---- a segment ---- */

static int drop_segment(struct store *s, uint32_t id, struct dvt_err *err)
{
    char name[32];
    int64_t none;
    store_segment_name(id, name);
    if (unlinkat(s->dir, name, 0) && errno != ENOENT)
        return store_io_fail(s, err, errno, "removing a segment");
    return store_sql_int(s, "DELETE FROM segments WHERE id = ?1", id, 0, &none, err);
}

static int seal_at(struct store *s, uint32_t id, uint64_t bytes, struct dvt_err *err)
{
    int64_t none;
    s->total_bytes += bytes;
    return store_sql_int(s,
                         "INSERT INTO segments(id, bytes, sealed) VALUES(?1, ?2, 1)"
                         " ON CONFLICT(id) DO UPDATE SET bytes = excluded.bytes, sealed = 1",
                         id, (int64_t)bytes, &none, err);
}

static int recover_open_segment(struct recovery *r, uint32_t id, int fd, uint64_t size, uint64_t indexed,
                                struct dvt_err *err)
{
    uint64_t end = indexed < size ? indexed : size;
    int rc = 0;
    if (size < indexed)
        rc = unindex_beyond(r, id, size, err);
    else if (size > indexed)
        rc = recover_tail(r, id, fd, indexed, size, &end, err);
    if (rc)
        return rc;
    return end ? seal_at(r->s, id, end, err) : drop_segment(r->s, id, err);
}

static int recover_segment(struct recovery *r, uint32_t id, struct dvt_err *err)
{
    int64_t indexed = 0, state = SEGMENT_OPEN;
    struct stat st = {0};
    int rc = store_sql_int(r->s, "SELECT bytes FROM segments WHERE id = ?1", id, 0, &indexed, err);
    if (!rc)
        rc = store_sql_int(r->s, "SELECT sealed FROM segments WHERE id = ?1", id, 0, &state, err);
    if (!rc && state == SEGMENT_DOOMED)
        return drop_segment(r->s, id, err);
    int fd = rc ? -1 : store_segment_open(r->s, id, O_RDWR);
    if (!rc && fd < 0 && errno != ENOENT)
        rc = store_io_fail(r->s, err, errno, "opening a segment");
    if (fd >= 0 && fstat(fd, &st))
        rc = store_io_fail(r->s, err, errno, "reading a segment");
    if (!rc)
        rc = recover_open_segment(r, id, fd, (uint64_t)st.st_size, indexed > 0 ? (uint64_t)indexed : 0, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int recover_all(struct recovery *r, struct dvt_err *err)
{
    int rc = list_files(r, err);
    if (!rc)
        rc = list_rows(r, err);
    if (!rc)
        rc = store_begin(r->s, err);
    if (!rc && r->n)
        qsort(r->ids, r->n, sizeof *r->ids, by_id);
    for (uint32_t i = 0; i < r->n && !rc; i++)
        if (i == 0 || r->ids[i] != r->ids[i - 1])
            rc = recover_segment(r, r->ids[i], err);
    if (rc)
        return rc;
    r->s->next_segment = r->n ? r->ids[r->n - 1] + 1 : 1;
    rc = store_sql_exec(r->s, "COMMIT", err);
    r->s->is_in_transaction = false;
    return rc;
}

int store_recover(struct store *s, struct dvt_err *err)
{
    struct recovery r = {.s = s};
    s->total_bytes = 0;
    int rc = recover_all(&r, err);
    if (rc && s->is_in_transaction) {
        struct dvt_err ignored; /* the first error is the one to tell */
        store_sql_exec(s, "ROLLBACK", &ignored);
        s->is_in_transaction = false;
    }
    free(r.ids);
    if (r.indexed)
        note(s, "%llu chunks indexed again; ", (unsigned long long)r.indexed);
    if (r.unindexed)
        note(s, "%llu indexed chunks are gone from their segments; ", (unsigned long long)r.unindexed);
    if (r.damaged_bytes)
        note(s, "%llu damaged bytes between chunks passed over; ", (unsigned long long)r.damaged_bytes);
    if (r.torn_bytes)
        note(s, "%llu bytes of a torn end saved in segments/*.torn; ", (unsigned long long)r.torn_bytes);
    return rc;
}
