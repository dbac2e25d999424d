/* chunk: what is encoded is decoded the same; what is damaged is refused. */
#include <CUnit/Basic.h>
#include "../../proto/chunk_check.h"
#include "../../proto/limits.h"
#include "../chunk_make.h"

static bool eq(struct dvt_str a, struct dvt_str b)
{
    return dvt_str_eq(a, b);
}

static struct dvt_buf encoded(const struct dvt_chunk *c, uint32_t *base)
{
    struct dvt_buf b;
    struct dvt_err err = {0};
    dvt_buf_init(&b, 1u << 30);
    CU_ASSERT_EQUAL(dvt_chunk_encode(c, base, &b, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    return b;
}

static bool same_frame(const struct dvt_chunk_frame *a, const struct dvt_chunk_frame *b)
{
    return eq(a->name, b->name) && eq(a->module, b->module) && eq(a->file, b->file) && a->line == b->line &&
           a->kind == b->kind;
}

static bool same_stacks(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    bool same = a->n_stacks == b->n_stacks;
    for (uint32_t i = 0; same && i < a->n_stacks; i++) {
        const struct dvt_chunk_stack *x = &a->stacks[i], *y = &b->stacks[i];
        same = x->n == y->n && x->truncated == y->truncated;
        for (uint32_t k = 0; same && k < x->n; k++)
            same = same_frame(&a->frames[a->stack_frames[x->first + k]],
                              &b->frames[b->stack_frames[y->first + k]]);
    }
    return same;
}

static bool same_scopes(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    bool same = a->n_scopes == b->n_scopes;
    for (uint32_t i = 0; same && i < a->n_scopes; i++) {
        const struct dvt_chunk_scope *x = &a->scopes[i], *y = &b->scopes[i];
        same = x->thread == y->thread && x->parent == y->parent && x->serial == y->serial &&
               x->start_ns == y->start_ns && x->end_ns == y->end_ns && !memcmp(&x->span, &y->span, 8) &&
               !memcmp(&x->parent_span, &y->parent_span, 8) && eq(x->name, y->name) && eq(x->tag, y->tag) &&
               x->flags == y->flags && x->n_labels == y->n_labels && x->n_links == y->n_links;
        for (uint32_t k = 0; same && k < x->n_labels; k++)
            same = eq(a->labels[x->first_label + k].key, b->labels[y->first_label + k].key) &&
                   eq(a->labels[x->first_label + k].value, b->labels[y->first_label + k].value);
        for (uint32_t k = 0; same && k < x->n_links; k++)
            same = !dvt_trace_id_cmp(&a->links[x->first_link + k], &b->links[y->first_link + k]);
    }
    return same;
}

static bool same_samples(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    bool same = a->n_samples == b->n_samples;
    for (uint32_t i = 0; same && i < a->n_samples; i++) {
        const struct dvt_chunk_sample *x = &a->samples[i], *y = &b->samples[i];
        same = x->thread == y->thread && x->scope == y->scope && x->stack == y->stack &&
               x->time_ns == y->time_ns && x->weight_ns == y->weight_ns;
    }
    return same;
}

static bool same_times(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    bool same = a->n_times == b->n_times;
    for (uint32_t i = 0; same && i < a->n_times; i++) {
        const struct dvt_chunk_times *x = &a->times[i], *y = &b->times[i];
        same = x->scope == y->scope && x->waits == y->waits && x->preemptions == y->preemptions &&
               x->on_cpu_ns == y->on_cpu_ns && x->blocked_ns == y->blocked_ns && x->runnable_ns == y->runnable_ns &&
               x->unknown_ns == y->unknown_ns;
    }
    return same;
}

static bool same_processes(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    bool same = a->n_processes == b->n_processes && a->n_threads == b->n_threads;
    for (uint32_t i = 0; same && i < a->n_processes; i++) {
        const struct dvt_chunk_process *x = &a->processes[i], *y = &b->processes[i];
        same = x->pid == y->pid && x->start_ticks == y->start_ticks && eq(x->service, y->service) &&
               eq(x->program, y->program) && eq(x->runtime, y->runtime) &&
               eq(x->runtime_version, y->runtime_version);
    }
    for (uint32_t i = 0; same && i < a->n_threads; i++)
        same = a->threads[i].process == b->threads[i].process && a->threads[i].tid == b->threads[i].tid &&
               eq(a->threads[i].name, b->threads[i].name);
    return same;
}

static bool same(const struct dvt_chunk *a, const struct dvt_chunk *b)
{
    return !dvt_trace_id_cmp(&a->trace, &b->trace) && a->part == b->part &&
           a->unix_offset_ns == b->unix_offset_ns && a->start_ns == b->start_ns && a->end_ns == b->end_ns &&
           a->period_ns == b->period_ns && eq(a->event, b->event) && eq(a->host, b->host) &&
           same_processes(a, b) && same_stacks(a, b) && same_scopes(a, b) && same_samples(a, b) && same_times(a, b) &&
           !memcmp(&a->ledger, &b->ledger, sizeof a->ledger);
}

static void expect_round_trip(const struct dvt_chunk *c, uint32_t base)
{
    struct dvt_buf b = encoded(c, &base);
    struct dvt_chunk d;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(dvt_chunk_decode(b.p, b.n, &d, &err), 0);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    if (!err.code) {
        CU_ASSERT_TRUE(same(c, &d));
        dvt_chunk_fini(&d);
    }
    dvt_buf_fini(&b);
}

static void test_decoded_chunk_equals_encoded_chunk(void)
{
    static const struct made_size sizes[] = {{1, 1, 1, 1, 1},   {2, 6, 4, 4, 12},        {3, 0, 2, 3, 5},
                                             {1, 1, 1, 300, 2}, {8, 500, 100, 40, 3000}, {1, 3, 1, 1, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t part = 0; part < 2; part++) {
            struct made *m = made_new((uint32_t)i + 1, sizes[i]);
            m->c.part = part * 1000;
            expect_round_trip(&m->c, part ? 0x12345678 : 1);
            made_free(m);
        }
}

static void test_extreme_numbers_survive(void)
{
    struct made *m = made_new(1, made_small);
    m->c.samples[0].weight_ns = UINT64_MAX;
    m->c.samples[1].weight_ns = 0;
    m->c.end_ns = UINT64_MAX;
    m->c.samples[11].time_ns = UINT64_MAX;
    m->c.unix_offset_ns = -1;
    m->c.ledger.lost_samples = UINT64_MAX;
    memset(m->c.ledger.no_stack_by, 0xff, sizeof m->c.ledger.no_stack_by);
    m->c.processes[0].start_ticks = UINT64_MAX;
    m->c.frames[2].line = DVT_CHUNK_MAX_LINE;
    m->c.scopes[0].serial = UINT64_MAX;
    expect_round_trip(&m->c, 1);
    made_free(m);
}

/* Of every scope but the first. */
static void give_times(struct made *m)
{
    struct dvt_chunk *c = &m->c;
    c->times = made_array(m, c->n_scopes, sizeof *c->times);
    for (uint32_t i = 1; i < c->n_scopes; i++) {
        uint64_t wall = c->scopes[i].end_ns - c->scopes[i].start_ns;
        struct dvt_chunk_times t = {.scope = i, .waits = 300 * i, .preemptions = i % 2};
        t.blocked_ns = wall / 2;
        t.runnable_ns = i % 2 ? wall / 8 : 0;
        t.unknown_ns = i % 3;
        t.on_cpu_ns = wall - t.blocked_ns - t.runnable_ns - t.unknown_ns;
        c->times[c->n_times++] = t;
    }
}

static void test_times_of_scopes_survive_if_they_add_up(void)
{
    struct made *m = made_new(1, made_small);
    struct dvt_buf b = {.max = 1 << 20};
    uint32_t base = 1;
    give_times(m);
    CU_ASSERT_EQUAL(m->c.n_times, 5);
    expect_round_trip(&m->c, 1);
    m->c.times[2].blocked_ns++;
    CU_ASSERT_EQUAL(dvt_chunk_encode(&m->c, &base, &b, NULL), DVT_EINVAL);
    m->c.times[2].on_cpu_ns -= 2; /* the sum is right only by overflow */
    m->c.times[2].runnable_ns = 1 - m->c.times[2].runnable_ns;
    CU_ASSERT_EQUAL(dvt_chunk_encode(&m->c, &base, &b, NULL), DVT_EINVAL);
    dvt_buf_fini(&b);
    made_free(m);
}

static void test_links_and_several_labels_survive(void)
{
    struct made *m = made_new(3, made_small);
    struct dvt_label labels[] = {{dvt_str("tenant"), dvt_str("acme")}, {dvt_str("region"), dvt_str("eu")}};
    struct dvt_trace_id links[] = {{{1}}, {{2, 3}}, {{4}}};
    m->c.labels = labels;
    m->c.n_labels = 2;
    m->c.links = links;
    m->c.n_links = 3;
    for (uint32_t i = 0; i < m->c.n_scopes; i++)
        m->c.scopes[i].first_label = m->c.scopes[i].n_labels = 0;
    m->c.scopes[1].n_labels = 2;
    m->c.scopes[3].first_label = m->c.scopes[3].n_labels = 1;
    m->c.scopes[2].n_links = 3;
    m->c.scopes[4].first_link = 1, m->c.scopes[4].n_links = 2;
    expect_round_trip(&m->c, 1);
    made_free(m);
}

static void test_hostile_names_are_cleaned_and_cut(void)
{
    struct made *m = made_new(1, made_small);
    char big[5000];
    memset(big, 'x', sizeof big);
    m->c.frames[0].name = dvt_str("a\n\"<b>&amp;\xff\x1b[31m");
    m->c.scopes[0].name = (struct dvt_str){big, sizeof big};
    m->c.scopes[1].tag = dvt_str("\xe2\x82");
    m->c.threads[0].name = dvt_str("\xc3\xa9t\xc3\xa9\t");
    m->c.labels[0].value = dvt_str("\0x");
    m->c.labels[0].value.n = 2;
    uint32_t base = 1;
    struct dvt_buf b = encoded(&m->c, &base);
    struct dvt_chunk d;
    CU_ASSERT_EQUAL_FATAL(dvt_chunk_decode(b.p, b.n, &d, NULL), 0);
    const struct dvt_chunk_frame *f = NULL;
    for (uint32_t i = 0; i < d.n_frames; i++)
        if (d.frames[i].name.p[0] == 'a')
            f = &d.frames[i];
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_TRUE(eq(f->name, dvt_str("a\xef\xbf\xbd\"<b>&amp;\xef\xbf\xbd\xef\xbf\xbd[31m")));
    CU_ASSERT_EQUAL(d.scopes[0].name.n, DVT_CHUNK_MAX_STRING);
    CU_ASSERT_TRUE(eq(d.scopes[1].tag, dvt_str("\xef\xbf\xbd")));
    CU_ASSERT_TRUE(eq(d.threads[0].name, dvt_str("\xc3\xa9t\xc3\xa9\xef\xbf\xbd")));
    CU_ASSERT_TRUE(eq(d.labels[0].value, dvt_str("\xef\xbf\xbdx")));
    dvt_chunk_fini(&d);
    dvt_buf_fini(&b);
    made_free(m);
}

static void test_key_base_advances_and_wraps_below_int32_max(void)
{
    struct made *m = made_new(1, made_small);
    uint32_t base = 0, last = 0;
    struct dvt_buf b = encoded(&m->c, &base);
    CU_ASSERT_TRUE(base > 1);
    dvt_buf_fini(&b);
    base = INT32_MAX - 5;
    b = encoded(&m->c, &base);
    last = base;
    CU_ASSERT_TRUE(last < 1000);
    dvt_buf_fini(&b);
    made_free(m);
}

static void expect_encode_fails(struct dvt_chunk *c, int code)
{
    struct dvt_buf b;
    struct dvt_err err = {0};
    uint32_t base = 7;
    dvt_buf_init(&b, 1u << 20);
    dvt_buf_append(&b, "abc", 3);
    CU_ASSERT_EQUAL(dvt_chunk_encode(c, &base, &b, &err), code);
    CU_ASSERT_EQUAL(err.code, code);
    CU_ASSERT_EQUAL(b.n, 3);
    CU_ASSERT_EQUAL(base, 7);
    dvt_buf_fini(&b);
}

static void test_encode_refuses_tables_that_do_not_fit(void)
{
    struct made *m = made_new(1, made_small);
    struct dvt_chunk c = m->c;
#define BREAK(place, value)                                                                                  \
    do {                                                                                                     \
        __typeof__(place) keep = (place);                                                                    \
        (place) = (value);                                                                                   \
        expect_encode_fails(&c, DVT_EINVAL);                                                                 \
        (place) = keep;                                                                                      \
    } while (0)
    BREAK(c.samples[0].stack, c.n_stacks);
    BREAK(c.samples[0].thread, c.n_threads);
    BREAK(c.samples[0].scope, c.n_scopes);
    BREAK(c.samples[0].time_ns, c.start_ns - 1);
    BREAK(c.scopes[0].parent, 0);
    BREAK(c.scopes[2].parent, 1); /* another thread */
    BREAK(c.scopes[0].end_ns, c.scopes[0].start_ns - 1);
    BREAK(c.scopes[0].n_labels, c.n_labels + 1);
    BREAK(c.stack_frames[0], c.n_frames);
    BREAK(c.stacks[0].n, c.n_stack_frames + 1);
    BREAK(c.threads[0].process, 1);
    BREAK(c.frames[0].kind, 4);
    made_free(m);
}

static void test_parent_loop_is_refused(void)
{
    struct made *m = made_new(1, made_small);
    m->c.scopes[2].parent = 4;
    m->c.scopes[4].parent = 2;
    expect_encode_fails(&m->c, DVT_EINVAL);
    made_free(m);
}

static void test_encode_stops_at_the_buffers_limit(void)
{
    struct made *m = made_new(1, (struct made_size){1, 1, 1, 1, 100000});
    expect_encode_fails(&m->c, DVT_ELIMIT);
    made_free(m);
}

static void test_every_cut_chunk_is_refused(void)
{
    struct made *m = made_new(1, made_small);
    uint32_t base = 1;
    struct dvt_buf b = encoded(&m->c, &base);
    struct dvt_chunk d;
    for (size_t n = 0; n < b.n; n++)
        CU_ASSERT_EQUAL(dvt_chunk_decode(b.p, n, &d, NULL), DVT_EFORMAT);
    dvt_buf_fini(&b);
    made_free(m);
}

static void test_every_flipped_byte_is_refused_or_decodes_within_the_rules(void)
{
    struct made *m = made_new(1, made_small);
    uint32_t base = 1, refused = 0;
    struct dvt_buf b = encoded(&m->c, &base);
    for (size_t i = 0; i < b.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct dvt_chunk d;
            b.p[i] ^= (uint8_t)(1 << bit);
            if (dvt_chunk_decode(b.p, b.n, &d, NULL)) {
                refused++;
            } else {
                CU_ASSERT_EQUAL(dvt_chunk_check(&d, DVT_EFORMAT, NULL), 0);
                dvt_chunk_fini(&d);
            }
            b.p[i] ^= (uint8_t)(1 << bit);
        }
    CU_ASSERT_TRUE(refused > b.n);
    dvt_buf_fini(&b);
    made_free(m);
}

static void test_size_is_told_for_whole_headers_only(void)
{
    struct made *m = made_new(1, made_small);
    uint32_t base = 1;
    struct dvt_buf b = encoded(&m->c, &base);
    uint64_t size = 0;
    CU_ASSERT_EQUAL(dvt_chunk_size(b.p, b.n, &size), 0);
    CU_ASSERT_EQUAL(size, b.n);
    CU_ASSERT_EQUAL(dvt_chunk_size(b.p, 68, &size), 0);
    CU_ASSERT_EQUAL(dvt_chunk_size(b.p, 67, &size), DVT_EFORMAT);
    b.p[64] = 1;
    CU_ASSERT_EQUAL(dvt_chunk_size(b.p, b.n, &size), DVT_EFORMAT);
    b.p[64] = 0;
    b.p[0] = 'X';
    CU_ASSERT_EQUAL(dvt_chunk_size(b.p, b.n, &size), DVT_EFORMAT);
    dvt_buf_fini(&b);
    made_free(m);
}

static void test_small_chunk_stays_under_four_kilobytes(void)
{
    struct made *m = made_new(1, made_small);
    uint32_t base = 1;
    for (uint32_t i = 0; i < m->c.n_samples; i++) { /* by scope, of one period: as the daemon writes them */
        struct dvt_chunk_sample *s = &m->c.samples[i];
        s->scope = (uint32_t)((uint64_t)i * m->c.n_scopes / m->c.n_samples);
        s->thread = m->c.scopes[s->scope].thread;
        s->weight_ns = 10000000;
    }
    struct dvt_buf b = encoded(&m->c, &base);
    CU_ASSERT_TRUE(b.n < 4096);
    dvt_buf_fini(&b);
    made_free(m);
}

/* `test_chunk --segment FILE N`: N chunks in a row, each with its own stacks, and on standard output what a
 * reader must show: "epoch-ns thread frame;frame;..." of each sample. integration/jfr_tools.sh
 * compares. */
static int write_segment(const char *path, uint32_t n)
{
    FILE *f = fopen(path, "wb");
    uint32_t base = 1;
    for (uint32_t i = 0; f && i < n; i++) {
        struct made *m = made_new(i + 1, made_small);
        struct dvt_buf b;
        if (i % 2) /* both kinds of chunks in one file */
            give_times(m);
        dvt_buf_init(&b, 1u << 30);
        if (dvt_chunk_encode(&m->c, &base, &b, NULL) || fwrite(b.p, 1, b.n, f) != b.n)
            return 1;
        for (uint32_t k = 0; k < m->c.n_samples; k++) {
            const struct dvt_chunk_sample *s = &m->c.samples[k];
            const struct dvt_chunk_stack *st = &m->c.stacks[s->stack];
            printf("%lld %.*s ", (long long)s->time_ns + (long long)m->c.unix_offset_ns,
                   (int)m->c.threads[s->thread].name.n, m->c.threads[s->thread].name.p);
            for (uint32_t j = 0; j < st->n; j++) {
                const struct dvt_chunk_frame *fr = &m->c.frames[m->c.stack_frames[st->first + j]];
                printf("%.*s:%u;", (int)fr->name.n, fr->name.p, fr->line);
            }
            printf("%s\n", st->truncated ? " truncated" : "");
        }
        dvt_buf_fini(&b);
        made_free(m);
    }
    return !f || fclose(f) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--segment") == 0)
        return write_segment(argv[2], (uint32_t)atoi(argv[3]));
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("chunk", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_decoded_chunk_equals_encoded_chunk);
    T(test_extreme_numbers_survive);
    T(test_times_of_scopes_survive_if_they_add_up);
    T(test_links_and_several_labels_survive);
    T(test_hostile_names_are_cleaned_and_cut);
    T(test_key_base_advances_and_wraps_below_int32_max);
    T(test_encode_refuses_tables_that_do_not_fit);
    T(test_parent_loop_is_refused);
    T(test_encode_stops_at_the_buffers_limit);
    T(test_every_cut_chunk_is_refused);
    T(test_every_flipped_byte_is_refused_or_decodes_within_the_rules);
    T(test_size_is_told_for_whole_headers_only);
    T(test_small_chunk_stays_under_four_kilobytes);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
