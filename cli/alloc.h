/*
 * alloc: memory for a program that runs for a moment. Running out of it ends the program with a message and
 * exit code 3, so callers need no path for it. Sizes come from data that was bounded where it was read.
 */
#ifndef ALLOC_H
#define ALLOC_H

#include <stddef.h>

void *alloc_bytes(size_t n);                    /* zeroed */
void *alloc_array(size_t n, size_t item_bytes); /* zeroed, overflow checked */
char *alloc_text(const char *p, size_t n);      /* NUL-terminated copy */
char *alloc_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What they do when there is none left. */
_Noreturn void alloc_fail(void);

/* Makes room for at least need items in *array, doubling *cap. */
void alloc_grow(void *array, size_t *cap, size_t need, size_t item_bytes);

#endif
