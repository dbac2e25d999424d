/*
 * loop: see loop.h.
 */
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { BATCH = 64 };

struct loop_source {
    struct loop_source *next_dead;
    loop_fn *fn; /* NULL: removed */
    void *ctx;
    int fd;
};

struct loop {
    int epoll_fd;
    struct loop_source *dead;
};

struct loop_timer {
    struct loop *loop;
    struct loop_source *source;
    loop_fn *fn;
    void *ctx;
    int fd;
};

int loop_new(struct loop **ret, struct dvt_err *err)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the event loop");
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) {
        int e = errno;
        free(l);
        return dvt_fail(err, DVT_EIO, e, "epoll_create1: %s", strerror(e));
    }
    *ret = l;
    return 0;
}

static void bury(struct loop *l)
{
    while (l->dead) {
        struct loop_source *s = l->dead;
        l->dead = s->next_dead;
        free(s);
    }
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    bury(l);
    close(l->epoll_fd);
    free(l);
}

int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *ctx, struct loop_source **ret,
             struct dvt_err *err)
{
    struct loop_source *s = calloc(1, sizeof *s);
    if (!s)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for an event source");
    *s = (struct loop_source){.fn = fn, .ctx = ctx, .fd = fd};
    struct epoll_event e = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e)) {
        int sys_errno = errno;
        free(s);
        return dvt_fail(err, DVT_EIO, sys_errno, "epoll_ctl: %s", strerror(sys_errno));
    }
    *ret = s;
    return 0;
}

void loop_change(struct loop *l, struct loop_source *s, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = s};
    epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, s->fd, &e); /* a registered fd: cannot fail */
}

void loop_remove(struct loop *l, struct loop_source *s)
{
    if (!s)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL); /* a registered fd: cannot fail */
    s->fn = NULL;
    s->next_dead = l->dead;
    l->dead = s;
}

int loop_turn(struct loop *l, int timeout_ms, struct dvt_err *err)
{
    struct epoll_event events[BATCH];
    int n = epoll_wait(l->epoll_fd, events, BATCH, timeout_ms);
    if (n < 0 && errno != EINTR)
        return dvt_fail(err, DVT_EIO, errno, "epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        const struct loop_source *s = events[i].data.ptr;
        if (s->fn)
            s->fn(s->ctx, events[i].events);
    }
    bury(l);
    return 0;
}

static void on_timer(void *ctx, uint32_t events)
{
    struct loop_timer *t = ctx;
    uint64_t n;
    if (read(t->fd, &n, sizeof n) == sizeof n)
        t->fn(t->ctx, events);
}

int loop_timer_new(struct loop *l, loop_fn *fn, void *ctx, struct loop_timer **ret, struct dvt_err *err)
{
    struct loop_timer *t = calloc(1, sizeof *t);
    if (!t)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for a timer");
    *t = (struct loop_timer){.loop = l, .fn = fn, .ctx = ctx};
    t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int r = t->fd < 0 ? dvt_fail(err, DVT_EIO, errno, "timerfd_create: %s", strerror(errno))
                      : loop_add(l, t->fd, EPOLLIN, on_timer, t, &t->source, err);
    if (r == 0) {
        *ret = t;
        return 0;
    }
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    return r;
}

void loop_timer_set(struct loop_timer *t, uint32_t interval_ms)
{
    struct timespec at = {.tv_sec = interval_ms / 1000, .tv_nsec = (long)(interval_ms % 1000) * 1000000};
    struct itimerspec spec = {.it_interval = at, .it_value = at};
    timerfd_settime(t->fd, 0, &spec, NULL); /* valid values on a timerfd: cannot fail */
}

void loop_timer_free(struct loop_timer *t)
{
    if (!t)
        return;
    loop_remove(t->loop, t->source);
    close(t->fd);
    free(t);
}
