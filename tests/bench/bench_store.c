/*
 * Writing traces into a store and finding one of them by id: traces/s (CPU), microseconds for a look-up with
 * a new connection, and the ratio of writing to encoding alone. Usage: bench_store [TRACES] [DIR]
 */
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>
#include "../../daemon/store.h"
#include "../chunk_make.h"

enum { BATCH = 200, LOOKUPS = 200 };
static const struct made_size size = {2, 8, 10, 20, 30};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread: other load does not count */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int rc, const struct dvt_err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static double write_traces(const char *dir, uint32_t n, double *ret_encode_s)
{
    struct store_config c = {.dir = dir};
    struct store *s;
    struct dvt_err err;
    char note[240];
    double spent = 0;
    check(store_open(&c, &s, note, &err), &err);
    for (uint32_t i = 1; i <= n; i++) {
        struct made *m = made_new(i, size);
        struct dvt_buf b;
        uint32_t base = i;
        dvt_buf_init(&b, 1u << 24);
        double t = now_s();
        check(dvt_chunk_encode(&m->c, &base, &b, &err), &err);
        *ret_encode_s += now_s() - t;
        t = now_s();
        check(store_append(s, &m->c, &err), &err);
        if (i % BATCH == 0)
            check(store_commit(s, &err), &err);
        spent += now_s() - t;
        dvt_buf_fini(&b);
        made_free(m);
    }
    store_close(s);
    return spent;
}

/* The place of one trace's chunks, with the opening of the index each time. */
static double look_up(const char *index, uint32_t n)
{
    double best = 1e9;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        char sql[200];
        sqlite3 *db;
        sqlite3_stmt *q;
        double t = now_s();
        sqlite3_open_v2(index, &db, SQLITE_OPEN_READONLY, NULL);
        snprintf(
            sql, sizeof sql,
            "SELECT segment, offset, bytes FROM chunks WHERE trace_id = (SELECT id FROM traces WHERE trace >="
            " x'ab0000000000000000000000%08x' LIMIT 1) ORDER BY part",
            1 + i * 7919 % n);
        if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK || sqlite3_step(q) != SQLITE_ROW) {
            fprintf(stderr, "not found: %s\n", sqlite3_errmsg(db));
            exit(1);
        }
        sqlite3_finalize(q);
        sqlite3_close(db);
        t = now_s() - t;
        best = t < best ? t : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 100000;
    char made[] = "/tmp/bench_store.XXXXXX", index[300], cmd[300];
    const char *dir = argc > 2 ? argv[2] : mkdtemp(made);
    double encode = 0, total = write_traces(dir, n, &encode);
    snprintf(index, sizeof index, "%s/index.db", dir);
    printf("%u traces of %u samples: %.0f traces/s written, %.1f times the encoding alone; one found in %.0f "
           "us\n",
           n, size.samples, n / total, total / encode, look_up(index, n) * 1e6);
    snprintf(cmd, sizeof cmd, "rm -rf %s", made);
    return argc > 2 ? 0 : system(cmd);
}
