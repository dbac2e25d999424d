/*
 * codes: numbers for functions. A code object gets its id in the walker, on the thread that runs it: there it
 * is certainly alive, so its names can be copied without the GIL and without touching its reference count,
 * and what waits in rings are ids that never go stale. The sender needs neither the GIL nor a live
 * interpreter to read them. (The other way, keeping addresses and resolving them later under the GIL, blocks
 * the sender behind any extension that holds the GIL, can dead-lock with a dying code object's drain, and
 * ends at finalization.)
 *
 * Two lock-free tables in reserved memory, touched as they fill: address -> id, which a dying code object
 * leaves, and content -> id, so that a program that makes the same function again and again has it once. Both
 * are bounded; beyond, a function is id DVT_PY_CODE_OTHER.
 */
#ifndef DVT_PY_CODES_H
#define DVT_PY_CODES_H

#include "py.h"

enum { DVT_PY_CODE_OTHER = 1, DVT_PY_MAX_CODES = 1 << 18 };

/* 0, or -1 without memory. Also puts the hook on code objects' deallocation in place. */
int dvt_py_codes_init(void);

/* Async-signal-safe. 0: not a code object that can be read. */
uint32_t dvt_py_codes_id(uintptr_t code);
/* The line of an offset in the code of this id. Async-signal-safe; 0: unknown. */
uint32_t dvt_py_codes_line(uintptr_t code, uint32_t id, int64_t offset);

struct dvt_py_code_text {
    struct dvt_str name, file;
    uint32_t first_line;
};
/* What is known of an id; good for ever. */
struct dvt_py_code_text dvt_py_codes_text(uint32_t id);
uint32_t dvt_py_codes_count(void);

#endif
