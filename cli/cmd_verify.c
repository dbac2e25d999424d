/*
 * cmd_verify: does the store still hold what was written? The digest of every chunk, whether it decodes, the
 * index's own check, segments that no row knows. Says what is damaged; changes nothing.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "term.h"
#include "text.h"

#include "../proto/chunk.h"

#include <dirent.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OPT_STORE = 1 };

static const struct args_option options[] = {
    {OPT_STORE, 0, "--store", "DIR", "check this store; repeat for several"},
    {0},
};

struct check {
    struct catalog *c;
    size_t store;
    uint8_t *buf;
    size_t cap;
    uint64_t chunks, bytes, damaged, total;
    struct term_progress progress;
};

static void damage(struct check *k, const char *what)
{
    k->damaged++;
    fputs("damaged: ", stdout);
    text_put(stdout, dvt_str(what), 0);
    putchar('\n');
}

static void damaged_chunk(struct check *k, const struct catalog_chunk *chunk, const char *why)
{
    char *text = alloc_printf("%s/" DVT_SEGMENT_NAME_FMT " at %" PRIu64 ", %" PRIu64
                              " bytes (trace row %" PRId64 ", part %u): %s",
                              catalog_dir(k->c, k->store), chunk->segment, chunk->offset, chunk->bytes,
                              chunk->trace_row, chunk->part, why);
    damage(k, text);
    free(text);
}

static int check_chunk(void *ctx, const struct catalog_chunk *chunk, struct dvt_err *err)
{
    struct check *k = ctx;
    struct dvt_err why = {0};
    struct dvt_chunk decoded;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    (void)err; /* a damaged chunk is a finding, not a failure */
    k->chunks++;
    k->bytes += chunk->bytes;
    term_progress_at(&k->progress, k->chunks);
    if (catalog_read(k->c, chunk, &k->buf, &k->cap, &why)) {
        damaged_chunk(k, chunk, why.text);
        return 0;
    }
    SHA256(k->buf, chunk->bytes, digest);
    if (memcmp(digest, chunk->digest, sizeof digest) != 0) {
        damaged_chunk(k, chunk, "its bytes are not those that were written");
    } else if (dvt_chunk_decode(k->buf, chunk->bytes, &decoded, &why)) {
        damaged_chunk(k, chunk, why.text);
    } else {
        dvt_chunk_fini(&decoded);
    }
    return 0;
}

/* One text row a finding; "ok" is none. */
static int check_index(struct check *k, const char *sql, const char *what, struct dvt_err *err)
{
    sqlite3_stmt *st;
    int rc = catalog_prepare(k->c, k->store, sql, &st, err), step;
    if (rc) {
        return rc;
    }
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        struct dvt_str row = catalog_column(st, 0);
        if (row.n == 2 && memcmp(row.p, "ok", 2) == 0) {
            continue;
        }
        char *text =
            alloc_printf("%s/index.db: %s%.*s", catalog_dir(k->c, k->store), what, (int)row.n, row.p);
        damage(k, text);
        free(text);
    }
    if (step != SQLITE_DONE) {
        catalog_fail(k->c, k->store, "the check stopped", err);
        damage(k, err->text);
    }
    sqlite3_finalize(st);
    return 0;
}

static int is_known_segment(struct check *k, const char *name, uint64_t bytes, struct dvt_err *err)
{
    char *end;
    sqlite3_stmt *st;
    unsigned long id = strtoul(name, &end, 10);
    if (strcmp(end, ".jfr") != 0) {
        return 1;
    }
    int rc = catalog_prepare(k->c, k->store, "SELECT max(offset + bytes) FROM chunks WHERE segment = ?1", &st,
                             err);
    if (rc) {
        return rc;
    }
    sqlite3_bind_int64(st, 1, (sqlite3_int64)id);
    bool known = sqlite3_step(st) == SQLITE_ROW && (sqlite3_column_type(st, 0) != SQLITE_NULL || bytes == 0);
    sqlite3_finalize(st);
    return known;
}

/* Segments that no chunk's row names: what they hold cannot be found. */
static int check_orphans(struct check *k, struct dvt_err *err)
{
    char *path = alloc_printf("%s/segments", catalog_dir(k->c, k->store));
    DIR *dir = opendir(path);
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, 0) || !S_ISREG(st.st_mode)) {
            continue;
        }
        int known = is_known_segment(k, e->d_name, (uint64_t)st.st_size, err);
        rc = known < 0 ? known : 0;
        if (known == 0) {
            char *text = alloc_printf(
                "%s/%s: no row of the index names it; the next start of dovetaild indexes or removes it",
                path, e->d_name);
            damage(k, text);
            free(text);
        }
    }
    if (dir) {
        closedir(dir);
    } else {
        damage(k, "the folder of segments cannot be read");
    }
    free(path);
    return rc;
}

static int count_chunks(struct check *k, struct dvt_err *err)
{
    sqlite3_stmt *st;
    int rc = catalog_prepare(k->c, k->store, "SELECT count(*) FROM chunks", &st, err);
    if (rc == 0) {
        k->total = sqlite3_step(st) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
        sqlite3_finalize(st);
    }
    return rc;
}

static int check_store(struct check *k, struct dvt_err *err)
{
    int rc = check_index(k, "PRAGMA integrity_check(20)", "", err);
    if (rc == 0) {
        rc = count_chunks(k, err);
    }
    if (rc == 0) {
        term_progress_start(&k->progress, "checking chunks", k->total);
        rc = catalog_all_chunks(k->c, (uint32_t)k->store, check_chunk, k, err);
        term_progress_end(&k->progress);
    }
    if (rc == 0) {
        rc = check_index(k,
                         "SELECT lower(hex(trace)) FROM traces t WHERE NOT EXISTS"
                         " (SELECT 1 FROM chunks c WHERE c.trace_id = t.id) LIMIT 20",
                         "no chunk of trace ", err);
    }
    return rc ? rc : check_orphans(k, err);
}

static int verify(const struct filter *f)
{
    struct check k = {0};
    struct dvt_err err = {0};
    char chunks[TEXT_NUMBER_MAX], bytes[TEXT_NUMBER_MAX], damaged[TEXT_NUMBER_MAX];
    int rc = catalog_open(f->stores, f->n_stores, &k.c, &err);
    for (; rc == 0 && k.store < catalog_stores(k.c); k.store++) {
        rc = check_store(&k, &err);
    }
    catalog_close(k.c);
    free(k.buf);
    if (rc) {
        return cli_report(&err);
    }
    text_count(k.chunks, chunks);
    text_bytes(k.bytes, bytes);
    text_count(k.damaged, damaged);
    printf("%s chunk%s, %s: %s%s\n", chunks, k.chunks == 1 ? "" : "s", bytes,
           k.damaged ? damaged : "all as written",
           k.damaged == 1 ? " finding"
           : k.damaged    ? " findings"
                          : "");
    return k.damaged ? CLI_DAMAGED : CLI_DONE;
}

static int run(struct args *a)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    const char *value;
    int id, rc = 0;
    while (rc == 0 && (id = cli_next(&cmd_verify, a, &value, &err)) != ARGS_END) {
        if (id == ARGS_OTHER) {
            rc = dvt_fail(&err, DVT_EINVAL, 0, "verify takes no \"%.40s\"; --store names a store", value);
        } else {
            rc = id < 0 ? id : filter_take_store(&f, value, &err);
        }
    }
    return rc ? cli_report(&err) : verify(&f);
}

const struct command cmd_verify = {
    .name = "verify",
    .synopsis = "[--store DIR]",
    .summary = "check the store: digests of all chunks, index, orphans",
    .details = "Exit code 4 if anything is damaged. Safe while the daemon writes; it changes nothing.",
    .examples = "  dovetail verify\n  dovetail verify --store /var/lib/dovetail",
    .options = options,
    .run = run,
};
