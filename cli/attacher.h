/*
 * attacher: what a process runs, and how to turn profiling on and off in it while it runs: one struct
 * attacher per runtime. Each says what it would do, does it, or says why not and what would help.
 */
#ifndef ATTACHER_H
#define ATTACHER_H

#include "target.h"

struct attach_options {
    const char *socket;  /* the daemon's, for the target's shim */
    const char *service; /* NULL: as the target's own settings say */
};

struct attach_note {
    char text[240]; /* what was hooked, or would be */
};

struct attacher {
    const char *runtime; /* "java" */
    bool (*is_it)(const struct target *t);
    /* What the process is, beside its pid: "java 25.0.1, com.acme.Main". */
    void (*describe)(const struct target *t, char *out, size_t cap);
    /* Each 0, or an error whose text says why not. check touches nothing. */
    int (*check)(const struct target *t, struct dvt_err *err);
    int (*attach)(const struct target *t, const struct attach_options *o, struct attach_note *ret,
                  struct dvt_err *err);
    int (*detach)(const struct target *t, struct attach_note *ret,
                  struct dvt_err *err); /* DVT_ENOENT: nothing is attached */
};

/* It takes what no other does. */
bool attacher_is_unknown(const struct attacher *a);
/* Never NULL: the last of the table takes every process, and refuses it. */
const struct attacher *attacher_of(const struct target *t);

extern const struct attacher attacher_c, attacher_jvm, attacher_node, attacher_python;

#endif
