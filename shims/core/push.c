/*
 * push: see push.h. A process of thousands of threads has thousands of small messages in one flush: more than
 * a mark in messages that also bounds large ones would take.
 */
#include "push.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

enum { MAX_ENDPOINT = 256 };

struct waiting {
    struct waiting *next;
    size_t n;
    uint8_t bytes[];
};

static void *ctx, *sock;
static uint64_t session, seq;
static uint8_t key[DVT_KEY_BYTES];
static struct dvt_buf sealed;
static struct waiting *first, **last = &first;
static size_t waiting_bytes;

static int set_int(int option, int value)
{
    return zmq_setsockopt(sock, option, &value, sizeof value);
}

int dvt_push_open(const struct dvt_welcome *w)
{
    char endpoint[MAX_ENDPOINT];
    if (w->endpoint.n == 0 || w->endpoint.n >= sizeof endpoint)
        return DVT_EFORMAT;
    memcpy(endpoint, w->endpoint.p, w->endpoint.n);
    endpoint[w->endpoint.n] = 0;
    dvt_push_close(0);
    if (!(ctx = zmq_ctx_new()) || !(sock = zmq_socket(ctx, ZMQ_PUSH)))
        goto fail;
    if (set_int(ZMQ_LINGER, 0) != 0 || set_int(ZMQ_SNDHWM, DVT_PUSH_HWM) != 0)
        goto fail;
    if (zmq_connect(sock, endpoint) != 0)
        goto fail;
    session = w->session;
    seq = 0;
    memcpy(key, w->key, sizeof key);
    dvt_buf_init(&sealed, DVT_MAX_MESSAGE);
    return 0;
fail:
    dvt_push_close(0);
    return DVT_EIO;
}

static int keep_waiting(const struct dvt_buf *b)
{
    if (waiting_bytes + b->n > DVT_PUSH_WAITING_BYTES)
        return DVT_ELIMIT;
    struct waiting *w = malloc(sizeof *w + b->n);
    if (!w)
        return DVT_ENOMEM;
    w->next = NULL;
    w->n = b->n;
    memcpy(w->bytes, b->p, b->n);
    waiting_bytes += b->n;
    *last = w;
    last = &w->next;
    return 0;
}

static void drop_first(void)
{
    struct waiting *w = first;
    first = w->next;
    last = first ? last : &first;
    waiting_bytes -= w->n;
    free(w);
}

bool dvt_push_retry(void)
{
    while (sock && first && zmq_send(sock, first->bytes, first->n, ZMQ_DONTWAIT) >= 0)
        drop_first();
    return first != NULL;
}

int dvt_push_send(struct dvt_buf *body)
{
    if (!sock) {
        body->n = 0;
        return DVT_ESTATE;
    }
    sealed.n = 0;
    int rc = dvt_wire_seal(&sealed, session, seq + 1, key, body->p, body->n);
    body->n = 0;
    if (rc != 0)
        return rc;
    if (dvt_push_retry() || zmq_send(sock, sealed.p, sealed.n, ZMQ_DONTWAIT) < 0)
        rc = first || errno == EAGAIN ? keep_waiting(&sealed) : DVT_EIO;
    seq += rc == 0;
    return rc;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Gives the rest to ZeroMQ until the time is up; returns what is left of it. */
static int send_rest(int linger_ms)
{
    int64_t until = now_ms() + linger_ms, left = linger_ms;
    while (first && left > 0) {
        set_int(ZMQ_SNDTIMEO, (int)left);
        if (zmq_send(sock, first->bytes, first->n, 0) >= 0)
            drop_first();
        left = until - now_ms();
    }
    return left > 0 ? (int)left : 0;
}

void dvt_push_close(int linger_ms)
{
    if (sock) {
        set_int(ZMQ_LINGER, send_rest(linger_ms));
        zmq_close(sock);
    }
    if (ctx)
        zmq_ctx_term(ctx);
    sock = ctx = NULL;
    while (first)
        drop_first();
    dvt_buf_fini(&sealed);
    memset(key, 0, sizeof key);
}

void dvt_push_after_fork_child(void)
{
    sock = ctx = NULL;
    sealed = (struct dvt_buf){0};
    first = NULL;
    last = &first;
    waiting_bytes = 0;
}
