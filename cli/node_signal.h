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

/* ---- pure ---- */

/* The value of a symbol of a 64-bit ELF file's symbol table (0: none), and whether it counts from where the file
 * was loaded. */
uint64_t node_signal_symbol(const void *file, size_t n, const char *name, bool *ret_is_relative);

#endif
