/*
 * bell: what dovetail attach and a C program with libdovetail in it say to each other: a packet each way over a SOCK_SEQPACKET
 * socket in the abstract name space. The program listens, without a daemon and while it sleeps; it answers its own user
 * and root. The kernel says who is at either end (SO_PEERCRED).
 *
 *   request   one byte of enum dvt_bell_op; for DVT_BELL_WAKE the control socket's path and the service ("": as before), each
 *             with its NUL
 *   answer    one byte of enum dvt_bell_answer
 */
#ifndef DVT_BELL_H
#define DVT_BELL_H

#include "err.h"
#include "limits.h"
#include "str.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum dvt_bell_op { DVT_BELL_REPORT = 'r', DVT_BELL_WAKE = 'w', DVT_BELL_SLEEP = 's' };
enum dvt_bell_answer {
    DVT_BELL_ASLEEP = 'a', /* it records nothing */
    DVT_BELL_AWAKE = 'w',  /* it records, or looks for its daemon */
    DVT_BELL_BUSY = 'b',   /* not now: it is starting or ending */
    DVT_BELL_BAD = '?',    /* the request makes no sense */
};

enum { DVT_BELL_PATH = 107, DVT_BELL_MAX = 1 + DVT_BELL_PATH + 1 + DVT_MAX_SERVICE + 1 };

struct dvt_bell {
    char op;                /* enum dvt_bell_op */
    const char *socket, *service; /* of DVT_BELL_WAKE: NUL-terminated, in the packet */
};

/* The address of a process; its number as it sees itself. Returns the address's length. */
socklen_t dvt_bell_address(pid_t inner_pid, struct sockaddr_un *ret);
/* Writes a request to out[DVT_BELL_MAX]; its length, or 0 if a text is too long. */
size_t dvt_bell_put(const struct dvt_bell *b, char *out);
/* Of a packet p[n]. DVT_EFORMAT. */
int dvt_bell_get(const char *p, size_t n, struct dvt_bell *ret);

#endif
