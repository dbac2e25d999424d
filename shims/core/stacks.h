/*
 * stacks: takes what the signal handler left in a slot's ring: stacks go through the runtime's resolve and
 * are encoded, announcements of open scopes are kept for drain. Also the table of all code announced so far,
 * which a new daemon gets anew.
 *
 * The consumer side of the handler's rings is under one lock: the sender drains, and a runtime thread may
 * (before a code object dies).
 */
#ifndef DVT_STACKS_H
#define DVT_STACKS_H

#include "slot.h"

void dvt_stacks_set_runtime(const struct dvt_runtime *rt);
/* Takes everything from the slot's handler ring. 0, or -1 if the runtime could not resolve now: nothing is
 * lost, call again. Announcements are appended to s->announced. Any thread. */
int dvt_stacks_take(struct dvt_slot *s);
/* The lock, for the sender's reading of s->announced. */
void dvt_stacks_lock(void);
void dvt_stacks_unlock(void);

/* Sends code and encoded stacks, oldest first. Sender. */
void dvt_stacks_send(void);
/* A new daemon knows no code, and the old one's stacks are void. Sender. */
void dvt_stacks_new_session(void);
void dvt_stacks_count(struct dvt_shim_counts *sum);

void dvt_stacks_before_fork(void);
void dvt_stacks_after_fork(bool in_child);

#endif
