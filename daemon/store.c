/*
 * store: segments and index on disk. See store.h and proto/store_format.h.
 *
 * Order of writes, so that the index never names what is not there: chunk bytes; at commit fdatasync of the
 * segment, then COMMIT of the rows. What a crash leaves is a tail without rows, which recovery indexes. Each
 * chunk's rows lie under a savepoint: a chunk that cannot be indexed leaves neither bytes nor rows.
 */
#include "store_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../proto/labels.h"

enum { CHUNK_MAX_BYTES = 512 << 20, DEFAULT_SEGMENT_BYTES = 64 << 20 };

/* ---- opening ---- */

/* Makes dir and its missing parents. */
static int make_directories(char *dir)
{
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int rc = mkdir(dir, 0750);
        *slash = '/';
        if (rc && errno != EEXIST)
            return errno;
    }
    return mkdir(dir, 0750) && errno != EEXIST ? errno : 0;
}

static bool is_foreign(int dir)
{
    bool is_ours = faccessat(dir, "index.db", F_OK, 0) == 0 || faccessat(dir, "segments", F_OK, 0) == 0,
         is_empty = true;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        is_empty = is_empty && (e->d_name[0] == '.' || strcmp(e->d_name, "lock") == 0);
    if (d)
        closedir(d);
    return !is_ours && !is_empty;
}

static int open_directory(struct store *s, struct dvt_err *err)
{
    int e = make_directories(s->dir_name);
    if (!e && (s->dir = open(s->dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        e = errno;
    if (e == ENOTDIR)
        return dvt_fail(err, DVT_EINVAL, e, "store: %s is not a directory: use another --store", s->dir_name);
    if (e)
        return store_io_fail(s, err, e, "opening the store");
    if (is_foreign(s->dir))
        return dvt_fail(err, DVT_EINVAL, 0,
                        "store: %s holds other files and no store: use an empty or new directory",
                        s->dir_name);
    return 0;
}

static int take_lock(struct store *s, struct dvt_err *err)
{
    char pid[24] = "?";
    s->lock = openat(s->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (s->lock < 0)
        return store_io_fail(s, err, errno, "making the lock");
    if (flock(s->lock, LOCK_EX | LOCK_NB)) {
        ssize_t n = pread(s->lock, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 1] = 0;
        pid[strcspn(pid, "\n")] = 0;
        return dvt_fail(err, DVT_EBUSY, errno,
                        "store: %s is written by process %s: stop it or use another --store", s->dir_name,
                        pid);
    }
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(s->lock, 0) || pwrite(s->lock, pid, (size_t)n, 0) != n)
        return store_io_fail(s, err, errno, "writing the lock");
    if (mkdirat(s->dir, "segments", 0750) && errno != EEXIST)
        return store_io_fail(s, err, errno, "making segments");
    return 0;
}

/* A damaged index, or one of an older format, is set aside: it can be made again from the segments. */
static int open_index(struct store *s, struct dvt_err *err)
{
    struct dvt_err first = {0};
    int rc = store_sql_open(s, &first);
    if (rc != DVT_EFORMAT) {
        if (rc && err)
            *err = first;
        return rc;
    }
    store_sql_close(s);
    if (renameat(s->dir, "index.db", s->dir, "index.db.damaged"))
        return store_io_fail(s, err, errno, "setting the damaged index aside");
    unlinkat(s->dir, "index.db-wal", 0); /* of the damaged one; missing is fine */
    unlinkat(s->dir, "index.db-shm", 0);
    snprintf(s->note, 240, "index.db was damaged or old: kept as index.db.damaged; ");
    return store_sql_open(s, err);
}

static int read_key_base(struct store *s, struct dvt_err *err)
{
    int64_t base = 1;
    int rc = store_sql_int(s, "SELECT value FROM meta WHERE key = 'key_base'", 0, 0, &base, err);
    s->key_base = base > 0 && base < INT32_MAX ? (uint32_t)base : 1;
    return rc;
}

static int open_all(struct store *s, struct dvt_err *err)
{
    int rc = open_directory(s, err);
    if (!rc)
        rc = take_lock(s, err);
    if (!rc)
        rc = open_index(s, err);
    if (!rc)
        rc = read_key_base(s, err);
    return rc ? rc : store_recover(s, err);
}

static void release(struct store *s)
{
    store_sql_close(s);
    if (s->segment.fd >= 0)
        close(s->segment.fd);
    if (s->lock >= 0)
        close(s->lock);
    if (s->dir >= 0)
        close(s->dir);
    dvt_buf_fini(&s->buf);
    free(s->dir_name);
    free(s);
}

int store_open(const struct store_config *c, struct store **ret, char ret_note[240], struct dvt_err *err)
{
    struct store *s = calloc(1, sizeof *s);
    ret_note[0] = 0;
    if (!s)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory");
    s->config = *c;
    if (!s->config.segment_bytes)
        s->config.segment_bytes = DEFAULT_SEGMENT_BYTES;
    s->dir = s->lock = s->segment.fd = -1;
    s->note = ret_note;
    dvt_buf_init(&s->buf, CHUNK_MAX_BYTES);
    s->dir_name = strdup(c->dir);
    int rc = s->dir_name && *s->dir_name ? open_all(s, err)
                                         : dvt_fail(err, DVT_EINVAL, 0, "store: no directory given");
    s->note = NULL;
    if (rc)
        release(s);
    else
        *ret = s;
    return rc;
}

/* ---- writing ---- */

static int put_key_base(struct store *s, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_META_PUT);
    sqlite3_bind_text(q, 1, "key_base", -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, s->key_base);
    return store_sql_run(s, q, err);
}

static int put_segment_row(struct store *s, struct dvt_err *err)
{
    sqlite3_stmt *q = store_sql(s, SQL_SEGMENT_PUT);
    sqlite3_bind_int64(q, 1, s->segment.id);
    sqlite3_bind_int64(q, 2, (int64_t)s->segment.bytes);
    return store_sql_run(s, q, err);
}

/* The rows of the last chunk written. */
static int put_rows(struct store *s, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct chunk_place place = {s->segment.id, s->segment.bytes - s->buf.n, s->buf.n, s->buf.p};
    int rc = store_sql_exec(s, "SAVEPOINT chunk", err);
    if (rc)
        return rc;
    rc = store_index_chunk(s, c, &place, err);
    if (!rc)
        rc = put_segment_row(s, err);
    if (!rc)
        return store_sql_exec(s, "RELEASE chunk", err);
    struct dvt_err ignored; /* the first error is the one to tell */
    store_sql_exec(s, "ROLLBACK TO chunk; RELEASE chunk", &ignored);
    return rc;
}

/* SQLite ends a transaction by itself on some errors (disk full): its rows are lost, their chunks are not. */
static void note_lost_transaction(struct store *s)
{
    if (s->is_in_transaction && sqlite3_get_autocommit(s->db)) {
        s->is_in_transaction = false;
        s->must_recover = true;
    }
}

static int write_chunk(struct store *s, const struct dvt_chunk *c, struct dvt_err *err)
{
    int rc = store_begin(s, err);
    if (!rc)
        rc = store_segment_write(s, s->buf.p, s->buf.n, c->unix_offset_ns, err);
    if (rc)
        return rc;
    rc = put_rows(s, c, err);
    if (rc && store_segment_cut(s, s->segment.bytes - s->buf.n))
        s->must_recover = true;
    note_lost_transaction(s);
    return rc;
}

/* Indexes what a failed transaction left without rows. */
static int mend(struct store *s, struct dvt_err *err)
{
    char note[240] = "";
    if (!s->must_recover)
        return 0;
    if (s->segment.fd >= 0)
        close(s->segment.fd);
    s->segment.fd = -1;
    s->note = note;
    int rc = store_recover(s, err);
    s->note = NULL;
    s->must_recover = rc != 0;
    return rc;
}

int store_append(struct store *s, const struct dvt_chunk *c, struct dvt_err *err)
{
    struct dvt_chunk written;
    int rc = mend(s, err);
    s->buf.n = 0;
    if (!rc)
        rc = dvt_chunk_encode(c, &s->key_base, &s->buf, err);
    if (!rc)
        rc = dvt_chunk_decode(s->buf.p, s->buf.n, &written, err);
    if (rc)
        return rc;
    rc = write_chunk(s, &written, err);
    dvt_chunk_fini(&written);
    return rc;
}

int store_commit(struct store *s, struct dvt_err *err)
{
    int rc = mend(s, err);
    if (rc || !s->is_in_transaction)
        return rc;
    rc = store_segment_sync(s, err);
    if (!rc)
        rc = put_key_base(s, err);
    if (!rc)
        rc = store_sql_exec(s, "COMMIT", err);
    if (!rc) {
        s->is_in_transaction = false;
        return 0;
    }
    struct dvt_err ignored; /* the first error is the one to tell; nothing may be open any more */
    store_sql_exec(s, "ROLLBACK", &ignored);
    s->is_in_transaction = false;
    s->must_recover = true;
    return rc;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    struct dvt_err ignored; /* what is not committed is indexed again at the next start */
    store_commit(s, &ignored);
    release(s);
}

int store_put_dropped(struct store *s, const char *service, const char *name, uint64_t count,
                      struct dvt_err *err)
{
    int rc = store_begin(s, err);
    if (rc)
        return rc;
    sqlite3_stmt *q = store_sql(s, SQL_DROPPED_PUT);
    sqlite3_bind_text(q, 1, service, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)count);
    rc = store_sql_run(s, q, err);
    note_lost_transaction(s);
    return rc;
}

static void bind_clean(sqlite3_stmt *q, int at, struct dvt_str v)
{
    char text[1024];
    size_t n = dvt_utf8_clean(v.p, v.n, true, text, sizeof text);
    sqlite3_bind_text(q, at, text, (int)n, SQLITE_TRANSIENT);
}

int store_put_process(struct store *s, const char *boot, const struct dvt_chunk_process *p, uint64_t first_ns,
                      uint64_t last_ns, const char *ledger_json, struct dvt_err *err)
{
    int rc = store_begin(s, err);
    if (rc)
        return rc;
    sqlite3_stmt *q = store_sql(s, SQL_PROCESS_PUT);
    sqlite3_bind_text(q, 1, boot, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, p->pid);
    sqlite3_bind_int64(q, 3, (int64_t)p->start_ticks);
    bind_clean(q, 4, p->service);
    bind_clean(q, 5, p->runtime);
    bind_clean(q, 6, p->program);
    sqlite3_bind_int64(q, 7, (int64_t)first_ns);
    sqlite3_bind_int64(q, 8, (int64_t)last_ns);
    sqlite3_bind_text(q, 9, ledger_json, -1, SQLITE_STATIC);
    rc = store_sql_run(s, q, err);
    note_lost_transaction(s);
    return rc;
}
