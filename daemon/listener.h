/*
 * listener: the control socket's file: a directory that only we can write, one daemon per path. Layer 1.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include "../proto/err.h"

/* Makes the last directory of path (0750) if it is missing, and listens there (SOCK_SEQPACKET, 0660).
 * Directory and socket go to group unless it is empty. DVT_EBUSY with the pid if a daemon lives there,
 * DVT_EPERM for a directory that others can write, DVT_EIO. */
int listener_open(const char *path, const char *group, int *ret_fd, struct dvt_err *err);
/* Gives a socket file of ours (made by ZeroMQ) the same mode and group. */
int listener_protect(const char *path, const char *group, struct dvt_err *err);

#endif
