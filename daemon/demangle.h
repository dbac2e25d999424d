/*
 * demangle: linker names to what programmers wrote. Layer 5, internal to symbols. Pure.
 */
#ifndef DEMANGLE_H
#define DEMANGLE_H

#include <stddef.h>

/* Writes the readable form of the symbol into out[cap]: C++ by __cxa_demangle, Rust's legacy scheme also
 * without its hash and with its escapes decoded. Other names are copied, also those too long or too nested to
 * be demangled in bounded memory. NUL-terminated; one longer than cap is cut and ends in a hash, so that
 * different names stay different. */
void demangle(const char *symbol, char *out, size_t cap);

#endif
