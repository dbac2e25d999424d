/*
 * swap: makes a Scope the value of the shim's variable, and the value before it again, cheaply.
 *
 * A Context's variables are an immutable map (CPython's HAMT) behind one pointer. Entering by
 * PyContextVar_Set makes a new map; here the map before is kept with it, and leaving just puts its pointer
 * back, if the context still has the map that entering made. Pairs of maps that hold nothing of the
 * application are kept on: a Scope that nobody else can reach any more is given out again for the next scope
 * in that place, and its map with it, so that entering is a pointer too. What does not fit goes the usual
 * way.
 */
#ifndef DVT_PY_SWAP_H
#define DVT_PY_SWAP_H

#include "scope.h"

/* Once, after the shim's variable is made. */
void dvt_py_swap_init(void);

/* A Scope of an earlier pair that can be entered by pointer in the present context, strong, its fields as its
 * last use left them; or NULL. */
struct dvt_py_scope *dvt_py_swap_recycled(void);

/* Makes s, not entered before, current and stores the value before in s->outer (strong or NULL). False if
 * there was no memory for it; the value stays then. */
bool dvt_py_swap_in(struct dvt_py_scope *s);
/* True if s was current by dvt_py_swap_in and what was before is again. False: nothing done. */
bool dvt_py_swap_out(struct dvt_py_scope *s);
/* Makes value (a Scope or None) current by the long way. False without memory for it. */
bool dvt_py_swap_set(PyObject *value);
/* Lets go of what is kept for s: it was not left where it was entered. */
void dvt_py_swap_forget(struct dvt_py_scope *s);

#endif
