/*
 * victim: a program whose stacks are known, for the tests of symbols. Built with -O2 -fomit-frame-pointer
 * three times: with debug information, with a symbol table only, and stripped. Its first argument says which
 * stack it burns CPU on, until it is killed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if __has_attribute(noclone)
#define NOINLINE __attribute__((noinline, noclone))
#else
#define NOINLINE __attribute__((noinline))
#endif

static volatile uint64_t sink;
static volatile int stop; /* never set: keeps the compiler from seeing that nothing returns */

static inline __attribute__((always_inline)) void innermost(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sink = sink * 6364136223846793005u + i;
}

static inline __attribute__((always_inline)) void inlined(uint64_t n)
{
    innermost(n);
    sink++;
}

static NOINLINE void holder(uint64_t n)
{
    inlined(n);
    sink++;
}

static NOINLINE void caller(uint64_t n)
{
    holder(n);
    sink++;
}

static NOINLINE void burn(void)
{
    while (!stop)
        caller(10000);
}

/* shop::Order::discount(int), as a C++ compiler would name it. */
NOINLINE void discount(uint64_t n) __asm__("_ZN4shop5Order8discountEi");
void discount(uint64_t n)
{
    innermost(n);
    sink++;
}

/* shop::tax::h0123456789abcdef, as rustc would. */
NOINLINE void tax(uint64_t n) __asm__("_ZN4shop3tax17h0123456789abcdefE");
void tax(uint64_t n)
{
    discount(n);
    sink++;
}

static NOINLINE void recurse(uint64_t depth)
{
    if (depth)
        recurse(depth - 1);
    else
        burn();
    sink++;
}

static void on_signal(int signal)
{
    burn();
    sink += (uint64_t)signal; /* so that burn is called, not jumped to */
}

static void *on_thread(void *arg)
{
    burn();
    return arg;
}

static NOINLINE void read_clock(void)
{
    struct timespec t;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        sink += (uint64_t)t.tv_nsec;
    }
}

static NOINLINE void make_calls(void)
{
    char byte;
    int fds[2];
    if (pipe(fds))
        _exit(1);
    for (;;) {
        if (write(fds[1], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1)
            _exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "chain";
    pthread_t thread;
    if (!strcmp(what, "cxx")) {
        for (;;)
            tax(10000);
    } else if (!strcmp(what, "deep")) {
        recurse(60);
    } else if (!strcmp(what, "signal")) {
        signal(SIGUSR1, on_signal);
        raise(SIGUSR1);
    } else if (!strcmp(what, "thread")) {
        pthread_create(&thread, NULL, on_thread, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(what, "clock")) {
        read_clock();
    } else if (!strcmp(what, "calls")) {
        make_calls();
    }
    burn();
    return 0;
}
