/*
 * test_pipeline: which sample goes to which scope and trace, and when; what happens when something is late, missing or gone.
 */
#include <CUnit/Basic.h>

#include "pipeline_rig.h"

#define CHECK_STOP(r)                                                                                                 \
    do {                                                                                                              \
        CU_ASSERT_TRUE(rig_adds_up(&(r)));                                                                            \
        rig_stop(&(r));                                                                                               \
    } while (0)

/* Ticks past the idle time and returns the one trace that is then closed. */
static struct trace *close_one(struct rig *r)
{
    rig_tick(r, 0);
    rig_tick(r, r->cfg.idle_close_ns);
    return pipeline_take_closed(r->p);
}

static void test_sample_inside_goes_to_scope_and_trace_closes(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_EQUAL(t->n_threads, 1);
    CU_ASSERT_EQUAL(t->threads[0].key.tid, 7);
    CU_ASSERT_EQUAL(t->processes[0], r.proc);
    CU_ASSERT_EQUAL(t->id.b[15], 1);
    CU_ASSERT_EQUAL(t->part, 0);
    CU_ASSERT_EQUAL(t->samples[0].raw->ips[0], 100);
    CU_ASSERT_EQUAL(t->samples[0].weight_ns, r.cfg.period_ns);
    CU_ASSERT_STRING_EQUAL(t->scopes[0].name, "work");
    CU_ASSERT_EQUAL(t->scopes[0].parent, DVT_NONE);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_borders_open_is_outside_close_is_inside(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 49; off <= 151; off++)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_scope_of(t, 50), 0);
    CU_ASSERT_EQUAL(rig_scope_of(t, 51), 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 150), 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 151), 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).outside, 3);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_nested_sample_goes_to_innermost_and_parents_are_linked(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 10; off <= 90; off += 10)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec v[] = {rig_rec(&r, 3, 35, 45, 1), rig_rec(&r, 2, 25, 65, 1), rig_rec(&r, 4, 75, 85, 1),
                                rig_rec(&r, 1, 5, 95, 1)};
    v[0].parent_serial = 2;
    v[1].parent_serial = v[2].parent_serial = 1;
    rig_scopes(&r, 7, 100, v, 4);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    const uint64_t want[] = {1, 1, 2, 3, 2, 2, 1, 4, 1};
    for (int i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(rig_scope_of(t, (uint64_t)(i + 1) * 10), want[i]);
    for (uint32_t i = 0; i < t->n_scopes; i++) {
        const struct trace_scope *s = &t->scopes[i];
        uint64_t parent = s->parent == DVT_NONE ? 0 : t->scopes[s->parent].serial;
        CU_ASSERT_EQUAL(parent, s->serial == 1 ? 0 : s->serial == 3 ? 2 : 1);
    }
    trace_free(t);
    CHECK_STOP(r);
}

static void test_parent_in_other_trace_is_replaced_by_enclosing_scope_of_own(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 40);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec v[] = {rig_rec(&r, 3, 35, 45, 1), rig_rec(&r, 2, 25, 65, 2), rig_rec(&r, 1, 5, 95, 1)};
    v[0].parent_serial = 2;
    v[1].parent_serial = 1;
    rig_scopes(&r, 7, 100, v, 3);
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    int seen = 0;
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        for (uint32_t i = 0; i < t->n_scopes; i++) {
            uint32_t parent = t->scopes[i].parent;
            seen++;
            if (t->scopes[i].serial == 3)
                CU_ASSERT_TRUE(parent != DVT_NONE && t->scopes[parent].serial == 1);
            if (t->scopes[i].serial != 3)
                CU_ASSERT_EQUAL(parent, DVT_NONE);
        }
    CU_ASSERT_EQUAL(seen, 3);
    CHECK_STOP(r);
}

static void test_interleaved_traces_on_one_thread_keep_apart(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    struct dvt_scope_rec v[100];
    for (uint64_t i = 0; i < 100; i++) {
        rig_sample(&r, 7, i * 10 + 5);
        v[i] = rig_rec(&r, i + 1, i * 10, i * 10 + 9, (uint8_t)(1 + i % 3));
    }
    rig_drained(&r, 7, 1000);
    rig_scopes(&r, 7, 1000, v, 100);
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    uint32_t n = 0;
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        for (uint32_t i = 0; i < t->n_samples; i++, n++)
            CU_ASSERT_EQUAL(t->id.b[15], 1 + (t->samples[i].raw->end_off / 10) % 3);
    CU_ASSERT_EQUAL(n, 100);
    CHECK_STOP(r);
}

static void test_unsettled_sample_waits_for_scope(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scopes(&r, 7, 60, NULL, 0);
    rig_tick(&r, 100 * MS);
    CU_ASSERT_EQUAL(rig_ledger(&r).pending, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).outside, 0);
    CU_ASSERT_TRUE(rig_adds_up(&r));
    rig_scope(&r, 7, 120, rig_rec(&r, 1, 50, 110, 1));
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CHECK_STOP(r);
}

static void test_scope_waits_for_sample_that_is_drained_later(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_scope(&r, 7, 120, rig_rec(&r, 1, 50, 110, 1));
    rig_tick(&r, 0);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 130);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CHECK_STOP(r);
}

static void test_settled_head_alone_makes_sample_outside(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scopes(&r, 7, 100, NULL, 0);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).outside, 1);
    CU_ASSERT_EQUAL(pipeline_open_traces(r.p), 0);
    CHECK_STOP(r);
}

static void test_out_of_order_overlap_goes_to_last_opened(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 10; off <= 90; off += 10)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec v[] = {rig_rec(&r, 1, 15, 55, 1), rig_rec(&r, 2, 35, 75, 2)};
    v[0].flags = DVT_SCOPE_OUT_OF_ORDER;
    rig_scopes(&r, 7, 100, v, 2);
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        for (uint32_t i = 0; i < t->n_samples; i++)
            CU_ASSERT_EQUAL(t->id.b[15], t->samples[i].raw->end_off > 35 ? 2 : 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 6);
    CU_ASSERT_EQUAL(rig_ledger(&r).outside, 3);
    CHECK_STOP(r);
}

static void test_cross_thread_scope_ends_by_time(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 10; off <= 90; off += 10)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec rec = rig_rec(&r, 1, 15, 95, 1);
    rec.flags = DVT_SCOPE_CROSS_THREAD;
    rec.end_ns = r.now_ns - SEC + 50; /* the sample at 50 was taken at its end: outside */
    rig_scope(&r, 7, 100, rec);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 3);
    CU_ASSERT_EQUAL(rig_scope_of(t, 40), 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 50), 0);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_samples_of_other_epoch_are_not_joined(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    struct thread_key again = {1, 7, 2};
    rig_sample(&r, 7, 100);
    rig_sample_of(&r, again, 100, r.now_ns);
    rig_drained(&r, 7, 100);
    pipeline_progress(r.p, again, 100, 0, false);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    CU_ASSERT_EQUAL(t->samples[0].raw->thread.epoch, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).pending, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_scope_without_sample_is_kept_if_always(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_drained(&r, 7, 500);
    struct dvt_scope_rec v[] = {rig_rec(&r, 1, 50, 150, 1), rig_rec(&r, 2, 150, 160, 2)};
    v[0].flags = DVT_SCOPE_ALWAYS;
    rig_scopes(&r, 7, 200, v, 2);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_EQUAL(t->scopes[0].serial, 1);
    trace_free(t);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
    struct pipeline_scopes s;
    pipeline_scope_counts(r.p, &s);
    CU_ASSERT_EQUAL(s.empty, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_empty, 1);
    CHECK_STOP(r);
}

static void test_scope_whose_sample_was_lost_is_kept(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    pipeline_progress(r.p, rig_key(7), 500, 3, false);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_kernel, 3);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_labels_links_and_names_are_copied_clean(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    struct dvt_label labels[] = {{dvt_str("tenant"), dvt_str("acme")}, {dvt_str("bad\xff"), dvt_str("a\nb")}};
    struct dvt_trace_id links[] = {rig_trace(8), rig_trace(9)};
    struct dvt_scope_rec rec = rig_rec(&r, 1, 50, 150, 1);
    rec.name = dvt_str("x\x01y");
    rec.labels = labels;
    rec.n_labels = 2;
    rec.links = links;
    rec.n_links = 2;
    rec.flags = DVT_SCOPE_SHARED;
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 200, rec);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    const struct trace_scope *s = &t->scopes[0];
    CU_ASSERT_STRING_EQUAL(s->name, "x\xEF\xBF\xBDy");
    CU_ASSERT_EQUAL_FATAL(s->n_labels, 2);
    CU_ASSERT_TRUE(dvt_str_eq(s->labels[0].key, dvt_str("tenant")));
    CU_ASSERT_TRUE(dvt_str_eq(s->labels[0].value, dvt_str("acme")));
    CU_ASSERT_TRUE(dvt_str_eq(s->labels[1].key, dvt_str("bad\xEF\xBF\xBD")));
    CU_ASSERT_TRUE(dvt_str_eq(s->labels[1].value, dvt_str("a\xEF\xBF\xBD" "b")));
    CU_ASSERT_EQUAL_FATAL(s->n_links, 2);
    CU_ASSERT_EQUAL(s->links[1].b[15], 9);
    trace_free(t);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p)); /* nothing is charged to the linked traces */
    CHECK_STOP(r);
}

static void test_bad_scopes_are_refused_one_by_one(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec v[6];
    for (uint64_t i = 0; i < 6; i++)
        v[i] = rig_rec(&r, i + 1, 50, 150, 1);
    v[0].start_ns = v[0].end_ns + 1;
    v[1].end_ns = r.now_ns + 3600 * SEC;
    v[2].head_open = v[2].head_close + 1;
    v[3].serial = 0;
    memset(&v[4].trace, 0, sizeof v[4].trace);
    rig_scopes(&r, 7, 200, v, 6);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 100), 6);
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_bad, 5);
    trace_free(t);
    rig_scopes(&r, 7, 200, v + 3, 1); /* not of impossible times or heads */
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_bad, 6);
    CHECK_STOP(r);
}

static void test_same_serial_twice_is_ambiguous(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    struct dvt_scope_rec v[] = {rig_rec(&r, 5, 50, 150, 1), rig_rec(&r, 5, 60, 160, 2)};
    rig_scopes(&r, 7, 200, v, 2);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).ambiguous, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        CU_ASSERT_EQUAL(t->ambiguous, 1);
    CHECK_STOP(r);
}

static void test_malformed_message_changes_nothing(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    pipeline_message(r.p, 1, "\x92\x11\xff", 3, r.now_ns);
    pipeline_message(r.p, 1, "", 0, r.now_ns);
    pipeline_message(r.p, 99, "x", 1, r.now_ns);
    CU_ASSERT_EQUAL(rig_ledger(&r).messages, 3);
    CU_ASSERT_EQUAL(rig_ledger(&r).messages_bad, 3);
    CU_ASSERT_EQUAL(pipeline_open_traces(r.p), 0);
    CHECK_STOP(r);
}

static void test_thread_name_and_uncovered_time_reach_the_trace(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    pipeline_thread_up(r.p, rig_key(7), 4007);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    struct dvt_thread_info info = {.tid = 7, .epoch = 1, .name = dvt_str("worker-1"), .uncovered_ns = 500};
    dvt_wire_put_threads(&r.body, &info, 1);
    rig_send(&r);
    dvt_wire_put_threads(&r.body, &info, 1);
    rig_send(&r);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_STRING_EQUAL(t->threads[0].name, "worker-1");
    CU_ASSERT_EQUAL(t->threads[0].host_tid, 4007);
    CU_ASSERT_EQUAL(t->threads[0].uncovered_ns, 500);
    CU_ASSERT_EQUAL(rig_ledger(&r).uncovered_ns, 500);
    trace_free(t);
    CHECK_STOP(r);
}

static void tell_thread(struct rig *r, struct dvt_thread_info info)
{
    dvt_wire_put_threads(&r->body, &info, 1);
    rig_send(r);
}

static void test_end_of_a_thread_settles_what_no_scope_follows(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_scope(&r, 7, 150, rig_rec(&r, 1, 50, 150, 1));
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 300); /* while the thread ends: the shim looked at its ring before */
    pipeline_progress(r.p, rig_key(7), 300, 0, true);
    tell_thread(&r, (struct dvt_thread_info){.tid = 7, .epoch = 1, .ended = true});
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).outside, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_end, 0);
    CHECK_STOP(r);
}

static void test_repeats_of_the_first_period_count_once(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 100; off <= 500; off += 100)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 500);
    tell_thread(&r, (struct dvt_thread_info){.tid = 7, .epoch = 1, .armed_head = 300});
    rig_scope(&r, 7, 600, rig_rec(&r, 1, 0, 600, 1));
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 3); /* 100, 400, 500 */
    CU_ASSERT_EQUAL(rig_scope_of(t, 200), 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).repeated, 2);
    trace_free(t);
    CHECK_STOP(r);
}

/* Scopes that ended while their thread's arming was under way are all sent: only the daemon knows which hold a sample. */
static void test_scopes_closed_while_arming_are_kept_by_their_samples(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    struct dvt_scope_rec v[] = {rig_rec(&r, 1, 0, 20, 1), rig_rec(&r, 2, 0, 150, 2), rig_rec(&r, 3, 0, 40, 3)};
    for (int i = 0; i < 3; i++) {
        v[i].flags |= DVT_SCOPE_LATE_ARMED | DVT_SCOPE_CROSS_THREAD;
        v[i].head_close = 100; /* an upper bound: their times decide */
    }
    v[2].flags |= DVT_SCOPE_ALWAYS;
    rig_scopes(&r, 7, 100, v, 3);
    rig_drained(&r, 7, 100);
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    uint8_t seen = 0;
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t)) {
        seen |= (uint8_t)(1u << t->id.b[15]);
        CU_ASSERT_EQUAL(t->n_samples, t->id.b[15] == 2);
    }
    CU_ASSERT_EQUAL(seen, 1u << 2 | 1u << 3);
    CHECK_STOP(r);
}

/* On a busy machine an arming takes long: everything that waited in the shim's ring then comes at once. */
static void test_none_of_the_many_scopes_closed_while_arming_is_lost(void)
{
    enum { N = 8000 };
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, N - 100);
    for (uint64_t at = 0; at < N; at += 100) {
        struct dvt_scope_rec v[100];
        for (uint64_t i = 0; i < 100; i++) {
            v[i] = rig_rec(&r, at + i + 1, at + i, at + i + 1, 1);
            v[i].flags |= DVT_SCOPE_LATE_ARMED | DVT_SCOPE_CROSS_THREAD;
            v[i].head_open = 0;
            v[i].head_close = N;
        }
        rig_scopes(&r, 7, at + 100 == N ? N : 0, v, 100);
    }
    rig_drained(&r, 7, N);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_lost, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_empty, N - 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_sample_before_a_late_armed_scope_is_not_in_it(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100); /* rig: its time is its offset's */
    rig_sample(&r, 7, 200);
    rig_drained(&r, 7, 200);
    struct dvt_scope_rec v[] = {rig_rec(&r, 2, 0, 300, 1), rig_rec(&r, 1, 0, 300, 1)};
    v[0].flags |= DVT_SCOPE_LATE_ARMED; /* no head when it opened: as if from the ring's start */
    v[0].start_ns = r.now_ns - SEC + 150;
    v[0].parent_serial = 1;
    v[1].flags |= DVT_SCOPE_LATE_ARMED;
    v[1].start_ns = r.now_ns - SEC + 50;
    rig_scopes(&r, 7, 300, v, 2);
    struct trace *t = close_one(&r);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_scope_of(t, 100), 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 200), 2);
    trace_free(t);
    CHECK_STOP(r);
}

/* The same for scopes that are still open: announced, they reach from the ring's start to their announcement. */
static void test_sample_before_a_late_armed_open_scope_is_not_in_it(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint64_t off = 100; off <= 300; off += 100)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 300);
    struct dvt_scope_rec v[] = {rig_rec(&r, 1, 0, 300, 1), rig_rec(&r, 2, 0, 300, 1)};
    for (int i = 0; i < 2; i++) {
        v[i].flags |= DVT_SCOPE_OPEN | DVT_SCOPE_LATE_ARMED;
        v[i].start_ns = r.now_ns - SEC + 150 + 100 * (uint64_t)i;
    }
    v[1].parent_serial = 1;
    rig_scopes(&r, 7, 0, v, 2);
    pipeline_close_all(r.p, r.now_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_find(t, 100), t->n_samples);
    CU_ASSERT_EQUAL(rig_scope_of(t, 200), 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 300), 2);
    trace_free(t);
    CHECK_STOP(r);
}

static void add_dropped(void *ctx, const char *service, const char *name, uint64_t count)
{
    uint64_t *sums = ctx;
    if (!strcmp(service, "shop"))
        sums[!strcmp(name, "b")] += count;
}

static void test_dropped_counts_are_summed_by_name_and_taken_once(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    struct dvt_dropped d[] = {{dvt_str("a"), 3}, {dvt_str("b"), 4}};
    for (int i = 0; i < 2; i++) {
        dvt_wire_put_dropped(&r.body, d, 2, 0, 1);
        rig_send(&r);
    }
    uint64_t sums[2] = {0};
    pipeline_take_dropped(r.p, add_dropped, sums);
    pipeline_take_dropped(r.p, add_dropped, sums);
    CU_ASSERT_EQUAL(sums[0], 6);
    CU_ASSERT_EQUAL(sums[1], 8);
    CHECK_STOP(r);
}

static void test_heartbeat_counts_are_known(void)
{
    struct rig r;
    struct dvt_shim_counts c = {.opened = 10, .closed = 9, .kept = 4, .dropped = 5}, got;
    rig_start(&r, NULL, false);
    dvt_wire_put_heartbeat(&r.body, &c, r.now_ns);
    rig_send(&r);
    CU_ASSERT_TRUE(pipeline_ledger(r.p, 1, NULL, &got));
    CU_ASSERT_EQUAL(got.kept, 4);
    CU_ASSERT_FALSE(pipeline_ledger(r.p, 2, NULL, NULL));
    CHECK_STOP(r);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("pipeline", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_sample_inside_goes_to_scope_and_trace_closes);
    T(test_borders_open_is_outside_close_is_inside);
    T(test_nested_sample_goes_to_innermost_and_parents_are_linked);
    T(test_parent_in_other_trace_is_replaced_by_enclosing_scope_of_own);
    T(test_interleaved_traces_on_one_thread_keep_apart);
    T(test_unsettled_sample_waits_for_scope);
    T(test_scope_waits_for_sample_that_is_drained_later);
    T(test_settled_head_alone_makes_sample_outside);
    T(test_out_of_order_overlap_goes_to_last_opened);
    T(test_cross_thread_scope_ends_by_time);
    T(test_samples_of_other_epoch_are_not_joined);
    T(test_scope_without_sample_is_kept_if_always);
    T(test_scope_whose_sample_was_lost_is_kept);
    T(test_labels_links_and_names_are_copied_clean);
    T(test_bad_scopes_are_refused_one_by_one);
    T(test_same_serial_twice_is_ambiguous);
    T(test_malformed_message_changes_nothing);
    T(test_thread_name_and_uncovered_time_reach_the_trace);
    T(test_end_of_a_thread_settles_what_no_scope_follows);
    T(test_repeats_of_the_first_period_count_once);
    T(test_scopes_closed_while_arming_are_kept_by_their_samples);
    T(test_none_of_the_many_scopes_closed_while_arming_is_lost);
    T(test_sample_before_a_late_armed_scope_is_not_in_it);
    T(test_sample_before_a_late_armed_open_scope_is_not_in_it);
    T(test_dropped_counts_are_summed_by_name_and_taken_once);
    T(test_heartbeat_counts_are_known);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
