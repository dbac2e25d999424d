/* A shim's side of the protocol for tests: blocking, one packet at a time. */
#ifndef FAKE_SHIM_H
#define FAKE_SHIM_H

#include "../../proto/wire.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static inline int shim_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int shim_send(int fd, struct dvt_buf *b)
{
    ssize_t n = send(fd, b->p, b->n, MSG_NOSIGNAL);
    b->n = 0;
    return n < 0 ? -1 : 0;
}

struct shim_packet {
    size_t n; /* 0: hung up */
    uint32_t type;
    struct dvt_str map; /* into bytes */
    int fd;             /* received with it, or -1 */
    uint8_t bytes[DVT_MAX_CONTROL];
};

/* What is there now; false if nothing is. */
static inline bool shim_receive(int fd, struct shim_packet *p)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = p->bytes, .iov_len = sizeof p->bytes};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen =
            sizeof control.bytes};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return false;
    p->n = (size_t)n;
    p->type = 0;
    p->fd = -1;
    const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type == SCM_RIGHTS)
        memcpy(&p->fd, CMSG_DATA(h), sizeof p->fd);
    if (n > 0 && dvt_wire_type((struct dvt_str){(const char *)p->bytes, p->n}, &p->type, &p->map, NULL))
        p->type = 0;
    return true;
}

static inline struct dvt_hello shim_hello(uint32_t role)
{
    return (struct dvt_hello){.major = DVT_WIRE_MAJOR,
                              .minor = DVT_WIRE_MINOR,
                              .role = role,
                              .pid = (uint32_t)getpid(),
                              .runtime = dvt_str("c"),
                              .service = dvt_str("checkout"),
                              .program = dvt_str("test")};
}

#endif
