/* catalog_chunks: the chunks of a trace, their bytes, its services and labels; see catalog.h. */
#include "alloc.h"
#include "catalog.h"
#include "catalog_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int chunk_of_row(sqlite3_stmt *st, uint32_t store, struct catalog_chunk *ret)
{
    *ret = (struct catalog_chunk){.store = store,
                                  .trace_row = sqlite3_column_int64(st, 0),
                                  .part = (uint32_t)catalog_u64(st, 1),
                                  .segment = (uint32_t)catalog_u64(st, 2),
                                  .offset = catalog_u64(st, 3),
                                  .bytes = catalog_u64(st, 4),
                                  .samples = catalog_u64(st, 5)};
    if (sqlite3_column_bytes(st, 6) == DVT_DIGEST_BYTES) {
        memcpy(ret->digest, sqlite3_column_blob(st, 6), DVT_DIGEST_BYTES);
    }
    return 0;
}

#define CHUNK_COLUMNS "SELECT trace_id, part, segment, offset, bytes, samples, digest FROM chunks "

static int each_chunk(struct catalog *c, uint32_t store, sqlite3_stmt *st, catalog_chunk_fn *fn, void *ctx,
                      struct dvt_err *err)
{
    int rc, step;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        struct catalog_chunk chunk;
        rc = chunk_of_row(st, store, &chunk);
        rc = rc ? rc : fn(ctx, &chunk, err);
        if (rc) {
            return rc;
        }
    }
    return step == SQLITE_DONE ? 0 : catalog_fail(c, store, "cannot read chunks", err);
}

int catalog_trace_chunks(struct catalog *c, const struct catalog_trace *t, catalog_chunk_fn *fn, void *ctx,
                         struct dvt_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->n_sources && rc == 0; i++) {
        struct catalog_source src = t->sources[i];
        sqlite3_stmt **st = &c->stores[src.store].cached[2];
        if (!*st) {
            rc = catalog_prepare(c, src.store,
                                 CHUNK_COLUMNS "WHERE trace_id = ?1 ORDER BY part, segment, offset", st, err);
        }
        if (rc == 0) {
            sqlite3_bind_int64(*st, 1, src.row);
            rc = each_chunk(c, src.store, *st, fn, ctx, err);
            sqlite3_reset(*st);
        }
    }
    return rc;
}

int catalog_all_chunks(struct catalog *c, uint32_t store, catalog_chunk_fn *fn, void *ctx,
                       struct dvt_err *err)
{
    sqlite3_stmt *st;
    int rc = catalog_prepare(c, store, CHUNK_COLUMNS "ORDER BY segment, offset", &st, err);
    if (rc == 0) {
        rc = each_chunk(c, store, st, fn, ctx, err);
        sqlite3_finalize(st);
    }
    return rc;
}

static int open_segment(struct catalog_store *s, uint32_t segment, struct dvt_err *err)
{
    char path[4096];
    if (s->segment_fd >= 0 && s->segment == segment) {
        return 0;
    }
    if (s->segment_fd >= 0) {
        close(s->segment_fd);
    }
    snprintf(path, sizeof path, "%s/" DVT_SEGMENT_NAME_FMT, s->dir, segment);
    s->segment = segment;
    s->segment_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->segment_fd < 0) {
        return dvt_fail(err, errno == ENOENT ? DVT_EFORMAT : DVT_EIO, errno, "cannot open %s: %s", path,
                        strerror(errno));
    }
    return 0;
}

int catalog_read(struct catalog *c, const struct catalog_chunk *chunk, uint8_t **buf, size_t *cap,
                 struct dvt_err *err)
{
    enum { CHUNK_MAX = 1 << 30 };
    struct catalog_store *s = &c->stores[chunk->store];
    if (chunk->bytes > CHUNK_MAX || chunk->offset > INT64_MAX - CHUNK_MAX) {
        return dvt_fail(err, DVT_EFORMAT, 0, "the index of %s names an impossible chunk at %" PRIu64, s->dir,
                        chunk->offset);
    }
    int rc = open_segment(s, chunk->segment, err);
    if (rc) {
        return rc;
    }
    alloc_grow(buf, cap, chunk->bytes, 1);
    ssize_t got = pread(s->segment_fd, *buf, chunk->bytes, (off_t)chunk->offset);
    if (got < 0) {
        return dvt_fail(err, DVT_EIO, errno, "cannot read segment %u of %s: %s", chunk->segment, s->dir,
                        strerror(errno));
    }
    if ((size_t)got != chunk->bytes) {
        return dvt_fail(err, DVT_EFORMAT, 0,
                        "segment %u of %s ends within the chunk at %" PRIu64 ": dovetail verify says more",
                        chunk->segment, s->dir, chunk->offset);
    }
    return 0;
}

/* ---- services and labels of a trace ---- */

static int each_text(struct catalog *c, const struct catalog_trace *t, size_t slot, const char *sql,
                     catalog_text_fn *fn, void *ctx)
{
    for (size_t i = 0; i < t->n_sources; i++) {
        sqlite3_stmt **st = &c->stores[t->sources[i].store].cached[slot];
        if (!*st && catalog_prepare(c, t->sources[i].store, sql, st, NULL)) {
            return DVT_EFORMAT;
        }
        sqlite3_bind_int64(*st, 1, t->sources[i].row);
        while (sqlite3_step(*st) == SQLITE_ROW) {
            fn(ctx, catalog_column(*st, 0));
        }
        sqlite3_reset(*st);
    }
    return 0;
}

int catalog_services(struct catalog *c, const struct catalog_trace *t, catalog_text_fn *fn, void *ctx)
{
    return each_text(c, t, 3, "SELECT DISTINCT service FROM names WHERE trace_id = ?1 ORDER BY service", fn,
                     ctx);
}

int catalog_labels(struct catalog *c, const struct catalog_trace *t, catalog_text_fn *fn, void *ctx)
{
    return each_text(
        c, t, 4, "SELECT key || '=' || value FROM labels WHERE trace_id = ?1 ORDER BY key, value LIMIT 32",
        fn, ctx);
}
