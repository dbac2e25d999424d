/*
 * budget: scopes of 290 ms of CPU time each, on two threads of one trace each time. Prints "TRACE CPU_NS" a
 * trace (the sum of both threads).   budget ROUNDS
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"
#include "dovetail.h"

enum { CPU_NS = 290000000 };

struct part {
    unsigned round;
    uint64_t spent;
};

static void *half(void *arg)
{
    struct part *p = arg;
    char parent[64];
    snprintf(parent, sizeof parent, "00-%032x-%016x-01", p->round + 1, p->round + 1);
    dvt_thread_start();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "work", .traceparent = parent});
    p->spent = burn(CPU_NS);
    dvt_scope_close(s);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5;
    dvt_start(NULL);
    half(&(struct part){.round = 9999}); /* the first connection is made */
    for (unsigned r = 0; r < rounds; r++) {
        struct part parts[2] = {{.round = r}, {.round = r}};
        pthread_t other;
        pthread_create(&other, NULL, half, &parts[1]);
        half(&parts[0]);
        pthread_join(other, NULL);
        printf("%032x %" PRIu64 " %" PRIu64 "\n", r + 1, parts[0].spent, parts[1].spent);
    }
    return 0;
}
