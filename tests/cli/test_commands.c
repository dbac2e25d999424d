/* The program itself, over a real store: what it prints, where, and with which exit code. */
#include "check.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define ID_A "4bf92f3577b34da6a3ce929d0e0e0001"
#define ID_B "4bf92f3577b34da6a3ce929d0e0e0002"

static struct fixture_store *store;
static char output[1 << 20];

/* Runs "dovetail ARGS" through a shell; its output in `output`. Returns the exit code. */
static int run(const char *args)
{
    char command[2048];
    snprintf(command, sizeof command, "STORE=%s; dovetail() { '%s/bin/dovetail' \"$@\"; }; %s",
             fixture_store_dir(store), BINARY_DIR, args);
    FILE *p = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    size_t n = fread(output, 1, sizeof output - 1, p);
    output[n] = 0;
    int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add(const char *id, const char *name, uint64_t duration_ns)
{
    struct fixture *f = fixture_new(id, 1000000000, 1000000000 + duration_ns);
    uint32_t p = fixture_process(f, 4711, "shop"), t = fixture_thread(f, p, 4711, "MainThread");
    uint32_t s = fixture_scope(f, t, DVT_NONE, name, "tenant=acme");
    fixture_samples(f, t, s, fixture_stack(f, "main@app.py:10;calculate_discounts@shop.py:88"), 29);
    uint32_t hostile = fixture_stack(f, "main@app.py:10;hostile@x.py:3");
    const struct dvt_chunk *c = fixture_chunk(f);
    c->frames[c->stack_frames[c->stacks[hostile].first]].name = dvt_str("<b>&\"';x\x1b]0;evil\x07");
    fixture_samples(f, t, s, hostile, 1);
    fixture_store_add(store, f);
    fixture_free(f);
}

static int set_up(void)
{
    store = fixture_store_new();
    add(ID_A, "GET /cart", 290000000);
    add(ID_B, "evil\x1b[31m\nname\xff", 100000000);
    fixture_store_close(store);
    return 0;
}

static void test_no_command_prints_the_usage(void)
{
    CU_ASSERT_EQUAL(run("dovetail"), 0);
    CHECK_CONTAINS(output, "usage: dovetail COMMAND");
    CHECK_CONTAINS(output, "exit codes");
    static const char *const names[] = {"run",   "status", "traces", "trace",
                                        "flame", "tags",   "verify", "doctor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char command[64];
        snprintf(command, sizeof command, "dovetail %s --help", names[i]);
        CU_ASSERT_EQUAL(run(command), 0);
        CHECK_CONTAINS(output, "examples:\n  ");
        CHECK_CONTAINS(output, "--help");
    }
}

static void test_wrong_use_is_exit_code_2_with_a_hint(void)
{
    CU_ASSERT_EQUAL(run("dovetail falme 2>&1"), 2);
    CHECK_CONTAINS(output, "did you mean flame?");
    CU_ASSERT_EQUAL(run("dovetail traces --slowset 3 2>&1"), 2);
    CHECK_CONTAINS(output, "did you mean --slowest?");
    CU_ASSERT_EQUAL(run("dovetail flame 4bf9 --store $STORE -f pdf 2>&1"), 2);
    CHECK_CONTAINS(output, "folded");
    CU_ASSERT_EQUAL(run("dovetail flame 4bf9 --store $STORE 2>&1"), 2);
    CHECK_CONTAINS(output, ID_A);
    CHECK_CONTAINS(output, ID_B);
    CU_ASSERT_EQUAL(run("dovetail flame a b 2>&1"), 2);
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --wall --store $STORE 2>&1"), 2);
    CHECK_CONTAINS(output, "not in this version");
    CU_ASSERT_EQUAL(run("dovetail run 2>&1"), 2);
}

static void test_nothing_matched_is_exit_code_1(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame 99 --store $STORE 2>&1"), 1);
    CHECK_CONTAINS(output, "no trace 99: the store has 2 traces, from ");
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE --label tenant=nobody 2>&1"), 1);
    CU_ASSERT_EQUAL(run("dovetail flame --store $STORE --label tenant=nobody 2>&1"), 1);
    CU_ASSERT_EQUAL(run("dovetail tags --store $STORE --key nothing 2>&1"), 1);
}

static void test_what_the_environment_lacks_is_exit_code_3(void)
{
    CU_ASSERT_EQUAL(run("dovetail traces --store /nonexistent 2>&1"), 3);
    CHECK_CONTAINS(output, "no store in /nonexistent");
    CU_ASSERT_EQUAL(run("DOVETAIL_SOCKET=/nonexistent/s dovetail status 2>&1"), 3);
    CHECK_CONTAINS(output, "start one with dovetaild");
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE >/dev/full 2>&1"), 3);
}

static void test_traces_lists_slowest_first(void)
{
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE 2>&1"), 0);
    const char *a = strstr(output, ID_A), *b = strstr(output, ID_B);
    CU_ASSERT_TRUE(a && b && a < b);
    CHECK_CONTAINS(output, "290.0 ms");
    CHECK_CONTAINS(output, "tenant=acme");
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE --slowest 1 2>&1"), 0);
    CHECK_LACKS(output, ID_B);
    CU_ASSERT_EQUAL(
        run("dovetail traces --store $STORE --min-duration 200ms --name 'GET*' --service sh?p 2>&1"), 0);
    CHECK_LACKS(output, ID_B);
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE --tag '*cart*' 2>&1"), 0);
    CHECK_LACKS(output, ID_B);
    CU_ASSERT_EQUAL(run("dovetail traces --store $STORE --tag " ID_A " 2>&1"), 0);
    CHECK_LACKS(output, ID_B);
}

static void test_json_is_one_valid_object_a_line(void)
{
    CU_ASSERT_EQUAL(
        run("dovetail traces --store $STORE --json | python3 -c '\n"
            "import json,sys\n"
            "v=[json.loads(l) for l in sys.stdin]\n"
            "print(len(v), sorted(v[0]), v[0][\"duration_ns\"], v[0][\"labels\"], v[0][\"services\"],\n"
            "      v[0][\"scopes\"], v[0][\"cut\"])'"),
        0);
    CHECK_CONTAINS(output, "2 [");
    CHECK_CONTAINS(output, "290000000 {'tenant': 'acme'} ['shop'] 1 False");
    static const char *const names[] = {"trace_id",   "start_unix_ns", "duration_ns", "on_cpu_ns",
                                        "blocked_ns", "runnable_ns",   "samples",     "services",
                                        "root_name",  "labels"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_CONTAINS(output, names[i]);
    }
    CU_ASSERT_EQUAL(run("dovetail flame " ID_B " --store $STORE -f json | python3 -c '\n"
                        "import json,sys\n"
                        "v=json.load(sys.stdin)[\"nodes\"][-1]\n"
                        "print(v[\"interval95_low\"] < v[\"share\"] < v[\"interval95_high\"])'"),
                    0);
    CHECK_CONTAINS(output, "True");
    CU_ASSERT_EQUAL(run("dovetail trace " ID_B " --store $STORE --json | python3 -m json.tool >/dev/null"),
                    0);
    CU_ASSERT_EQUAL(run("dovetail tags --store $STORE --json | python3 -m json.tool >/dev/null"), 0);
    CU_ASSERT_EQUAL(run("dovetail doctor --json | head -1 | python3 -m json.tool >/dev/null"), 0);
}

static void test_flame_of_one_trace(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE"), 0);
    CHECK_CONTAINS(output, "trace " ID_A "  GET /cart");
    CHECK_CONTAINS(output, "shop (pid 4711)");
    CHECK_CONTAINS(output, " 96.7%  [83.3, 99.4]       29  290.0 ms");
    CHECK_CONTAINS(output, "calculate_discounts  shop.py:88");
    CHECK_CONTAINS(output, "hottest functions");
    CHECK_CONTAINS(output, "  3.3%? [ 0.6, 16.7]"); /* one sample is too few */
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE --min-share 5"), 0);
    CHECK_CONTAINS(output, "1 more");
    CHECK_CONTAINS(output, "What is under 5% is left out; --full shows all.");
    CHECK_LACKS(output, "it waited");
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE --full"), 0);
    CHECK_LACKS(output, "left out");
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE --depth 2"), 0);
    CHECK_LACKS(output, "app.py:10\n");
}

/* 30 samples of 10 ms in 900 ms. */
static void test_a_trace_that_waited_says_so(void)
{
    struct fixture_store *others = store;
    store = fixture_store_new();
    add(ID_A, "GET /cart", 900000000);
    fixture_store_close(store);
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE"), 0);
    CHECK_CONTAINS(output, "it waited for about 600.0 ms or more, which is not shown\n");
    fixture_store_free(store);
    store = others;
}

static void test_folded_is_microseconds_root_first(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE -f folded"), 0);
    CHECK_CONTAINS(output, "shop;MainThread (4711);main;calculate_discounts 290000\n");
    CHECK_CONTAINS(output, "shop;MainThread (4711);main;<b>&\"',x");
    CU_ASSERT_EQUAL(run("dovetail flame --label tenant=acme --store $STORE -f folded --samples"), 0);
    CHECK_CONTAINS(output, "shop;MainThread;main;calculate_discounts 58\n");
}

static void test_hostile_names_send_nothing_to_the_terminal(void)
{
    static const char *const commands[] = {"traces --store $STORE", "flame " ID_B " --store $STORE",
                                           "trace " ID_B " --store $STORE", "tags --tags --store $STORE",
                                           "flame " ID_B " --store $STORE -f folded"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char command[256];
        snprintf(command, sizeof command, "dovetail %s --color=never 2>&1", commands[i]);
        CU_ASSERT_EQUAL(run(command), 0);
        CU_ASSERT_PTR_NULL(strchr(output, '\033'));
        CU_ASSERT_PTR_NULL(strchr(output, '\007'));
        CU_ASSERT_PTR_NULL(strchr(output, '\xff'));
    }
}

static void test_colours_only_when_asked_for(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE"), 0);
    CU_ASSERT_PTR_NULL(strchr(output, '\033')); /* a pipe */
    CU_ASSERT_EQUAL(run("NO_COLOR=1 dovetail flame " ID_A " --store $STORE --color=always"), 0);
    CU_ASSERT_PTR_NOT_NULL(strchr(output, '\033'));
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE --color sometimes 2>&1"), 2);
}

static void test_a_reader_that_leaves_ends_it_quietly(void)
{
    CU_ASSERT_EQUAL(run("{ trap '' PIPE; dovetail flame " ID_A " --store $STORE; } 2>&1 >/dev/null | cat; "
                        "{ dovetail traces --help; } 2>&1 | head -1"),
                    0);
    CHECK_LACKS(output, "write");
}

static void test_jfr_is_the_chunks_as_they_were_recorded(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE -o $STORE/x.jfr && head -c 4 $STORE/x.jfr"),
                    0);
    CHECK_CONTAINS(output, "FLR");
    CU_ASSERT_EQUAL(
        run("dovetail flame --store $STORE -f jfr | cmp - $STORE/segments/00000001.jfr && echo same || "
            "dovetail flame --store $STORE -f jfr | wc -c"),
        0);
    CHECK_CONTAINS(output, "same"); /* slowest first is the order they were written in */
}

static void test_a_failed_output_leaves_no_half_file(void)
{
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE -o /nonexistent/x.folded 2>&1"), 3);
    CHECK_CONTAINS(output, "/nonexistent/x.folded");
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE -f text -o /dev/null; test -c /dev/null"), 0);
    CU_ASSERT_EQUAL(run("dovetail flame " ID_A " --store $STORE -o $STORE/y.folded && ls $STORE"), 0);
    CHECK_CONTAINS(output, "y.folded\n");
    CHECK_LACKS(output, "partial");
}

static void test_tags_count_traces_and_samples(void)
{
    CU_ASSERT_EQUAL(run("dovetail tags --store $STORE"), 0);
    CHECK_CONTAINS(output, "     2       60  600.0 ms  tenant=acme");
    CU_ASSERT_EQUAL(run("dovetail tags --store $STORE --tag '*cart'"), 0);
    CHECK_CONTAINS(output, ID_A "/0000000000000001/GET /cart");
}

static void test_verify_finds_a_flipped_bit_and_an_orphan(void)
{
    CU_ASSERT_EQUAL(run("dovetail verify --store $STORE 2>&1"), 0);
    CHECK_CONTAINS(output, "2 chunks");
    CHECK_CONTAINS(output, "all as written");
    CU_ASSERT_EQUAL(
        run("cp -r $STORE $STORE.copy; cd $STORE.copy; printf X | dd of=segments/00000001.jfr bs=1 seek=2500 "
            "conv=notrunc "
            "2>/dev/null; echo stray > segments/00000099.jfr; dovetail verify --store . 2>&1; code=$?; "
            "dovetail flame --store . -f folded >/dev/null 2>&1; rm -r $STORE.copy; exit $code"),
        4);
    CHECK_CONTAINS(output, "00000001.jfr at 0");
    CHECK_CONTAINS(output, "00000099.jfr: no row");
    CHECK_CONTAINS(output, "2 findings");
}

static const struct check_case cases[] = {CASE(test_no_command_prints_the_usage),
                                          CASE(test_wrong_use_is_exit_code_2_with_a_hint),
                                          CASE(test_nothing_matched_is_exit_code_1),
                                          CASE(test_what_the_environment_lacks_is_exit_code_3),
                                          CASE(test_traces_lists_slowest_first),
                                          CASE(test_json_is_one_valid_object_a_line),
                                          CASE(test_flame_of_one_trace),
                                          CASE(test_a_trace_that_waited_says_so),
                                          CASE(test_folded_is_microseconds_root_first),
                                          CASE(test_hostile_names_send_nothing_to_the_terminal),
                                          CASE(test_colours_only_when_asked_for),
                                          CASE(test_a_reader_that_leaves_ends_it_quietly),
                                          CASE(test_jfr_is_the_chunks_as_they_were_recorded),
                                          CASE(test_a_failed_output_leaves_no_half_file),
                                          CASE(test_tags_count_traces_and_samples),
                                          CASE(test_verify_finds_a_flipped_bit_and_an_orphan)};

int main(void)
{
    set_up();
    int code = check_run("commands", cases, sizeof cases / sizeof *cases);
    fixture_store_free(store);
    return code;
}
