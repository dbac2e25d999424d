/*
 * processes: which processes a name, a tree or a control group stands for, by /proc and cgroup.procs.
 */
#ifndef PROCESSES_H
#define PROCESSES_H

#include "../proto/err.h"

#include <stddef.h>
#include <sys/types.h>

struct processes {
    pid_t *v; /* [n] ascending, each once; owned */
    size_t n, cap;
};
void processes_fini(struct processes *p);

/* Each adds those it finds, this program left out; DVT_ENOENT where there is none. */
/* Whose program's name, or whole command line, matches the glob pattern ("*order*"). */
int processes_by_name(struct processes *p, const char *pattern, struct dvt_err *err);
/* The process and all below it. */
int processes_by_tree(struct processes *p, pid_t root, struct dvt_err *err);
/* Of the control group and those in it: a path below /sys/fs/cgroup, with or without that. */
int processes_by_cgroup(struct processes *p, const char *path, struct dvt_err *err);

#endif
