/*
 * control: the shim's end of the control socket: connect, hello, requests to arm threads, packets with
 * descriptors.
 *
 * The sender thread connects, reads and closes. A thread at its first scope sends its own ARM, so that no
 * third thread must run before the daemon hears of it; the lock in here is for that. Nothing blocks on the
 * peer.
 */
#ifndef DVT_CONTROL_H
#define DVT_CONTROL_H

#include "config.h"
#include "slot.h"

/* Connects to the first socket that answers and says hello. 0, or DVT_EIO. Sender. */
int dvt_control_connect(const struct dvt_config *c, const struct dvt_runtime *rt, struct dvt_err *err);
/* After WELCOME: threads may send ARM from now on. Sender. */
void dvt_control_ready(void);
void dvt_control_close(void);
int dvt_control_fd(void); /* -1 when closed. Sender */

/* Takes a packet: its bytes, or 0 if there is none, or -1 if the daemon hung up. *ret_fd is a descriptor that
 * came with it (the caller's to close), else -1. Sender. */
long dvt_control_take(void *p, size_t cap, int *ret_fd);

/* Asks the daemon to sample the slot's thread if it is wanted and the daemon is there; else it stays wanted.
 * Any thread. */
void dvt_control_arm(struct dvt_slot *s);
void dvt_control_disarm(const struct dvt_slot *s);
/* The slot whose arming number this is, if it waits for an answer. Sender. */
struct dvt_slot *dvt_control_waiting(uint32_t tid, uint32_t epoch);

void dvt_control_before_fork(void);
void dvt_control_after_fork(bool in_child);

#endif
