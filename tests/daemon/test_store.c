/* store: what is committed is found again, after crashes, damage and full disks too. */
#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../daemon/store.h"
#include "../../proto/store_format.h"
#include "../chunk_make.h"

static char dir[64];
static char note[240];

static void make_dir(void)
{
    strcpy(dir, "/tmp/test_store.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static void remove_dir(void)
{
    char cmd[256];
    snprintf(cmd, sizeof cmd, "chmod -R u+w %s; rm -rf %s", dir, dir);
    CU_ASSERT_EQUAL(system(cmd), 0);
}

static struct store *opened_with(struct store_config c)
{
    struct store *s = NULL;
    struct dvt_err err = {0};
    c.dir = dir;
    CU_ASSERT_EQUAL(store_open(&c, &s, note, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    return s;
}

static struct store *opened(void)
{
    return opened_with((struct store_config){0});
}

static void append(struct store *s, uint32_t seed)
{
    struct made *m = made_new(seed, made_small);
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(store_append(s, &m->c, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    made_free(m);
}

static void append_n(struct store *s, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        append(s, first + i);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* First column of the first row as text; "" if there is none. */
static const char *query(const char *sql)
{
    static char text[256];
    sqlite3 *db;
    sqlite3_stmt *q;
    text[0] = 0;
    CU_ASSERT_EQUAL_FATAL(sqlite3_open_v2(path_of("index.db"), &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL_FATAL(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0))
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    sqlite3_close(db);
    return text;
}

static long number(const char *sql)
{
    return atol(query(sql));
}

/* Every indexed chunk is where its row says, with its digest, and decodes; returns how many. */
static long verified_chunks(void)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    long n = 0;
    sqlite3_open_v2(path_of("index.db"), &db, SQLITE_OPEN_READWRITE, NULL);
    sqlite3_prepare_v2(db, "SELECT segment, offset, bytes, digest FROM chunks", -1, &q, NULL);
    while (sqlite3_step(q) == SQLITE_ROW) {
        char name[32];
        uint8_t digest[32];
        struct dvt_chunk c;
        size_t bytes = (size_t)sqlite3_column_int64(q, 2);
        uint8_t *p = malloc(bytes);
        snprintf(name, sizeof name, DVT_SEGMENT_NAME_FMT, (unsigned)sqlite3_column_int(q, 0));
        int fd = open(path_of(name), O_RDONLY);
        CU_ASSERT_EQUAL(pread(fd, p, bytes, sqlite3_column_int64(q, 1)), (ssize_t)bytes);
        SHA256(p, bytes, digest);
        CU_ASSERT_EQUAL(memcmp(digest, sqlite3_column_blob(q, 3), sizeof digest), 0);
        CU_ASSERT_EQUAL(dvt_chunk_decode(p, bytes, &c, NULL), 0);
        dvt_chunk_fini(&c);
        close(fd);
        free(p);
        n++;
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(path_of(name), &st) ? -1 : st.st_size;
}

static void test_committed_trace_has_all_its_rows(void)
{
    struct store *s = opened();
    append_n(s, 1, 3);
    CU_ASSERT_STRING_EQUAL(note, "");
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 3);
    CU_ASSERT_EQUAL(verified_chunks(), 3);
    CU_ASSERT_STRING_EQUAL(query("SELECT hex(trace) FROM traces WHERE id = 2"),
                           "AB000000000000000000000000000002");
    CU_ASSERT_STRING_EQUAL(query("SELECT root_name || '@' || root_service FROM traces"), "GET /orders@shop");
    CU_ASSERT_EQUAL(number("SELECT duration_ns FROM traces"), 300000000);
    CU_ASSERT_EQUAL(number("SELECT samples FROM traces"), 12);
    CU_ASSERT_EQUAL(number("SELECT on_cpu_ns FROM traces"), 12 * 10000000 + 66);
    CU_ASSERT_EQUAL(
        number("SELECT count(*) FROM traces WHERE blocked_ns IS NULL AND no_stack = 2 AND scopes = 6"), 3);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM spans"), 18);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM tags WHERE tag GLOB 'seed2/*'"), 5);
    CU_ASSERT_EQUAL(number("SELECT sum(samples) FROM names WHERE trace_id = 1"), 12);
    CU_ASSERT_EQUAL(
        number("SELECT samples FROM labels WHERE key = 'tenant' AND value = 'acme' AND trace_id = 1"), 12);
    CU_ASSERT_EQUAL(number("SELECT bytes FROM segments"), size_of("segments/00000001.jfr"));
    store_close(s);
}

static void test_uncommitted_rows_are_not_visible(void)
{
    struct store *s = opened();
    append_n(s, 1, 1);
    append(s, 2);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 1);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 2);
    store_close(s);
}

/* A daemon that dies without warning: n chunks committed, m more written. */
static void crash_after(uint32_t n, uint32_t m)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct store *s = opened();
        append_n(s, 1, n);
        for (uint32_t i = 0; i < m; i++)
            append(s, n + i + 1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void test_chunks_written_before_a_crash_are_indexed_at_the_next_start(void)
{
    crash_after(3, 2);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 3);
    struct store *s = opened();
    CU_ASSERT_PTR_NOT_NULL(strstr(note, "2 chunks indexed again"));
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 5);
    append_n(s, 6, 1);
    CU_ASSERT_EQUAL(verified_chunks(), 6);
    store_close(s);
    store_close(opened());
    CU_ASSERT_STRING_EQUAL(note, "");
}

static void test_torn_tail_is_saved_and_cut(void)
{
    crash_after(3, 1);
    off_t whole = size_of("segments/00000001.jfr");
    CU_ASSERT_EQUAL(truncate(path_of("segments/00000001.jfr"), whole - 100), 0);
    struct store *s = opened();
    CU_ASSERT_EQUAL(verified_chunks(), 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(note, "torn"));
    CU_ASSERT_EQUAL(size_of("segments/00000001.torn") + size_of("segments/00000001.jfr"), whole - 100);
    CU_ASSERT_TRUE(size_of("segments/00000001.torn") > 0);
    store_close(s);
}

static void test_index_that_names_what_is_gone_is_corrected(void)
{
    crash_after(3, 0);
    CU_ASSERT_EQUAL(truncate(path_of("segments/00000001.jfr"), size_of("segments/00000001.jfr") / 2), 0);
    struct store *s = opened();
    CU_ASSERT_EQUAL(verified_chunks(), 1);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(note, "2 indexed chunks are gone"));
    store_close(s);
}

static void test_missing_or_damaged_index_is_made_again(void)
{
    struct store *s = opened();
    append_n(s, 1, 4);
    store_close(s);
    s = opened();
    append_n(s, 5, 3);
    store_close(s);
    CU_ASSERT_EQUAL(unlink(path_of("index.db")), 0);
    store_close(opened());
    CU_ASSERT_EQUAL(verified_chunks(), 7);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM labels"), 7);
    int fd = open(path_of("index.db"), O_WRONLY | O_TRUNC);
    CU_ASSERT_EQUAL(write(fd, "this is no database, nor was it ever one", 40), 40);
    close(fd);
    store_close(opened());
    CU_ASSERT_EQUAL(verified_chunks(), 7);
    CU_ASSERT_EQUAL(size_of("index.db.damaged"), 40);
}

static void test_damage_in_the_middle_loses_only_the_damaged_chunk(void)
{
    struct store *s = opened();
    append_n(s, 1, 5);
    store_close(s);
    long at = number("SELECT offset FROM chunks WHERE trace_id = 3"),
         bytes = number("SELECT bytes FROM chunks WHERE trace_id = 3");
    char zeros[512] = {0};
    int fd = open(path_of("segments/00000001.jfr"), O_WRONLY);
    CU_ASSERT_EQUAL(pwrite(fd, zeros, sizeof zeros, at), sizeof zeros);
    close(fd);
    unlink(path_of("index.db"));
    store_close(opened());
    CU_ASSERT_EQUAL(verified_chunks(), 4);
    char expected[64];
    snprintf(expected, sizeof expected, "%ld damaged bytes", bytes);
    CU_ASSERT_PTR_NOT_NULL(strstr(note, expected));
}

static void test_second_writer_is_refused_with_the_first_ones_pid(void)
{
    struct store *s = opened(), *other = NULL;
    struct store_config c = {.dir = dir};
    struct dvt_err err = {0};
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    CU_ASSERT_EQUAL(store_open(&c, &other, note, &err), DVT_EBUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, pid));
    store_close(s);
}

static void expect_refused(const char *where, int code, const char *says)
{
    struct store *s = NULL;
    struct store_config c = {.dir = where};
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(store_open(&c, &s, note, &err), code);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    if (!strstr(err.text, says))
        printf("said: %s\n", err.text);
}

static void test_unusable_places_are_refused_with_what_to_do(void)
{
    store_close(opened());
    query("PRAGMA user_version = 99");
    expect_refused(dir, DVT_EVERSION, "update dovetail");
    close(open(path_of("file"), O_CREAT | O_WRONLY, 0600));
    expect_refused(path_of("file"), DVT_EINVAL, "not a directory");
    CU_ASSERT_EQUAL(mkdir(path_of("home"), 0700), 0);
    close(open(path_of("home/letter.txt"), O_CREAT | O_WRONLY, 0600));
    char home[80];
    snprintf(home, sizeof home, "%s/home", dir);
    expect_refused(home, DVT_EINVAL, "holds other files");
}

static void test_directory_without_write_permission_is_refused(void)
{
    CU_ASSERT_EQUAL(chmod(dir, 0555), 0);
    pid_t pid = fork();
    if (pid == 0) { /* root may write anywhere */
        struct store *s = NULL;
        struct store_config c = {.dir = dir};
        struct dvt_err err = {0};
        if (geteuid() == 0 && setuid(65534))
            _exit(2);
        _exit(store_open(&c, &s, note, &err) == DVT_EPERM && strstr(err.text, "writable") ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(chmod(dir, 0755), 0);
}

static void test_full_disk_loses_only_what_did_not_fit(void)
{
    struct store *s = opened();
    struct rlimit old, tight;
    struct dvt_err err = {0};
    append_n(s, 1, 2);
    off_t before = size_of("segments/00000001.jfr");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = (struct rlimit){(rlim_t)before + 100, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    struct made *m = made_new(3, made_small);
    CU_ASSERT_EQUAL(store_append(s, &m->c, &err), DVT_EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "disk full"));
    setrlimit(RLIMIT_FSIZE, &old);
    CU_ASSERT_EQUAL(size_of("segments/00000001.jfr"), before);
    CU_ASSERT_EQUAL(store_append(s, &m->c, NULL), 0);
    made_free(m);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    store_close(s);
    CU_ASSERT_EQUAL(verified_chunks(), 3);
    store_close(opened());
    CU_ASSERT_STRING_EQUAL(note, "");
}

static void test_commit_that_fails_is_made_good_by_the_next(void)
{
    struct store *s = opened();
    struct rlimit old, tight;
    append_n(s, 1, 1);
    for (uint32_t i = 2; i < 40; i++)
        append(s, i);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = (struct rlimit){4096, old.rlim_max}; /* the log of the database cannot grow */
    setrlimit(RLIMIT_FSIZE, &tight);
    struct dvt_err err = {0};
    CU_ASSERT_TRUE(store_commit(s, &err) < 0);
    setrlimit(RLIMIT_FSIZE, &old);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 1);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(verified_chunks(), 39);
    append_n(s, 40, 1);
    CU_ASSERT_EQUAL(verified_chunks(), 40);
    store_close(s);
}

static void test_label_of_a_later_part_counts_for_the_whole_trace(void)
{
    struct store *s = opened();
    struct made *a = made_new(1, made_small), *b = made_new(1, made_small);
    struct dvt_label plan = {dvt_str("plan"), dvt_str("gold")},
                     other = {dvt_str("tenant"), dvt_str("globex")};
    b->c.part = 1;
    b->c.start_ns = a->c.end_ns;
    b->c.end_ns = b->c.start_ns + 300000000;
    for (uint32_t i = 0; i < b->c.n_scopes; i++)
        b->c.scopes[i].start_ns += 300000000, b->c.scopes[i].end_ns += 300000000;
    for (uint32_t i = 0; i < b->c.n_samples; i++)
        b->c.samples[i].time_ns += 300000000;
    b->c.labels[5] = plan;
    CU_ASSERT_EQUAL(store_append(s, &a->c, NULL), 0);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'acme'"), 12);
    CU_ASSERT_EQUAL(store_append(s, &b->c, NULL), 0);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'gold'"), 24);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'acme'"), 24);
    CU_ASSERT_EQUAL(number("SELECT duration_ns FROM traces"), 600000000);
    CU_ASSERT_EQUAL(number("SELECT samples FROM traces"), 24);
    CU_ASSERT_EQUAL(number("SELECT sum(samples) FROM names"), 24);
    /* A third part disagrees on the tenant: now each sample goes by its own scopes. */
    b->c.part = 2;
    for (uint32_t i = 0; i < b->c.n_labels; i++)
        b->c.labels[i] = other;
    CU_ASSERT_EQUAL(store_append(s, &b->c, NULL), 0);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'globex'"), 12);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'acme'"), 24);
    CU_ASSERT_EQUAL(number("SELECT samples FROM labels WHERE value = 'gold'"), 36);
    made_free(a);
    made_free(b);
    store_close(s);
}

static void test_segments_are_sealed_when_full_and_when_the_clock_steps(void)
{
    struct store *s = opened_with((struct store_config){.segment_bytes = 10000});
    append_n(s, 1, 6);
    long full = number("SELECT count(*) FROM segments");
    CU_ASSERT_TRUE(full >= 2);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM segments WHERE sealed = 0"), 1);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM segments WHERE bytes > 10000"), 0);
    store_close(s);
    s = opened();
    append_n(s, 7, 2);
    struct made *m = made_new(9, made_small);
    m->c.unix_offset_ns += 3600000000000;
    CU_ASSERT_EQUAL(store_append(s, &m->c, NULL), 0);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM segments"), full + 2);
    made_free(m);
    store_close(s);
    CU_ASSERT_EQUAL(verified_chunks(), 9);
}

static long segment_bytes(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "cat %s/segments/*.jfr | wc -c", dir);
    FILE *f = popen(cmd, "r");
    long n = -1;
    CU_ASSERT_EQUAL(fscanf(f, "%ld", &n), 1);
    pclose(f);
    return n;
}

static void test_retention_keeps_the_budget_and_the_slow_and_pinned_traces(void)
{
    struct store_config c = {.budget_bytes = 100000, .segment_bytes = 30000, .slow_keep_permille = 50};
    struct store *s = opened_with(c);
    for (uint32_t i = 1; i <= 100; i++) {
        struct made *m = made_new(i, made_small);
        if (i == 5)
            m->c.end_ns += 1000000000; /* the slowest */
        CU_ASSERT_EQUAL(store_append(s, &m->c, NULL), 0);
        made_free(m);
    }
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    query("UPDATE traces SET pinned = 1 WHERE id = 3");
    CU_ASSERT_TRUE(segment_bytes() > 100000);
    int deleted = store_retain(s, NULL);
    CU_ASSERT_TRUE(deleted > 50 && deleted < 100);
    CU_ASSERT_TRUE(segment_bytes() <= 100000);
    CU_ASSERT_TRUE(segment_bytes() > 50000);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces WHERE id IN (3, 5)"), 2);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces WHERE id IN (1, 2, 4, 6)"), 0);
    CU_ASSERT_EQUAL(number("SELECT max(id) FROM traces"), 100);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 100 - deleted);
    CU_ASSERT_EQUAL(verified_chunks(), 100 - deleted);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM spans WHERE trace_id NOT IN (SELECT id FROM traces)"), 0);
    CU_ASSERT_EQUAL(number("SELECT sum(bytes) FROM segments"), segment_bytes());
    CU_ASSERT_EQUAL(store_retain(s, NULL), 0);
    append_n(s, 101, 2);
    store_close(s);
    store_close(opened_with(c));
    CU_ASSERT_STRING_EQUAL(note, "");
    CU_ASSERT_EQUAL(verified_chunks(), 102 - deleted);
}

static void test_doomed_segment_left_by_a_crash_is_removed(void)
{
    struct store *s = opened();
    append_n(s, 1, 2);
    store_close(s);
    query("DELETE FROM chunks");
    query("DELETE FROM traces");
    query("UPDATE segments SET sealed = 2");
    store_close(opened());
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM traces"), 0);
    CU_ASSERT_EQUAL(size_of("segments/00000001.jfr"), -1);
}

static void test_no_lookup_scans_a_table(void)
{
    static const char *const lookups[] = {
        "SELECT id FROM traces WHERE trace >= x'ab' AND trace < x'ac'",
        "SELECT id FROM traces ORDER BY duration_ns DESC LIMIT 10",
        "SELECT id FROM traces WHERE start_ns >= 1 AND start_ns < 2",
        "SELECT trace_id FROM labels WHERE key = 'tenant' AND value = 'acme'",
        "SELECT trace_id FROM labels WHERE key = 'tenant' AND value GLOB 'ac*'",
        "SELECT trace_id FROM tags WHERE tag >= 'a' AND tag < 'b'",
        "SELECT trace_id FROM names WHERE name GLOB 'GET*'",
        "SELECT trace_id FROM names WHERE service = 'shop'",
        "SELECT trace_id FROM spans WHERE span = x'00'",
        "SELECT segment, offset FROM chunks WHERE trace_id = 1 ORDER BY part",
    };
    store_close(opened());
    for (size_t i = 0; i < sizeof lookups / sizeof *lookups; i++) {
        sqlite3 *db;
        sqlite3_stmt *q;
        char sql[200];
        snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", lookups[i]);
        sqlite3_open_v2(path_of("index.db"), &db, SQLITE_OPEN_READWRITE, NULL);
        CU_ASSERT_EQUAL_FATAL(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
        while (sqlite3_step(q) == SQLITE_ROW) {
            const char *plan = (const char *)sqlite3_column_text(q, 3);
            bool is_good = strstr(plan, "SEARCH") || strstr(plan, "traces_duration");
            CU_ASSERT_TRUE(is_good);
            if (!is_good)
                printf("%s: %s\n", lookups[i], plan);
        }
        sqlite3_finalize(q);
        sqlite3_close(db);
    }
}

static void test_dropped_counts_and_processes_are_kept(void)
{
    struct store *s = opened();
    struct dvt_chunk_process p = {
        7, 99, dvt_str("shop\n"), dvt_str("python3"), dvt_str("python"), dvt_str("3.11")};
    CU_ASSERT_EQUAL(store_put_dropped(s, "shop", "GET /", 5, NULL), 0);
    CU_ASSERT_EQUAL(store_put_dropped(s, "shop", "GET /", 6, NULL), 0);
    CU_ASSERT_EQUAL(store_put_process(s, "boot", &p, 10, 20, "{\"samples\":1}", NULL), 0);
    CU_ASSERT_EQUAL(store_put_process(s, "boot", &p, 10, 30, "{\"samples\":2}", NULL), 0);
    CU_ASSERT_EQUAL(store_put_process(s, "boot", &p, 40, 50, "{\"samples\":3}", NULL),
                    0); /* its next session */
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_EQUAL(number("SELECT count FROM dropped"), 11);
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM processes"), 2);
    CU_ASSERT_STRING_EQUAL(
        query("SELECT first_ns || ' ' || last_ns || ' ' || ledger || service FROM processes ORDER BY 1"),
        "10 30 {\"samples\":2}shop\xef\xbf\xbd");
    store_close(s);
}

static void test_key_base_goes_on_over_restarts(void)
{
    struct store *s = opened();
    append_n(s, 1, 3);
    store_close(s);
    long base = number("SELECT value FROM meta WHERE key = 'key_base'");
    s = opened();
    append_n(s, 4, 1);
    store_close(s);
    CU_ASSERT_TRUE(base > 20);
    CU_ASSERT_TRUE(number("SELECT value FROM meta WHERE key = 'key_base'") > base);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite_with_setup_and_teardown("store", NULL, NULL, make_dir, remove_dir);
#define T(f) CU_add_test(s, #f, f)
    T(test_committed_trace_has_all_its_rows);
    T(test_uncommitted_rows_are_not_visible);
    T(test_chunks_written_before_a_crash_are_indexed_at_the_next_start);
    T(test_torn_tail_is_saved_and_cut);
    T(test_index_that_names_what_is_gone_is_corrected);
    T(test_missing_or_damaged_index_is_made_again);
    T(test_damage_in_the_middle_loses_only_the_damaged_chunk);
    T(test_second_writer_is_refused_with_the_first_ones_pid);
    T(test_unusable_places_are_refused_with_what_to_do);
    T(test_directory_without_write_permission_is_refused);
    T(test_full_disk_loses_only_what_did_not_fit);
    T(test_commit_that_fails_is_made_good_by_the_next);
    T(test_label_of_a_later_part_counts_for_the_whole_trace);
    T(test_segments_are_sealed_when_full_and_when_the_clock_steps);
    T(test_retention_keeps_the_budget_and_the_slow_and_pinned_traces);
    T(test_doomed_segment_left_by_a_crash_is_removed);
    T(test_no_lookup_scans_a_table);
    T(test_dropped_counts_and_processes_are_kept);
    T(test_key_base_goes_on_over_restarts);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
