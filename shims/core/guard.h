/*
 * guard: loads from memory that may not be there, in a signal handler. A load that faults returns false;
 * every other fault goes to the handler that was there before, as if we were not. If somebody installs a
 * SIGSEGV handler after us, loads go through process_vm_readv instead: slower, as safe.
 */
#ifndef DVT_GUARD_H
#define DVT_GUARD_H

#include "dovetail.h"

/* Called again it is 0 and changes nothing. 0, or -1 where this processor has no guarded load: nothing may be walked then. */
DVT_API int dvt_guard_init(void);
/* At the start of a walk: sees whose fault handler is in force. */
DVT_API void dvt_guard_check(void);
/* Copies n bytes; async-signal-safe. */
DVT_API bool dvt_guard_read(void *to, uintptr_t from, size_t n);
DVT_API uint64_t dvt_guard_faults(void);

#endif
