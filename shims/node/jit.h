/*
 * jit: keeps a codemap of the calling thread's isolate by V8's code events, from what exists already on.
 */
#ifndef DVT_NODE_JIT_H
#define DVT_NODE_JIT_H

#include "codemap.h"
#include "v8.h"

/* The calling thread's map, or NULL. Async-signal-safe. */
struct dvt_node_codemap *dvt_node_jit_map(void);
/* On the isolate's thread, in JavaScript; started twice changes nothing. 0, or -1: no memory. */
int dvt_node_jit_start(const struct dvt_v8 *v8);
/* On the same thread, before its isolate goes. */
void dvt_node_jit_stop(const struct dvt_v8 *v8);

#endif
