/*
 * control: the daemon's control socket as the command line uses it: ask for its state, ask it to write what
 * there is.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "../proto/wire.h"

struct control {
    int fd;
    char path[108];
};

/* Connects to path, or (NULL) to $DOVETAIL_SOCKET, or else to the first of the usual places where a daemon
 * listens, and greets it. DVT_ESTATE: no daemon is there; DVT_EPERM; DVT_EVERSION. */
int control_open(struct control *c, const char *path, struct dvt_err *err);
void control_close(struct control *c);

/* Appends the daemon's state, one JSON object, to out. */
int control_status(struct control *c, struct dvt_buf *out, struct dvt_err *err);
/* Returns when everything that had arrived is in the store. */
int control_flush(struct control *c, int timeout_ms, struct dvt_err *err);

#endif
