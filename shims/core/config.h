/*
 * config: what the process says about itself and where it looks for the daemon, from options and environment.
 */
#ifndef DVT_CONFIG_H
#define DVT_CONFIG_H

#include "dovetail.h"
#include "../../proto/err.h"
#include "../../proto/limits.h"

enum { DVT_SOCKET_PLACES = 3, DVT_SOCKET_PATH = 108 /* sun_path */ };

struct dvt_config {
    char socket[DVT_SOCKET_PLACES][DVT_SOCKET_PATH]; /* tried in turn */
    int n_sockets;
    char service[DVT_MAX_SERVICE + 1];
    char program[DVT_MAX_NAME + 1];
    char tag_template[DVT_MAX_TAG + 1];
    bool dormant, off, no_ticks;
};

/* Fills *c. options and program may be NULL. DVT_EINVAL for a bad template or an over-long socket path. */
int dvt_config_read(struct dvt_config *c, const struct dvt_options *options, const char *program,
                    struct dvt_err *err);

#endif
