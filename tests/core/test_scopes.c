/*
 * test_scopes: which scopes are kept, what is reported of them, and what misuse does. The fake daemon moves data_head.
 */
#include <CUnit/Basic.h>
#include <dlfcn.h>

#include "fake_daemon.h"
#include "../../shims/core/slot.h"

static char dir[] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;
static struct dvt_shim_counts before; /* counts go on over restarts */

/* A daemon, a started library, and this thread armed. */
static void begin(void)
{
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path, .service = "test"}), 0);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_heartbeats > 0 && fake_knows(&fake, my_tid(), false)));
    before = fake_counts(&fake);
}

/* Everything has arrived. */
static void end(void)
{
    dvt_stop(5000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    CU_ASSERT_EQUAL(fake.n_bad, 0);
    CU_ASSERT_EQUAL(fake.counts.closed, fake.counts.kept + fake.counts.dropped + fake.counts.lost_ring);
    fake_kill(&fake);
}

static struct dvt_scope open_named(const char *name)
{
    return dvt_scope_open(&(struct dvt_scope_args){.name = name});
}

static void test_a_scope_with_a_sample_inside_is_sent_with_both_heads(void)
{
    begin();
    fake_sample(&fake, my_tid());
    struct dvt_scope s = open_named("hit");
    fake_sample(&fake, my_tid());
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "hit");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->head_close - o->head_open, 64);
    CU_ASSERT_EQUAL(o->head_close, 128);
    CU_ASSERT_EQUAL(o->tid, my_tid());
    CU_ASSERT(o->end_ns >= o->start_ns);
    CU_ASSERT(o->flags & DVT_SCOPE_ROOT);
    CU_ASSERT_FALSE(o->flags & (DVT_SCOPE_LATE_ARMED | DVT_SCOPE_CROSS_THREAD));
    CU_ASSERT_FALSE(dvt_trace_id_is_zero(&o->trace));
}

static void test_scopes_without_a_sample_are_dropped_and_counted_by_name(void)
{
    begin();
    fake_sample(&fake, my_tid());
    for (int i = 0; i < 1000; i++)
        dvt_scope_close(open_named(i % 4 ? "plain" : "fourth"));
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "plain"), 0);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "plain"), 750);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "fourth"), 250);
    CU_ASSERT_EQUAL(fake.counts.dropped - before.dropped, 1000);
    CU_ASSERT_EQUAL(fake.counts.opened - before.opened, 1000);
}

static void test_exactly_the_scopes_with_a_sample_are_sent(void)
{
    begin();
    for (int i = 0; i < 20000; i++) {
        struct dvt_scope s = open_named(i % 37 == 0 ? "sampled" : "quiet");
        if (i % 37 == 0)
            fake_sample(&fake, my_tid());
        dvt_scope_close(s);
    }
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "sampled"), 541);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "sampled"), 0);
    CU_ASSERT_EQUAL(fake_count(&fake, "quiet"), 0);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "quiet"), 20000 - 541);
}

static void test_a_nested_scope_inherits_the_trace_and_names_its_parent(void)
{
    begin();
    struct dvt_scope outer = dvt_scope_open(&(struct dvt_scope_args){.name = "outer", .always = true});
    struct dvt_scope inner = dvt_scope_open(&(struct dvt_scope_args){.name = "inner", .always = true});
    dvt_scope_close(inner);
    dvt_scope_close(outer);
    end();
    const struct fake_scope *o = fake_find(&fake, "outer"), *i = fake_find(&fake, "inner");
    CU_ASSERT_FATAL(o && i);
    CU_ASSERT_EQUAL(i->parent_serial, o->serial);
    CU_ASSERT_EQUAL(o->parent_serial, 0);
    CU_ASSERT_EQUAL(dvt_trace_id_cmp(&i->trace, &o->trace), 0);
    CU_ASSERT_EQUAL(memcmp(i->parent_span.b, o->span.b, 8), 0);
    CU_ASSERT(o->flags & DVT_SCOPE_ALWAYS);
    CU_ASSERT_FALSE(i->flags & DVT_SCOPE_ROOT);
    CU_ASSERT(o->start_ns <= i->start_ns && i->end_ns <= o->end_ns);
}

static void test_a_sample_in_the_outer_scope_only_drops_the_inner(void)
{
    begin();
    struct dvt_scope outer = open_named("outer");
    fake_sample(&fake, my_tid());
    dvt_scope_close(open_named("inner"));
    dvt_scope_close(outer);
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "outer"), 1);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "inner"), 1);
}

static void test_traceparent_gives_trace_parent_and_sampled_flag(void)
{
    char out[56];
    begin();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){
        .name = "remote", .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", .always = true});
    CU_ASSERT(dvt_traceparent(out));
    CU_ASSERT_EQUAL(strncmp(out, "00-0af7651916cd43dd8448eb211c80319c-", 36), 0);
    CU_ASSERT_STRING_EQUAL(out + 52, "-00");
    dvt_scope_close(s);
    CU_ASSERT_FALSE(dvt_traceparent(out));
    end();
    const struct fake_scope *o = fake_find(&fake, "remote");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->parent_span.b[0], 0xb7);
    CU_ASSERT(o->flags & DVT_SCOPE_REMOTE_PARENT);
    CU_ASSERT(o->flags & DVT_SCOPE_UNSAMPLED);
    CU_ASSERT_FALSE(o->flags & DVT_SCOPE_ROOT);
}

static void test_a_bad_traceparent_is_ignored(void)
{
    begin();
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "bad", .traceparent = "garbage", .always = true}));
    end();
    const struct fake_scope *o = fake_find(&fake, "bad");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT(o->flags & DVT_SCOPE_ROOT);
}

static void test_a_late_label_counts_for_the_whole_scope_and_the_last_value_wins(void)
{
    begin();
    struct dvt_label_arg early = {"route", "/pay"};
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "labelled", .labels = &early, .n_labels = 1});
    struct dvt_scope inner = open_named("inside");
    dvt_scope_label(s, "tenant", "acm");
    dvt_label("step", "two");
    dvt_scope_label(s, "tenant", "acme");
    fake_sample(&fake, my_tid());
    dvt_scope_close(inner);
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "labelled"), *i = fake_find(&fake, "inside");
    CU_ASSERT_FATAL(o && i);
    CU_ASSERT_STRING_EQUAL(o->labels, "route=/pay;tenant=acme;");
    CU_ASSERT_STRING_EQUAL(i->labels, "step=two;");
}

static void test_labels_over_the_limits_are_cut_and_counted(void)
{
    char key[100], value[400], name[16];
    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    key[99] = value[399] = 0;
    begin();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "many", .always = true});
    dvt_label(key, value);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "k%d", i);
        dvt_label(name, "v");
    }
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "many");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_PTR_NOT_NULL(strstr(o->labels, "k14=v;"));
    CU_ASSERT_PTR_NULL(strstr(o->labels, "k15=v;"));
    CU_ASSERT_EQUAL(fake.counts.labels_cut - before.labels_cut, 2 + 5);
}

static void test_links_make_a_shared_scope(void)
{
    const char *links[] = {"00-11111111111111111111111111111111-2222222222222222-01",
                           "00-33333333333333333333333333333333-4444444444444444-01", "no"};
    begin();
    dvt_scope_close(
        dvt_scope_open(&(struct dvt_scope_args){.name = "batch", .always = true, .links = links, .n_links = 3}));
    end();
    const struct fake_scope *o = fake_find(&fake, "batch");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->n_links, 2);
    CU_ASSERT_EQUAL(o->link.b[0], 0x11);
    CU_ASSERT(o->flags & DVT_SCOPE_SHARED);
}

static void test_a_scope_closed_out_of_order_is_marked_and_later_ones_are_right(void)
{
    begin();
    struct dvt_scope a = open_named("a"), b = open_named("b");
    dvt_scope_label(a, "of", "a");
    dvt_label("of", "b");
    fake_sample(&fake, my_tid());
    dvt_scope_close(a);
    struct dvt_scope c = open_named("c");
    dvt_label("of", "c");
    fake_sample(&fake, my_tid());
    dvt_scope_close(b);
    dvt_scope_close(c);
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "after", .always = true}));
    end();
    const struct fake_scope *oa = fake_find(&fake, "a"), *ob = fake_find(&fake, "b"), *oc = fake_find(&fake, "c");
    const struct fake_scope *after = fake_find(&fake, "after");
    CU_ASSERT_FATAL(oa && ob && oc && after);
    CU_ASSERT(oa->flags & DVT_SCOPE_OUT_OF_ORDER);
    CU_ASSERT(ob->flags & DVT_SCOPE_OUT_OF_ORDER);
    CU_ASSERT_FALSE(oc->flags & DVT_SCOPE_OUT_OF_ORDER);
    CU_ASSERT_STRING_EQUAL(oa->labels, "of=a;");
    CU_ASSERT_STRING_EQUAL(ob->labels, "of=b;");
    CU_ASSERT_STRING_EQUAL(oc->labels, "of=c;");
    CU_ASSERT_EQUAL(oa->head_close, oc->head_open);
    CU_ASSERT_EQUAL(after->parent_serial, 0);
    CU_ASSERT_EQUAL(fake.counts.misuse_order - before.misuse_order, 2);
}

static void test_interleaved_scopes_do_not_fill_the_stack(void)
{
    begin();
    struct dvt_scope last = open_named("task");
    for (int i = 0; i < 10000; i++) {
        struct dvt_scope next = open_named("task");
        dvt_label("k", "some value that takes room");
        dvt_scope_close(last);
        last = next;
    }
    dvt_scope_close(last);
    end();
    CU_ASSERT_EQUAL(fake.counts.misuse_depth - before.misuse_depth, 0);
    CU_ASSERT_EQUAL(fake.counts.labels_cut - before.labels_cut, 0);
    CU_ASSERT_EQUAL(fake.counts.closed - before.closed, 10001);
}

static void test_closing_twice_or_a_made_up_handle_is_counted_and_does_nothing(void)
{
    begin();
    struct dvt_scope outer = dvt_scope_open(&(struct dvt_scope_args){.name = "outer", .always = true});
    struct dvt_scope inner = open_named("inner");
    dvt_scope_close(inner);
    dvt_scope_close(inner);
    dvt_scope_close((struct dvt_scope){outer.thread, outer.serial + 100});
    dvt_scope_close((struct dvt_scope){0});
    dvt_scope_close(outer);
    dvt_scope_close(outer);
    dvt_scope_close_always(outer);
    end();
    CU_ASSERT_EQUAL(fake.counts.misuse_stale - before.misuse_stale, 4);
    CU_ASSERT_EQUAL(fake_count(&fake, "outer"), 1);
}

static void test_scopes_beyond_the_depth_limit_are_counted_and_the_rest_is_right(void)
{
    struct dvt_scope s[DVT_MAX_DEPTH + 10];
    begin();
    for (int i = 0; i < DVT_MAX_DEPTH + 10; i++) {
        s[i] = dvt_scope_open(&(struct dvt_scope_args){.name = i ? "deep" : "root", .always = true});
        if (i == DVT_MAX_DEPTH)
            dvt_label("lost", "not on another scope");
    }
    for (int i = DVT_MAX_DEPTH + 9; i >= 0; i--)
        dvt_scope_close(s[i]);
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "deep"), DVT_MAX_DEPTH - 1);
    CU_ASSERT_EQUAL(fake.counts.misuse_depth - before.misuse_depth, 10);
    CU_ASSERT_EQUAL(fake.counts.misuse_stale - before.misuse_stale, 0);
    CU_ASSERT_EQUAL(fake.counts.labels_cut - before.labels_cut, 1);
    for (size_t i = 0; i < fake.n_scopes; i++)
        CU_ASSERT_STRING_EQUAL(fake.scopes[i].labels, "");
}

static void *close_it(void *p)
{
    dvt_scope_close(*(struct dvt_scope *)p);
    return NULL;
}

static void test_a_close_by_another_thread_ends_the_scope_at_that_time(void)
{
    pthread_t t;
    begin();
    struct dvt_scope outer = open_named("outer"), s = open_named("wandering");
    fake_sample(&fake, my_tid());
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, close_it, &s), 0);
    pthread_join(t, NULL);
    struct dvt_scope next = dvt_scope_open(&(struct dvt_scope_args){.name = "next", .always = true});
    dvt_scope_close(next);
    dvt_scope_close(outer);
    end();
    const struct fake_scope *w = fake_find(&fake, "wandering"), *n = fake_find(&fake, "next"), *o = fake_find(&fake, "outer");
    CU_ASSERT_FATAL(w && n && o);
    CU_ASSERT(w->flags & DVT_SCOPE_CROSS_THREAD);
    CU_ASSERT_EQUAL(w->tid, my_tid());
    CU_ASSERT(w->end_ns <= n->start_ns);
    CU_ASSERT_EQUAL(n->parent_serial, o->serial);
    CU_ASSERT_FALSE(o->flags & (DVT_SCOPE_CROSS_THREAD | DVT_SCOPE_OUT_OF_ORDER));
    CU_ASSERT_EQUAL(fake.counts.misuse_thread - before.misuse_thread, 1);
}

static void *open_and_leave(void *p)
{
    *(struct dvt_scope *)p = dvt_scope_open(&(struct dvt_scope_args){.name = "left open", .always = true});
    return NULL;
}

static void test_a_scope_left_open_ends_with_its_thread_and_its_handle_is_safe(void)
{
    pthread_t t;
    struct dvt_scope s;
    begin();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, open_and_leave, &s), 0);
    pthread_join(t, NULL);
    dvt_scope_close(s);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, open_and_leave, &s), 0);
    pthread_join(t, NULL);
    end();
    dvt_scope_close(s);
    CU_ASSERT_EQUAL(fake_count(&fake, "left open"), 2);
    CU_ASSERT(fake.counts.misuse_stale - before.misuse_stale >= 1);
}

static void test_runtime_scopes_take_names_labels_and_links_at_close(void)
{
    struct dvt_label labels[] = {{dvt_str("tenant"), dvt_str("late")}, {dvt_str("route"), dvt_str("/x")}};
    struct dvt_rt_open a = {.flags = DVT_SCOPE_ROOT};
    struct dvt_trace_id link = {{9}}, got;
    struct dvt_span_id span;
    memset(a.trace.b, 5, 16);
    memset(a.span.b, 6, 8);
    begin();
    struct dvt_scope s = dvt_rt_open(&a);
    CU_ASSERT(dvt_rt_active());
    CU_ASSERT(dvt_rt_current(&got, &span));
    CU_ASSERT_EQUAL(got.b[3], 5);
    CU_ASSERT_FALSE(dvt_rt_close(s, dvt_name("no sample")));
    s = dvt_rt_open(&a);
    dvt_label("tenant", "acme");
    fake_sample(&fake, my_tid());
    CU_ASSERT(dvt_rt_close(s, NULL));
    CU_ASSERT_FALSE(dvt_rt_close(s, NULL));
    CU_ASSERT_FALSE(dvt_rt_current(&got, &span));
    dvt_rt_commit(s, &(struct dvt_rt_late){dvt_str("late name"), labels, 2, &link, 1});
    dvt_rt_commit(s, &(struct dvt_rt_late){dvt_str("twice"), NULL, 0, NULL, 0});
    end();
    const struct fake_scope *o = fake_find(&fake, "late name");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_STRING_EQUAL(o->labels, "tenant=acme;route=/x;");
    CU_ASSERT_EQUAL(o->n_links, 1);
    CU_ASSERT_EQUAL(o->span.b[0], 6);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "no sample"), 1);
    CU_ASSERT_EQUAL(fake_count(&fake, "twice"), 0);
    CU_ASSERT_EQUAL(fake.counts.misuse_stale - before.misuse_stale, 2);
}

static void test_names_that_do_not_fit_the_table_are_still_reported(void)
{
    char name[32];
    begin();
    for (int i = 0; i < DVT_MAX_NAMES + 500; i++) {
        snprintf(name, sizeof name, "unique %d", i);
        dvt_scope_close(open_named(name));
    }
    struct dvt_scope s = open_named("the one after");
    fake_sample(&fake, my_tid());
    dvt_scope_close(s);
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "the one after"), 1);
    CU_ASSERT(fake.counts.names_over - before.names_over > 500);
    CU_ASSERT(fake_dropped(&fake, "(other)") >= 500);
    CU_ASSERT_EQUAL(fake_dropped(&fake, "unique 3"), 1);
}

static void test_a_full_ring_loses_and_counts(void)
{
    char value[250];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = 0;
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/none", dir);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path}), 0);
    for (int i = 0; i < 20000; i++) { /* 8 MB in a ring of 1, nobody reads */
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "flood", .always = true});
        dvt_label("k", value);
        dvt_scope_close(s);
    }
    fake_start(&fake);
    CU_ASSERT(fake_wait(&fake, fake.n_heartbeats > 0));
    end();
    uint64_t lost = fake.counts.lost_ring - before.lost_ring;
    CU_ASSERT(lost > 10000);
    CU_ASSERT_EQUAL(fake_count(&fake, "flood") + lost, 20000);
}

static void test_scopes_can_be_opened_and_closed_without_the_header(void)
{
    struct dvt_scope (*open)(const struct dvt_scope_args *);
    void (*close)(struct dvt_scope);
    *(void **)&open = dlsym(RTLD_DEFAULT, "dvt_scope_open");
    *(void **)&close = dlsym(RTLD_DEFAULT, "dvt_scope_close");
    CU_ASSERT_FATAL(open && close);
    CU_ASSERT_PTR_NULL(open(NULL).thread); /* nothing runs yet */
    begin();
    close(open(&(struct dvt_scope_args){.name = "called", .always = true}));
    end();
    CU_ASSERT_EQUAL(fake_count(&fake, "called"), 1);
}

static void test_a_frame_that_a_runtime_timed_by_the_clock_keeps_its_time(void)
{
    begin();
    uint64_t opened_ns = dvt_now_ns();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "by clock", .always = true});
    struct dvt_slot *slot = dvt_rt_slot();
    CU_ASSERT_PTR_EQUAL_FATAL(slot, s.thread);
    slot->frames[0].start = opened_ns;
    slot->frames[0].flags &= ~(uint32_t)DVT_F_TICKS;
    dvt_scope_close(s);
    end();
    const struct fake_scope *o = fake_find(&fake, "by clock");
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_EQUAL(o->start_ns, opened_ns);
    CU_ASSERT(o->end_ns >= opened_ns && o->end_ns < dvt_now_ns());
    CU_ASSERT_FALSE(o->flags & DVT_SCOPE_LATE_ARMED);
}

int main(void)
{
    if (!mkdtemp(dir) || CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("scopes", NULL, NULL);
#define ADD(t) CU_add_test(s, #t, t)
    ADD(test_a_scope_with_a_sample_inside_is_sent_with_both_heads);
    ADD(test_scopes_without_a_sample_are_dropped_and_counted_by_name);
    ADD(test_exactly_the_scopes_with_a_sample_are_sent);
    ADD(test_a_nested_scope_inherits_the_trace_and_names_its_parent);
    ADD(test_a_sample_in_the_outer_scope_only_drops_the_inner);
    ADD(test_traceparent_gives_trace_parent_and_sampled_flag);
    ADD(test_a_bad_traceparent_is_ignored);
    ADD(test_a_late_label_counts_for_the_whole_scope_and_the_last_value_wins);
    ADD(test_labels_over_the_limits_are_cut_and_counted);
    ADD(test_links_make_a_shared_scope);
    ADD(test_a_scope_closed_out_of_order_is_marked_and_later_ones_are_right);
    ADD(test_interleaved_scopes_do_not_fill_the_stack);
    ADD(test_closing_twice_or_a_made_up_handle_is_counted_and_does_nothing);
    ADD(test_scopes_beyond_the_depth_limit_are_counted_and_the_rest_is_right);
    ADD(test_a_close_by_another_thread_ends_the_scope_at_that_time);
    ADD(test_a_scope_left_open_ends_with_its_thread_and_its_handle_is_safe);
    ADD(test_runtime_scopes_take_names_labels_and_links_at_close);
    ADD(test_scopes_can_be_opened_and_closed_without_the_header);
    ADD(test_a_frame_that_a_runtime_timed_by_the_clock_keeps_its_time);
    ADD(test_a_full_ring_loses_and_counts);
    ADD(test_names_that_do_not_fit_the_table_are_still_reported); /* last: it fills the table for the whole process */
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    fake_free(&fake);
    char cmd[64];
    snprintf(cmd, sizeof cmd, "%s/s.zmq", dir);
    unlink(cmd);
    snprintf(cmd, sizeof cmd, "%s/none.zmq", dir);
    unlink(cmd);
    rmdir(dir);
    return failed != 0;
}
