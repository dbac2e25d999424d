/*
 * got: redirects what other extensions (uvloop, the C part of asyncio) call of CPython's C API of contexts,
 * by writing their global offset tables. Modules loaded later are seen through dlopen, as called by the
 * interpreter.
 */
#ifndef DVT_PY_GOT_H
#define DVT_PY_GOT_H

void dvt_py_got_install(void);
/* Number of slots written so far. */
unsigned dvt_py_got_patched(void);

#endif
