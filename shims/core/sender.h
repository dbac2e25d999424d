/*
 * sender: the one thread that talks to the daemon: connects and reconnects for ever, takes what the threads'
 * slots hold and sends it, arms threads. It blocks all signals. And the life cycle around it: start, stop,
 * fork.
 */
#ifndef DVT_SENDER_H
#define DVT_SENDER_H

#include "config.h"
#include "slot.h"

/* Has the sender look at the rings now. One write to an eventfd; errno is preserved. Any thread. */
void dvt_sender_wake(void);
/* A thread has got its slot: asks for its arming; in a forked child, first starts the sender. */
void dvt_sender_new_thread(struct dvt_slot *s);

/* The thread itself (sender.c), for start.c. */
struct dvt_sender_args {
    const struct dvt_config *config;
    const struct dvt_runtime *runtime;
    int wake_fd;
};
void dvt_sender_run(const struct dvt_sender_args *args);
/* Ends dvt_sender_run: it has until deadline_ns to send what there is. */
void dvt_sender_ask_stop(uint64_t deadline_ns);
void dvt_sender_set_dormant(bool dormant);
void dvt_sender_after_fork_child(void);
/* For the sender: what the bell said goes into the configuration; texts that are "" change nothing. False: a stop is under way. */
bool dvt_start_set(bool dormant, const char *socket, const char *service);

void dvt_set_error(const char *text);

#endif
