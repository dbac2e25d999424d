/* store: what the index says of a trace in parts is what all of its parts together say, and costs no
 * reading. */
#include <CUnit/Basic.h>
#include <sqlite3.h>
#include <unistd.h>
#include "../../daemon/store_impl.h"
#include "../../proto/labels.h"
#include "../../proto/store_format.h"
#include "../chunk_make.h"

static char dir[64], note[240];
static struct store *s;

static void open_store(void)
{
    const struct store_config c = {.dir = dir};
    CU_ASSERT_EQUAL_FATAL(store_open(&c, &s, note, NULL), 0);
}

static void begin(void)
{
    strcpy(dir, "/tmp/test_store_parts.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    open_store();
}

static void end(void)
{
    char cmd[128];
    store_close(s);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CU_ASSERT_EQUAL(system(cmd), 0);
}

/* First column of the first row; -1 if there is none. By a reader's own connection. */
static int64_t number(const char *sql)
{
    char path[100];
    sqlite3 *db;
    sqlite3_stmt *q;
    int64_t n = -1;
    snprintf(path, sizeof path, "%s/index.db", dir);
    CU_ASSERT_EQUAL_FATAL(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CU_ASSERT_EQUAL_FATAL(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    if (sqlite3_step(q) == SQLITE_ROW)
        n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

/* A part of one trace: later than those before it, its scopes with the labels that a random generator
 * gives. */
static struct made *make_part(uint32_t part)
{
    static const char *const keys[] = {"tenant", "plan", "region", "user"};
    struct made *m = made_new(1, made_small);
    uint64_t later = part * UINT64_C(300000000);
    m->c.part = part;
    m->c.start_ns += later, m->c.end_ns += later;
    for (uint32_t i = 0; i < m->c.n_samples; i++)
        m->c.samples[i].time_ns += later;
    m->c.n_labels = 0;
    for (uint32_t i = 0; i < m->c.n_scopes; i++) {
        struct dvt_chunk_scope *x = &m->c.scopes[i];
        bool any_key = part > 2 || rand() % 2;
        x->start_ns += later, x->end_ns += later;
        x->first_label = m->c.n_labels;
        x->n_labels = (uint32_t)rand() % 2;
        if (x->n_labels)
            m->c.labels[m->c.n_labels++] =
                (struct dvt_label){dvt_str(keys[any_key ? (uint32_t)rand() % 4 : 0]),
                                   made_text(m, "v%u", (uint32_t)rand() % (part % 3 + 1))};
    }
    return m;
}

static void append(const struct made *m)
{
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(store_append(s, &m->c, &err), 0);
    CU_ASSERT_EQUAL(store_commit(s, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
}

static void test_later_parts_cost_no_reading_of_earlier_ones(void)
{
    begin();
    for (uint32_t part = 0; part < 50; part++) {
        struct made *m = make_part(part);
        append(m);
        made_free(m);
    }
    CU_ASSERT_EQUAL(s->read_bytes, 0);
    CU_ASSERT_EQUAL(number("SELECT parts FROM traces"), 50);
    CU_ASSERT_EQUAL(number("SELECT bytes = (SELECT sum(bytes) FROM chunks) FROM traces"), 1);
    CU_ASSERT_EQUAL(number("SELECT samples = (SELECT sum(samples) FROM chunks) FROM traces"), 1);
    end();
}

/* Samples of a label by the definition: over all parts, once all of the trace's labels are known. */
static uint64_t samples_with(struct dvt_trace_labels *t, struct made *const *parts, uint32_t n, uint32_t id)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; p < n; p++) {
        struct dvt_label_sets sets;
        const struct dvt_chunk *c = &parts[p]->c;
        CU_ASSERT_EQUAL_FATAL(dvt_labels_effective(t, c, &sets), 0);
        for (uint32_t i = 0; i < c->n_samples; i++) {
            uint32_t scope = c->samples[i].scope;
            const struct dvt_seq *set =
                &sets.sets.items[scope == DVT_NONE ? sets.of_no_scope : sets.of_scope[scope]];
            for (uint32_t k = 0; k < set->n; k++)
                sum += sets.sets.values[set->first + k] == id;
        }
        dvt_label_sets_fini(&sets);
    }
    return sum;
}

static void expect_labels(struct made *const *parts, uint32_t n)
{
    struct dvt_trace_labels t = {0};
    for (uint32_t p = 0; p < n; p++)
        CU_ASSERT_EQUAL_FATAL(dvt_trace_labels_add(&t, &parts[p]->c), 0);
    for (uint32_t id = 0; id < t.labels.table.n; id++) {
        struct dvt_str key = dvt_label_key(&t, id), value = dvt_label_value(&t, id);
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT samples FROM labels WHERE key = '%.*s' AND value = '%.*s'",
                 (int)key.n, key.p, (int)value.n, value.p);
        CU_ASSERT_EQUAL(number(sql), (int64_t)samples_with(&t, parts, n, id));
    }
    CU_ASSERT_EQUAL(number("SELECT count(*) FROM labels"), t.labels.table.n);
    dvt_trace_labels_fini(&t);
}

/* Labels come and go in random parts: single values become one of several, keys appear late. */
static void test_label_sums_after_each_part_are_those_of_the_whole_trace(void)
{
    enum { N = 6 };
    srand(7);
    for (int round = 0; round < 20; round++) {
        struct made *parts[N];
        begin();
        for (uint32_t p = 0; p < N; p++) {
            parts[p] = make_part(p);
            append(parts[p]);
            expect_labels(parts, p + 1);
        }
        for (uint32_t p = 0; p < N; p++)
            made_free(parts[p]);
        end();
    }
}

/* The trace's rows made anew from its chunks are those that came about part by part. */
static void test_rows_made_anew_are_the_same(void)
{
    static const char *const sums[] = {
        "SELECT sum(samples * 31 + on_cpu_ns * 7 + near_samples) FROM labels",
        "SELECT sum(samples) FROM names",
        "SELECT count(*) * 100000 + (SELECT count(*) FROM tags) FROM spans",
        "SELECT samples + 3 * on_cpu_ns + 5 * scopes + 7 * bytes + end_ns + root_ns + parts FROM traces"};
    int64_t before[4];
    begin();
    for (uint32_t part = 0; part < 9; part++) {
        struct made *m = make_part(part);
        append(m);
        made_free(m);
    }
    for (size_t i = 0; i < 4; i++)
        before[i] = number(sums[i]);
    CU_ASSERT_EQUAL(store_begin(s, NULL), 0);
    CU_ASSERT_EQUAL(store_index_row(s, 1, NULL), 0);
    CU_ASSERT_EQUAL(store_commit(s, NULL), 0);
    CU_ASSERT_TRUE(s->read_bytes > 0);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(number(sums[i]), before[i]);
    end();
}

static void test_root_may_come_with_a_later_part(void)
{
    struct made *a = make_part(0), *b = make_part(1), *c = make_part(2);
    begin();
    for (uint32_t i = 0; i < a->c.n_scopes; i++)
        a->c.scopes[i].flags = 0, a->c.scopes[i].name = dvt_str("part");
    b->c.scopes[1].flags = DVT_SCOPE_REMOTE_PARENT;
    b->c.scopes[1].name = dvt_str("local root");
    b->c.scopes[0].flags = 0;
    for (uint32_t i = 0; i < c->c.n_scopes; i++)
        c->c.scopes[i].flags = 0;
    c->c.scopes[1].flags = DVT_SCOPE_ROOT;
    c->c.scopes[1].name = dvt_str("root");
    append(a);
    CU_ASSERT_EQUAL(number("SELECT root_name = 'part' FROM traces"), 1);
    append(b);
    CU_ASSERT_EQUAL(number("SELECT root_name = 'local root' FROM traces"), 1);
    append(c);
    CU_ASSERT_EQUAL(number("SELECT root_name = 'root' FROM traces"), 1);
    made_free(a);
    made_free(b);
    made_free(c);
    end();
}

static void test_trace_with_an_error_label_is_failed(void)
{
    static const struct {
        const char *key, *value;
        int failed;
    } cases[] = {{"error", "true", 1}, {"error", "timeout", 1}, {"error", "false", 0}, {"error", "0", 0},
                 {"error", "", 0},     {"errors", "true", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made *a = make_part(0), *b = make_part(1);
        begin();
        CU_ASSERT_FATAL(b->c.n_labels > 0);
        b->c.labels[0] = (struct dvt_label){dvt_str(cases[i].key), dvt_str(cases[i].value)};
        append(a);
        CU_ASSERT_EQUAL(number("SELECT failed FROM traces"), 0);
        append(b);
        CU_ASSERT_EQUAL(number("SELECT failed FROM traces"), cases[i].failed);
        made_free(a);
        made_free(b);
        end();
    }
}

static void test_index_of_an_older_format_is_made_again(void)
{
    struct made *m = make_part(0);
    begin();
    append(m);
    store_close(s);
    number("PRAGMA user_version = 1");
    open_store();
    CU_ASSERT_PTR_NOT_NULL(strstr(note, "old"));
    CU_ASSERT_EQUAL(number("SELECT parts FROM traces"), 1);
    CU_ASSERT_EQUAL(number("PRAGMA user_version"), DVT_STORE_VERSION);
    made_free(m);
    end();
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("store_parts", NULL, NULL);
#define T(f) CU_add_test(suite, #f, f)
    T(test_later_parts_cost_no_reading_of_earlier_ones);
    T(test_label_sums_after_each_part_are_those_of_the_whole_trace);
    T(test_rows_made_anew_are_the_same);
    T(test_root_may_come_with_a_later_part);
    T(test_trace_with_an_error_label_is_failed);
    T(test_index_of_an_older_format_is_made_again);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
