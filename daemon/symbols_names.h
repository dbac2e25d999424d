/*
 * symbols_names: interned strings. Layer 5, internal to symbols; writer thread only.
 */
#ifndef SYMBOLS_NAMES_H
#define SYMBOLS_NAMES_H

#include <stddef.h>

struct symbols_names;

struct symbols_names *symbols_names_new(void);
void symbols_names_free(struct symbols_names *t);
/* The one copy of z, made valid UTF-8 without control characters and cut to cap_bytes; lives as long as t.
 * Above the table's bound (64 MiB), or without memory, "[too many names]". Never NULL. */
const char *symbols_names_intern(struct symbols_names *t, const char *z, size_t cap_bytes);
size_t symbols_names_bytes(const struct symbols_names *t);

#endif
