/*
 * push: see push.h.
 */
#include "push.h"

#include <errno.h>
#include <zmq.h>

enum { MAX_ENDPOINT = 256 };

static void *ctx, *sock;
static uint64_t session, seq;
static uint8_t key[DVT_KEY_BYTES];
static struct dvt_buf sealed;

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
    if (set_int(ZMQ_LINGER, 0) != 0 || set_int(ZMQ_SNDHWM, DVT_PUSH_QUEUE) != 0 || set_int(ZMQ_SNDTIMEO, 0) != 0)
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
    if (zmq_send(sock, sealed.p, sealed.n, ZMQ_DONTWAIT) < 0)
        return errno == EAGAIN ? DVT_ELIMIT : DVT_EIO;
    seq++;
    return 0;
}

void dvt_push_close(int linger_ms)
{
    if (sock) {
        set_int(ZMQ_LINGER, linger_ms);
        zmq_close(sock);
    }
    if (ctx)
        zmq_ctx_term(ctx);
    sock = ctx = NULL;
    dvt_buf_fini(&sealed);
    memset(key, 0, sizeof key);
}

void dvt_push_after_fork_child(void)
{
    sock = ctx = NULL;
    sealed = (struct dvt_buf){0};
}
