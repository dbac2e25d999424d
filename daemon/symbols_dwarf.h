/*
 * symbols_dwarf: functions, inlined functions and lines of one module by its debug information. Layer 5,
 * internal to symbols.
 */
#ifndef SYMBOLS_DWARF_H
#define SYMBOLS_DWARF_H

#include <elfutils/libdwfl.h>

#include "symbols_elf.h"

enum { SYMBOLS_MAX_INLINED = 64 };

struct symbols_dwarf;

/* NULL if the module has no debug information (or no memory is left). mod outlives it and lies at its own
 * addresses. */
struct symbols_dwarf *symbols_dwarf_new(Dwfl_Module *mod, struct symbols_names *names);
void symbols_dwarf_free(struct symbols_dwarf *d);
/* Fills out innermost first, at most SYMBOLS_MAX_INLINED inlined ones and the function that holds them;
 * returns how many, 0 if addr is in no unit. The last one's name is NULL if there is none. */
uint32_t symbols_dwarf_names(struct symbols_dwarf *d, uint64_t addr, struct symbols_elf_name *out);
size_t symbols_dwarf_bytes(const struct symbols_dwarf *d);

#endif
