/*
 * push: sealed messages to the daemon over a ZeroMQ PUSH socket. The sender thread's alone: a ZeroMQ socket
 * stays on its thread. Never waits: what ZeroMQ does not take now is kept in a queue bounded in bytes; what
 * does not fit there is the caller's to count.
 */
#ifndef DVT_PUSH_H
#define DVT_PUSH_H

#include "../../proto/wire.h"

enum {
    DVT_PUSH_BATCH_BYTES = 128 << 10, /* messages are cut at about this */
    DVT_PUSH_HWM = 128,               /* messages within ZeroMQ: with the above at most 16 MiB */
    DVT_PUSH_WAITING_BYTES = 16 << 20,
};

int dvt_push_open(const struct dvt_welcome *w);
/* Seals and queues one body; empties it. 0, or DVT_ELIMIT if the queue is full, or another DVT_E*. */
int dvt_push_send(struct dvt_buf *body);
/* Gives waiting messages to ZeroMQ. True if some still wait: call again soon. */
bool dvt_push_retry(void);
/* Waits up to linger_ms for what is queued. */
void dvt_push_close(int linger_ms);
/* In a forked child: ZeroMQ's threads are the parent's; its memory is left behind. */
void dvt_push_after_fork_child(void);

#endif
