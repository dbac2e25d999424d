/*
 * walker: JavaScript stacks in the signal handler, by V8's own GetStackSample, named from the codemap of the isolate.
 * A sample during a garbage collection has the one frame "GC": V8 moves code then.
 */
#ifndef DVT_NODE_WALKER_H
#define DVT_NODE_WALKER_H

#include <stdint.h>

#include "../core/runtime.h"

/* Fills rt's walk, resolve, eval_lo and eval_hi. 0, or -1 where this version of Node.js is not one of those tested. Once a
 * process, in JavaScript. */
int dvt_node_walker_init(struct dvt_runtime *rt, uint32_t node_major);
/* On each thread with an isolate, in JavaScript. -1 if its stacks cannot be walked. */
int dvt_node_walker_start_thread(void);
void dvt_node_walker_stop_thread(void);

#endif
