/*
 * symbols_table: the functions of one ELF file by address, from its symbol tables and from the search table
 * of .eh_frame. Layer 5, internal to symbols.
 */
#ifndef SYMBOLS_TABLE_H
#define SYMBOLS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <elfutils/libdwfl.h>

struct symbols_table;

/* mod must lie at its own addresses (bias 0) and outlive the table, like elf, its main file. */
struct symbols_table *symbols_table_new(Dwfl_Module *mod, Elf *elf);
void symbols_table_free(struct symbols_table *t);
struct symbols_table_hit {
    const char *name; /* NULL: none */
    bool exported;    /* a global or weak symbol */
    uint64_t start;   /* where the function begins as far as known, else addr */
};
/* The symbol that addr lies in: within the symbol's size; or, of a function without size, within the frame
 * description that begins where it does. */
struct symbols_table_hit symbols_table_find(const struct symbols_table *t, uint64_t addr);

#endif
