/*
 * symbols_kernel: names of kernel addresses from /proc/kallsyms. Layer 5, internal to symbols.
 */
#ifndef SYMBOLS_KERNEL_H
#define SYMBOLS_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct symbols_kernel;

/* Reads f (the format of /proc/kallsyms, in any order). NULL if the addresses are hidden
 * (kernel.kptr_restrict), or without memory. */
struct symbols_kernel *symbols_kernel_read(FILE *f);
struct symbols_kernel *symbols_kernel_open(void);
void symbols_kernel_free(struct symbols_kernel *k);
/* NULL if addr lies before the first function or far behind the last below it. */
const char *symbols_kernel_find(const struct symbols_kernel *k, uint64_t addr);
size_t symbols_kernel_bytes(const struct symbols_kernel *k);

#endif
