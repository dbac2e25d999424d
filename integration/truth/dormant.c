/*
 * dormant: a server's threads, each working for one trace after another: trace k in work_k, and now and then for none in
 * orphan(). It has called dvt_start and sleeps until somebody attaches. Runs until its standard input ends, then prints how many
 * requests it served.   dormant [no-start]
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "burn.h"
#include "dovetail.h"

enum { N_THREADS = 3, N_TRACES = 8 };

#define WORK(k)                                           \
    static __attribute__((noinline)) void work_##k(void) \
    {                                                     \
        burn(500000 + 400000 * k);                        \
        STAY();                                           \
    }
WORK(0) WORK(1) WORK(2) WORK(3) WORK(4) WORK(5) WORK(6) WORK(7)

static void (*const work[N_TRACES])(void) = {work_0, work_1, work_2, work_3, work_4, work_5, work_6, work_7};
static atomic_bool is_over;
static _Atomic uint64_t n_served;

static __attribute__((noinline)) void orphan(void)
{
    burn(700000);
    STAY();
}

static void *serve(void *arg)
{
    for (unsigned i = (unsigned)(uintptr_t)arg; !atomic_load(&is_over); i = i * 1103515245u + 12345u) {
        unsigned k = i >> 16 & (N_TRACES - 1);
        uint8_t trace[16] = {[15] = (uint8_t)(k + 1)};
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "request", .trace_id = trace});
        work[k]();
        struct dvt_scope inner = dvt_scope_open(&(struct dvt_scope_args){.name = "inner"});
        work[k]();
        dvt_scope_close(inner);
        dvt_scope_close(s);
        orphan();
        atomic_fetch_add(&n_served, 1);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[N_THREADS];
    char byte;
    if (argc < 2 || strcmp(argv[1], "no-start") != 0)
        dvt_start(&(struct dvt_options){.dormant = true});
    for (uintptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, serve, (void *)(i + 1));
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%" PRIu64 "\n", atomic_load(&n_served));
    return 0;
}
