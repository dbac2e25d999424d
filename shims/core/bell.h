/*
 * bell: lets dovetail attach and detach wake a C program and put it to sleep: its end of proto/bell.h. Opened before the sender thread
 * starts; then that thread's.
 */
#ifndef DVT_CORE_BELL_H
#define DVT_CORE_BELL_H

#include "../../proto/bell.h"

/* Listens. Where that cannot be (the name is taken), attach says that there is no bell. */
void dvt_bell_open(void);
void dvt_bell_close(void);
/* To be polled for input; -1: closed. */
int dvt_bell_fd(void);
/* Takes a request: the descriptor that dvt_bell_answer gets, or -1. ret's texts are good until the next call. Waits for a caller
 * that has come, for at most a tenth of a second. */
int dvt_bell_take(struct dvt_bell *ret);
void dvt_bell_answer(int fd, char answer);
/* In the child of a fork: the bell is the parent's. */
void dvt_bell_after_fork_child(void);

#endif
