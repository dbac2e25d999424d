/*
 * lane: one OS thread's stack of residencies, and the scopes open in them.
 *
 * A residency is a Context's stay on the thread, from entering to leaving it (Context.run, an asyncio task's
 * step); the thread's base context is one too. Entering opens one scope, for what is innermost in the
 * context; a set or reset of a variable that matters moves the residency's scopes along; leaving closes them.
 * A greenlet switch leaves one and enters another. The rules, for a new current value:
 *   - it is open in this residency already: close those above it;
 *   - it comes by a reset (going back to something that was not entered here): close all of it, open the new;
 *   - else open it, nested; beyond MAX_DEEP in one residency it takes the place of the top.
 *   - nothing current: close all of this residency, and those of the residencies below while this one lasts:
 *     code in an empty context works for nobody;
 *   - what an asyncio transport's read callback finds current is nothing: it is of the request in which the connection was made, or
 *     in which its reading was last resumed, while the bytes may be any other's.
 * The thread's real context is compared at every event. If an enter or leave went by unseen (a C caller that
 * could not be patched), the lane starts again from what is true now. Attached in the middle, a context found
 * entered that was not seen entered is one whose leaving will not be seen either: nothing is opened in it. A
 * daemon that is away costs almost nothing: no event is followed until there is one, nor while nothing is
 * open.
 */
#ifndef DVT_PY_LANE_H
#define DVT_PY_LANE_H

#include "mark.h"

/* Events, called after they happened. context is the one entered or left. */
void dvt_py_entered(PyObject *before, PyObject *context);
/* The same for a callback whose context says nothing of whom it works for. */
void dvt_py_entered_for_nobody(PyObject *before, PyObject *context);
void dvt_py_left(PyObject *context);
void dvt_py_changed(bool going_back);
/* The same where it is known what changed, for the shim's own scopes while OpenTelemetry is not in use: m
 * (borrowed) has become current inside what was; `left` no longer is and now_owner (NULL: nothing) is again.
 * */
void dvt_py_pushed(const struct dvt_py_mark *m);
void dvt_py_popped(PyObject *left, PyObject *now_owner);
/* The thread now runs something else altogether: a greenlet switch, a fork's child. */
void dvt_py_switched(void);

/* Before the shim is turned on in the middle of a program's life: what lanes know is of before, and contexts may have been
 * entered whose leaving goes by unseen. */
void dvt_py_lane_attach(void);
/* In a fork's child: forgets what was open in the parent and opens again. */
void dvt_py_lane_after_fork(void);

struct dvt_py_lane_counts {
    uint64_t resyncs; /* times an unseen enter or leave was noticed */
    uint64_t too_deep;
};
extern struct dvt_py_lane_counts dvt_py_lane_counts;

/* A generation number: each thread looks for greenlet again when it has changed. */
void dvt_py_greenlet_maybe_loaded(void);

bool dvt_py_quiet(void);

#endif
