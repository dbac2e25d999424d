/*
 * private_daemon: a dovetaild for one `dovetail run` or `attach`: its own store and socket, gone when that
 * is.
 */
#ifndef PRIVATE_DAEMON_H
#define PRIVATE_DAEMON_H

#include "../proto/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct private_daemon {
    pid_t pid;
    char folder[64]; /* mode 0700: holds socket and log */
    char socket[96], log[96];
    char *store;  /* owned */
    bool is_open; /* to group: another user's, that may connect */
    gid_t group;
};

struct private_daemon_options {
    const char *store;      /* NULL: a fresh directory under the default one */
    const char *hz, *event; /* NULL: the daemon's defaults */
    bool wall;              /* record when threads wait, too */
};

/* Starts it and waits until it answers. Its own error message, if it refuses, is in err. */
int private_daemon_start(struct private_daemon *d, const struct private_daemon_options *o,
                         struct dvt_err *err);
/* Lets processes of this user connect, through their group; root's daemon can do so for one group. */
int private_daemon_admit(struct private_daemon *d, uid_t uid, gid_t gid, struct dvt_err *err);
/* Ends it (it writes what there is) and removes its folder. */
void private_daemon_stop(struct private_daemon *d);

#endif
