/*
 * conn: see conn.h.
 */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet {
    struct packet *next;
    int fd; /* owned, or -1 */
    size_t n;
    uint8_t bytes[];
};

int conn_new(int fd, struct loop *loop, loop_fn *fn, void *owner, struct conn **list, uint64_t now_ns,
             struct conn **ret, struct dvt_err *err)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    struct conn *c = calloc(1, sizeof *c);
    int r = c ? 0 : dvt_fail(err, DVT_ENOMEM, 0, "no memory for a connection");
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
        r = dvt_fail(err, DVT_EIO, errno, "SO_PEERCRED: %s", strerror(errno));
    if (r == 0)
        r = loop_add(loop, fd, EPOLLIN, fn, c, &c->source, err);
    if (r) {
        free(c);
        close(fd);
        return r;
    }
    c->fd = fd;
    c->loop = loop;
    c->owner = owner;
    c->pid = peer.pid;
    c->uid = peer.uid;
    c->since_ns = now_ns;
    c->out_end = &c->out;
    c->next = *list;
    c->prev = list;
    if (c->next)
        c->next->prev = &c->next;
    *list = c;
    *ret = c;
    return 0;
}

static void drop_packet(struct conn *c)
{
    struct packet *p = c->out;
    c->out = p->next;
    if (!c->out)
        c->out_end = &c->out;
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

void conn_free(struct conn *c)
{
    while (c->out)
        drop_packet(c);
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    loop_remove(c->loop, c->source);
    close(c->fd);
    process_unref(c->proc);
    free(c);
}

/* 0, or errno. */
static int send_now(int sock, const void *p, size_t n, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

static bool no_room(int e)
{
    return e == EAGAIN || e == EINTR || e == ENOBUFS || e == ETOOMANYREFS;
}

static bool enqueue(struct conn *c, const void *p, size_t n, int fd)
{
    struct packet *x = malloc(sizeof *x + n);
    if (!x)
        return false;
    *x = (struct packet){.fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0), .n = n};
    memcpy(x->bytes, p, n);
    if (fd >= 0 && x->fd < 0) {
        free(x);
        return false;
    }
    *c->out_end = x;
    c->out_end = &x->next;
    loop_change(c->loop, c->source, EPOLLOUT);
    return true;
}

bool conn_send(struct conn *c, const struct dvt_buf *b, int fd)
{
    if (c->out)
        return enqueue(c, b->p, b->n, fd);
    int e = send_now(c->fd, b->p, b->n, fd);
    if (no_room(e))
        return enqueue(c, b->p, b->n, fd);
    return e == 0;
}

bool conn_resume(struct conn *c)
{
    while (c->out) {
        int e = send_now(c->fd, c->out->bytes, c->out->n, c->out->fd);
        if (no_room(e))
            return true;
        if (e)
            return false;
        drop_packet(c);
    }
    loop_change(c->loop, c->source, EPOLLIN);
    return true;
}

bool conn_is_waiting(const struct conn *c)
{
    return c->out != NULL;
}

/* File descriptors that come along are closed by the kernel: there is no room for them. */
ssize_t conn_receive(struct conn *c, void *buf, size_t cap)
{
    ssize_t n = recv(c->fd, buf, cap, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0)
        return no_room(errno) ? -EAGAIN : 0;
    return (size_t)n > cap ? -EMSGSIZE : n;
}
