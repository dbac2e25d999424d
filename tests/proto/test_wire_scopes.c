/* wire: SCOPES and STACKS come back as they were, and what repeats in them is sent once. */
#include <CUnit/Basic.h>
#include "../wire_make.h"

static struct dvt_buf body;

static struct dvt_str map_of(uint32_t type)
{
    struct dvt_str map = {0};
    CU_ASSERT_EQUAL(wire_type_of(&body, &map), type);
    return map;
}

/* A decoded SCOPES message, all columns widened. */
struct wide {
    struct dvt_scopes s;
    uint64_t *end, *dur, *head_close, *head_span, *serial, *parent_serial;
    uint32_t *trace, *name, *labelset, *flags;
    struct dvt_span_id *spans, *parent_spans;
    struct dvt_str *names;
    struct dvt_label *labels;
    uint32_t *first_label;
};

static uint64_t *widen64(const struct dvt_col *c)
{
    uint64_t *v = calloc(c->n + 1u, sizeof *v);
    dvt_col_expand_u64(c, v);
    return v;
}

static uint32_t *widen32(const struct dvt_col *c)
{
    uint32_t *v = calloc(c->n + 1u, sizeof *v);
    dvt_col_expand_u32(c, v);
    return v;
}

static bool wide_init(struct wide *w)
{
    struct dvt_err err = {0};
    int rc = dvt_wire_get_scopes(map_of(DVT_MSG_SCOPES), &w->s, &err);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    if (rc)
        return false;
    w->end = widen64(&w->s.end), w->dur = widen64(&w->s.dur);
    w->head_close = widen64(&w->s.head_close), w->head_span = widen64(&w->s.head_span);
    w->serial = widen64(&w->s.serial);
    w->trace = widen32(&w->s.trace), w->name = widen32(&w->s.name);
    w->labelset = widen32(&w->s.labelset), w->flags = widen32(&w->s.flags);
    uint32_t *work = calloc(w->s.n + 1u, sizeof *work);
    w->parent_serial = calloc(w->s.n + 1u, sizeof *w->parent_serial);
    w->spans = calloc(w->s.n + 1u, sizeof *w->spans);
    w->parent_spans = calloc(w->s.n + 1u, sizeof *w->parent_spans);
    CU_ASSERT_EQUAL(dvt_wire_parents(&w->s, w->serial, work, w->spans, w->parent_spans, w->parent_serial), 0);
    free(work);
    w->names = calloc(w->s.n_names + 1u, sizeof *w->names);
    w->labels = calloc(w->s.n_labels + 1u, sizeof *w->labels);
    w->first_label = calloc(w->s.n_labelsets + 1u, sizeof *w->first_label);
    CU_ASSERT_EQUAL(dvt_wire_names(&w->s, w->names), 0);
    CU_ASSERT_EQUAL(dvt_wire_labelsets(&w->s, w->labels, w->s.n_labels, w->first_label), 0);
    return true;
}

static void wide_fini(struct wide *w)
{
    void *all[] = {w->end,  w->dur,   w->head_close, w->head_span, w->serial,      w->parent_serial,
                   w->spans, w->trace, w->name,       w->labelset,  w->parent_spans, w->flags,
                   w->names, w->labels, w->first_label};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static bool numbers_are_same(const struct wide *w, const struct dvt_scope_rec *v, uint32_t i)
{
    return w->serial[i] == v->serial && w->parent_serial[i] == v->parent_serial && w->end[i] == v->end_ns &&
           w->end[i] - w->dur[i] == v->start_ns && w->head_close[i] == v->head_close &&
           w->head_close[i] - w->head_span[i] == v->head_open && w->flags[i] == v->flags;
}

static bool ids_are_same(const struct wide *w, const struct dvt_scope_rec *v, uint32_t i)
{
    return memcmp(w->s.traces + 16 * w->trace[i], &v->trace, 16) == 0 &&
           memcmp(&w->spans[i], &v->span, 8) == 0 && memcmp(&w->parent_spans[i], &v->parent_span, 8) == 0;
}

static bool labels_are_same(const struct wide *w, const struct dvt_scope_rec *v, uint32_t i)
{
    uint32_t set = w->labelset[i], first = w->first_label[set];
    if (!dvt_str_eq(w->names[w->name[i]], v->name) || w->first_label[set + 1] - first != v->n_labels)
        return false;
    for (uint32_t k = 0; k < v->n_labels; k++)
        if (!dvt_str_eq(w->labels[first + k].key, v->labels[k].key) ||
            !dvt_str_eq(w->labels[first + k].value, v->labels[k].value))
            return false;
    return true;
}

static bool links_are_same(const struct wide *w, const struct dvt_scope_rec *v, size_t n)
{
    size_t pos = 0;
    uint32_t scope, n_ids;
    const uint8_t *ids;
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].n_links == 0)
            continue;
        if (dvt_wire_next_links(&w->s, &pos, &scope, &ids, &n_ids) != 1 || scope != i ||
            n_ids != v[i].n_links || memcmp(ids, v[i].links, 16 * n_ids) != 0)
            return false;
    }
    return dvt_wire_next_links(&w->s, &pos, &scope, &ids, &n_ids) == 0;
}

/* Encodes v[n], decodes it and compares everything. */
static void expect_round_trip(const struct dvt_scope_rec *v, size_t n)
{
    struct wide w;
    uint32_t wrong = 0;
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 11, 2, 1234, UINT64_MAX, v, n), 0);
    if (!wide_init(&w))
        return;
    CU_ASSERT(w.s.tid == 11 && w.s.epoch == 2 && w.s.settled_head == 1234 && w.s.settled_ns == UINT64_MAX);
    CU_ASSERT_EQUAL_FATAL(w.s.n, n);
    for (uint32_t i = 0; i < n; i++)
        wrong +=
            !numbers_are_same(&w, &v[i], i) || !ids_are_same(&w, &v[i], i) || !labels_are_same(&w, &v[i], i);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(links_are_same(&w, v, n));
    wide_fini(&w);
}

static void test_scopes_of_edge_lengths_round_trip(void)
{
    static const size_t lengths[] = {0, 1, 2, 15, 16, 17, 255, 1000, DVT_MAX_BATCH};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct dvt_scope_rec *v = sample_scopes(lengths[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(v);
        expect_round_trip(v, lengths[i]);
        free(v);
    }
}

static void test_scopes_with_extreme_numbers_round_trip(void)
{
    struct dvt_scope_rec v[4] = {
        {.serial = UINT64_MAX,
         .parent_serial = 1,
         .start_ns = 0,
         .end_ns = UINT64_MAX,
         .head_close = UINT64_MAX},
        {.serial = 1,
         .start_ns = UINT64_MAX,
         .end_ns = 0,
         .head_open = 9,
         .head_close = 0,
         .flags = UINT32_MAX},
        {.serial = 2, .parent_serial = 1, .start_ns = 5, .end_ns = 5},
        {.serial = UINT64_MAX,
         .parent_serial = UINT64_MAX - 1,
         .head_open = UINT64_MAX,
         .head_close = UINT64_MAX},
    };
    for (size_t n = 1; n <= 4; n++)
        expect_round_trip(v, n);
}

static void test_equal_names_traces_and_labels_are_sent_once(void)
{
    char copies[3][8] = {"query", "query", "query"};
    struct dvt_label labels[3];
    struct dvt_scope_rec v[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        labels[i] =
            (struct dvt_label){dvt_str(copies[i]), dvt_str("v")}; /* equal bytes at different addresses */
        v[i] = (struct dvt_scope_rec){
            .serial = i + 1, .name = dvt_str(copies[i]), .labels = &labels[i], .n_labels = 1};
        v[i].trace.b[5] = 1;
    }
    expect_round_trip(v, 3);
    struct dvt_scopes s;
    CU_ASSERT_EQUAL(dvt_wire_get_scopes(map_of(DVT_MSG_SCOPES), &s, NULL), 0);
    CU_ASSERT(s.n_names == 1 && s.n_traces == 1 && s.n_labelsets == 1 && s.n_labels == 1);
    CU_ASSERT_EQUAL(s.n_parent_spans, 0); /* all zero: not sent */
}

static void test_names_and_labels_over_their_bounds_are_cut(void)
{
    static char text[1000];
    memset(text, 'x', sizeof text);
    struct dvt_str longest = {text, sizeof text};
    struct dvt_label label = {longest, longest};
    struct dvt_scope_rec v = {.serial = 1, .name = longest, .labels = &label, .n_labels = 1};
    struct wide w;
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, &v, 1), 0);
    CU_ASSERT_FATAL(wide_init(&w));
    CU_ASSERT_EQUAL(w.names[0].n, DVT_MAX_NAME);
    CU_ASSERT(w.labels[0].key.n == DVT_MAX_LABEL_KEY && w.labels[0].value.n == DVT_MAX_LABEL_VALUE);
    CU_ASSERT_EQUAL(dvt_wire_labelsets(&w.s, w.labels, 0, w.first_label), DVT_ELIMIT);
    wide_fini(&w);
}

static void test_scopes_with_the_most_labels_and_links_round_trip_and_one_more_is_refused(void)
{
    struct dvt_label labels[DVT_MAX_LABELS + 1] = {0};
    struct dvt_trace_id links[DVT_MAX_LINKS + 1] = {0};
    struct dvt_scope_rec v = {
        .serial = 1, .labels = labels, .n_labels = DVT_MAX_LABELS, .links = links, .n_links = DVT_MAX_LINKS};
    expect_round_trip(&v, 1);
    size_t before = body.n;
    v.n_labels++;
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, &v, 1), DVT_ELIMIT);
    v.n_labels--;
    v.n_links++;
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, &v, 1), DVT_ELIMIT);
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, &v, DVT_MAX_BATCH + 1), DVT_ELIMIT);
    CU_ASSERT_EQUAL(body.n, before);
}

static void test_scope_that_is_its_own_parent_is_refused(void)
{
    struct dvt_scope_rec v = {.serial = 3, .parent_serial = 3};
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&body, 1, 1, 0, 0, &v, 1), DVT_EINVAL);
}

/* ---- ids ---- */

enum { MANY = 3000 };
static struct dvt_scope_rec many[MANY];

/* Encodes many[MANY]; what is read of it holds until the next message. */
static struct dvt_scopes expect_many(void)
{
    struct dvt_scopes s = {0};
    expect_round_trip(many, MANY);
    CU_ASSERT_EQUAL(dvt_wire_get_scopes(map_of(DVT_MSG_SCOPES), &s, NULL), 0);
    return s;
}

/* Requests of ten scopes: nine within the last, which has a remote parent. */
static void make_requests(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t root = i / 10 * 10 + 9;
        many[i] = (struct dvt_scope_rec){.serial = i == root ? i - 8 : i + 2,
                                         .parent_serial = i == root ? 0 : root - 8,
                                         .span = {{(uint8_t)i, (uint8_t)(i >> 8), 1}}};
        many[i].parent_span = (struct dvt_span_id){{(uint8_t)root, (uint8_t)(root >> 8), 1 + (i == root)}};
        memcpy(many[i].trace.b, &root, sizeof root);
    }
}

static void test_parent_spans_of_the_same_batch_are_not_sent_again(void)
{
    make_requests();
    struct dvt_scopes s = expect_many();
    CU_ASSERT(s.n_spans == MANY && s.span.n == 0 && s.n_parent_spans == MANY / 10);
    CU_ASSERT(s.parent_row.width == 1 && s.parent_back.width == 0 && s.parent_back.n_patches == 0);
    CU_ASSERT(s.n_traces == MANY / 10 && s.trace.kind == DVT_COL_DELTA && s.trace.width == 0);
}

static void test_spans_that_come_again_are_sent_once(void)
{
    make_requests();
    for (uint32_t i = 0; i < MANY; i++)
        many[i].span = (struct dvt_span_id){{(uint8_t)(i % 7), 0, 3}};
    struct dvt_scopes s = expect_many();
    CU_ASSERT(s.n_spans == 7 && s.span.n == MANY);
    for (uint32_t i = 0; i < MANY; i++)
        many[i].span.b[2] = 0; /* one of them is zero */
    s = expect_many();
    CU_ASSERT_EQUAL(s.n_spans, 7);
    for (uint32_t i = 0; i < MANY; i++)
        many[i].span = (struct dvt_span_id){{1}};
    s = expect_many();
    CU_ASSERT(s.n_spans == 1 && s.span.width == 1); /* never less than a byte a scope */
}

/* Any ids, of few different spans or of many, whosever parents they are. */
static void test_random_parents_round_trip(void)
{
    srand(1);
    for (uint32_t kinds = 1; kinds <= MANY; kinds *= 5) {
        for (uint32_t i = 0; i < MANY; i++) {
            uint32_t span = (uint32_t)rand() % kinds, parent = (uint32_t)rand() % (kinds + 1);
            many[i] = (struct dvt_scope_rec){.serial = 1 + (uint64_t)(rand() % MANY)};
            many[i].parent_serial = (uint64_t)rand() % many[i].serial;
            many[i].end_ns = (uint64_t)rand() << rand() % 34;
            many[i].head_close = (uint64_t)rand() << rand() % 34;
            memcpy(many[i].span.b, &span, sizeof span);
            memcpy(many[i].parent_span.b, &parent, sizeof parent);
            memcpy(many[i].trace.b, &parent, sizeof parent);
        }
        expect_many();
    }
}

static void test_one_long_scope_does_not_widen_the_columns_of_all(void)
{
    make_requests();
    for (uint32_t i = 0; i < MANY; i++)
        many[i].end_ns = many[i].start_ns = 1000 * (uint64_t)i;
    many[5].end_ns += UINT64_C(1) << 40; /* out of order, too */
    many[6].head_close = 1;
    many[6].head_open = 5;
    struct dvt_scopes s = expect_many();
    CU_ASSERT(s.end.kind == DVT_COL_SIGNED && s.end.width == 2 && s.end.n_patches == 2);
    CU_ASSERT(s.dur.width == 0 && s.dur.n_patches == 1 && s.head_span.n_patches == 1);
}

/* ---- stacks ---- */

static void expect_stacks(const struct dvt_stack_rec *v, size_t n)
{
    struct dvt_stacks s;
    struct dvt_err err = {0};
    body.n = 0;
    CU_ASSERT_EQUAL(dvt_wire_put_stacks(&body, 5, 6, v, n), 0);
    CU_ASSERT_EQUAL(dvt_wire_get_stacks(map_of(DVT_MSG_STACKS), &s, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT(s.tid == 5 && s.epoch == 6 && s.n == n);
    uint64_t *head = widen64(&s.head), *time = widen64(&s.time);
    uint32_t *reason = widen32(&s.reason), *depth = widen32(&s.depth), *cut = widen32(&s.truncated);
    uint32_t *code = widen32(&s.code), *line = widen32(&s.line), at = 0, wrong = 0;
    for (size_t i = 0; i < n; at += v[i++].n_frames) {
        size_t bytes = v[i].n_frames * sizeof(uint32_t);
        wrong +=
            head[i] != v[i].head || time[i] != v[i].time_ns || reason[i] != v[i].reason ||
            depth[i] != v[i].n_frames || cut[i] != v[i].truncated ||
            (bytes && (memcmp(code + at, v[i].code, bytes) != 0 || memcmp(line + at, v[i].line, bytes) != 0));
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(s.n_frames_total, at);
    void *all[] = {head, time, reason, depth, cut, code, line};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void test_stacks_round_trip(void)
{
    struct dvt_stack_rec v[SAMPLE_STACKS];
    sample_stacks(v);
    for (size_t n = 0; n <= SAMPLE_STACKS; n++)
        expect_stacks(v, n);
}

static void test_deepest_stack_and_largest_batch_of_stacks_round_trip(void)
{
    static uint32_t code[DVT_MAX_FRAMES + 1], line[DVT_MAX_FRAMES + 1];
    static struct dvt_stack_rec stacks[DVT_MAX_BATCH + 1];
    for (uint32_t i = 0; i < DVT_MAX_FRAMES; i++) {
        code[i] = UINT32_MAX - i;
        line[i] = i * i;
    }
    struct dvt_stack_rec deep = {1, 2, 0, 1, DVT_MAX_FRAMES, code, line};
    expect_stacks(&deep, 1);
    for (uint32_t i = 0; i < DVT_MAX_BATCH; i++)
        stacks[i] = (struct dvt_stack_rec){i, i, i % 8, i % 2, i % 3, code, line};
    expect_stacks(stacks, DVT_MAX_BATCH);
    CU_ASSERT_EQUAL(dvt_wire_put_stacks(&body, 1, 1, stacks, DVT_MAX_BATCH + 1), DVT_ELIMIT);
    deep.n_frames++;
    CU_ASSERT_EQUAL(dvt_wire_put_stacks(&body, 1, 1, &deep, 1), DVT_ELIMIT);
    deep.n_frames = 0;
    deep.reason = DVT_N_STACK_REASONS;
    CU_ASSERT_EQUAL(dvt_wire_put_stacks(&body, 1, 1, &deep, 1), DVT_EINVAL);
}

static void test_recursion_of_one_function_is_sent_at_least_a_byte_a_frame(void)
{
    static uint32_t same[DVT_MAX_FRAMES];
    struct dvt_stack_rec v = {.n_frames = DVT_MAX_FRAMES, .code = same, .line = same};
    struct dvt_stacks s;
    expect_stacks(&v, 1);
    CU_ASSERT_EQUAL(dvt_wire_get_stacks(map_of(DVT_MSG_STACKS), &s, NULL), 0);
    CU_ASSERT_EQUAL(s.code.width, 1);
}

int main(void)
{
    dvt_buf_init(&body, 64u << 20); /* the largest batch of samples is over DVT_MAX_MESSAGE */
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wire_scopes", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_scopes_of_edge_lengths_round_trip);
    T(test_scopes_with_extreme_numbers_round_trip);
    T(test_equal_names_traces_and_labels_are_sent_once);
    T(test_names_and_labels_over_their_bounds_are_cut);
    T(test_scopes_with_the_most_labels_and_links_round_trip_and_one_more_is_refused);
    T(test_scope_that_is_its_own_parent_is_refused);
    T(test_parent_spans_of_the_same_batch_are_not_sent_again);
    T(test_spans_that_come_again_are_sent_once);
    T(test_random_parents_round_trip);
    T(test_one_long_scope_does_not_widen_the_columns_of_all);
    T(test_stacks_round_trip);
    T(test_deepest_stack_and_largest_batch_of_stacks_round_trip);
    T(test_recursion_of_one_function_is_sent_at_least_a_byte_a_frame);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    dvt_buf_fini(&body);
    return failures ? 1 : 0;
}
