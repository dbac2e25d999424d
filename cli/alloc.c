/* alloc: see alloc.h. */
#include "alloc.h"
#include "cli.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void alloc_fail(void)
{
    fputs("dovetail: out of memory\n", stderr);
    exit(CLI_ENVIRONMENT);
}

static void *checked(void *p)
{
    if (!p) {
        alloc_fail();
    }
    return p;
}

void *alloc_bytes(size_t n)
{
    return checked(calloc(1, n ? n : 1));
}

void *alloc_array(size_t n, size_t item_bytes)
{
    return checked(calloc(n ? n : 1, item_bytes));
}

char *alloc_text(const char *p, size_t n)
{
    char *copy = alloc_bytes(n + 1);
    if (n) {
        memcpy(copy, p, n);
    }
    return copy;
}

char *alloc_printf(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    return checked(n < 0 ? NULL : text);
}

void alloc_grow(void *array, size_t *cap, size_t need, size_t item_bytes)
{
    if (need <= *cap) {
        return;
    }
    size_t grown = *cap ? *cap * 2 : 16;
    if (grown < need) {
        grown = need;
    }
    void **p = array; /* any object pointer, by the caller's &pointer */
    void *bigger = grown > SIZE_MAX / item_bytes ? NULL : realloc(*p, grown * item_bytes);
    *p = checked(bigger);
    *cap = grown;
}
