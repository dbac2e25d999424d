/*
 * start: the library's life cycle: dvt_start, dvt_stop, exit and fork. The sender thread's loop is in
 * sender.c.
 *
 * After a fork the child has no sender, no sockets and no slots; its first scope starts a sender of its own,
 * so that a child that goes on to exec costs nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bell.h"
#include "control.h"
#include "runtime.h"
#include "sender.h"
#include "stacks.h"
#include "tick.h"

enum { EXIT_TIMEOUT_MS = 500, JOIN_MARGIN_MS = 200 };
#define MS UINT64_C(1000000)

uint32_t dvt_recording;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* everything below */
static bool started, hooks_are_set;
static pthread_t thread;
static struct dvt_config config;
static const struct dvt_runtime *runtime;
static const struct dvt_runtime c_runtime = {.runtime = "c", .runtime_version = ""};
static struct dvt_sender_args args;

/* Made once a process and kept: no number can become another file's under a writer. */
static _Atomic int wake_fd = -1;
static _Atomic uint32_t child_must_start;

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char error_text[240];

void dvt_set_error(const char *text)
{
    pthread_mutex_lock(&error_lock);
    error_text[dvt_utf8_clean(text, strlen(text), true, error_text, sizeof error_text)] = 0;
    pthread_mutex_unlock(&error_lock);
}

const char *dvt_last_error(void)
{
    static __thread char copy[sizeof error_text];
    pthread_mutex_lock(&error_lock);
    memcpy(copy, error_text, sizeof copy);
    pthread_mutex_unlock(&error_lock);
    return copy;
}

void dvt_sender_wake(void)
{
    int saved = errno, fd = atomic_load_explicit(&wake_fd, memory_order_relaxed);
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0)
        errno = saved; /* full: it is awake */
    errno = saved;
}

/* ---- the thread ---- */

static void *run(void *p)
{
    dvt_sender_run(p);
    return NULL;
}

/* With all signals blocked, so that the application's handlers never run on it. */
static int start_thread(void)
{
    sigset_t all, before;
    if (atomic_load_explicit(&wake_fd, memory_order_relaxed) < 0)
        atomic_store_explicit(&wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), memory_order_relaxed);
    args = (struct dvt_sender_args){&config, runtime, atomic_load_explicit(&wake_fd, memory_order_relaxed)};
    if (args.wake_fd < 0)
        return EAGAIN;
    dvt_sender_ask_stop(0);
    if (runtime == &c_runtime) /* the others have ways of their own */
        dvt_bell_open();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, run, &args);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(thread, "dovetail");
    else
        dvt_bell_close();
    return rc;
}

static void start_in_child(void)
{
    pthread_mutex_lock(&lock);
    if (atomic_exchange_explicit(&child_must_start, 0, memory_order_relaxed) && start_thread() == 0)
        started = true;
    pthread_mutex_unlock(&lock);
}

void dvt_sender_new_thread(struct dvt_slot *s)
{
    if (atomic_load_explicit(&child_must_start, memory_order_relaxed))
        start_in_child();
    atomic_store_explicit(&s->arm_state, DVT_ARM_WANTED, memory_order_release);
    dvt_control_arm(s);
}

/* ---- fork and exit ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&error_lock);
    dvt_control_before_fork();
    dvt_stacks_before_fork();
    dvt_slot_before_fork();
}

static void after_fork_parent(void)
{
    dvt_slot_after_fork_parent();
    dvt_stacks_after_fork(false);
    dvt_control_after_fork(false);
    pthread_mutex_unlock(&error_lock);
    pthread_mutex_unlock(&lock);
}

static void after_fork_child(void)
{
    bool again = started || atomic_load_explicit(&child_must_start, memory_order_relaxed);
    int fd = atomic_exchange_explicit(&wake_fd, -1, memory_order_relaxed);
    if (fd >= 0)
        close(fd);
    dvt_slot_after_fork_child();
    dvt_stacks_after_fork(true);
    dvt_control_after_fork(true);
    dvt_tick_after_fork_child();
    dvt_sender_after_fork_child();
    started = false;
    atomic_store_explicit(&child_must_start, again, memory_order_relaxed);
    __atomic_store_n(&dvt_recording, again && !config.dormant, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&error_lock);
    pthread_mutex_unlock(&lock);
}

static void at_exit(void)
{
    dvt_stop(EXIT_TIMEOUT_MS);
}

static int set_hooks(void)
{
    if (hooks_are_set)
        return 0;
    if (pthread_atfork(before_fork, after_fork_parent, after_fork_child) != 0 || atexit(at_exit) != 0)
        return EAGAIN;
    hooks_are_set = true;
    return 0;
}

/* ---- API ---- */

static int start(const struct dvt_options *options, const struct dvt_runtime *rt)
{
    struct dvt_err err = {0};
    if (started)
        return 0;
    int rc = dvt_config_read(&config, options, rt->program, &err);
    if (config.off)
        return ECANCELED;
    if (rc != 0) {
        dvt_set_error(err.text);
        return EINVAL;
    }
    runtime = rt;
    dvt_tick_start(!config.no_ticks);
    dvt_sender_set_dormant(config.dormant);
    __atomic_store_n(&dvt_recording, !config.dormant, __ATOMIC_SEQ_CST);
    dvt_slot_begin_anew();
    rc = set_hooks();
    if (rc == 0)
        rc = start_thread();
    started = rc == 0;
    if (!started) {
        __atomic_store_n(&dvt_recording, 0, __ATOMIC_RELAXED);
        dvt_set_error("cannot start the sender thread");
    }
    return rc == 0 ? 0 : EAGAIN;
}

int dvt_rt_start(const struct dvt_options *options, const struct dvt_runtime *rt)
{
    pthread_mutex_lock(&lock);
    int rc = start(options, rt);
    pthread_mutex_unlock(&lock);
    if (rc != 0)
        errno = rc;
    return rc == 0 ? 0 : -1;
}

int dvt_start(const struct dvt_options *options)
{
    return dvt_rt_start(options, &c_runtime);
}

/* Waits for the thread's end; a thread that is stuck (a runtime's resolve, a slow disk) is left behind. */
static void join(int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * (long)MS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
}

void dvt_stop(int timeout_ms)
{
    int saved = errno;
    if (timeout_ms < 0)
        timeout_ms = 0;
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&child_must_start, 0, memory_order_relaxed);
    if (started) {
        dvt_sender_ask_stop(dvt_now_ns() + (uint64_t)timeout_ms * MS + 1);
        dvt_sender_wake();
        join(timeout_ms + JOIN_MARGIN_MS);
        started = false;
    }
    __atomic_store_n(&dvt_recording, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

bool dvt_start_set(bool dormant, const char *socket, const char *service)
{
    if (pthread_mutex_trylock(&lock) != 0) /* a stop holds it and waits for the sender */
        return false;
    config.dormant = dormant;
    if (socket[0]) {
        snprintf(config.socket[0], sizeof config.socket[0], "%s", socket);
        config.n_sockets = 1;
    }
    if (service[0])
        snprintf(config.service, sizeof config.service, "%s", service);
    pthread_mutex_unlock(&lock);
    return true;
}

void dvt_wake(void)
{
    dvt_sender_set_dormant(false);
    pthread_mutex_lock(&lock);
    bool was_dormant = config.dormant;
    config.dormant = false;
    /* Else the sender does it. */
    if (was_dormant && atomic_load_explicit(&child_must_start, memory_order_relaxed))
        __atomic_store_n(&dvt_recording, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    dvt_sender_wake();
}
