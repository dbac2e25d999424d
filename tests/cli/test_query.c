/*
 * query, catalog, columns: over real stores. The column files must say exactly what the chunks say.
 */
#include "check.h"
#include "fixture.h"

#include "../../cli/catalog.h"
#include "../../cli/columns.h"
#include "../../cli/query_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ID_A "4bf92f3577b34da6a3ce929d0e0e0001"
#define ID_B "4bf92f3577b34da6a3ce929d0e0e0002"
#define ID_C "aa00000000000000000000000000000c"

/* Two threads; the tenant is a label of the root; the worker's scope has the root as its parent span. */
static struct fixture *trace(const char *id, const char *tenant, uint64_t duration_ns)
{
    char labels[64];
    snprintf(labels, sizeof labels, "tenant=%s", tenant);
    struct fixture *f = fixture_new(id, 1000000000, 1000000000 + duration_ns);
    uint32_t p = fixture_process(f, 4711, "shop"), main_thread = fixture_thread(f, p, 4711, "MainThread"),
             worker = fixture_thread(f, p, 4712, "worker-1");
    uint32_t root = fixture_scope(f, main_thread, DVT_NONE, "GET /cart", labels),
             inner = fixture_scope(f, main_thread, root, "price", "part=price"),
             load = fixture_scope(f, worker, DVT_NONE, "load", NULL);
    fixture_chunk(f)->scopes[load].parent_span = fixture_chunk(f)->scopes[root].span;
    uint32_t handle = fixture_stack(f, "main@app.py:10;handle@app.py:41"),
             price = fixture_stack(f, "main@app.py:10;handle@app.py:42;calculate_discounts@shop.py:88"),
             sql = fixture_stack(f, "main@app.py:10;~PyObject_Call@python3.11;~sqlite3_step@libsqlite3.so.0;"
                                    "~sigurg@_dovetail.cpython-311-x86_64-linux-gnu.so;%copy@kernel"),
             gone = fixture_stack(f, "![no stack: window];~_PyEval_Frame@libpython3.11.so.1.0");
    fixture_samples(f, main_thread, root, handle, 10);
    fixture_samples(f, main_thread, inner, price, 30);
    fixture_samples(f, worker, load, sql, 8);
    fixture_samples(f, worker, load, gone, 2);
    return f;
}

struct answer {
    char *text; /* sorted folded lines */
    struct tree_meta meta;
};

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *sorted(char *text)
{
    char *lines[4096], *out = calloc(1, strlen(text) + 2);
    size_t n = 0;
    for (char *save, *line = strtok_r(text, "\n", &save); line && n < 4096;
         line = strtok_r(NULL, "\n", &save)) {
        lines[n++] = line;
    }
    qsort(lines, n, sizeof *lines, by_line);
    for (size_t i = 0; i < n; i++) {
        strcat(strcat(out, lines[i]), "\n");
    }
    free(text);
    return out;
}

enum way { BY_CHUNKS, BY_COLUMNS, BY_ITSELF };

static struct answer ask(const char *dir, const struct filter *f, const struct query_options *o, enum way way)
{
    struct answer a = {0};
    struct catalog *c = NULL;
    struct dvt_err err = {0};
    struct tree tree;
    size_t n;
    bool found;
    tree_init(&tree);
    CU_ASSERT_EQUAL_FATAL(catalog_open(&dir, 1, &c, &err), 0);
    int rc = 0;
    if (way == BY_COLUMNS) {
        rc = query_columns(c, f, o, &tree, &a.meta, &err);
    } else if (way == BY_ITSELF) {
        rc = query_all(c, f, o, &tree, &a.meta, &found, &err);
    } else {
        struct catalog_list list;
        CU_ASSERT_EQUAL_FATAL(catalog_traces(c, f, 0, &list, &err), 0);
        for (size_t i = 0; i < list.n; i++) {
            for (size_t k = 0; k < list.traces[i].n_sources; k++) {
                rc |= query_row(c, list.traces[i].sources[k], f, o, &tree, &a.meta, &err);
            }
        }
        tree_finish(&tree);
        catalog_list_fini(&list);
    }
    if (rc) {
        fprintf(stderr, "%s\n", err.text);
    }
    CU_ASSERT_EQUAL(rc, 0);
    FILE *out = open_memstream(&a.text, &n);
    a.meta.opt.counts = true;
    out_folded.write(&tree, &a.meta, out);
    fclose(out);
    a.text = sorted(a.text);
    tree_fini(&tree);
    catalog_close(c);
    return a;
}

static const struct query_options plain = {.by = QUERY_BY_NONE, .threads = true};

static void expect(const char *dir, const struct filter *f, const struct query_options *o, enum way way,
                   const char *expected)
{
    struct answer a = ask(dir, f, o, way);
    CU_ASSERT_STRING_EQUAL(a.text, expected);
    if (strcmp(a.text, expected) != 0) {
        fprintf(stderr, "\ngot:\n%s", a.text);
    }
    free(a.text);
}

static struct fixture_store *store_of(struct fixture **f, size_t n)
{
    struct fixture_store *s = fixture_store_new();
    for (size_t i = 0; i < n; i++) {
        fixture_store_add(s, f[i]);
        fixture_free(f[i]);
    }
    fixture_store_close(s);
    return s;
}

static struct fixture_store *three(void)
{
    struct fixture *f[] = {trace(ID_A, "acme", 500000000), trace(ID_B, "zeta", 900000000),
                           trace(ID_C, "acme", 100000000)};
    return store_of(f, 3);
}

/* ---- what a trace shows ---- */

static void test_the_runtimes_own_frames_above_managed_ones_are_left_out(void)
{
    struct fixture_store *s = three();
    struct filter f = {.trace = ID_A};
    struct query_options native = plain;
    expect(fixture_store_dir(s), &f, &plain, BY_CHUNKS,
           "shop;MainThread;main;handle 10\n"
           "shop;MainThread;main;handle;calculate_discounts 30\n"
           "shop;worker-1;[no stack: window];_PyEval_Frame 2\n"
           "shop;worker-1;main;sqlite3_step;copy 8\n");
    native.native = true;
    struct answer a = ask(fixture_store_dir(s), &f, &native, BY_CHUNKS);
    CHECK_CONTAINS(a.text, "main;PyObject_Call;sqlite3_step");
    CU_ASSERT_EQUAL(a.meta.samples, 50);
    CU_ASSERT_EQUAL(a.meta.no_stack, 2);
    CU_ASSERT_EQUAL(a.meta.on_cpu_ns, UINT64_C(50) * FIXTURE_PERIOD_NS);
    free(a.text);
    fixture_store_free(s);
}

static void test_frames_of_the_shim_and_the_interpreter_are_the_runtimes(void)
{
    static const char *const runtime[] = {"python",
                                          "python3",
                                          "python3.11",
                                          "libpython3.11.so.1.0",
                                          "libdovetail.so",
                                          "libdovetail.so.0.1.0",
                                          "_dovetail.cpython-311-x86_64-linux-gnu.so"};
    static const char *const others[] = {"python-ldap.so",
                                         "pythonista",
                                         "_dovetailed.so",
                                         "libdovetailor.so.1",
                                         "libc.so.6",
                                         "",
                                         "_sqlite3.cpython-311-x86_64-linux-gnu.so"};
    for (size_t i = 0; i < 7; i++) {
        CU_ASSERT_TRUE(query_is_runtime(DVT_FRAME_NATIVE, dvt_str(runtime[i])));
        CU_ASSERT_TRUE(query_is_runtime(DVT_FRAME_INLINED, dvt_str(runtime[i])));
        CU_ASSERT_FALSE(query_is_runtime(DVT_FRAME_MANAGED, dvt_str(runtime[i])));
        CU_ASSERT_FALSE(query_is_runtime(DVT_FRAME_NATIVE, dvt_str(others[i])));
    }
}

/* A pool of three threads, all called python3, as gunicorn's are. */
static void test_threads_of_one_name_are_told_apart_in_one_trace(void)
{
    struct fixture *f = fixture_new(ID_A, 1, 1000);
    uint32_t p = fixture_process(f, 4711, "shop"), stack = fixture_stack(f, "main@app.py:10");
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t t = fixture_thread(f, p, 4711 + i, i < 2 ? "python3" : "");
        fixture_samples(f, t, fixture_scope(f, t, DVT_NONE, "work", NULL), stack, 1 + i);
    }
    struct fixture_store *s = store_of(&f, 1);
    struct filter one = {.trace = ID_A};
    struct query_options o = {.threads = true, .tids = true};
    expect(fixture_store_dir(s), &one, &o, BY_CHUNKS,
           "shop;python3 (4711);main 1\nshop;python3 (4712);main 2\nshop;thread 4713;main 3\n");
    o.tids = false;
    expect(fixture_store_dir(s), &one, &o, BY_CHUNKS, "shop;python3;main 3\nshop;thread 4713;main 3\n");
    fixture_store_free(s);
}

static void test_the_roots_tag_shows_once_per_thread(void)
{
    struct fixture_store *s = three();
    struct filter f = {.trace = ID_A};
    struct query_options o = {.by = QUERY_BY_TAG, .processes = true, .threads = true};
    struct answer a = ask(fixture_store_dir(s), &f, &o, BY_CHUNKS);
    CHECK_CONTAINS(a.text, "shop (pid 4711);MainThread;" ID_A "/0000000000000001/GET /cart;main;handle 10\n");
    CHECK_CONTAINS(a.text,
                   "shop (pid 4711);worker-1;" ID_A "/0000000000000001/GET /cart;main;sqlite3_step;copy 8\n");
    CHECK_LACKS(a.text, "load");
    free(a.text);
    o.by = QUERY_BY_SCOPE;
    a = ask(fixture_store_dir(s), &f, &o, BY_CHUNKS);
    CHECK_CONTAINS(a.text, "MainThread;GET /cart;price;main;handle;calculate_discounts 30\n");
    free(a.text);
    fixture_store_free(s);
}

/* A process of the trace is told of first, then a part with the root, which began later there. */
static void test_the_roots_tag_is_one_over_processes_and_parts(void)
{
    enum { N = 2 };
    static const char *const names[N] = {"GET /orders", "GET /cart"}, *const services[N] = {"orders", "gateway"};
    struct fixture *f[N];
    for (uint32_t i = 0; i < N; i++) {
        f[i] = fixture_new(ID_A, 1000000000 + i * 1000, 2000000000);
        fixture_chunk(f[i])->part = i;
        uint32_t t = fixture_thread(f[i], fixture_process(f[i], 10 + i, services[i]), 10 + i, "main");
        uint32_t scope = fixture_scope(f[i], t, DVT_NONE, names[i], NULL);
        fixture_chunk(f[i])->scopes[scope].flags = i ? DVT_SCOPE_ROOT : DVT_SCOPE_REMOTE_PARENT;
        fixture_samples(f[i], t, scope, fixture_stack(f[i], "main@app.py:10"), 1 + i);
    }
    struct fixture_store *s = store_of(f, N);
    struct filter one = {.trace = ID_A};
    struct query_options o = {.by = QUERY_BY_TAG, .threads = true};
    expect(fixture_store_dir(s), &one, &o, BY_CHUNKS,
           "gateway;main;" ID_A "/0000000000000001/GET /cart;main 2\n"
           "orders;main;" ID_A "/0000000000000001/GET /cart;main 1\n");
    fixture_store_free(s);
}

static void test_filters_pick_samples_not_only_traces(void)
{
    struct fixture_store *s = three();
    const char *dir = fixture_store_dir(s);
    static const char all_acme[] = "shop;MainThread;main;handle 20\n"
                                   "shop;MainThread;main;handle;calculate_discounts 60\n"
                                   "shop;worker-1;[no stack: window];_PyEval_Frame 4\n"
                                   "shop;worker-1;main;sqlite3_step;copy 16\n";
    struct filter by_label = {.labels = {{{"tenant", 6}, "acme"}}, .n_labels = 1};
    struct filter by_name = {.trace = ID_A, .name = "pri*"};
    struct filter by_span = {.trace = ID_A, .span = "0000000000000002"};
    struct filter by_tag = {.trace = ID_A, .tag = ID_A "/0000000000000003"};
    struct filter by_parent = {.trace = ID_A, .name = "GET*"};
    expect(dir, &by_label, &plain, BY_CHUNKS, all_acme);
    expect(dir, &by_label, &plain, BY_COLUMNS, all_acme);
    expect(dir, &by_name, &plain, BY_CHUNKS, "shop;MainThread;main;handle;calculate_discounts 30\n");
    expect(dir, &by_span, &plain, BY_CHUNKS, "shop;MainThread;main;handle;calculate_discounts 30\n");
    expect(dir, &by_tag, &plain, BY_CHUNKS,
           "shop;worker-1;[no stack: window];_PyEval_Frame 2\nshop;worker-1;main;sqlite3_step;copy 8\n");
    struct answer a = ask(dir, &by_parent, &plain, BY_CHUNKS);
    CU_ASSERT_EQUAL(a.meta.samples, 50); /* the worker's scope lies under it by its parent span */
    free(a.text);
    fixture_store_free(s);
}

/* ---- columns ---- */

static void expect_same(const char *dir, const struct filter *f, const struct query_options *o)
{
    struct answer chunks = ask(dir, f, o, BY_CHUNKS), columns = ask(dir, f, o, BY_COLUMNS);
    CU_ASSERT_STRING_EQUAL(chunks.text, columns.text);
    if (strcmp(chunks.text, columns.text) != 0) {
        fprintf(stderr, "\nchunks:\n%scolumns:\n%s", chunks.text, columns.text);
    }
    CU_ASSERT_EQUAL(chunks.meta.samples, columns.meta.samples);
    CU_ASSERT_EQUAL(chunks.meta.on_cpu_ns, columns.meta.on_cpu_ns);
    CU_ASSERT_EQUAL(chunks.meta.no_stack, columns.meta.no_stack);
    CU_ASSERT_EQUAL(chunks.meta.n_traces, columns.meta.n_traces);
    CU_ASSERT_EQUAL(chunks.meta.duration_ns, columns.meta.duration_ns);
    CU_ASSERT_EQUAL(chunks.meta.start_ns, columns.meta.start_ns);
    CU_ASSERT_STRING_EQUAL(chunks.meta.event, columns.meta.event);
    free(chunks.text);
    free(columns.text);
}

static void expect_same_for_all_filters(const char *dir)
{
    struct query_options merged = {.by = QUERY_BY_NONE},
                         native = {.by = QUERY_BY_NONE, .threads = true, .native = true};
    const struct filter filters[] = {
        {0},
        {.labels = {{{"tenant", 6}, "acme"}}, .n_labels = 1},
        {.labels = {{{"tenant", 6}, "?e*"}, {{"part", 4}, "*"}}, .n_labels = 2},
        {.name = "load"},
        {.name = "*"},
        {.service = "sh*"},
        {.min_duration_ns = 200000000},
        {.since_ns = FIXTURE_UNIX_OFFSET_NS + 1000000001},
        {.until_ns = FIXTURE_UNIX_OFFSET_NS + 1000000001, .name = "price"},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        expect_same(dir, &filters[i], &plain);
        expect_same(dir, &filters[i], &merged);
        expect_same(dir, &filters[i], &native);
    }
}

static void test_columns_say_what_chunks_say(void)
{
    struct fixture_store *s = three();
    expect_same_for_all_filters(fixture_store_dir(s)); /* the first call makes the file, the others map it */
    fixture_store_free(s);
}

static void test_a_trace_of_several_parts_keeps_its_labels(void)
{
    struct fixture *f[] = {trace(ID_A, "acme", 500000000), trace(ID_B, "zeta", 900000000),
                           trace(ID_A, "acme", 500000000)};
    fixture_chunk(f[2])->part = 1;
    fixture_chunk(f[2])->scopes[0].n_labels = 0; /* the tenant is only in the first part */
    struct fixture_store *s = store_of(f, 3);
    struct filter acme = {.labels = {{{"tenant", 6}, "acme"}}, .n_labels = 1};
    struct answer a = ask(fixture_store_dir(s), &acme, &plain, BY_COLUMNS);
    CU_ASSERT_EQUAL(a.meta.samples, 100);
    CU_ASSERT_EQUAL(a.meta.n_traces, 1);
    free(a.text);
    expect_same_for_all_filters(fixture_store_dir(s));
    fixture_store_free(s);
}

static char *column_path(const struct fixture_store *s)
{
    char *path = malloc(256), *found = malloc(256);
    snprintf(path, 256, "ls %s/columns/*.col", fixture_store_dir(s));
    FILE *p = popen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(p ? fgets(found, 256, p) : NULL);
    pclose(p);
    found[strcspn(found, "\n")] = 0;
    free(path);
    return found;
}

static void test_a_deleted_trace_is_gone_from_columns(void)
{
    struct fixture_store *s = three();
    char command[512];
    struct filter all = {0};
    struct answer before = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    CU_ASSERT_EQUAL(before.meta.samples, 150);
    snprintf(
        command, sizeof command,
        "sqlite3 %s/index.db \"DELETE FROM chunks WHERE trace_id = 1; DELETE FROM traces WHERE id = 1;\"",
        fixture_store_dir(s));
    CU_ASSERT_EQUAL(system(command), 0);
    struct answer after = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    CU_ASSERT_EQUAL(after.meta.samples, 100);
    expect_same_for_all_filters(fixture_store_dir(s));
    free(before.text);
    free(after.text);
    fixture_store_free(s);
}

static void test_damaged_column_files_are_made_anew(void)
{
    struct fixture_store *s = three();
    struct filter all = {0};
    struct answer a = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    char *path = column_path(s);
    FILE *f = fopen(path, "r+");
    fseek(f, 300, SEEK_SET);
    fputs("xxxxxxxxxxxx", f);
    fclose(f);
    struct answer b = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    CU_ASSERT_STRING_EQUAL(a.text, b.text);
    CU_ASSERT_EQUAL(truncate(path, 10), 0);
    struct answer c = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    CU_ASSERT_STRING_EQUAL(a.text, c.text);
    free(a.text);
    free(b.text);
    free(c.text);
    free(path);
    fixture_store_free(s);
}

static void test_every_flipped_byte_of_an_image_is_refused(void)
{
    struct fixture_store *s = three();
    struct filter all = {0};
    struct dvt_err err = {0};
    struct columns_view v;
    struct answer a = ask(fixture_store_dir(s), &all, &plain, BY_COLUMNS);
    char *path = column_path(s);
    FILE *f = fopen(path, "r");
    uint8_t *image = malloc(1 << 20);
    size_t n = fread(image, 1, 1 << 20, f);
    fclose(f);
    CU_ASSERT_EQUAL(columns_open(image, n, &v, &err), 0);
    CU_ASSERT_EQUAL(v.n_samples, 150);
    for (size_t i = 0; i < n; i++) {
        image[i] ^= 0x41;
        CU_ASSERT_NOT_EQUAL(columns_open(image, n, &v, &err), 0);
        image[i] ^= 0x41;
        CU_ASSERT_NOT_EQUAL(columns_open(image, i / 8 * 8, &v, &err), 0);
    }
    free(image);
    free(path);
    free(a.text);
    fixture_store_free(s);
}

/* ---- ids ---- */

static int find(struct fixture_store *s, const char *hex, size_t *ret_n, struct dvt_err *err)
{
    struct catalog *c = NULL;
    struct catalog_list list = {0};
    const char *dir = fixture_store_dir(s);
    CU_ASSERT_EQUAL_FATAL(catalog_open(&dir, 1, &c, err), 0);
    int rc = catalog_find(c, hex, &list, err);
    *ret_n = list.n;
    catalog_list_fini(&list);
    catalog_close(c);
    return rc;
}

static void test_unique_prefixes_of_ids_are_enough(void)
{
    struct fixture_store *s = three();
    struct dvt_err err = {0};
    size_t n;
    CU_ASSERT_EQUAL(find(s, "a", &n, &err), 0);
    CU_ASSERT_EQUAL(find(s, ID_B, &n, &err), 0);
    CU_ASSERT_EQUAL(find(s, "AA0", &n, &err), 0);
    CU_ASSERT_EQUAL(find(s, "4bf9", &n, &err), DVT_EINVAL);
    CU_ASSERT_EQUAL(n, 2);
    CU_ASSERT_EQUAL(find(s, "5", &n, &err), DVT_ENOENT);
    CHECK_CONTAINS(err.text, "3 traces");
    CU_ASSERT_EQUAL(find(s, "xyz", &n, &err), DVT_EINVAL);
    fixture_store_free(s);
}

static void test_shown_digits_tell_traces_apart(void)
{
    struct fixture_store *s = three();
    struct dvt_err err = {0};
    struct catalog *c = NULL;
    struct dvt_trace_id a, b;
    const char *dir = fixture_store_dir(s);
    CU_ASSERT_EQUAL_FATAL(catalog_open(&dir, 1, &c, &err), 0);
    dvt_trace_id_parse(ID_A, 32, &a);
    dvt_trace_id_parse(ID_C, 32, &b);
    CU_ASSERT_EQUAL(catalog_unique_digits(c, &a), 32);
    CU_ASSERT_EQUAL(catalog_unique_digits(c, &b), 8);
    catalog_close(c);
    fixture_store_free(s);
}

static void test_two_stores_are_read_as_one(void)
{
    struct fixture *f[] = {trace(ID_A, "acme", 500000000)},
                   *g[] = {trace(ID_A, "acme", 600000000), trace(ID_B, "acme", 1)};
    struct fixture_store *x = store_of(f, 1), *y = store_of(g, 2);
    const char *dirs[] = {fixture_store_dir(x), fixture_store_dir(y)};
    struct catalog *c = NULL;
    struct catalog_list list;
    struct dvt_err err = {0};
    struct filter all = {0};
    CU_ASSERT_EQUAL_FATAL(catalog_open(dirs, 2, &c, &err), 0);
    CU_ASSERT_EQUAL_FATAL(catalog_traces(c, &all, 0, &list, &err), 0);
    CU_ASSERT_EQUAL(list.n, 2);
    CU_ASSERT_EQUAL(list.traces[0].samples, 100);
    CU_ASSERT_EQUAL(list.traces[0].duration_ns, 600000000);
    CU_ASSERT_EQUAL(list.traces[0].n_sources, 2);
    catalog_list_fini(&list);
    catalog_close(c);
    fixture_store_free(x);
    fixture_store_free(y);
}

static void test_what_is_no_store_is_said_so(void)
{
    struct catalog *c = NULL;
    struct dvt_err err = {0};
    const char *dir = "/nonexistent/store";
    CU_ASSERT_EQUAL(catalog_open(&dir, 1, &c, &err), DVT_EIO);
    CHECK_CONTAINS(err.text, "no store in /nonexistent/store");
    struct fixture_store *s = three();
    char path[256];
    dir = fixture_store_dir(s);
    snprintf(path, sizeof path, "%s/index.db", dir);
    FILE *f = fopen(path, "w");
    fputs("this is no database, although it is long enough to look at", f);
    fclose(f);
    CU_ASSERT_EQUAL(catalog_open(&dir, 1, &c, &err), DVT_EFORMAT);
    remove(path);
    CU_ASSERT_EQUAL(catalog_open(&dir, 1, &c, &err), DVT_EFORMAT);
    CHECK_CONTAINS(err.text, "dovetaild --store");
    fixture_store_free(s);
}

static const struct check_case cases[] = {CASE(test_the_runtimes_own_frames_above_managed_ones_are_left_out),
                                          CASE(test_frames_of_the_shim_and_the_interpreter_are_the_runtimes),
                                          CASE(test_threads_of_one_name_are_told_apart_in_one_trace),
                                          CASE(test_the_roots_tag_shows_once_per_thread),
                                          CASE(test_the_roots_tag_is_one_over_processes_and_parts),
                                          CASE(test_filters_pick_samples_not_only_traces),
                                          CASE(test_columns_say_what_chunks_say),
                                          CASE(test_a_trace_of_several_parts_keeps_its_labels),
                                          CASE(test_a_deleted_trace_is_gone_from_columns),
                                          CASE(test_damaged_column_files_are_made_anew),
                                          CASE(test_every_flipped_byte_of_an_image_is_refused),
                                          CASE(test_unique_prefixes_of_ids_are_enough),
                                          CASE(test_shown_digits_tell_traces_apart),
                                          CASE(test_two_stores_are_read_as_one),
                                          CASE(test_what_is_no_store_is_said_so)};
CHECK_MAIN("query", cases)
