/*
 * push: sealed messages to the daemon over a ZeroMQ PUSH socket. The sender thread's alone: a ZeroMQ socket stays on its
 * thread. Never waits; what does not fit into the queue is the caller's to count.
 */
#ifndef DVT_PUSH_H
#define DVT_PUSH_H

#include "../../proto/wire.h"

enum {
    DVT_PUSH_BATCH_BYTES = 128 << 10, /* messages are cut at about this */
    DVT_PUSH_QUEUE = 128,             /* messages in flight: with the above about 16 MiB */
};

int dvt_push_open(const struct dvt_welcome *w);
/* Seals and queues one body; empties it. 0, or DVT_ELIMIT if the queue is full, or another DVT_E*. */
int dvt_push_send(struct dvt_buf *body);
/* Waits up to linger_ms for what is queued. */
void dvt_push_close(int linger_ms);
/* In a forked child: ZeroMQ's threads are the parent's; its memory is left behind. */
void dvt_push_after_fork_child(void);

#endif
