/*
 * err: the error record that fallible functions fill.
 *
 * A function returns 0 or a negative DVT_E* code; the caller may pass a struct dvt_err to learn
 * what was tried, on what, and the errno. It is filled where the failure happens and never
 * logged there. Messages say what to do where that is known.
 */
#ifndef DVT_ERR_H
#define DVT_ERR_H

enum {
    DVT_OK = 0,
    DVT_EINVAL = -1,   /* the caller's or user's input is wrong */
    DVT_ENOMEM = -2,
    DVT_EIO = -3,      /* a system call failed; sys_errno says how */
    DVT_EPERM = -4,    /* the machine does not allow it */
    DVT_EFORMAT = -5,  /* outside bytes are damaged or not ours */
    DVT_EVERSION = -6, /* another major version of a format */
    DVT_EAUTH = -7,    /* a forged, replayed or unknown session's message */
    DVT_ELIMIT = -8,   /* a bound of limits.h was reached */
    DVT_ENOENT = -9,   /* nothing of that name */
    DVT_EBUSY = -10,   /* another owner has it */
    DVT_ESTATE = -11,  /* called in the wrong state */
};

struct dvt_err {
    int code;      /* one of the above */
    int sys_errno; /* 0 where no system call failed */
    char text[240]; /* one line, no newline: what failed, on what, what to do */
};

/* Fills *err (may be NULL) and returns code, so that `return dvt_fail(err, ...)` reads well.
 * The text is printf-formatted and truncated to the buffer. */
int dvt_fail(struct dvt_err *err, int code, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
