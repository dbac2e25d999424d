/*
 * bench_query: questions to a store of 100,000 traces with 1.2 million samples.
 *
 *   one trace: wall time of the process `dovetail flame ID -f folded`, median of 21
 *   one tenant: 1.1 million samples in 91,667 traces filtered and folded, first (it makes the column files)
 * and again, median of 21
 *
 * For scale in the same run: /bin/true as a process. The targets are for 100,000 traces. Usage: bench_query
 * [TRACES]
 */
#include "../cli/fixture.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 21, STACK_BYTES = 4096, STACKS = 200, DEPTH = 30, SAMPLES = 12, FULL = 100000, BATCH = 2000 };
extern char **environ;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Wall time of one process, its output thrown away. */
static double run_ms(const char *const *argv)
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    int status = 1;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    double start = now_ms();
    if (posix_spawn(&pid, argv[0], &fa, NULL, (char *const *)argv, environ) == 0) {
        waitpid(pid, &status, 0);
    }
    double took = now_ms() - start;
    posix_spawn_file_actions_destroy(&fa);
    if (status != 0) {
        fprintf(stderr, "%s %s failed: status %d\n", argv[0], argv[1] ? argv[1] : "", status);
        exit(1);
    }
    return took;
}

static double median_ms(const char *const *argv)
{
    double took[RUNS];
    for (int i = 0; i < RUNS; i++) {
        took[i] = run_ms(argv);
    }
    qsort(took, RUNS, sizeof *took, compare);
    return took[RUNS / 2];
}

static void make_stack(unsigned n, char *out, size_t cap)
{
    size_t at = 0;
    unsigned state = n * 2654435761u;
    for (int d = 0; d < DEPTH; d++) {
        unsigned f = d < 6 ? (unsigned)d : (state >> (d % 13)) % 400 + (unsigned)d;
        at += (size_t)snprintf(out + at, cap - at, "%sfunction_%u@module_%u.py:%u", d ? ";" : "", f, f % 40,
                               f % 300 + 1);
    }
}

static void make_id(unsigned i, char out[DVT_TRACE_HEX + 1])
{
    snprintf(out, DVT_TRACE_HEX + 1, "%08x%08x%016x", i * 2654435761u, i ^ 0x5bd1e995u, i + 1);
}

static void make_trace(struct fixture *f, unsigned i, char stacks[STACKS][STACK_BYTES])
{
    char id[DVT_TRACE_HEX + 1], labels[64];
    make_id(i, id);
    fixture_again(f, id, i * 1000000ull, i * 1000000ull + 50000000 + i % 997 * 100000);
    uint32_t p = fixture_process(f, 4711, "shop"),
             t = fixture_thread(f, p, 4711 + i % 8, i % 2 ? "worker-1" : "worker-2");
    snprintf(labels, sizeof labels, "tenant=%s", i % 12 ? "acme" : "other");
    uint32_t root = fixture_scope(f, t, DVT_NONE, "GET /cart", labels),
             inner = fixture_scope(f, t, root, "SELECT", NULL);
    for (unsigned k = 0; k < SAMPLES / 2; k++) {
        fixture_samples(f, t, k % 2 ? root : inner, fixture_stack(f, stacks[(i * 7 + k * k) % STACKS]), 2);
    }
}

static void make_traces(struct fixture_store *s, unsigned n)
{
    static char stacks[STACKS][STACK_BYTES];
    char id[DVT_TRACE_HEX + 1];
    make_id(0, id);
    struct fixture *f = fixture_new(id, 0, 1);
    for (unsigned i = 0; i < STACKS; i++) {
        make_stack(i, stacks[i], STACK_BYTES);
    }
    for (unsigned i = 0; i < n; i++) {
        make_trace(f, i, stacks);
        fixture_store_add(s, f);
        if (i % BATCH == BATCH - 1) {
            fixture_store_commit(s);
        }
    }
    fixture_free(f);
}

static void print_goal(const char *what, double ms, double target_ms, unsigned n)
{
    printf("%-37s %8.2f ms   target %.0f ms: %s\n", what, ms, target_ms,
           n < FULL         ? "for more traces"
           : ms < target_ms ? "ok"
                            : "MISSED");
}

static void ask(const char *dovetail, const char *dir, unsigned n)
{
    char id[DVT_TRACE_HEX + 1];
    make_id(n / 2, id);
    const char *nothing[] = {"/bin/true", NULL};
    const char *one[] = {dovetail, "flame", id, "--store", dir, "-f", "folded", NULL};
    const char *list[] = {dovetail, "traces", "--store", dir, "--label", "tenant=other", NULL};
    const char *tenant[] = {dovetail,      "flame", "--store", dir, "--label",
                            "tenant=acme", "-f",    "folded",  NULL};
    double base = median_ms(nothing), trace = median_ms(one), slowest = median_ms(list);
    printf("process alone (/bin/true)             %8.2f ms\n", base);
    print_goal("one trace, flame -f folded", trace, 10, n);
    printf("20 slowest traces of a tenant         %8.2f ms\n", slowest);
    double first = run_ms(tenant), again = median_ms(tenant);
    printf("one tenant folded, first (builds)     %8.2f ms\n", first);
    print_goal("one tenant folded, 11 of 12 samples", again, 140, n);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
    char dovetail[4096];
    ssize_t length = readlink("/proc/self/exe", dovetail, sizeof dovetail - 32);
    if (length <= 0) {
        return 1;
    }
    dovetail[length] = 0;
    *strrchr(dovetail, '/') = 0;
    strcat(dovetail, "/../bin/dovetail");
    double start = now_ms();
    struct fixture_store *s = fixture_store_new();
    make_traces(s, n);
    fixture_store_close(s);
    printf("%u traces written in %.1f s\n", n, (now_ms() - start) / 1e3);
    if (getenv("BENCH_KEEP")) {
        puts(fixture_store_dir(s)); /* for a profiler, or a look by hand */
        return 0;
    }
    ask(dovetail, fixture_store_dir(s), n);
    fixture_store_free(s);
    return 0;
}
