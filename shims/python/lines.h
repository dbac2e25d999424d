/*
 * lines: the source line of a byte offset in a code object, from its line table. Async-signal-safe: the table
 * is read through the guard, a piece at a time.
 */
#ifndef DVT_PY_LINES_H
#define DVT_PY_LINES_H

#include <stddef.h>
#include <stdint.h>

/* table: address of the n bytes of co_linetable (3.9: co_lnotab). Returns what PyCode_Addr2Line returns, but
 * 0 where that says there is no line, and 0 if the table cannot be read. */
uint32_t dvt_py_line(uintptr_t table, size_t n, uint32_t first_line, int64_t offset);

#endif
