/*
 * waits: scopes that sleep, wait for a lock or a pipe, compute, and compute beside another load on one CPU. Prints, by the
 * kernel's other clocks and counts, "NAME WALL_NS CPU_NS WAITS PREEMPTIONS WALL_NS CPU_NS WAITS PREEMPTIONS" a scope: as seen
 * just inside it, and just outside, for another load may come between a clock and a scope.   waits ROUNDS
 */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "burn.h"
#include "dovetail.h"

enum { MS = 1000000 };
static const char trace_parent[] = "00-00000000000000000000000000000001-0000000000000001-01";

struct state {
    uint64_t wall_ns, cpu_ns;
    long waits, preemptions;
};

/* How long the kernel had the thread on a CPU. Its CPU clock is less where a host takes the CPU away from a virtual machine. */
static int task_clock = -1;

static void open_task_clock(void)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .exclude_kernel = 1};
    task_clock = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static uint64_t on_cpu_ns(void)
{
    uint64_t ns = 0;
    if (task_clock < 0)
        return thread_cpu_ns();
    return read(task_clock, &ns, sizeof ns) == sizeof ns ? ns : 0;
}

static struct state look(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return (struct state){monotonic_ns(), on_cpu_ns(), u.ru_nvcsw, u.ru_nivcsw};
}

static void sleep_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void pin(size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* ---- what the scopes do ---- */

static void sleeps(void)
{
    sleep_ns(7 * MS);
    sleep_ns(20 * MS);
    sleep_ns(45 * MS);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;

static void *hold(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&mutex);
    pthread_barrier_wait(&held);
    sleep_ns(30 * MS);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void waits_for_lock(void)
{
    pthread_t other;
    pthread_create(&other, NULL, hold, NULL);
    pthread_barrier_wait(&held);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
}

static void *write_late(void *fd)
{
    sleep_ns(25 * MS);
    if (write(*(int *)fd, "x", 1) != 1)
        abort();
    return NULL;
}

static void waits_for_pipe(void)
{
    int fds[2];
    char c;
    pthread_t other;
    if (pipe(fds))
        abort();
    pthread_create(&other, NULL, write_late, &fds[1]);
    if (read(fds[0], &c, 1) != 1)
        abort();
    pthread_join(other, NULL);
    close(fds[0]);
    close(fds[1]);
}

static void computes(void)
{
    burn(40 * MS);
}

static atomic_bool load_stops;

static void *load(void *arg)
{
    (void)arg;
    pin(0);
    while (!atomic_load(&load_stops))
        burn(MS);
    return NULL;
}

static void sleeps_and_computes(void)
{
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "inner"});
    sleep_ns(10 * MS);
    dvt_scope_close_always(s);
    burn(10 * MS);
}

/* ---- scopes ---- */

static void print_since(const struct state *before)
{
    struct state now = look();
    printf(" %" PRIu64 " %" PRIu64 " %ld %ld", now.wall_ns - before->wall_ns, now.cpu_ns - before->cpu_ns,
           now.waits - before->waits, now.preemptions - before->preemptions);
}

static void scope(const char *name, unsigned round, void (*work)(void))
{
    char text[32];
    snprintf(text, sizeof text, "%s-%u", name, round);
    printf("%s", text);
    struct state outside = look();
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = text, .traceparent = trace_parent});
    struct state inside = look();
    work();
    print_since(&inside);
    dvt_scope_close_always(s);
    print_since(&outside);
    puts("");
}

static void under_load(unsigned round)
{
    cpu_set_t all;
    pthread_t other;
    sched_getaffinity(0, sizeof all, &all);
    atomic_store(&load_stops, false);
    pthread_create(&other, NULL, load, NULL);
    pin(0);
    scope("preempted", round, computes);
    atomic_store(&load_stops, true);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof all, &all);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5;
    open_task_clock();
    dvt_start(NULL);
    dvt_thread_start();
    pthread_barrier_init(&held, NULL, 2);
    scope("first", 0, sleeps); /* the thread is armed meanwhile */
    for (unsigned r = 0; r < rounds; r++) {
        scope("sleep", r, sleeps);
        scope("lock", r, waits_for_lock);
        scope("pipe", r, waits_for_pipe);
        scope("compute", r, computes);
        scope("nested", r, sleeps_and_computes);
        under_load(r);
    }
    return 0;
}
