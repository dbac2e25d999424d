/*
 * symbols_elf: one ELF file: what its addresses are called and how to step up from them. Layer 5, internal to
 * symbols; writer thread only.
 *
 * Works in the file's own addresses, so one instance serves every process that maps the file. What was asked
 * once is kept per address ("site"): a profile asks for the same few thousand again and again. Debug
 * information is looked for in the file and in /usr/lib/debug, by build-id and never over the network.
 */
#ifndef SYMBOLS_ELF_H
#define SYMBOLS_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols_names.h"
#include "unwind.h"

struct symbols_elf;

struct symbols_elf_name { /* one function; inlined ones come before the function that holds them */
    const char *name, *file; /* interned; file may be "" */
    uint32_t line;
    bool inlined;
};

struct symbols_elf_site {
    const struct unwind_row *row;
    const struct symbols_elf_name *names; /* [n_names], innermost first, at least one */
    uint32_t n_names;
};

/* fd: borrowed. path: as the process sees it; its last part is the module's name. Never NULL but without
 * memory: a file that is not readable ELF gives sites named module+offset without rows. */
struct symbols_elf *symbols_elf_new(struct symbols_names *names, int fd, const char *path);
void symbols_elf_free(struct symbols_elf *e);

const char *symbols_elf_module(const struct symbols_elf *e);
/* What is at this offset of the file; ret is valid until the next call. False only without memory. */
bool symbols_elf_site(struct symbols_elf *e, uint64_t offset, struct symbols_elf_site *ret);
size_t symbols_elf_bytes(
    const struct symbols_elf *e); /* near enough: libdw's share is measured by the heap's growth */

#endif
