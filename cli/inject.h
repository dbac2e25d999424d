/*
 * inject: has the main thread of a running CPython run some source once, by ptrace, without a debugger. x86-64.
 *
 * The thread is stopped, made to call a function or two of the interpreter with the stack below its own frame, and goes on
 * as it was: registers, vector registers and an interrupted system call. Blocked in a call in which CPython has given its
 * lock away, it takes the lock and runs the source at once; else the source is left as a pending call (Py_AddPendingCall),
 * which the interpreter makes at its next safe point. A thread that waits for a lock is made to look for it.
 * Source: ptrace(2), the C API's reference "Thread State and the Global Interpreter Lock".
 */
#ifndef INJECT_H
#define INJECT_H

#include "target.h"

/* What it is made to call, as addresses in the target. */
struct inject_calls {
    uint64_t run, add_pending, ensure, release, check, mmap, munmap, poll, clock_nanosleep;
};

struct inject_result {
    uint64_t stopped_ns; /* how long the main thread did not run code of its own */
    bool is_pending;     /* the source runs later, if at all: its memory must stay until it has */
    uint64_t memory;     /* [memory_bytes] the source in the target */
    size_t memory_bytes;
};

/* Finds them. DVT_ESTATE: this is not a CPython that can be injected into, with the reason. */
int inject_find(const struct target *t, struct inject_calls *ret, struct dvt_err *err);
/* Runs source, which must catch all exceptions. What comes out of it, it must tell by itself. DVT_EPERM, DVT_ESTATE, DVT_ENOENT
 * (it has ended): then nothing was run. */
int inject_run(const struct target *t, const struct inject_calls *calls, const char *source, struct inject_result *ret,
               struct dvt_err *err);
/* Gives the memory back once the source has run. */
int inject_free(const struct target *t, const struct inject_calls *calls, struct inject_result *r, struct dvt_err *err);

#endif
