/*
 * elf_symbol: where functions and variables of a running process lie, by the symbol tables of its program and libraries.
 */
#ifndef ELF_SYMBOL_H
#define ELF_SYMBOL_H

#include "target.h"

/* Addresses in the target of the symbols names[n], 0 where there is none: of its first mapped file whose name begins so,
 * or of its program (begin NULL). Files are taken to be mapped from their beginning on, at one stretch. DVT_EPERM. */
int elf_symbol_find(const struct target *t, const char *begin, const char *const *names, uint64_t *ret, size_t n,
                    struct dvt_err *err);

/* ---- pure ---- */

/* The value of a symbol of a 64-bit ELF file's symbol tables (0: none), and whether it counts from where the file was
 * loaded. */
uint64_t elf_symbol(const void *file, size_t n, const char *name, bool *ret_is_relative);

#endif
