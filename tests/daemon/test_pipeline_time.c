/*
 * test_pipeline_time: when traces close and in which parts, what open scopes, ended processes and missing stacks do, and
 * that memory stays bounded.
 */
#include <CUnit/Basic.h>

#include "pipeline_rig.h"

#define CHECK_STOP(r)                                                                                                 \
    do {                                                                                                              \
        CU_ASSERT_TRUE(rig_adds_up(&(r)));                                                                            \
        rig_stop(&(r));                                                                                               \
    } while (0)

static struct dvt_scope_rec flagged(struct dvt_scope_rec rec, uint32_t flags)
{
    rec.flags = flags;
    return rec;
}

static uint32_t free_all_closed(struct rig *r)
{
    uint32_t n = 0;
    for (struct trace *t; (t = pipeline_take_closed(r->p)); n++)
        trace_free(t);
    return n;
}

/* ---- closing ---- */

static void test_root_end_closes_after_grace_not_before(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, flagged(rig_rec(&r, 1, 50, 150, 1), DVT_SCOPE_ROOT));
    rig_tick(&r, r.cfg.root_grace_ns - 1);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
    rig_tick(&r, 1);
    CU_ASSERT_EQUAL(free_all_closed(&r), 1);
    CU_ASSERT_EQUAL(pipeline_open_traces(r.p), 0);
    CHECK_STOP(r);
}

static void test_news_restart_the_grace(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 8, 100);
    rig_drained(&r, 7, 200);
    rig_drained(&r, 8, 200);
    rig_scope(&r, 7, 200, flagged(rig_rec(&r, 1, 50, 150, 1), DVT_SCOPE_REMOTE_PARENT));
    rig_tick(&r, r.cfg.root_grace_ns - 1);
    rig_scope(&r, 8, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, r.cfg.root_grace_ns - 1);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
    rig_tick(&r, 1);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 2);
    CU_ASSERT_EQUAL(t->n_threads, 2);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_idle_trace_closes_without_root(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, r.cfg.idle_close_ns - 1);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
    rig_tick(&r, 1);
    CU_ASSERT_EQUAL(free_all_closed(&r), 1);
    CHECK_STOP(r);
}

static void test_late_news_open_the_next_part(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint32_t part = 0; part < 3; part++) {
        uint64_t at = part * 100;
        rig_sample(&r, 7, at + 50);
        rig_drained(&r, 7, at + 90);
        rig_scope(&r, 7, at + 90, rig_rec(&r, part + 1, at + 10, at + 80, 1));
        rig_tick(&r, 0);
        rig_tick(&r, r.cfg.idle_close_ns);
        struct trace *t = pipeline_take_closed(r.p);
        CU_ASSERT_PTR_NOT_NULL_FATAL(t);
        CU_ASSERT_EQUAL(t->part, part);
        CU_ASSERT_EQUAL(t->n_samples, 1);
        trace_free(t);
    }
    CHECK_STOP(r);
}

static void test_sample_cap_cuts_parts_of_which_none_loses_a_sample(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.part_cap_samples = 10;
    rig_start(&r, &cfg, false);
    for (uint64_t off = 1; off <= 95; off++)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 100, rig_rec(&r, 1, 0, 99, 1));
    rig_tick(&r, 0);
    rig_tick(&r, cfg.idle_close_ns);
    uint32_t part = 0, n = 0;
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t)) {
        CU_ASSERT_EQUAL(t->part, part++);
        CU_ASSERT_EQUAL(t->n_scopes, 1);
        n += t->n_samples;
    }
    CU_ASSERT_EQUAL(part, 10);
    CU_ASSERT_EQUAL(n, 95);
    CHECK_STOP(r);
}

static void test_trace_waits_for_its_unsettled_samples(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_scope(&r, 7, 200, flagged(rig_rec(&r, 1, 50, 150, 1), DVT_SCOPE_ROOT));
    rig_tick(&r, r.cfg.root_grace_ns);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p)); /* the sampler has not come so far yet */
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_tick(&r, 100 * MS);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_ended_inner_trace_is_written_though_outer_scope_runs_on(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 180);
    rig_drained(&r, 7, 300);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 2, 50, 150, 1), DVT_SCOPE_ROOT)); /* settled stays at the outer's start */
    rig_tick(&r, r.cfg.root_grace_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_scope_of(t, 100), 2);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    trace_free(t);
    rig_scope(&r, 7, 300, rig_rec(&r, 1, 10, 250, 2)); /* plain, and still kept: it holds both */
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_scope_of(t, 180), 1);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_out_of_order_scope_is_not_decided_before_it_is_settled(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 300);
    rig_scope(&r, 7, 10,
              flagged(rig_rec(&r, 2, 50, 150, 1), DVT_SCOPE_ROOT | DVT_SCOPE_OUT_OF_ORDER)); /* 3 still runs */
    rig_tick(&r, r.cfg.root_grace_ns);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    rig_scope(&r, 7, 300, rig_rec(&r, 3, 90, 200, 2));
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        CU_ASSERT_EQUAL(t->n_samples, t->id.b[15] == 2 ? 1 : 0);
    CHECK_STOP(r);
}

/* ---- open scopes ---- */

static void test_long_trace_is_written_in_parts_by_announcement(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 200);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN | DVT_SCOPE_ROOT));
    rig_tick(&r, r.cfg.idle_close_ns);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p)); /* it is not idle: it runs */
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    rig_tick(&r, r.cfg.part_cap_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 100), 1); /* 200 lies beyond what is known */
    CU_ASSERT_TRUE(t->scopes[0].flags & DVT_SCOPE_OPEN);
    trace_free(t);
    rig_drained(&r, 7, 300);
    rig_scope(&r, 7, 300, flagged(rig_rec(&r, 1, 10, 250, 1), DVT_SCOPE_ROOT));
    rig_tick(&r, r.cfg.root_grace_ns);
    t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->part, 1);
    CU_ASSERT_EQUAL(rig_scope_of(t, 200), 1);
    CU_ASSERT_FALSE(t->scopes[0].flags & DVT_SCOPE_OPEN);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_announcement_and_end_in_one_part_are_one_scope(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN));
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 10, 150, 1));
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->n_scopes, 1);
    CU_ASSERT_FALSE(t->scopes[0].flags & DVT_SCOPE_OPEN);
    struct pipeline_scopes s;
    pipeline_scope_counts(r.p, &s);
    CU_ASSERT_EQUAL(s.merged, 1);
    CU_ASSERT_EQUAL(s.placed, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_managed_stacks_carry_knowledge_of_open_scope_on(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_code(&r, 1, "f");
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN));
    for (uint64_t off = 100; off <= 500; off += 100) {
        rig_sample(&r, 7, off);
        rig_stack(&r, 7, off, 1, 0);
    }
    rig_drained(&r, 7, 500);
    rig_tick(&r, SEC);
    rig_stack(&r, 7, 600, 1, 0);
    rig_tick(&r, r.cfg.part_cap_ns);
    rig_tick(&r, SEC);
    rig_tick(&r, r.cfg.part_cap_ns);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 5);
    CU_ASSERT_EQUAL(rig_ledger(&r).no_stack, 0);
    CHECK_STOP(r);
}

static void test_close_all_writes_open_scopes_and_goes_on(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN));
    pipeline_close_all(r.p, r.now_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(rig_scope_of(t, 100), 1);
    trace_free(t);
    pipeline_close_all(r.p, r.now_ns);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p)); /* nothing new */
    CU_ASSERT_EQUAL(pipeline_open_traces(r.p), 1);
    CHECK_STOP(r);
}

static void test_killed_process_has_its_open_scope_cut(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 150);
    rig_drained(&r, 7, 150);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN | DVT_SCOPE_ROOT));
    pipeline_process_down(r.p, 1, r.now_ns);
    pipeline_progress(r.p, rig_key(7), 150, 0, true);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).pending, 1); /* 150 lies beyond what was told */
    rig_tick(&r, r.cfg.root_grace_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_TRUE(t->scopes[0].cut);
    CU_ASSERT_EQUAL(t->n_samples, 1);
    trace_free(t);
    rig_tick(&r, r.cfg.settle_cap_ns);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_end, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).scopes_cut, 1);
    CHECK_STOP(r);
}

static void test_scope_written_open_before_a_kill_comes_again_as_cut(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scope(&r, 7, 10, flagged(rig_rec(&r, 1, 10, 100, 1), DVT_SCOPE_OPEN));
    pipeline_close_all(r.p, r.now_ns);
    CU_ASSERT_EQUAL(free_all_closed(&r), 1);
    pipeline_process_down(r.p, 1, r.now_ns);
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_TRUE(t->scopes[0].cut);
    CU_ASSERT_EQUAL(t->part, 1);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_goodbye_gives_unknown_samples_up_at_once(void)
{
    struct rig r;
    struct dvt_shim_counts c = {0};
    rig_start(&r, NULL, false);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 100);
    rig_scopes(&r, 7, 50, NULL, 0);
    dvt_wire_put_bye(&r.body, &c, r.now_ns);
    rig_send(&r);
    pipeline_process_down(r.p, 1, r.now_ns);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_end, 1);
    CHECK_STOP(r);
}

static void test_late_sample_of_ended_process_finds_its_scope(void)
{
    struct rig r;
    struct dvt_shim_counts c = {0};
    rig_start(&r, NULL, false);
    rig_drained(&r, 7, 20);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    dvt_wire_put_bye(&r.body, &c, r.now_ns);
    rig_send(&r);
    pipeline_process_down(r.p, 1, r.now_ns);
    rig_tick(&r, 0);
    rig_sample(&r, 7, 100);
    pipeline_progress(r.p, rig_key(7), 200, 0, true);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CHECK_STOP(r);
}

static void test_ended_threads_and_processes_are_forgotten_but_counted(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    for (uint32_t tid = 1; tid <= 1000; tid++) {
        rig_sample(&r, tid, 100);
        pipeline_progress(r.p, rig_key(tid), 100, 0, true);
    }
    pipeline_process_down(r.p, 1, r.now_ns);
    rig_tick(&r, r.cfg.settle_cap_ns);
    rig_tick(&r, SEC);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_end, 1000);
    CU_ASSERT_EQUAL(rig_ledger(&r).pending, 0);
    rig_sample(&r, 5, 200);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_end, 1001); /* its process is gone */
    CU_ASSERT_TRUE(pipeline_ledger(r.p, 1, NULL, NULL));
    CHECK_STOP(r);
}

/* ---- managed stacks ---- */

static void test_managed_stack_is_found_by_head(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_code(&r, 1, "module.f");
    rig_code(&r, 2, "module.g");
    rig_stack(&r, 7, 100, 1, 0);
    rig_stack(&r, 7, 120, 2, 0);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 120);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    const struct trace_sample *s = &t->samples[rig_find(t, 120)];
    CU_ASSERT_EQUAL(s->reason, DVT_STACK_OK);
    CU_ASSERT_EQUAL_FATAL(s->n_mframes, 2);
    const struct trace_mframe *f = &t->mframes[t->mstack[s->first_mframe]];
    CU_ASSERT_STRING_EQUAL(f->name, "module.g");
    CU_ASSERT_STRING_EQUAL(f->file, "app.py");
    CU_ASSERT_EQUAL(f->line, 11);
    CU_ASSERT_EQUAL(t->n_mframes, 4);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_missing_stack_is_waited_for_one_more_message(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    rig_tick(&r, 100 * MS);
    rig_scopes(&r, 7, 210, NULL, 0);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).no_stack, 1);
    CHECK_STOP(r);
}

static void test_missing_stack_is_waited_for_one_second(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 110);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    rig_tick(&r, SEC - 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    rig_tick(&r, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 2); /* they waited together */
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->samples[0].reason, DVT_STACK_NO_SIGNAL);
    trace_free(t);
    CHECK_STOP(r);
}

static void test_stack_that_comes_during_the_wait_is_used(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_code(&r, 1, "f");
    rig_sample(&r, 7, 100);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    rig_stack(&r, 7, 100, 1, 0);
    rig_tick(&r, 10 * MS);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 1);
    CU_ASSERT_EQUAL(rig_ledger(&r).no_stack, 0);
    CHECK_STOP(r);
}

static void test_redefined_code_applies_to_later_stacks_only(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_code(&r, 1, "old");
    rig_stack(&r, 7, 100, 1, 0);
    rig_code(&r, 1, "new");
    rig_stack(&r, 7, 120, 1, 0);
    rig_sample(&r, 7, 100);
    rig_sample(&r, 7, 120);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    for (uint64_t off = 100; off <= 120; off += 20) {
        const struct trace_sample *s = &t->samples[rig_find(t, off)];
        CU_ASSERT_STRING_EQUAL(t->mframes[t->mstack[s->first_mframe]].name, off == 100 ? "old" : "new");
    }
    trace_free(t);
    CHECK_STOP(r);
}

static void test_reasons_of_stacks_reach_the_sample(void)
{
    struct rig r;
    rig_start(&r, NULL, true);
    rig_stack(&r, 7, 100, 0, DVT_STACK_NO_THREAD_STATE);
    rig_stack(&r, 7, 110, 0, DVT_STACK_WINDOW);
    rig_stack(&r, 7, 120, 99, 0); /* code 99 was never told */
    for (uint64_t off = 100; off <= 120; off += 10)
        rig_sample(&r, 7, off);
    rig_drained(&r, 7, 200);
    rig_scope(&r, 7, 200, rig_rec(&r, 1, 50, 150, 1));
    rig_tick(&r, 0);
    rig_tick(&r, r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->samples[rig_find(t, 100)].reason, DVT_STACK_NO_THREAD_STATE);
    CU_ASSERT_EQUAL(t->samples[rig_find(t, 110)].reason, DVT_STACK_WINDOW);
    CU_ASSERT_EQUAL(t->samples[rig_find(t, 120)].reason, DVT_STACK_CODE_GONE);
    CU_ASSERT_EQUAL(rig_ledger(&r).no_stack, 2); /* a thread without managed frames misses none */
    trace_free(t);
    CHECK_STOP(r);
}

/* ---- bounds ---- */

static void test_memory_cap_closes_idle_traces_early(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = 256 << 10;
    rig_start(&r, &cfg, false);
    uint32_t n = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        struct dvt_scope_rec rec = flagged(rig_rec(&r, i + 1, i, i, 1), DVT_SCOPE_ALWAYS);
        memcpy(rec.trace.b + 4, &i, sizeof i);
        rig_scope(&r, 7, 0, rec);
        n += free_all_closed(&r);
        r.now_ns += MS / 10;
    }
    CU_ASSERT_TRUE(n > 3000);
    CU_ASSERT_TRUE(pipeline_open_traces(r.p) < 2000);
    CHECK_STOP(r);
}

enum { N_OF_TRACE = 200 };

/* A scope of the trace with N_OF_TRACE samples, joined, and due to be closed. */
static void fill_trace(struct rig *r, uint8_t trace)
{
    uint64_t first = trace * 10000u;
    rig_scope(r, 7, first + N_OF_TRACE, rig_rec(r, trace, first, first + N_OF_TRACE, trace));
    for (uint64_t off = first + 1; off <= first + N_OF_TRACE; off++)
        rig_sample(r, 7, off);
    rig_drained(r, 7, first + N_OF_TRACE);
    rig_tick(r, 0);
}

static size_t bytes_of_one(void)
{
    struct rig r;
    rig_start(&r, NULL, false);
    fill_trace(&r, 1);
    rig_tick(&r, 2 * r.cfg.idle_close_ns);
    struct trace *t = pipeline_take_closed(r.p);
    size_t bytes = t ? t->bytes : 0;
    trace_free(t);
    CHECK_STOP(r);
    return bytes;
}

static void test_a_trace_that_finds_no_room_to_be_closed_waits_and_loses_nothing(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = bytes_of_one() * 3 / 2; /* of closed traces: one and a half */
    CU_ASSERT_FATAL(cfg.memory_cap_bytes > 0);
    rig_start(&r, &cfg, false);
    for (uint8_t trace = 1; trace <= 2; trace++) {
        fill_trace(&r, trace);
        rig_tick(&r, 2 * r.cfg.idle_close_ns);
    }
    CU_ASSERT_EQUAL(pipeline_open_traces(r.p), 1);
    for (uint8_t trace = 1; trace <= 2; trace++) {
        struct trace *t = pipeline_take_closed(r.p);
        CU_ASSERT_FATAL(t != NULL);
        CU_ASSERT_EQUAL(t->id.b[15], trace);
        CU_ASSERT_EQUAL(t->n_samples, N_OF_TRACE);
        CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
        trace_free(t);
        rig_tick(&r, MS);
    }
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 2 * N_OF_TRACE);
    CU_ASSERT_EQUAL(rig_ledger(&r).traces_lost, 0);
    CHECK_STOP(r);
}

static void test_samples_of_a_trace_that_is_lost_are_counted_as_lost(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = bytes_of_one() * 3 / 2;
    cfg.part_cap_samples = N_OF_TRACE; /* must be closed, room or not */
    rig_start(&r, &cfg, false);
    fill_trace(&r, 1);
    fill_trace(&r, 2);
    struct trace *t = pipeline_take_closed(r.p);
    CU_ASSERT(t && t->n_samples == N_OF_TRACE);
    trace_free(t);
    CU_ASSERT_PTR_NULL(pipeline_take_closed(r.p));
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, N_OF_TRACE);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_queue, N_OF_TRACE);
    CU_ASSERT_EQUAL(rig_ledger(&r).traces_lost, 1);
    CHECK_STOP(r);
}

static void test_memory_cap_drops_oldest_samples_and_counts_them(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = 256 << 10;
    rig_start(&r, &cfg, false);
    for (uint64_t off = 1; off <= 10000; off++, r.now_ns += MS)
        rig_sample(&r, 7, off);
    struct ledger l = rig_ledger(&r);
    CU_ASSERT_TRUE(l.lost_queue > 5000);
    CU_ASSERT_TRUE(l.pending > 100);
    CU_ASSERT_EQUAL(l.pending + l.lost_queue, 10000);
    CHECK_STOP(r);
}

static void test_scopes_given_up_take_their_late_samples_along(void)
{
    struct pipeline_config cfg;
    struct rig r;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = 256 << 10;
    rig_start(&r, &cfg, false);
    for (uint64_t i = 0; i < 5000; i++) /* the sampler never comes so far */
        rig_scope(&r, 7, 0, rig_rec(&r, i + 2, 10 + i * 10, 19 + i * 10, 1));
    rig_scope(&r, 7, 60000, rig_rec(&r, 1, 0, 60000, 2));
    rig_sample(&r, 7, 15); /* in a scope that was given up: not for the outer one */
    rig_drained(&r, 7, 60000);
    rig_tick(&r, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).joined, 0);
    CU_ASSERT_EQUAL(rig_ledger(&r).lost_queue, 1);
    CHECK_STOP(r);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("pipeline_time", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_root_end_closes_after_grace_not_before);
    T(test_news_restart_the_grace);
    T(test_idle_trace_closes_without_root);
    T(test_late_news_open_the_next_part);
    T(test_sample_cap_cuts_parts_of_which_none_loses_a_sample);
    T(test_trace_waits_for_its_unsettled_samples);
    T(test_ended_inner_trace_is_written_though_outer_scope_runs_on);
    T(test_out_of_order_scope_is_not_decided_before_it_is_settled);
    T(test_long_trace_is_written_in_parts_by_announcement);
    T(test_announcement_and_end_in_one_part_are_one_scope);
    T(test_managed_stacks_carry_knowledge_of_open_scope_on);
    T(test_close_all_writes_open_scopes_and_goes_on);
    T(test_killed_process_has_its_open_scope_cut);
    T(test_scope_written_open_before_a_kill_comes_again_as_cut);
    T(test_goodbye_gives_unknown_samples_up_at_once);
    T(test_late_sample_of_ended_process_finds_its_scope);
    T(test_ended_threads_and_processes_are_forgotten_but_counted);
    T(test_managed_stack_is_found_by_head);
    T(test_missing_stack_is_waited_for_one_more_message);
    T(test_missing_stack_is_waited_for_one_second);
    T(test_stack_that_comes_during_the_wait_is_used);
    T(test_redefined_code_applies_to_later_stacks_only);
    T(test_reasons_of_stacks_reach_the_sample);
    T(test_memory_cap_closes_idle_traces_early);
    T(test_a_trace_that_finds_no_room_to_be_closed_waits_and_loses_nothing);
    T(test_samples_of_a_trace_that_is_lost_are_counted_as_lost);
    T(test_memory_cap_drops_oldest_samples_and_counts_them);
    T(test_scopes_given_up_take_their_late_samples_along);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
