/* perf_open, perf_budget, perf_ring: event names, fallbacks, periods, ring sizes. */
#include "../../daemon/perf_open.h"
#include "../../daemon/perf_ring.h"
#include "edge_check.h"

#include <sys/mman.h>

static int make(const char *event, struct perf_source **ret, struct dvt_err *err)
{
    struct perf_source_config c = {.event = event, .hz = 99, .native = PERF_NATIVE_DWARF,
                                   .stack_bytes = 8192};
    return perf_source_new(&c, ret, err);
}

static void test_unknown_event_is_refused_with_examples(void)
{
    struct dvt_err err = {0};
    struct perf_source *s = NULL;
    CU_ASSERT_EQUAL(make("no-such-event", &s, &err), DVT_EINVAL);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "unknown event 'no-such-event'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cpu-clock, cycles, instructions, page-faults"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "dovetail doctor"));
}

static void test_bad_periods_are_refused(void)
{
    const char *bad[] = {"cycles@", "cycles@0", "cycles@x", "cycles@-5", "cycles@1k", "@5", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct dvt_err err = {0};
        struct perf_source *s = NULL;
        CU_ASSERT_EQUAL(make(bad[i], &s, &err), DVT_EINVAL);
        CU_ASSERT_TRUE(err.text[0] != 0);
    }
}

static void test_cpu_clock_is_time_by_its_period(void)
{
    struct perf_source *s = NULL;
    CU_ASSERT_EQUAL_FATAL(make("cpu-clock", &s, NULL), 0);
    const struct perf_source_info *i = perf_source_info(s);
    CU_ASSERT_TRUE(i->is_time);
    CU_ASSERT_EQUAL(i->period, 1000000000u / 99);
    CU_ASSERT_FALSE(perf_source_layout(s, PERF_NATIVE_DWARF).period_is_true);
    CU_ASSERT_EQUAL(perf_source_layout(s, PERF_NATIVE_DWARF).regs_mask, PERF_OPEN_REGS_MASK);
    CU_ASSERT_EQUAL(perf_source_layout(s, PERF_NATIVE_FP).regs_mask, 0);
    perf_source_free(s);
}

static void test_other_names_of_cpu_clock_mean_the_same(void)
{
    const char *names[] = {"perf::PERF_COUNT_SW_CPU_CLOCK", "PERF_COUNT_SW_CPU_CLOCK", "task-clock"};
    for (int k = 0; k < 3; k++) {
        struct perf_source *s = NULL;
        CU_ASSERT_EQUAL_FATAL(make(names[k], &s, NULL), 0);
        CU_ASSERT_TRUE(perf_source_info(s)->is_time);
        perf_source_free(s);
    }
}

static void test_events_are_counted_by_frequency_or_by_a_given_period(void)
{
    struct perf_source *s = NULL;
    CU_ASSERT_EQUAL_FATAL(make("page-faults", &s, NULL), 0);
    CU_ASSERT_FALSE(perf_source_info(s)->is_time);
    CU_ASSERT_EQUAL(perf_source_info(s)->period, 0);
    CU_ASSERT_TRUE(perf_source_layout(s, PERF_NATIVE_FP).period_is_true);
    perf_source_free(s);
    CU_ASSERT_EQUAL_FATAL(make("page-faults@100", &s, NULL), 0);
    CU_ASSERT_EQUAL(perf_source_info(s)->period, 100);
    CU_ASSERT_STRING_EQUAL(perf_source_info(s)->asked, "page-faults@100");
    CU_ASSERT_STRING_EQUAL(perf_source_info(s)->used, "page-faults");
    perf_source_free(s);
}

/* With a PMU it is used; without one cpu-clock is, and that is said. */
static void test_cycles_fall_back_to_cpu_clock_and_say_so(void)
{
    struct perf_source *s = NULL;
    CU_ASSERT_EQUAL_FATAL(make("cycles", &s, NULL), 0);
    const struct perf_source_info *i = perf_source_info(s);
    CU_ASSERT_STRING_EQUAL(i->asked, "cycles");
    CU_ASSERT_TRUE(i->opens);
    if (strcmp(i->used, "cycles") != 0) {
        CU_ASSERT_STRING_EQUAL(i->used, "cpu-clock");
        CU_ASSERT_TRUE(i->is_time && i->period == 1000000000u / 99);
        CU_ASSERT_PTR_NOT_NULL(strstr(i->why, "'cycles' does not open here"));
    }
    perf_source_free(s);
}

static void test_event_of_a_thread_that_is_gone_is_enoent(void)
{
    struct perf_source *s = NULL;
    struct dvt_err err = {0};
    int fd = -1;
    CU_ASSERT_EQUAL_FATAL(make("cpu-clock", &s, NULL), 0);
    CU_ASSERT_EQUAL(perf_open_thread(s, 0x3fffff7, PERF_NATIVE_DWARF, 1000000, &fd, &err), DVT_ENOENT);
    CU_ASSERT_EQUAL(fd, -1);
    perf_source_free(s);
}

static void test_first_period_is_random_within_floor_and_period(void)
{
    const uint64_t period = 10000000;
    uint64_t low = UINT64_MAX, high = 0, sum = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t p = perf_first_period(period, i * 0x9e3779b97f4a7c15u);
        low = p < low ? p : low;
        high = p > high ? p : high;
        sum += p;
    }
    CU_ASSERT_EQUAL(low, 500000);
    CU_ASSERT_TRUE(high > period * 99 / 100 && high <= period);
    CU_ASSERT_TRUE(sum / 10000 > period * 48 / 100 && sum / 10000 < period * 53 / 100);
    CU_ASSERT_EQUAL(perf_first_period(100000, 7), 100000); /* above 2 kHz the floor is the period */
    CU_ASSERT_EQUAL(perf_first_period(0, 7), 0);
}

static void test_budget_gives_large_rings_first_and_small_ones_to_many(void)
{
    struct perf_budget b = {.unlimited = true};
    struct perf_plan p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
    CU_ASSERT_TRUE(p.native == PERF_NATIVE_DWARF && p.data_pages == 32);
    b.n_threads = 64;
    p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
    CU_ASSERT_TRUE(p.native == PERF_NATIVE_DWARF && p.data_pages == 16);
    b.n_threads = 512;
    p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
    CU_ASSERT_TRUE(p.native == PERF_NATIVE_FP && p.data_pages == 2);
    p = perf_budget_plan(&b, PERF_NATIVE_LEAF, 8192, 4096);
    CU_ASSERT_TRUE(p.native == PERF_NATIVE_LEAF && p.data_pages == 1);
}

static void test_budget_of_a_high_rate_holds_a_tenth_of_a_second(void)
{
    struct perf_budget b = {.unlimited = true, .hz = 999};
    struct perf_plan p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
    CU_ASSERT_TRUE(p.data_pages * 4096 >= 99 * (8192 + 1024) && p.data_pages * 4096 <= 1 << 20);
    CU_ASSERT_TRUE(perf_plan_holds(&p, 8192, 4096) >= 99);
    b.n_threads = 16;
    p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
    CU_ASSERT_EQUAL(p.data_pages, 32);
}

static void test_budget_within_locked_memory_shrinks_then_ends(void)
{
    struct perf_budget b = {.limit_bytes = 512 * 1024};
    bool seen[3] = {false};
    enum perf_native last = PERF_NATIVE_DWARF;
    for (;;) {
        struct perf_plan p = perf_budget_plan(&b, PERF_NATIVE_DWARF, 8192, 4096);
        if (p.data_pages == 0)
            break;
        CU_ASSERT_TRUE(p.native >= last); /* never larger again */
        last = p.native;
        seen[p.native] = true;
        b.used_bytes += (uint64_t)(p.data_pages + 1) * 4096;
        b.n_threads++;
        CU_ASSERT_TRUE_FATAL(b.used_bytes <= b.limit_bytes);
    }
    CU_ASSERT_TRUE(seen[PERF_NATIVE_DWARF] && seen[PERF_NATIVE_FP]);
    CU_ASSERT_TRUE(b.n_threads >= 20);
}

static void test_budget_ring_holds_four_samples(void)
{
    struct perf_budget b = {.limit_bytes = 64 << 20};
    for (uint32_t stack = 512; stack <= 32768; stack *= 2) {
        struct perf_plan p = perf_budget_plan(&b, PERF_NATIVE_DWARF, stack, 4096);
        CU_ASSERT_EQUAL(p.native, PERF_NATIVE_DWARF);
        CU_ASSERT_TRUE(p.data_pages * 4096 >= 4 * stack);
        CU_ASSERT_EQUAL(p.data_pages & (p.data_pages - 1), 0);
        CU_ASSERT_TRUE(perf_plan_holds(&p, stack, 4096) >= 4);
    }
}

/* A ring in plain memory: a page for the head, then the data. */
struct fake_ring {
    struct perf_ring ring;
    struct perf_event_mmap_page *page;
};

static void fake_init(struct fake_ring *f)
{
    f->ring = (struct perf_ring){.map_bytes = 8192, .data_bytes = 4096};
    f->ring.base = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    f->page = (void *)f->ring.base;
}

static void fake_put(struct fake_ring *f, uint16_t size, uint8_t fill)
{
    uint8_t rec[4096];
    struct perf_event_header h = {.type = PERF_RECORD_THROTTLE, .size = size};
    memset(rec, fill, sizeof rec);
    memcpy(rec, &h, sizeof h);
    for (size_t i = 0; i < (size < 8 ? 8u : size); i++)
        f->ring.base[4096 + ((f->page->data_head + i) & 4095)] = rec[i];
    f->page->data_head += size < 8 ? 8u : size;
}

static void test_ring_puts_a_record_together_that_wraps(void)
{
    static uint8_t scratch[PERF_RING_SCRATCH];
    struct fake_ring f;
    const uint8_t *rec = NULL;
    uint32_t n = 0;
    fake_init(&f);
    for (uint8_t i = 0; i < 50; i++) { /* 1000 bytes do not divide 4096: each place of the wrap comes */
        fake_put(&f, 1000, i);
        CU_ASSERT_EQUAL(perf_ring_next(&f.ring, perf_ring_head(&f.ring), scratch, &rec, &n), 1);
        CU_ASSERT_TRUE(n == 1000 && rec[8] == i && rec[999] == i);
        CU_ASSERT_EQUAL(perf_ring_next(&f.ring, perf_ring_head(&f.ring), scratch, &rec, &n), 0);
        perf_ring_release(&f.ring);
        CU_ASSERT_EQUAL(f.page->data_tail, f.page->data_head);
    }
    perf_ring_close(&f.ring);
}

static void test_ring_skips_bytes_that_make_no_sense(void)
{
    static uint8_t scratch[PERF_RING_SCRATCH];
    const uint16_t sizes[] = {0, 7, 2000};
    for (int i = 0; i < 3; i++) {
        struct fake_ring f;
        const uint8_t *rec = NULL;
        uint32_t n = 0;
        fake_init(&f);
        fake_put(&f, sizes[i], 1);
        f.page->data_head = 16; /* less than the last one claims */
        CU_ASSERT_EQUAL(perf_ring_next(&f.ring, perf_ring_head(&f.ring), scratch, &rec, &n), DVT_EFORMAT);
        CU_ASSERT_PTR_NULL(rec);
        CU_ASSERT_EQUAL(perf_ring_next(&f.ring, perf_ring_head(&f.ring), scratch, &rec, &n), 0);
        f.page->data_head = 1ull << 40; /* further ahead than the ring is long */
        CU_ASSERT_EQUAL(perf_ring_next(&f.ring, perf_ring_head(&f.ring), scratch, &rec, &n), DVT_EFORMAT);
        perf_ring_close(&f.ring);
    }
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"an unknown event is refused with examples", test_unknown_event_is_refused_with_examples},
        {"bad periods are refused", test_bad_periods_are_refused},
        {"cpu-clock is time, by its period", test_cpu_clock_is_time_by_its_period},
        {"other names of cpu-clock mean the same", test_other_names_of_cpu_clock_mean_the_same},
        {"events are counted by frequency or by a given period",
         test_events_are_counted_by_frequency_or_by_a_given_period},
        {"cycles fall back to cpu-clock and say so", test_cycles_fall_back_to_cpu_clock_and_say_so},
        {"the event of a thread that is gone is ENOENT", test_event_of_a_thread_that_is_gone_is_enoent},
        {"the first period is random within floor and period",
         test_first_period_is_random_within_floor_and_period},
        {"budget gives large rings first, small ones to many",
         test_budget_gives_large_rings_first_and_small_ones_to_many},
        {"the budget of a high rate holds a tenth of a second", test_budget_of_a_high_rate_holds_a_tenth_of_a_second},
        {"budget within locked memory shrinks, then ends",
         test_budget_within_locked_memory_shrinks_then_ends},
        {"a ring holds four samples", test_budget_ring_holds_four_samples},
        {"ring puts a record together that wraps", test_ring_puts_a_record_together_that_wraps},
        {"ring skips bytes that make no sense", test_ring_skips_bytes_that_make_no_sense},
    };
    if (!edge_perf_is_permitted()) {
        fputs("skipped: perf events are not permitted here\n", stderr);
        return 77;
    }
    return EDGE_RUN("perf_open", tests);
}
