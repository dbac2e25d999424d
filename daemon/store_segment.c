/*
 * store_segment: the files that hold the chunks. One is open for appending; it is sealed when full, when the
 * clock's offset to UNIX time moved (readers take the first chunk's for the whole file), and by retention.
 */
#include "store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLOCK_STEP_NS = 100000000 };

void store_segment_name(uint32_t id, char out[32])
{
    snprintf(out, 32, DVT_SEGMENT_NAME_FMT, id);
}

int store_segment_open(struct store *s, uint32_t id, int flags)
{
    char name[32];
    store_segment_name(id, name);
    return openat(s->dir, name, flags | O_CLOEXEC, 0640);
}

int store_io_fail(struct store *s, struct dvt_err *err, int e, const char *what)
{
    if (e == ENOSPC || e == EDQUOT || e == EFBIG)
        return dvt_fail(err, DVT_EIO, e, "store: disk full while %s in %s: free space or lower the budget",
                        what, s->dir_name);
    if (e == EACCES || e == EPERM || e == EROFS)
        return dvt_fail(err, DVT_EPERM, e,
                        "store: %s in %s: %s: make it writable for this user or use another --store", what,
                        s->dir_name, strerror(e));
    return dvt_fail(err, DVT_EIO, e, "store: %s in %s: %s", what, s->dir_name, strerror(e));
}

static int sync_directory(struct store *s, struct dvt_err *err)
{
    int fd = openat(s->dir, "segments", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : store_io_fail(s, err, errno, "syncing segments");
    if (fd >= 0)
        close(fd);
    return rc;
}

static int begin_segment(struct store *s, int64_t unix_offset_ns, struct dvt_err *err)
{
    uint32_t id = s->next_segment;
    int fd = store_segment_open(s, id, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return store_io_fail(s, err, errno, "making a segment");
    s->next_segment++;
    s->segment = (struct segment){.fd = fd, .id = id, .unix_offset_ns = unix_offset_ns};
    return sync_directory(s, err);
}

int store_segment_sync(struct store *s, struct dvt_err *err)
{
    if (!s->segment.is_dirty)
        return 0;
    if (fdatasync(s->segment.fd))
        return store_io_fail(s, err, errno, "syncing a segment");
    s->segment.is_dirty = false;
    return 0;
}

int store_segment_seal(struct store *s, struct dvt_err *err)
{
    if (s->segment.fd < 0)
        return 0;
    int rc = store_segment_sync(s, err);
    if (!rc)
        rc = store_begin(s, err);
    if (rc)
        return rc;
    sqlite3_stmt *q = store_sql(s, SQL_SEGMENT_SEAL);
    sqlite3_bind_int64(q, 1, s->segment.id);
    sqlite3_bind_int64(q, 2, SEGMENT_SEALED);
    rc = store_sql_run(s, q, err);
    close(s->segment.fd);
    s->segment.fd = -1;
    return rc;
}

static bool is_other_clock(const struct segment *g, int64_t unix_offset_ns)
{
    int64_t d;
    return __builtin_sub_overflow(g->unix_offset_ns, unix_offset_ns, &d) || d > CLOCK_STEP_NS ||
           d < -CLOCK_STEP_NS;
}

int store_segment_cut(struct store *s, uint64_t bytes)
{
    int rc = ftruncate(s->segment.fd, (off_t)bytes);
    s->total_bytes -= s->segment.bytes - bytes;
    s->segment.bytes = bytes;
    return rc;
}

static int write_all(int fd, const uint8_t *p, size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t w = pwrite(fd, p, n, (off_t)offset);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return w < 0 ? errno : ENOSPC;
        p += w;
        n -= (size_t)w;
        offset += (uint64_t)w;
    }
    return 0;
}

int store_segment_write(struct store *s, const void *p, size_t n, int64_t unix_offset_ns, struct dvt_err *err)
{
    struct segment *g = &s->segment;
    int rc = 0;
    bool is_full = g->bytes > 0 && g->bytes + n > s->config.segment_bytes;
    if (g->fd >= 0 && g->bytes > 0 && (is_full || is_other_clock(g, unix_offset_ns)))
        rc = store_segment_seal(s, err);
    if (!rc && g->fd < 0)
        rc = begin_segment(s, unix_offset_ns, err);
    if (rc)
        return rc;
    if (g->bytes == 0)
        g->unix_offset_ns = unix_offset_ns;
    int e = write_all(g->fd, p, n, g->bytes);
    if (e) {
        if (ftruncate(g->fd, (off_t)g->bytes)) {
            /* Recovery cuts it at the next start; new chunks overwrite it. */
        }
        return store_io_fail(s, err, e, "writing a chunk");
    }
    g->bytes += n;
    g->is_dirty = true;
    s->total_bytes += n;
    return 0;
}

int store_segment_read(struct store *s, uint32_t id, uint64_t offset, uint64_t n, uint8_t **ret,
                       struct dvt_err *err)
{
    uint8_t *p = n <= INT32_MAX ? malloc(n + 1) : NULL;
    int fd = store_segment_open(s, id, O_RDONLY), e = 0;
    uint64_t got = 0;
    while (p && fd >= 0 && got < n && !e) {
        ssize_t r = pread(fd, p + got, n - got, (off_t)(offset + got));
        if (r > 0)
            got += (uint64_t)r;
        else if (r == 0 || errno != EINTR)
            e = r == 0 ? ENODATA : errno;
    }
    e = fd < 0 ? errno : e;
    if (fd >= 0)
        close(fd);
    s->read_bytes += got;
    if (p && got == n && fd >= 0) {
        *ret = p;
        return 0;
    }
    free(p);
    if (!p)
        return dvt_fail(err, DVT_ENOMEM, 0, "store: out of memory for a chunk");
    return dvt_fail(err, DVT_EIO, e, "store: reading segment %u of %s at %llu: %s", id, s->dir_name,
                    (unsigned long long)offset, strerror(e));
}
