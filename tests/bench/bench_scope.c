/*
 * bench_scope: what a scope costs its thread, beside a clock read in the same run.
 *
 *   build/bench/bench_scope [ROUNDS]
 *
 * Each figure is the best and the median of ROUNDS (51) short rounds, each round measuring every case once,
 * so that a change of the machine's pace hits all alike; ratios are of the best. The daemon is a stand-in in
 * this process that arms threads with a ring in which no sample falls.
 */
#include "../core/fake_daemon.h"
#include "../../shims/core/runtime.h"

enum { MAX_ROUNDS = 1000, MAX_CASES = 16 };

static double figures[MAX_CASES][MAX_ROUNDS];
static const char *labels[MAX_CASES];
static int n_cases;
static const struct dvt_name *name;
static struct fake fake;
static volatile uint64_t sink;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void clock_read(void)
{
    sink += now_ns();
}

static struct dvt_scope_args args; /* .interned */

static void interned(void)
{
    dvt_scope_close(dvt_scope_open(&args));
}

static void by_text(void)
{
    dvt_scope_close(dvt_scope_open(&(struct dvt_scope_args){.name = "checkout"}));
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

static void measure(int c, int round, const char *label, void (*op)(void), int n)
{
    for (int i = 0; i < n / 10; i++) /* warm */
        op();
    uint64_t start = now_ns();
    for (int i = 0; i < n; i++)
        op();
    figures[c][round] = (double)(now_ns() - start) / n;
    labels[c] = label;
    n_cases = c + 1 > n_cases ? c + 1 : n_cases;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(int rounds)
{
    double clock = 0;
    printf("%-36s %9s %9s %9s %12s\n", "", "best, ns", "median", "/ clock", "- clock, ns");
    for (int c = 0; c < n_cases; c++) {
        qsort(figures[c], (size_t)rounds, sizeof(double), by_value);
        double v = figures[c][0];
        clock = c == 0 ? v : clock;
        printf("%-36s %9.2f %9.2f %9.2f %12.2f\n", labels[c], v, figures[c][rounds / 2], v / clock,
               v - clock);
    }
}

static void wait_inactive(void)
{
    while (dvt_rt_active())
        usleep(10000);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 51, n = 5000;
    char dir[] = "/tmp/dvt-bench-XXXXXX", path[128];
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    if (rounds < 1 || rounds > MAX_ROUNDS || !mkdtemp(dir))
        return 2;
    args.interned = name = dvt_name("checkout");
    for (int r = 0; r < rounds; r++) {
        measure(0, r, "clock_gettime(CLOCK_MONOTONIC)", clock_read, n);
        measure(1, r, "not started: open+close", interned, n);
    }
    snprintf(fake.path, sizeof fake.path, "%s/s", dir);
    if (dvt_start(&(struct dvt_options){.socket = fake.path}) != 0)
        return 1;
    wait_inactive();
    for (int r = 0; r < rounds; r++)
        measure(2, r, "daemon absent: open+close", interned, n);
    fake.discard = true;
    fake_start(&fake);
    if (!fake_wait(&fake, fake.n_heartbeats > 0))
        return 1;
    dvt_thread_start();
    if (!fake_wait(&fake, fake_knows(&fake, tid, false)))
        return 1;
    fake_sample(&fake, tid);
    for (int r = 0; r < rounds; r++) {
        measure(0, r, labels[0], clock_read, n);
        measure(3, r, "dropped, interned name", interned, n);
        measure(4, r, "dropped, name as text", by_text, n);
        measure(5, r, "dropped, two labels", with_labels, n);
        measure(6, r, "dropped, runtime API", runtime_scope, n);
        measure(7, r, "kept (close_always)", kept, 1000);
        measure(8, r, "kept, two labels", kept_with_labels, 1000);
        usleep(30000); /* the sender takes them meanwhile: the ring must not be full */
    }
    print(rounds);
    dvt_stop(5000);
    printf("scopes kept %llu, lost to a full ring %llu\n", (unsigned long long)fake.counts.kept,
           (unsigned long long)fake.counts.lost_ring);
    fake_kill(&fake);
    snprintf(path, sizeof path, "%s/s.zmq", dir);
    unlink(path);
    rmdir(dir);
    return 0;
}
