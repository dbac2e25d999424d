/*
 * burn: spends CPU time, measured by the thread's own CPU clock, so that the truth is what was spent and not
 * what was meant. Not inlined, so that each caller is a frame of its own.
 */
#ifndef BURN_H
#define BURN_H

#include <stdint.h>
#include <time.h>

static inline uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Thread_local volatile uint64_t burn_sink;

/* Spends at least cpu_ns; returns what it spent. */
static inline __attribute__((always_inline)) uint64_t burn(uint64_t cpu_ns)
{
    uint64_t start = thread_cpu_ns(), spent;
    do {
        for (uint64_t i = 0; i < 20000; i++)
            burn_sink += i;
    } while ((spent = thread_cpu_ns() - start) < cpu_ns);
    return spent;
}

/* Does not return by a tail call, so that the caller's frame stays on the stack. */
#define STAY() __asm__ volatile("" ::: "memory")

#endif
