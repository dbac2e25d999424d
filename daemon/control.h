/*
 * control: the control socket's connections: handshake, arming, status and flush requests. Layer 1; main
 * thread.
 *
 * The kernel says who is at the other end (SO_PEERCRED); a shim can register and arm only its own process. A
 * connection is read only while nothing waits to be sent to it, so a peer that does not read holds up itself.
 * Garbage is counted, and hung up on after a few packets.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "board.h"
#include "config.h"
#include "ingest.h"
#include "loop.h"
#include "sampler.h"
#include "session.h"

struct control;

struct control_config {
    int listen_fd;        /* stays the caller's */
    const char *endpoint; /* of ingest */
    const struct config *config;
    const struct perf_source *source;
    struct loop *loop;
    struct sessions *sessions;
    struct sampler *sampler;
    struct ingest *ingest;
    struct board *board;
    struct queue *out; /* of struct feed, the sampler's queue: same producer thread */
    const char *const *notes; /* [n_notes], for status */
    uint32_t n_notes;
};

int control_new(const struct control_config *c, struct control **ret, struct dvt_err *err);
/* Hangs up on all. */
void control_free(struct control *c);

/* Takes no more connections, flushes once more with timeout_ms for the shims; control_is_flushed says when
 * it is done. */
void control_begin_stop(struct control *c, uint32_t timeout_ms);
bool control_is_flushed(const struct control *c);

#endif
