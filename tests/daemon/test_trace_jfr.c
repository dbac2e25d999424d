/* trace_jfr: managed frames over native ones, with frame symbols made up by this test. */
#include <CUnit/Basic.h>
#include <stdlib.h>
#include "../../daemon/trace_jfr.h"
#include "../../proto/limits.h"

/* What the next symbols_resolve gives, leaf first. */
static struct symbols_frame native[DVT_MAX_FRAMES];
static uint32_t n_native, n_above;
static bool native_truncated;

uint32_t symbols_resolve(struct symbols *s, struct process *proc, const struct sample *raw,
                         struct symbols_frame *frames, uint32_t cap, uint32_t *ret_above_eval,
                         bool *ret_truncated)
{
    (void)s, (void)proc, (void)raw;
    CU_ASSERT_TRUE(cap >= n_native);
    memcpy(frames, native, n_native * sizeof *native);
    *ret_above_eval = n_above;
    *ret_truncated = native_truncated;
    return n_native;
}

static void native_frame(const char *name, uint32_t kind)
{
    native[n_native++] = (struct symbols_frame){name, kind == DVT_FRAME_KERNEL ? "kernel" : "python3.11",
                                                kind == DVT_FRAME_NATIVE ? "ceval.c" : NULL, 7, kind, 0};
}

static struct process process = {.index = 1,
                                 .host_pid = 4711,
                                 .start_ticks = 5,
                                 .has_walker = true,
                                 .service = "shop",
                                 .program = "app.py",
                                 .runtime = "python",
                                 .runtime_version = "3.11.7",
                                 .tag_template = "{tenant}/{name}"};
static struct process *processes[] = {&process};
static struct trace_thread threads[] = {
    {.key = {1, 9, 1}, .name = "main", .host_tid = 1009, .uncovered_ns = 33},
    {.key = {1, 12, 1}, .name = "worker", .uncovered_ns = 11}};
static struct dvt_label labels[1];
static struct dvt_trace_id links[1] = {{{9}}};
static struct trace_scope scopes[2];
static struct trace_mframe mframes[] = {{"calculate_discounts", "/app/orders.py", 42},
                                        {"handle", "/app/web.py", 7}};
static uint32_t mstack[] = {0, 1};
static struct sample raw = {.time_ns = 150};
static struct trace_sample samples[2];
static struct trace trace;

/* A kernel frame and libc's over the interpreter's evaluation function, two threads, a root scope and one
 * inside. */
static void reset(void)
{
    n_native = 0;
    native_frame("do_syscall_64", DVT_FRAME_KERNEL);
    native_frame("read", DVT_FRAME_NATIVE);
    n_above = n_native;
    native_frame("_PyEval_EvalFrameDefault", DVT_FRAME_NATIVE);
    native_frame("_start", DVT_FRAME_NATIVE);
    native_truncated = false;
    process.has_walker = true;
    labels[0] = (struct dvt_label){dvt_str("tenant"), dvt_str("acme")};
    scopes[0] = (struct trace_scope){.parent = DVT_NONE,
                                     .serial = 1,
                                     .start_ns = 100,
                                     .end_ns = 300,
                                     .span = {{1}},
                                     .name = "GET /",
                                     .flags = DVT_SCOPE_ROOT,
                                     .labels = labels,
                                     .n_labels = 1};
    scopes[1] = (struct trace_scope){.parent = 0,
                                     .serial = 2,
                                     .start_ns = 140,
                                     .end_ns = 160,
                                     .span = {{2}},
                                     .parent_span = {{1}},
                                     .name = "db",
                                     .flags = DVT_SCOPE_SHARED,
                                     .links = links,
                                     .n_links = 1,
                                     .cut = true};
    for (int i = 0; i < 2; i++)
        samples[i] = (struct trace_sample){.raw = &raw, .scope = 1, .weight_ns = 10, .n_mframes = 2};
    trace = (struct trace){.id = {{0xaa}},
                           .part = 3,
                           .processes = processes,
                           .threads = threads,
                           .scopes = scopes,
                           .samples = samples,
                           .mframes = mframes,
                           .mstack = mstack,
                           .n_processes = 1,
                           .n_threads = 2,
                           .n_scopes = 2,
                           .n_samples = 2,
                           .n_mframes = 2,
                           .n_mstack = 2,
                           .ambiguous = 4,
                           .lost_samples = 5};
}

static struct trace_jfr *built(void)
{
    struct trace_jfr *j = NULL;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL_FATAL(trace_jfr_build(&trace, NULL, 1000, 10, "cpu-clock", "host", &j, &err), 0);
    return j;
}

/* The stack of the first sample as "leaf;...;root". */
static const char *stack_text(const struct trace_jfr *j)
{
    static char out[1 << 16];
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    const struct dvt_chunk_stack *s = &c->stacks[c->samples[0].stack];
    size_t n = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct dvt_chunk_frame *f = &c->frames[c->stack_frames[s->first + i]];
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s", i ? ";" : "", (int)f->name.n, f->name.p);
    }
    return out;
}

static void test_managed_frames_replace_the_interpreter_and_below(void)
{
    reset();
    struct trace_jfr *j = built();
    CU_ASSERT_STRING_EQUAL(stack_text(j), "do_syscall_64;read;calculate_discounts;handle");
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    const struct dvt_chunk_frame *f = &c->frames[c->stack_frames[c->stacks[0].first + 2]];
    CU_ASSERT_TRUE(dvt_str_eq(f->module, dvt_str("/app/orders.py")));
    CU_ASSERT_EQUAL(f->line, 42);
    CU_ASSERT_EQUAL(f->kind, DVT_FRAME_MANAGED);
    CU_ASSERT_EQUAL(c->ledger.no_stack, 0);
    trace_jfr_free(j);
}

static void test_missing_managed_stack_is_named_and_counted(void)
{
    reset();
    samples[0].reason = DVT_STACK_NO_SIGNAL;
    samples[0].n_mframes = 0;
    struct trace_jfr *j = built();
    CU_ASSERT_STRING_EQUAL(stack_text(j), "do_syscall_64;read;[no stack: no signal]");
    const struct dvt_chunk_ledger *l = &trace_jfr_chunk(j)->ledger;
    CU_ASSERT_EQUAL(l->samples, 2);
    CU_ASSERT_EQUAL(l->no_stack, 1);
    CU_ASSERT_EQUAL(l->no_stack_by[DVT_STACK_NO_SIGNAL], 1);
    trace_jfr_free(j);
}

static void test_every_reason_has_a_text_and_a_count(void)
{
    for (uint32_t reason = DVT_STACK_WINDOW; reason < 12; reason++) {
        reset();
        samples[0].reason = reason;
        struct trace_jfr *j = built();
        CU_ASSERT_PTR_NOT_NULL(strstr(stack_text(j), "[no stack: "));
        CU_ASSERT_EQUAL(strstr(stack_text(j), "unknown") != NULL, reason >= DVT_N_STACK_REASONS);
        CU_ASSERT_EQUAL(trace_jfr_chunk(j)->ledger.no_stack, 1);
        trace_jfr_free(j);
    }
}

static void test_thread_without_managed_frames_keeps_all_native_ones(void)
{
    reset();
    samples[0].reason = DVT_STACK_NO_THREAD_STATE;
    samples[0].n_mframes = 0;
    native_truncated = true;
    struct trace_jfr *j = built();
    CU_ASSERT_STRING_EQUAL(stack_text(j), "do_syscall_64;read;_PyEval_EvalFrameDefault;_start");
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    CU_ASSERT_TRUE(c->stacks[c->samples[0].stack].truncated);
    CU_ASSERT_EQUAL(c->ledger.no_stack, 0);
    trace_jfr_free(j);
}

static void test_process_without_walker_has_native_stacks_and_no_loss(void)
{
    reset();
    process.has_walker = false;
    samples[0].reason = DVT_STACK_NO_SIGNAL;
    samples[0].n_mframes = 0;
    struct trace_jfr *j = built();
    CU_ASSERT_STRING_EQUAL(stack_text(j), "do_syscall_64;read;_PyEval_EvalFrameDefault;_start");
    CU_ASSERT_EQUAL(trace_jfr_chunk(j)->ledger.no_stack, 0);
    trace_jfr_free(j);
}

static void test_equal_stacks_and_frames_are_kept_once(void)
{
    reset();
    struct trace_jfr *j = built();
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    CU_ASSERT_EQUAL(c->n_samples, 2);
    CU_ASSERT_EQUAL(c->n_stacks, 1);
    CU_ASSERT_EQUAL(c->n_frames, 4);
    trace_jfr_free(j);
    reset();
    samples[1].mtruncated = true;
    j = built();
    CU_ASSERT_EQUAL(trace_jfr_chunk(j)->n_stacks, 2);
    CU_ASSERT_EQUAL(trace_jfr_chunk(j)->n_frames, 4);
    trace_jfr_free(j);
}

static void test_too_deep_stack_keeps_its_ends_and_is_truncated(void)
{
    reset();
    uint32_t deep[600];
    for (uint32_t i = 0; i < 600; i++)
        deep[i] = i == 599 ? 1 : 0;
    trace.mstack = deep;
    samples[0].n_mframes = samples[1].n_mframes = 600;
    struct trace_jfr *j = built();
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    const struct dvt_chunk_stack *s = &c->stacks[c->samples[0].stack];
    CU_ASSERT_EQUAL(s->n, DVT_MAX_FRAMES);
    CU_ASSERT_TRUE(s->truncated);
    CU_ASSERT_EQUAL(strncmp(stack_text(j), "do_syscall_64;read;calc", 23), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(stack_text(j), ";handle"));
    trace_jfr_free(j);
}

static void test_tag_has_the_label_of_the_enclosing_scope(void)
{
    reset();
    struct trace_jfr *j = built();
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    CU_ASSERT_TRUE(dvt_str_eq(c->scopes[0].tag, dvt_str("acme/GET /")));
    CU_ASSERT_TRUE(dvt_str_eq(c->scopes[1].tag, dvt_str("acme/db")));
    trace_jfr_free(j);
}

static void test_bad_template_falls_back_to_the_default(void)
{
    reset();
    process.tag_template = "{nonsense}";
    struct trace_jfr *j = built();
    CU_ASSERT_TRUE(dvt_str_eq(trace_jfr_chunk(j)->scopes[1].tag,
                              dvt_str("aa000000000000000000000000000000/0200000000000000/db")));
    trace_jfr_free(j);
    process.tag_template = "{tenant}/{name}";
}

static void test_tables_and_ledger_are_those_of_the_trace(void)
{
    reset();
    struct trace_jfr *j = built();
    const struct dvt_chunk *c = trace_jfr_chunk(j);
    CU_ASSERT_EQUAL(c->part, 3);
    CU_ASSERT_EQUAL(c->start_ns, 100);
    CU_ASSERT_EQUAL(c->end_ns, 300);
    CU_ASSERT_EQUAL(c->threads[0].tid, 1009);
    CU_ASSERT_EQUAL(c->threads[1].tid, 12);
    CU_ASSERT_EQUAL(c->scopes[1].n_links, 1);
    CU_ASSERT_EQUAL(dvt_trace_id_cmp(&c->links[c->scopes[1].first_link], &links[0]), 0);
    CU_ASSERT_EQUAL(c->ledger.ambiguous, 4);
    CU_ASSERT_EQUAL(c->ledger.lost_samples, 5);
    CU_ASSERT_EQUAL(c->ledger.shared, 2);
    CU_ASSERT_EQUAL(c->ledger.cut_short, 1);
    CU_ASSERT_EQUAL(c->ledger.uncovered_ns, 44);
    trace_jfr_free(j);
}

static void test_result_can_be_encoded_and_decoded(void)
{
    reset();
    struct trace_jfr *j = built();
    struct dvt_buf b;
    struct dvt_chunk c;
    uint32_t base = 1;
    dvt_buf_init(&b, 1 << 20);
    CU_ASSERT_EQUAL(dvt_chunk_encode(trace_jfr_chunk(j), &base, &b, NULL), 0);
    trace_jfr_free(j);
    CU_ASSERT_EQUAL_FATAL(dvt_chunk_decode(b.p, b.n, &c, NULL), 0);
    CU_ASSERT_EQUAL(c.n_samples, 2);
    CU_ASSERT_EQUAL(c.n_frames, 4);
    CU_ASSERT_TRUE(dvt_str_eq(c.processes[0].service, dvt_str("shop")));
    dvt_chunk_fini(&c);
    dvt_buf_fini(&b);
}

static void test_trace_without_scopes_or_samples_gives_an_empty_chunk(void)
{
    reset();
    trace.n_scopes = trace.n_samples = 0;
    struct trace_jfr *j = built();
    CU_ASSERT_EQUAL(trace_jfr_chunk(j)->n_stacks, 0);
    CU_ASSERT_TRUE(trace_jfr_chunk(j)->start_ns <= trace_jfr_chunk(j)->end_ns);
    trace_jfr_free(j);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("trace_jfr", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_managed_frames_replace_the_interpreter_and_below);
    T(test_missing_managed_stack_is_named_and_counted);
    T(test_every_reason_has_a_text_and_a_count);
    T(test_thread_without_managed_frames_keeps_all_native_ones);
    T(test_process_without_walker_has_native_stacks_and_no_loss);
    T(test_equal_stacks_and_frames_are_kept_once);
    T(test_too_deep_stack_keeps_its_ends_and_is_truncated);
    T(test_tag_has_the_label_of_the_enclosing_scope);
    T(test_bad_template_falls_back_to_the_default);
    T(test_tables_and_ledger_are_those_of_the_trace);
    T(test_result_can_be_encoded_and_decoded);
    T(test_trace_without_scopes_or_samples_gives_an_empty_chunk);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
