/*
 * handshake: from a HELLO to a WELCOME or a reason to refuse. Layer 1; main thread.
 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

#include "conn.h"
#include "perf_open.h"
#include "queue.h"
#include "session.h"

struct handshake {
    struct sessions *sessions;
    struct queue *out; /* of struct feed: the pipeline learns of a process before its first message is read */
    const char *endpoint;
    const struct perf_source_info *source;
};

/* Checks version, role and that the process is who it says it is; makes c a shim's or a CLI's connection;
 * appends the WELCOME to out. On failure err's text is for the peer, and c is as before. */
int handshake_answer(const struct handshake *h, struct conn *c, struct dvt_str map, struct dvt_buf *out,
                     struct dvt_err *err);

#endif
