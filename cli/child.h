/*
 * child: runs the user's program in the foreground and passes signals on to it.
 */
#ifndef CHILD_H
#define CHILD_H

#include "../proto/err.h"

/* Runs argv (NULL-terminated) with the environment as it is, until it has ended. Signals sent to this process
 * alone are passed on; those the terminal sends reach the program by themselves. *ret_code: its exit code, or
 * 128 + the signal that ended it; 127 or 126 if it could not be started (then DVT_ENOENT or DVT_EPERM, with a
 * message). */
int child_run(char *const argv[], int *ret_code, struct dvt_err *err);

#endif
