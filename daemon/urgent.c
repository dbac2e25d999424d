/*
 * urgent: see urgent.h.
 */
#include "urgent.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_RUN_US = 100000 };

static _Atomic pid_t urgent_tid; /* 0: none */

static void calm_down(pid_t tid)
{
    struct sched_param normal = {0};
    (void)sched_setscheduler(tid, SCHED_OTHER, &normal); /* the thread is ours: lowering is always allowed */
}

/* The signal goes to the process: any thread may get it. */
static void on_overrun(int sig)
{
    (void)sig;
    int saved = errno;
    pid_t tid = atomic_exchange_explicit(&urgent_tid, 0, memory_order_relaxed);
    if (tid)
        calm_down(tid);
    errno = saved;
}

bool urgent_begin(void)
{
    struct rlimit limit = {MAX_RUN_US, RLIM_INFINITY};
    struct sigaction action = {.sa_handler = on_overrun, .sa_flags = SA_RESTART};
    struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    if (sigaction(SIGXCPU, &action, NULL) || setrlimit(RLIMIT_RTTIME, &limit))
        return false;
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest))
        return false;
    atomic_store_explicit(&urgent_tid, gettid(), memory_order_relaxed);
    return true;
}

void urgent_end(void)
{
    if (atomic_exchange_explicit(&urgent_tid, 0, memory_order_relaxed))
        calm_down(0);
}
