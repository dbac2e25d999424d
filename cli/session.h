/*
 * session: who samples while a command profiles: the daemon that runs here, or a private one; and what was
 * caught, said on standard error at the end.
 */
#ifndef SESSION_H
#define SESSION_H

#include "private_daemon.h"
#include "state.h"

#include <stdbool.h>

struct session {
    bool is_private;
    struct private_daemon own;
    char socket[108];
    char *store;
    int64_t began_ns; /* UNIX */
    uint64_t samples_before, outside_before, lost_before;
};

/* A private daemon is started where o asks for one (store, hz, event), or where none runs. */
int session_start(struct session *s, const struct private_daemon_options *o, struct dvt_err *err);
/* The daemon's state now; the caller frees it. */
int session_state(const struct session *s, struct state **ret, struct dvt_err *err);
/* Has the daemon write what there is, ends a private one, and sums up. */
void session_end(struct session *s);
/* The same without a word: nothing was profiled. */
void session_abandon(struct session *s);

#endif
