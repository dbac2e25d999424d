/*
 * spin: the load for bench_overhead.py. THREADS threads do ROUNDS rounds each: a scope around a fixed amount
 * of arithmetic and, if PAUSE_US is not 0, a sleep. Prints "scopes N seconds S cpu S".   spin THREADS ROUNDS
 * ITERATIONS PAUSE_US
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../shims/core/dovetail.h"

static uint64_t rounds, iterations;
static struct timespec pause_time;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static __attribute__((noinline)) void arithmetic(void)
{
    volatile uint64_t x = 0;
    for (uint64_t i = 0; i < iterations; i++)
        x += i;
    (void)x;
}

static void *work(void *arg)
{
    const struct dvt_name *name = arg;
    struct dvt_scope outer = dvt_scope_open(&(struct dvt_scope_args){.interned = name});
    static const uint8_t trace[16] = {[15] = 1};
    for (uint64_t r = 0; r < rounds; r++) {
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.interned = name, .trace_id = trace});
        arithmetic();
        dvt_scope_close(s);
        if (pause_time.tv_nsec)
            nanosleep(&pause_time, NULL);
    }
    dvt_scope_close(outer);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    unsigned n = (unsigned)strtoul(argv[1], NULL, 10);
    rounds = strtoull(argv[2], NULL, 10);
    iterations = strtoull(argv[3], NULL, 10);
    pause_time.tv_nsec = strtol(argv[4], NULL, 10) * 1000;
    pthread_t *threads = calloc(n, sizeof *threads);
    if (!threads)
        return 1;
    dvt_start(NULL);
    void *name = (void *)(uintptr_t)dvt_name("round");
    double start = seconds_of(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, work, name);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("scopes %llu seconds %.3f cpu %.3f\n", (unsigned long long)(n * rounds),
           seconds_of(CLOCK_MONOTONIC) - start, seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    free(threads);
    return 0;
}
