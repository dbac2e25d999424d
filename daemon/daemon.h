/*
 * daemon: the wiring of all threads, from start to clean stop. Layer 6.
 */
#ifndef DAEMON_H
#define DAEMON_H

#include "config.h"

/* Runs until SIGTERM, SIGINT or the end of --exit-with's process, then flushes: nothing that arrived is
 * lost. Call once, with no other thread running. */
int daemon_run(const struct config *config, struct dvt_err *err);

/* Tells systemd, if it started us (sd_notify(3)); errors are not worth stopping for. */
void daemon_notify(const char *state);

#endif
