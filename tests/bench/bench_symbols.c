/*
 * bench_symbols: what unwinding and naming a sample costs, cold and warm, on a busy CPython with 16 KB of
 * stack each. Usage: bench_symbols [PROGRAM ARGS...]; prints microseconds a sample, frames, share of whole
 * chains, memory.
 */
#include <time.h>

#include "../../daemon/symbols.h"
#include "../daemon/victim_samples.h"

enum { START_UP = 200, ALL = 1200, ROUNDS = 6, MAX_FRAMES = 512 };

static struct victim victim;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct result {
    double us;
    uint64_t frames, complete;
};

static struct result resolve_all(struct symbols *s)
{
    struct symbols_frame frames[MAX_FRAMES];
    struct result r = {0};
    uint32_t above;
    bool truncated;
    double start = now_us();
    for (uint32_t i = START_UP; i < victim.n_samples; i++) {
        r.frames +=
            symbols_resolve(s, &victim.process, victim.samples[i], frames, MAX_FRAMES, &above, &truncated);
        r.complete += !truncated;
    }
    r.us = now_us() - start;
    return r;
}

int main(int argc, char **argv)
{
    char *python[] = {
        "/usr/bin/python3", "-c",
        "import json\ndef f(n):\n  return sum(len(json.dumps({'a': i, 'b': [i] * 9})) for i in range(n))\n"
        "while True: f(1000)",
        NULL};
    victim_start(&victim, argc > 1 ? argv + 1 : python, 16384, geteuid() == 0, false, ALL);
    victim_stop(&victim);
    if (victim.n_samples < ALL) {
        fprintf(stderr, "bench_symbols: %u of %d samples: %s\n", victim.n_samples, (int)ALL,
                strerror(victim.perf_errno));
        return 0; /* where perf is not allowed there is nothing to measure */
    }
    struct symbols *s = symbols_new();
    double n = ALL - START_UP;
    struct result cold = resolve_all(s), warm = resolve_all(s);
    for (int i = 0; i < ROUNDS; i++) {
        struct result again = resolve_all(s);
        warm = again.us < warm.us ? again : warm;
    }
    printf("symbols cold      %8.2f us/sample (files opened, names looked up for the first time)\n",
           cold.us / n);
    printf("symbols warm      %8.2f us/sample, %.1f ns/frame\n", warm.us / n,
           warm.us * 1e3 / (double)warm.frames);
    printf("frames a sample   %8.1f\n", (double)warm.frames / n);
    printf("whole chains      %8.2f %%\n", 100 * (double)warm.complete / n);
    printf("memory            %8.2f MiB\n", (double)symbols_bytes(s) / (1 << 20));
    symbols_free(s);
    victim_free(&victim);
    return 0;
}
