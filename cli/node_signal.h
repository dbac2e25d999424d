/*
 * node_signal: whether a Node.js program has a SIGUSR1 handler of its own: then it is not ours to send. Node's own
 * handler, which opens the inspector, looks the same in /proc; but JavaScript's handlers are in libuv's tree, which
 * is read from the process's memory. A native addon that calls sigaction by itself is not seen.
 */
#ifndef NODE_SIGNAL_H
#define NODE_SIGNAL_H

#include "target.h"

/* 0, or why it cannot be told. */
int node_signal_is_taken(const struct target *t, int signal, bool *ret, struct dvt_err *err);

#endif
