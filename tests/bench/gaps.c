/*
 * gaps: what interrupts a busy thread, for bench_overhead.py. It reads the clock in a scope, deep enough in its stack that a dump
 * of 8 KiB is full: a second for everything to start, then, after the line "begin", for SECONDS, and adds up the steps that took
 * over a microsecond: timer ticks, and what a profiler does at a sample. Steps over a millisecond are another guest's or thread's
 * turn and counted apart. Prints "gaps N us S turns N us S" and waits for a line, so that others' CPU time can be read.
 *   gaps SECONDS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../shims/core/dovetail.h"

enum { GAP_NS = 1000, TURN_NS = 1000000, DEPTH = 24, FRAME_BYTES = 512 };

struct sums {
    uint64_t n_gaps, gap_ns, n_turns, turn_ns;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static __attribute__((noinline)) void watch(uint64_t until_ns, struct sums *s)
{
    for (uint64_t last = now_ns(), now; last < until_ns; last = now) {
        now = now_ns();
        uint64_t step = now - last;
        if (step < GAP_NS)
            continue;
        bool turn = step >= TURN_NS;
        *(turn ? &s->n_turns : &s->n_gaps) += 1;
        *(turn ? &s->turn_ns : &s->gap_ns) += step;
    }
}

static void measure(double seconds, struct sums *s)
{
    watch(now_ns() + 1000000000u, s);
    *s = (struct sums){0};
    puts("begin");
    fflush(stdout);
    watch(now_ns() + (uint64_t)(seconds * 1e9), s);
    printf("gaps %" PRIu64 " us %.1f turns %" PRIu64 " us %.1f\n", s->n_gaps, (double)s->gap_ns / 1e3, s->n_turns,
           (double)s->turn_ns / 1e3);
    fflush(stdout);
    (void)getchar();
}

static __attribute__((noinline)) uint8_t deeper(unsigned depth, double seconds, struct sums *s)
{
    volatile uint8_t frame[FRAME_BYTES];
    memset((void *)(uintptr_t)frame, (int)depth, sizeof frame);
    if (depth)
        frame[0] = deeper(depth - 1, seconds, s);
    else
        measure(seconds, s);
    return frame[FRAME_BYTES - 1];
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    struct sums s = {0};
    dvt_start(NULL);
    static const uint8_t trace[16] = {[15] = 1};
    struct dvt_scope scope = dvt_scope_open(&(struct dvt_scope_args){.name = "watch", .trace_id = trace});
    deeper(DEPTH, strtod(argv[1], NULL), &s);
    dvt_scope_close(scope);
    return 0;
}
