/*
 * bench_scope: what a scope costs its thread, beside a clock read in the same run.
 *
 *   build/bench/bench_scope [ROUNDS]
 *
 * Each figure is the best and the median of ROUNDS (51) short rounds, each round measuring every case of its phase and the
 * clock once, so that a change of the machine's pace hits all alike; ratios are of the best. A figure holds the call through a
 * pointer that "an empty call" shows. The daemon is a stand-in in this process that arms threads with a ring in which no sample
 * falls.
 */
#include "../core/fake_daemon.h"
#include "../../shims/core/runtime.h"

enum { MAX_ROUNDS = 1000, MANY = 5000, FEW = 1000 };

static const struct dvt_name *name;
static struct dvt_scope_args args; /* .interned */
static struct fake fake;
static char dir[] = "/tmp/dvt-bench-XXXXXX";
static volatile uint64_t sink;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- what is measured ---- */

static void clock_read(void)
{
    sink += now_ns();
}

static void empty_call(void)
{
    __asm__ volatile("");
}

static void tick_read(void)
{
#if defined(__x86_64__)
    sink += __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    sink += t;
#endif
}

static void interned(void)
{
    dvt_scope_close(dvt_scope_open(&args));
}

static void nested(void)
{
    struct dvt_scope outer = dvt_scope_open(&args);
    dvt_scope_close(dvt_scope_open(&args));
    dvt_scope_close(outer);
}

static void by_text(void)
{
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "checkout"}));
}

static void of_a_request(void)
{
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){
        .interned = name, .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}));
}

static void with_labels(void)
{
    struct dvt_label_arg l[] = {{"tenant", "acme"}, {"route", "/checkout"}};
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.interned = name, .labels = l, .n_labels = 2}));
}

static void runtime_scope(void)
{
    static const struct dvt_rt_open a = {.trace = {{1}}, .span = {{2}}};
    dvt_rt_close(dvt_rt_open(&a), name);
}

static void kept(void)
{
    dvt_scope_close_always(dvt_scope_open(&args));
}

static void kept_with_labels(void)
{
    struct dvt_label_arg l[] = {{"tenant", "acme"}, {"route", "/checkout"}};
    dvt_scope_close_always(
        dvt_scope_open(&(struct dvt_scope_args){.interned = name, .labels = l, .n_labels = 2}));
}

/* In the order of the phases; the first is measured in each. What is kept has phases of its own: the sender
 * is at work then. */
enum phase { ANY, NOT_STARTED, ABSENT, CLOCK_DROPPED, CLOCK_KEPT, DROPPED, KEPT };
static struct bench_case {
    enum phase phase;
    const char *label;
    void (*op)(void);
    int n;
} cases[] = {
    {ANY, "clock_gettime(CLOCK_MONOTONIC)", clock_read, MANY},
    {NOT_STARTED, "an empty call", empty_call, MANY},
    {NOT_STARTED, "the processor's counter", tick_read, MANY},
    {NOT_STARTED, "not started: open+close", interned, MANY},
    {ABSENT, "daemon absent: open+close", interned, MANY},
    {CLOCK_DROPPED, "timed by the clock: dropped, interned", interned, MANY},
    {CLOCK_KEPT, "timed by the clock: kept", kept, FEW},
    {DROPPED, "dropped, interned name", interned, MANY},
    {DROPPED, "dropped, two nested", nested, MANY},
    {DROPPED, "dropped, runtime API", runtime_scope, MANY},
    {DROPPED, "dropped, name as text", by_text, MANY},
    {DROPPED, "dropped, traceparent", of_a_request, MANY},
    {DROPPED, "dropped, two labels", with_labels, MANY},
    {KEPT, "kept (close_always)", kept, FEW},
    {KEPT, "kept, two labels", kept_with_labels, FEW},
};
enum { CASES = sizeof cases / sizeof cases[0] };
static double figures[CASES][MAX_ROUNDS * KEPT];
static int n_figures[CASES];

/* ---- measuring ---- */

static void measure(int c)
{
    const struct bench_case *b = &cases[c];
    for (int i = 0; i < b->n / 10; i++) /* warm */
        b->op();
    uint64_t start = now_ns();
    for (int i = 0; i < b->n; i++)
        b->op();
    figures[c][n_figures[c]++] = (double)(now_ns() - start) / b->n;
}

static void run(enum phase phase, int rounds)
{
    for (int r = 0; r < rounds; r++) {
        for (int c = 0; c < CASES; c++)
            if (cases[c].phase == phase || cases[c].phase == ANY)
                measure(c);
        if (phase == CLOCK_KEPT || phase == KEPT)
            usleep(30000); /* the sender takes what was kept meanwhile: the ring must not be full */
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(void)
{
    printf("%-40s %9s %9s %9s  %s\n", "", "best, ns", "median", "/ clock", "");
    for (int c = 0; c < CASES; c++)
        qsort(figures[c], (size_t)n_figures[c], sizeof(double), by_value);
    double clock = figures[0][0];
    for (int c = 0; c < CASES; c++) {
        double v = figures[c][0], more = v - clock;
        printf("%-40s %9.2f %9.2f %9.2f  clock %c %.1f ns\n", cases[c].label, v, figures[c][n_figures[c] / 2],
               v / clock, more < 0 ? '-' : '+', more < 0 ? -more : more);
    }
}

/* ---- phases ---- */

static void start(void)
{
    if (dvt_start(&(struct dvt_options){.socket = fake.path}) != 0)
        exit(1);
}

/* With a daemon that has armed this thread, and one sample before the first scope. */
static void run_with_daemon(enum phase dropped, enum phase kept_ones, int rounds)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    fake.discard = true;
    fake_start(&fake);
    start();
    dvt_thread_start();
    if (!fake_wait(&fake, fake.n_heartbeats > 0 && fake_knows(&fake, tid, false)))
        exit(1);
    fake_sample(&fake, tid);
    run(dropped, rounds);
    run(kept_ones, rounds);
    dvt_stop(5000);
    printf("scopes kept %llu, lost to a full ring %llu\n", (unsigned long long)fake.counts.kept,
           (unsigned long long)fake.counts.lost_ring);
    fake_kill(&fake);
    fake_free(&fake);
}

static void run_without_daemon(int rounds)
{
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    start();
    while (dvt_rt_active())
        usleep(10000);
    run(ABSENT, rounds);
    dvt_stop(0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 51;
    char path[128];
    if (rounds < 1 || rounds > MAX_ROUNDS || !mkdtemp(dir))
        return 2;
    args.interned = name = dvt_name("checkout");
    run(NOT_STARTED, rounds);
    setenv("DOVETAIL_TICKS", "off", 1);
    run_without_daemon(rounds);
    run_with_daemon(CLOCK_DROPPED, CLOCK_KEPT, rounds);
    unsetenv("DOVETAIL_TICKS");
    run_with_daemon(DROPPED, KEPT, rounds);
    print();
    snprintf(path, sizeof path, "%s/s.zmq", dir);
    unlink(path);
    rmdir(dir);
    return 0;
}
