/*
 * test_tick: ticks of the processor's counter as CLOCK_MONOTONIC: what the map says of invented clocks, and that real scopes' times
 * agree with clock reads around them.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <sys/wait.h>

#include "fake_daemon.h"
#include "../../shims/core/runtime.h"
#include "../../shims/core/tick.c" /* hidden in the library: these are the test's own */
#include "../../shims/core/tick_map.c"

#define SEC UINT64_C(1000000000)
#define HALF UINT64_C(50) /* ticks that a pair may be off by */

/* ---- an invented clock ---- */

/* 2.4 ticks a ns, begun long ago; the clock's rate is changed at times, as NTP does. */
static const double TICKS_PER_NS = 2.4453;
static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

struct clock { /* at `ticks` it shows `ns`, and runs `ppm` fast from there on */
    double ticks, ns, ppm;
};

static double shows(const struct clock *c, double ticks)
{
    return c->ns + (ticks - c->ticks) / TICKS_PER_NS * (1 + c->ppm / 1e6);
}

static void run_on(struct clock *c, double ns, double ppm)
{
    double to = c->ticks + ns * TICKS_PER_NS;
    *c = (struct clock){to, shows(c, to), ppm};
}

/* A reading of both, not quite at once. */
static struct dvt_tick_pair pair_of(const struct clock *c)
{
    double off = (double)(next_random() % (2 * HALF + 1)) - (double)HALF;
    return (struct dvt_tick_pair){(uint64_t)(c->ticks + off), (uint64_t)c->ns, HALF + 1};
}

static const struct clock START = {7e13, 5e12, 12};
static struct dvt_tick_map m;

static void begin_map(void)
{
    random_state = 42;
    m.n = 0;
}

/* What was read of the clock at some moments, for later comparison. */
enum { MAX_SEEN = 20000 };
static struct clock seen[MAX_SEEN];
static size_t n_seen;

static void see(const struct clock *c)
{
    if (n_seen < MAX_SEEN)
        seen[n_seen++] = *c;
}

/* The largest error, and whether each was within what the map says. */
static double compare(double *ret_said_ns)
{
    double most = 0;
    *ret_said_ns = 0;
    for (size_t i = 0; i < n_seen; i++) {
        uint64_t err;
        double ns = (double)dvt_tick_map_ns(&m, (uint64_t)seen[i].ticks, &err);
        double off = fabs(ns - seen[i].ns);
        CU_ASSERT(off <= (double)err + 2);
        most = off > most ? off : most;
        *ret_said_ns = (double)err > *ret_said_ns ? (double)err : *ret_said_ns;
    }
    return most;
}

/* ---- the map ---- */

static void test_steady_clock_is_met_within_the_errors_of_its_readings(void)
{
    struct clock c = START;
    double said;
    begin_map();
    n_seen = 0;
    for (int i = 0; i < 600 * 5; i++) {
        CU_ASSERT(dvt_tick_map_add(&m, pair_of(&c)));
        run_on(&c, 0.1e9, c.ppm);
        see(&c);
        run_on(&c, 0.1e9, c.ppm);
    }
    dvt_tick_map_add(&m, pair_of(&c));
    CU_ASSERT(compare(&said) < 60);
    CU_ASSERT(said < 300);
}

static void test_times_never_run_backwards(void)
{
    struct clock c = START;
    begin_map();
    for (int i = 0; i < 3 * DVT_TICK_KNOTS; i++) {
        dvt_tick_map_add(&m, pair_of(&c));
        run_on(&c, (double)(next_random() % SEC), (double)(next_random() % 400) - 200);
    }
    uint64_t first = m.knots[0].at.ticks, last = m.knots[m.n - 1].at.ticks, before = 0, err;
    for (uint64_t t = first; t <= last; t += (last - first) / 1000003) {
        uint64_t ns = dvt_tick_map_ns(&m, t, &err);
        CU_ASSERT(ns >= before);
        before = ns;
    }
    for (uint32_t i = 1; i < m.n; i++) /* around each knot, tick by tick */
        for (uint64_t t = m.knots[i].at.ticks - 20, ns = 0; t < m.knots[i].at.ticks + 20; t++) {
            uint64_t now = dvt_tick_map_ns(&m, t, &err);
            CU_ASSERT(now >= ns);
            ns = now;
        }
}

static void test_change_of_rate_is_followed_and_its_error_is_told(void)
{
    struct clock c = START;
    double said;
    begin_map();
    n_seen = 0;
    for (int i = 0; i < 200; i++) {
        dvt_tick_map_add(&m, pair_of(&c));
        for (int k = 0; k < 20; k++) {
            if (k == i % 20 && i % 7 == 3) /* at any place between two knots */
                c.ppm = (double)(next_random() % 1000) - 500;
            run_on(&c, 0.05e9, c.ppm);
            see(&c);
        }
    }
    dvt_tick_map_add(&m, pair_of(&c));
    double most = compare(&said);
    printf(" wrong by %.0f ns at most, said %.0f; ", most, said);
    CU_ASSERT(most > 10000); /* the change is between two knots: nobody can know */
    CU_ASSERT(said < 2200000); /* a change by 1,000 ppm at the start of two seconds */
}

static void test_scope_of_half_a_day_keeps_a_bound_of_microseconds(void)
{
    struct clock c = START;
    double said;
    begin_map();
    n_seen = 0;
    for (int i = 0; i < 12 * 3600; i++) { /* NTP moves the rate by some thousandths of a ppm */
        dvt_tick_map_add(&m, pair_of(&c));
        run_on(&c, 0.7e9, c.ppm);
        if (i % 9 == 0)
            see(&c);
        run_on(&c, 0.3e9, c.ppm + ((double)(next_random() % 100) - 49.5) / 1e4);
    }
    double most = compare(&said);
    printf(" 12 h: wrong by %.0f ns at most, said %.0f; ", most, said);
    CU_ASSERT(most < 10000);
    CU_ASSERT(said < 20000);
    CU_ASSERT_EQUAL(m.n, DVT_TICK_KNOTS);
}

/* ---- refusal ---- */

static void run_a_minute(struct clock *c)
{
    for (int i = 0; i < 60; i++) {
        CU_ASSERT(dvt_tick_map_add(&m, pair_of(c)));
        run_on(c, 1e9, c->ppm);
    }
}

static void test_counter_that_ran_while_the_clock_stood_is_refused(void)
{
    struct clock c = START;
    uint64_t err;
    begin_map();
    run_a_minute(&c);
    uint64_t before = (uint64_t)c.ticks;
    c.ticks += 0.1e9 * TICKS_PER_NS; /* asleep for 100 ms */
    run_on(&c, 0.5e9, c.ppm);
    CU_ASSERT_FALSE(dvt_tick_map_add(&m, pair_of(&c)));
    CU_ASSERT_EQUAL(dvt_tick_map_ns(&m, before, &err), (uint64_t)c.ns); /* not known: not before it was noticed */
    run_on(&c, 0.5e9, c.ppm);
    struct clock later = c;
    run_on(&c, 0.5e9, c.ppm);
    CU_ASSERT(dvt_tick_map_add(&m, pair_of(&c)));
    CU_ASSERT(fabs((double)dvt_tick_map_ns(&m, (uint64_t)later.ticks, &err) - later.ns) < 100);
}

static void test_counter_that_began_anew_is_refused(void)
{
    struct clock c = START;
    uint64_t err, before;
    begin_map();
    run_a_minute(&c);
    before = (uint64_t)c.ticks;
    c.ticks = 1e6;
    run_on(&c, 0.5e9, c.ppm);
    CU_ASSERT_FALSE(dvt_tick_map_add(&m, pair_of(&c)));
    CU_ASSERT_EQUAL(dvt_tick_map_ns(&m, before, &err), (uint64_t)c.ns);
    CU_ASSERT_EQUAL(dvt_tick_map_ns(&m, 500000, &err), (uint64_t)c.ns);
}

static void test_counter_of_another_pace_is_refused(void)
{
    struct clock c = START;
    begin_map();
    run_a_minute(&c);
    run_on(&c, 0.5e9, 10000); /* a machine with a clock 1% faster */
    run_on(&c, 0.5e9, 10000);
    CU_ASSERT_FALSE(dvt_tick_map_add(&m, pair_of(&c)));
}

static void test_nothing_is_refused_that_ntp_may_do_or_a_busy_machine(void)
{
    struct clock c = START;
    begin_map();
    for (int i = 0; i < 5000; i++) {
        struct dvt_tick_pair p = pair_of(&c);
        if (i % 5 == 0) { /* stopped for up to 4 ms between reading the one and the other */
            uint64_t more = next_random() % 10000000;
            p.half_ticks += more;
            p.ticks += more;
            run_on(&c, (double)more * 2 / TICKS_PER_NS, c.ppm);
        }
        CU_ASSERT(dvt_tick_map_add(&m, p));
        run_on(&c, (double)(100 + next_random() % (1 << next_random() % 31)), i % 100 ? c.ppm : (double)(next_random() % 1000) - 500);
    }
}

/* ---- this machine's clock ---- */

static void test_ticks_are_used_only_where_the_kernel_makes_its_clock_of_them(void)
{
#if defined(__x86_64__)
    CU_ASSERT(dvt_tick_is_clock("tsc\n", true));
#endif
    CU_ASSERT_FALSE(dvt_tick_is_clock("tsc\n", false)); /* its pace changes */
    CU_ASSERT_FALSE(dvt_tick_is_clock("kvm-clock\n", true));
    CU_ASSERT_FALSE(dvt_tick_is_clock("hpet\n", true));
    CU_ASSERT_FALSE(dvt_tick_is_clock("tsc-early\n", true));
    CU_ASSERT_FALSE(dvt_tick_is_clock("", true));
}

static uint64_t outside(uint64_t lo, uint64_t ns, uint64_t hi)
{
    return ns < lo ? lo - ns : ns > hi ? ns - hi : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void test_ticks_lie_between_the_clock_reads_around_them(void)
{
    uint64_t most = 0, said = 0, least = UINT64_MAX, err;
    dvt_tick_start(true);
    if (!dvt_tick_is_used()) {
        printf("the kernel does not make its clock of ticks here; ");
        return;
    }
    for (int i = 0; i < 100000; i++) {
        uint64_t lo = dvt_now_ns(), ticks = dvt_tick_read(), hi = dvt_now_ns();
        uint64_t off = outside(lo, dvt_tick_ns(ticks, &err), hi);
        CU_ASSERT(off <= err);
        most = larger(most, off);
        said = larger(said, err);
        least = hi - lo < least ? hi - lo : least;
    }
    printf("between reads %lu ns apart, outside by %lu at most, said %lu; ", least, most, said);
}

/* ---- scopes ---- */

enum { SCOPES = 4000, BOUND_NS = 5000 };

static char dir[] = "/tmp/dvt-core-XXXXXX";
static struct fake fake;
static uint64_t reads[SCOPES][3];

static void time_scopes(void)
{
    for (int i = 0; i < SCOPES; i++) {
        reads[i][0] = dvt_now_ns();
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "timed", .always = true});
        reads[i][1] = dvt_now_ns();
        dvt_scope_close(s);
        reads[i][2] = dvt_now_ns();
    }
}

static void check_times(void)
{
    uint64_t most = 0, before = 0;
    int n = 0;
    for (size_t i = 0; i < fake.n_scopes && n < SCOPES; i++) {
        const struct fake_scope *o = &fake.scopes[i];
        if (strcmp(o->name, "timed") != 0)
            continue;
        uint64_t at_open = outside(reads[n][0], o->start_ns, reads[n][1]);
        uint64_t at_close = outside(reads[n][1], o->end_ns, reads[n][2]);
        most = larger(most, larger(at_open, at_close));
        CU_ASSERT(o->start_ns <= o->end_ns && before <= o->end_ns);
        before = o->end_ns;
        n++;
    }
    printf("outside by %lu ns at most; ", most);
    CU_ASSERT_EQUAL(n, SCOPES);
    CU_ASSERT(most < BOUND_NS);
}

static void reported_times_agree(void)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path}), 0);
    dvt_thread_start();
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_heartbeats > 0 && fake_knows(&fake, tid, false)));
    time_scopes();
    dvt_stop(10000);
    CU_ASSERT_FATAL(fake_wait(&fake, fake.n_byes > 0));
    check_times();
    fake_kill(&fake);
}

static void test_scopes_timed_by_the_clock_lie_between_the_reads_around_them(void)
{
    setenv("DOVETAIL_TICKS", "off", 1);
    reported_times_agree();
    unsetenv("DOVETAIL_TICKS");
}

static void test_scopes_timed_in_ticks_lie_between_the_clock_reads_around_them(void)
{
    reported_times_agree();
}

#if !defined(__SANITIZE_THREAD__) /* it does not follow threads made after a fork */
static void test_forked_child_times_its_scopes_itself(void)
{
    fake_free(&fake);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake_start(&fake);
    CU_ASSERT_EQUAL_FATAL(dvt_start(&(struct dvt_options){.socket = fake.path}), 0);
    uint64_t before = dvt_now_ns();
    pid_t pid = fork();
    if (pid == 0) {
        dvt_scope_close_always(dvt_scope_open(&(struct dvt_scope_args){.name = "child's"}));
        dvt_stop(60000);
        _exit(0);
    }
    CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
    uint64_t after = dvt_now_ns();
    CU_ASSERT_FATAL(fake_wait(&fake, fake_find(&fake, "child's")));
    dvt_stop(10000);
    const struct fake_scope *o = fake_find(&fake, "child's");
    CU_ASSERT(before <= o->start_ns && o->start_ns <= o->end_ns && o->end_ns <= after);
    fake_kill(&fake);
}
#endif

int main(void)
{
    if (!mkdtemp(dir) || CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("tick", NULL, NULL);
#define ADD(f) CU_add_test(s, #f, f)
    ADD(test_steady_clock_is_met_within_the_errors_of_its_readings);
    ADD(test_times_never_run_backwards);
    ADD(test_change_of_rate_is_followed_and_its_error_is_told);
    ADD(test_scope_of_half_a_day_keeps_a_bound_of_microseconds);
    ADD(test_counter_that_ran_while_the_clock_stood_is_refused);
    ADD(test_counter_that_began_anew_is_refused);
    ADD(test_counter_of_another_pace_is_refused);
    ADD(test_nothing_is_refused_that_ntp_may_do_or_a_busy_machine);
    ADD(test_ticks_are_used_only_where_the_kernel_makes_its_clock_of_them);
    ADD(test_ticks_lie_between_the_clock_reads_around_them);
    ADD(test_scopes_timed_by_the_clock_lie_between_the_reads_around_them); /* first: once used, ticks stay */
    ADD(test_scopes_timed_in_ticks_lie_between_the_clock_reads_around_them);
#if !defined(__SANITIZE_THREAD__)
    ADD(test_forked_child_times_its_scopes_itself);
#endif
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    fake_free(&fake);
    char path[80];
    snprintf(path, sizeof path, "%s/s.zmq", dir);
    unlink(path);
    rmdir(dir);
    return failed != 0;
}
