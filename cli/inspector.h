/*
 * inspector: has a running Node.js evaluate one expression, through the inspector that it opens on SIGUSR1 at a
 * port of the loopback. The expression closes it again.
 */
#ifndef INSPECTOR_H
#define INSPECTOR_H

#include "target.h"

enum { INSPECTOR_MAX_ANSWER = 1024 };

/* The expression's value must be a text; cut to the cap. All but a signal that kills was made sure of before. */
int inspector_evaluate(const struct target *t, const char *expression, char ret[INSPECTOR_MAX_ANSWER],
                       struct dvt_err *err);

/* ---- pure ---- */

/* The port of a line of /proc/PID/net/tcp that listens at 127.0.0.1 (0: it does not), and its socket's inode. */
unsigned inspector_listening(const char *line, unsigned long *ret_inode);
/* The path in the answer to /json/list, as "/UUID". False: there is none. */
bool inspector_path(const char *answer, char *out, size_t cap);
/* The text that a message gives as the expression's value, or (*ret_threw) of what it threw. False: it is another
 * message. */
bool inspector_value(const char *message, char *out, size_t cap, bool *ret_threw);

#endif
