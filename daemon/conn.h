/*
 * conn: one connection of the control socket: packets in and out with file descriptors. Layer 1; main thread.
 */
#ifndef CONN_H
#define CONN_H

#include "loop.h"
#include "peer.h"
#include "process.h"

#include <sys/types.h>

struct packet;

enum { CONN_MAX_BAD = 4, CONN_HELLO_MS = 5000 };

struct conn {
    struct conn **prev, *next;  /* in its owner's list */
    void *owner;
    struct loop *loop;
    struct loop_source *source;
    int fd;
    pid_t pid;                  /* by SO_PEERCRED; 0: not visible from here */
    uid_t uid;
    uint64_t since_ns;          /* accepted */
    struct packet *out, **out_end; /* waiting to be sent */
    uint32_t n_bad;
    bool hang_up;               /* once everything is sent */

    uint32_t role;              /* enum dvt_role; 0 before HELLO */
    struct peer peer;           /* of a shim */
    struct process *proc;       /* of a shim, a reference */
    uint64_t session;
    uint64_t wants_report, wants_flush; /* generations a CLI waits for; 0: none */
};

/* Takes fd. */
int conn_new(int fd, struct loop *loop, loop_fn *fn, void *owner, struct conn **list, uint64_t now_ns,
             struct conn **ret, struct dvt_err *err);
/* Closes and unlinks. */
void conn_free(struct conn *c);

/* Sends p[n] now or when there is room, with a copy of fd unless it is < 0. False: the peer is gone. */
bool conn_send(struct conn *c, const struct dvt_buf *b, int fd);
/* On EPOLLOUT. False: the peer is gone. */
bool conn_resume(struct conn *c);
bool conn_is_waiting(const struct conn *c); /* for room to send */

/* The next packet into buf[cap]: its length, 0 at the end of the connection, -EAGAIN, -EMSGSIZE for one
 * beyond cap. */
ssize_t conn_receive(struct conn *c, void *buf, size_t cap);

#endif
