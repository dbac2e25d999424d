/*
 * pingpong: two threads that pass a byte back and forth through pipes, each in a scope, on one CPU: nothing but context
 * switches, for bench_overhead.py. Prints "ROUNDS CPU_NS": the CPU time of a round trip, which other loads do not lengthen.
 *   pingpong ROUNDS
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "dovetail.h"

struct side {
    int in, out;
    unsigned rounds;
    bool begins;
};

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *play(void *arg)
{
    const struct side *s = arg;
    char c = 'x';
    dvt_thread_start();
    struct dvt_scope scope = dvt_scope_open(&(struct dvt_scope_args){.name = "play", .always = true});
    for (unsigned i = 0; i < s->rounds; i++)
        if ((s->begins && write(s->out, &c, 1) != 1) || read(s->in, &c, 1) != 1 ||
            (!s->begins && write(s->out, &c, 1) != 1))
            abort();
    dvt_scope_close(scope);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
    int there[2], back[2];
    pthread_t other;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (pipe(there) || pipe(back) || sched_setaffinity(0, sizeof one, &one))
        abort();
    dvt_start(NULL);
    struct side a = {back[0], there[1], rounds, true}, b = {there[0], back[1], rounds, false};
    uint64_t before = cpu_ns();
    if (pthread_create(&other, NULL, play, &b))
        abort();
    play(&a);
    pthread_join(other, NULL);
    printf("%u %" PRIu64 "\n", rounds, (cpu_ns() - before) / (rounds ? rounds : 1));
    return 0;
}
