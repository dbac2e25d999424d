/*
 * board: see board.h.
 */
#include "board.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct board {
    pthread_mutex_t lock;
    int fd;
    struct report *report;      /* lock */
    struct board_writer writer; /* lock */
    uint64_t flushed;           /* lock */
};

struct ledger report_ledger(const struct report_process *p)
{
    struct ledger l = p->ledger;
    edge_counts_add(&p->proc->edge, &l);
    return l;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n; i++)
        process_unref(r->v[i].proc);
    for (uint32_t i = 0; i < r->n_dropped; i++) {
        free(r->dropped[i].service);
        free(r->dropped[i].name);
    }
    free(r->v);
    free(r->dropped);
    free(r);
}

struct report *report_copy(const struct report *r)
{
    struct report *c = malloc(sizeof *c);
    struct report_process *v = malloc((r->n ? r->n : 1) * sizeof *v);
    if (!c || !v) {
        free(c);
        free(v);
        return NULL;
    }
    *c = *r;
    c->v = v;
    c->dropped = NULL;
    c->n_dropped = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        v[i] = r->v[i];
        process_ref(v[i].proc);
    }
    return c;
}

int board_new(struct board **ret, struct dvt_err *err)
{
    struct board *b = calloc(1, sizeof *b);
    if (!b)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the status board");
    b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->fd < 0 || pthread_mutex_init(&b->lock, NULL) != 0) {
        int e = errno;
        free(b);
        return dvt_fail(err, DVT_EIO, e, "eventfd: %s", strerror(e));
    }
    *ret = b;
    return 0;
}

void board_free(struct board *b)
{
    if (!b)
        return;
    report_free(b->report);
    close(b->fd);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int board_fd(const struct board *b)
{
    return b->fd;
}

void board_clear_news(struct board *b)
{
    uint64_t n;
    if (read(b->fd, &n, sizeof n) < 0)
        return; /* EAGAIN: nothing new */
}

static void tell(struct board *b)
{
    uint64_t one = 1;
    if (write(b->fd, &one, sizeof one) < 0)
        return; /* EAGAIN: told often enough */
}

void board_put_report(struct board *b, struct report *r)
{
    pthread_mutex_lock(&b->lock);
    struct report *old = b->report;
    b->report = r;
    bool asked = !old || r->generation != old->generation;
    pthread_mutex_unlock(&b->lock);
    report_free(old);
    if (asked)
        tell(b);
}

void board_put_writer(struct board *b, const struct board_writer *w)
{
    pthread_mutex_lock(&b->lock);
    b->writer = *w;
    pthread_mutex_unlock(&b->lock);
}

void board_put_flushed(struct board *b, uint64_t generation)
{
    pthread_mutex_lock(&b->lock);
    b->flushed = generation;
    pthread_mutex_unlock(&b->lock);
    tell(b);
}

struct report *board_get_report(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    struct report *r = b->report ? report_copy(b->report) : NULL;
    pthread_mutex_unlock(&b->lock);
    return r;
}

uint64_t board_report_generation(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t g = b->report ? b->report->generation : 0;
    pthread_mutex_unlock(&b->lock);
    return g;
}

uint64_t board_flushed(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t g = b->flushed;
    pthread_mutex_unlock(&b->lock);
    return g;
}

void board_get_writer(struct board *b, struct board_writer *ret)
{
    pthread_mutex_lock(&b->lock);
    *ret = b->writer;
    pthread_mutex_unlock(&b->lock);
}
