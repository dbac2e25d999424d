/* stats, flush, log, status: sums and texts of the ledger, the steps of a flush, the limit on log lines. */
#include "../../daemon/flush.h"
#include "../../daemon/log.h"
#include "../../daemon/status.h"
#include "edge_check.h"

#include <stdlib.h>

static void test_ledger_add_sums_every_field(void)
{
    struct ledger a, b;
    uint64_t *pa = (uint64_t *)&a, *pb = (uint64_t *)&b;
    for (size_t i = 0; i < sizeof a / 8; i++) {
        pa[i] = i;
        pb[i] = 1000 * i;
    }
    ledger_add(&a, &b);
    for (size_t i = 0; i < sizeof a / 8; i++)
        CU_ASSERT_EQUAL(pa[i], 1001 * i);
}

static void test_edge_counts_add_to_their_fields(void)
{
    struct edge_counts e = {0};
    struct ledger l = {.threads_armed = 1};
    edge_count(e.threads_armed, 2);
    edge_count(e.messages_lost, 3);
    edge_counts_add(&e, &l);
    edge_counts_add(&e, &l);
    CU_ASSERT_EQUAL(l.threads_armed, 5);
    CU_ASSERT_EQUAL(l.messages_lost, 6);
    CU_ASSERT_EQUAL(l.samples, 0);
}

static char *as_text(struct dvt_buf *b)
{
    CU_ASSERT_EQUAL_FATAL(dvt_buf_append(b, "", 1), 0);
    return (char *)b->p;
}

static void test_ledger_json_has_every_field_and_the_shim_s(void)
{
    struct ledger l = {.samples = 7, .uncovered_ns = UINT64_MAX};
    struct dvt_shim_counts shim = {.opened = 5, .traceparents_bad = 9};
    struct dvt_buf b;
    dvt_buf_init(&b, 1 << 16);
    CU_ASSERT_EQUAL(ledger_json(&l, &shim, &b), 0);
    const char *text = as_text(&b);
    CU_ASSERT_PTR_EQUAL(strstr(text, "{\"samples\":7,\"joined\":0,"), text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ",\"uncovered_ns\":18446744073709551615,\"shim_opened\":5,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ",\"shim_traceparents_bad\":9}"));
    b.n = 0;
    CU_ASSERT_EQUAL(ledger_json(&l, NULL, &b), 0);
    CU_ASSERT_PTR_NULL(strstr(as_text(&b), "shim_"));
    dvt_buf_fini(&b);
    dvt_buf_init(&b, 20);
    CU_ASSERT_EQUAL(ledger_json(&l, NULL, &b), DVT_ELIMIT);
    dvt_buf_fini(&b);
}

static void test_status_escapes_text_and_adds_the_edge_s_counts(void)
{
    struct config config = {.hz = 99, .store = "/a\"b", .socket = "/s"};
    struct perf_source_info source = {.asked = "cycles", .used = "cpu-clock", .why = "no\nPMU"};
    struct board_writer writer = {.traces = 3};
    struct ledger edge = {.messages_bad = 4};
    struct process proc = {.host_pid = 77,
                           .service = (char[]){"web"},
                           .program = (char[]){"p"},
                           .runtime = (char[]){"c"},
                           .runtime_version = (char[]){""}};
    edge_count(proc.edge.threads_armed, 6);
    struct report_process rp = {.proc = &proc, .scopes_per_s = 1.25};
    struct report report = {.v = &rp, .n = 1, .total = {.messages_bad = 1}};
    const uint32_t threads = 5;
    struct status_in in = {.config = &config,
                           .source = &source,
                           .report = &report,
                           .writer = &writer,
                           .n_threads = &threads,
                           .edge = &edge,
                           .endpoint = "ipc://x"};
    struct dvt_buf b;
    dvt_buf_init(&b, 1 << 16);
    CU_ASSERT_EQUAL_FATAL(status_json(&in, &b), 0);
    const char *text = as_text(&b);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"store\":\"/a\\\"b\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"why\":\"no\\u000aPMU\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "{\"pid\":77,\"down\":false,\"threads\":5,\"armed\":6,\"failed\":0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"totals\":{\"samples\":0,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(strstr(text, "\"totals\""), "\"messages_bad\":5,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"notes\":[]}"));
    dvt_buf_fini(&b);
}

static void test_flush_runs_its_steps_in_turn(void)
{
    struct flush f = {.timeout_ns = 100};
    CU_ASSERT_EQUAL(flush_step(&f, true, 0, 10), FLUSH_WAIT); /* nothing asked */
    CU_ASSERT_EQUAL(flush_request(&f), 1);
    CU_ASSERT_EQUAL(flush_request(&f), 1); /* two wait for the same one */
    CU_ASSERT_EQUAL(flush_step(&f, false, 0, 10), FLUSH_ASK_SHIMS);
    CU_ASSERT_EQUAL(flush_step(&f, false, 0, 109), FLUSH_WAIT);
    CU_ASSERT_EQUAL(flush_step(&f, true, 0, 109), FLUSH_DRAIN);
    CU_ASSERT_EQUAL(flush_step(&f, true, 0, 200), FLUSH_WAIT);
    CU_ASSERT_EQUAL(flush_step(&f, true, 1, 201), FLUSH_DONE);
    CU_ASSERT_EQUAL(flush_step(&f, true, 1, 202), FLUSH_WAIT);
}

static void test_flush_does_not_wait_for_ever_for_a_shim(void)
{
    struct flush f = {.timeout_ns = 100};
    flush_request(&f);
    CU_ASSERT_EQUAL(flush_step(&f, false, 0, 10), FLUSH_ASK_SHIMS);
    CU_ASSERT_EQUAL(flush_step(&f, false, 0, 110), FLUSH_DRAIN);
}

static void test_flush_asked_for_during_another_gets_its_own(void)
{
    struct flush f = {.timeout_ns = 100};
    flush_request(&f);
    flush_step(&f, false, 0, 0);
    CU_ASSERT_EQUAL(flush_request(&f), 2);
    CU_ASSERT_EQUAL(flush_step(&f, true, 0, 1), FLUSH_DRAIN);
    CU_ASSERT_EQUAL(flush_step(&f, true, 1, 2), FLUSH_DONE);
    CU_ASSERT_EQUAL(flush_step(&f, true, 1, 3), FLUSH_ASK_SHIMS);
    CU_ASSERT_EQUAL(f.generation, 2);
}

static void test_log_limit_suppresses_a_burst_and_tells_how_many(void)
{
    struct log_limit l = {.id = "X", .window_start_ns = 5};
    uint64_t suppressed = 99;
    for (int i = 0; i < LOG_BURST; i++) {
        CU_ASSERT_TRUE(log_limit_allow(&l, 5, &suppressed));
        CU_ASSERT_EQUAL(suppressed, 0);
    }
    for (int i = 0; i < 7; i++)
        CU_ASSERT_FALSE(log_limit_allow(&l, 5 + LOG_WINDOW_NS - 1, &suppressed));
    CU_ASSERT_TRUE(log_limit_allow(&l, 5 + LOG_WINDOW_NS, &suppressed));
    CU_ASSERT_EQUAL(suppressed, 7);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"ledger_add sums every field", test_ledger_add_sums_every_field},
        {"edge counts add to their fields", test_edge_counts_add_to_their_fields},
        {"ledger_json has every field and the shim's", test_ledger_json_has_every_field_and_the_shim_s},
        {"status escapes text and adds the edge's counts",
         test_status_escapes_text_and_adds_the_edge_s_counts},
        {"flush runs its steps in turn", test_flush_runs_its_steps_in_turn},
        {"flush does not wait for ever for a shim", test_flush_does_not_wait_for_ever_for_a_shim},
        {"flush asked for during another gets its own", test_flush_asked_for_during_another_gets_its_own},
        {"log limit suppresses a burst and tells how many",
         test_log_limit_suppresses_a_burst_and_tells_how_many},
    };
    return EDGE_RUN("stats", tests);
}
