/*
 * thread_per_request: each request is a thread of its own with 3 ms of CPU time in its scope: 2 ms in parse,
 * 1 ms in reply. Two run at a time. Prints "parse CPU_NS", "reply CPU_NS" and "scope CPU_NS".
 * thread_per_request REQUESTS
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"
#include "dovetail.h"

static _Atomic uint64_t parsed, replied, scoped;

static __attribute__((noinline)) uint64_t parse(void)
{
    uint64_t spent = burn(2000000);
    STAY();
    return spent;
}

static __attribute__((noinline)) uint64_t reply(void)
{
    uint64_t spent = burn(1000000);
    STAY();
    return spent;
}

static void *request(void *arg)
{
    (void)arg;
    dvt_thread_start();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "request"});
    uint64_t start = thread_cpu_ns();
    parsed += parse();
    replied += reply();
    scoped += thread_cpu_ns() - start;
    dvt_scope_close(s);
    return NULL;
}

static void *serve(void *arg)
{
    for (uint64_t n = *(uint64_t *)arg; n > 0; n--) {
        pthread_t t;
        if (pthread_create(&t, NULL, request, NULL) == 0)
            pthread_join(t, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 2000) / 2;
    pthread_t other;
    dvt_start(NULL);
    struct timespec settle = {0, 300000000};
    nanosleep(&settle, NULL); /* connected: the truth is about arming, not about starting */
    pthread_create(&other, NULL, serve, &n);
    serve(&n);
    pthread_join(other, NULL);
    printf("parse %" PRIu64 "\nreply %" PRIu64 "\nscope %" PRIu64 "\n", parsed, replied, scoped);
    return 0;
}
