/*
 * threads: has a new thread armed before its first scope, so that a thread that lives for one short request is
 * sampled too. Done only once the process has shown that it opens scopes on young threads, and with a daemon:
 * threads of other programs are started as if the shim were not there.
 */
#ifndef DVT_PY_THREADS_H
#define DVT_PY_THREADS_H

#include "py.h"

/* Once. Without the functions it knows, it does nothing. */
void dvt_py_threads_install(void);
/* At a thread's first scope, on it. */
void dvt_py_threads_first_scope(void);

#endif
