/*
 * shares: traces with known CPU shares. Ten traces take turns of 20 ms on each of two threads; in each turn
 * seven functions spend 31, 23, 17, 13, 9, 6 and 1 percent. Prints one line "TRACE FUNCTION CPU_NS" for each,
 * as measured by the thread's CPU clock.   shares SECONDS
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burn.h"
#include "dovetail.h"

enum { N_TRACES = 10, N_FUNCTIONS = 7, N_THREADS = 2, TURN_NS = 20000000 };

#define WORK(share)                                                                                          \
    static __attribute__((noinline)) uint64_t work_##share(void)                                             \
    {                                                                                                        \
        uint64_t spent = burn(TURN_NS / 100 * share);                                                        \
        STAY();                                                                                              \
        return spent;                                                                                        \
    }
WORK(31) WORK(23) WORK(17) WORK(13) WORK(9) WORK(6) WORK(1)

    static uint64_t (*const work[N_FUNCTIONS])(void) = {work_31, work_23, work_17, work_13,
                                                        work_9,  work_6,  work_1};
static const char *const work_name[N_FUNCTIONS] = {"work_31", "work_23", "work_17", "work_13",
                                                   "work_9",  "work_6",  "work_1"};

struct worker {
    uint64_t spent[N_TRACES][N_FUNCTIONS];
    uint64_t end_ns;
    unsigned seed;
};

static void turn(struct worker *w, unsigned trace)
{
    for (unsigned i = 0; i < N_FUNCTIONS; i++)
        w->spent[trace][i] += work[i]();
}

/* A frame that names the trace: a sample in another trace's chunk with this frame is a wrong one. */
#define ENTRY(n)                                                                                             \
    static __attribute__((noinline)) void trace_##n(struct worker *w)                                        \
    {                                                                                                        \
        turn(w, n);                                                                                          \
        STAY();                                                                                              \
    }
ENTRY(0) ENTRY(1) ENTRY(2) ENTRY(3) ENTRY(4) ENTRY(5) ENTRY(6) ENTRY(7) ENTRY(8) ENTRY(9)
static void (*const entry[N_TRACES])(struct worker *) = {trace_0, trace_1, trace_2, trace_3, trace_4,
                                                         trace_5, trace_6, trace_7, trace_8, trace_9};

static void *run(void *arg)
{
    struct worker *w = arg;
    while (monotonic_ns() < w->end_ns) {
        unsigned k = (unsigned)rand_r(&w->seed) % N_TRACES;
        char parent[64];
        snprintf(parent, sizeof parent, "00-%032x-%016x-01", k + 1, k + 1);
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "turn", .traceparent = parent});
        entry[k](w);
        dvt_scope_close(s);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
    static struct worker workers[N_THREADS];
    pthread_t threads[N_THREADS];
    dvt_start(NULL);
    for (unsigned t = 0; t < N_THREADS; t++) {
        workers[t].end_ns = monotonic_ns() + seconds * 1000000000u;
        workers[t].seed = t + 1;
        pthread_create(&threads[t], NULL, run, &workers[t]);
    }
    for (unsigned t = 0; t < N_THREADS; t++)
        pthread_join(threads[t], NULL);
    for (unsigned k = 0; k < N_TRACES; k++)
        for (unsigned i = 0; i < N_FUNCTIONS; i++)
            printf("%032x %s %" PRIu64 "\n", k + 1, work_name[i],
                   workers[0].spent[k][i] + workers[1].spent[k][i]);
    return 0;
}
