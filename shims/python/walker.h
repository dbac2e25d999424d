/*
 * walker: the managed stack of the interrupted thread, walked in core's SIGURG handler.
 */
#ifndef DVT_PY_WALKER_H
#define DVT_PY_WALKER_H

#include "py.h"

struct dvt_py_walker_counts {
    unsigned codes; /* functions known */
    uint64_t faults;
};

/* Fills rt's walk, resolve, eval_lo and eval_hi, or leaves them 0 where this machine has no walker. */
void dvt_py_walker_init(struct dvt_runtime *rt);
/* From now on walks say that there is no stack: the interpreter is about to go. */
void dvt_py_walker_stop(void);
struct dvt_py_walker_counts dvt_py_walker_counts(void);

/* For tests: walks the calling thread now, and the line of an offset in a code object. */
PyObject *dvt_py_walker_now(PyObject *self, PyObject *unused);
PyObject *dvt_py_walker_line(PyObject *self, PyObject *args);

#endif
