/*
 * guard: loads from memory that may not be there, in a signal handler. A load that faults returns false;
 * every other fault goes to the handler that was there before, as if we were not. If somebody installs a
 * SIGSEGV handler after us, loads go through process_vm_readv instead: slower, as safe.
 */
#ifndef DVT_PY_GUARD_H
#define DVT_PY_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or -1 where this processor has no guarded load: nothing may be walked then. */
int dvt_py_guard_init(void);
/* At the start of a walk: sees whose fault handler is in force. */
void dvt_py_guard_check(void);
/* Copies n bytes; async-signal-safe. */
bool dvt_py_guard_read(void *to, uintptr_t from, size_t n);
uint64_t dvt_py_guard_faults(void);

#endif
