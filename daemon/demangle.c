/*
 * demangle: see demangle.h. Names come from the files of profiled processes, so they may be made to hurt: a
 * mangled name can refer back to itself and so double its length a few bytes at a time. The length and the
 * number of back references are bounded before the demangler sees it.
 */
#include "demangle.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MANGLED = 1024, MAX_BACK_REFERENCES = 32, RUST_HASH = 16 };

char *__cxa_demangle(const char *mangled, char *buf, size_t *n, int *status);

/* Counts "S_", "S1_", "T_", "T0_": each may repeat a piece of what came before. */
static bool may_be_demangled(const char *s)
{
    size_t refs = 0, n = strnlen(s, MAX_MANGLED + 1);
    for (size_t i = 0; i + 1 < n; i++) {
        size_t k = i + 1;
        while (k < n && (isdigit((unsigned char)s[k]) || isupper((unsigned char)s[k])) && k - i < 4)
            k++;
        refs += (s[i] == 'S' || s[i] == 'T') && s[k] == '_';
    }
    return n <= MAX_MANGLED && refs <= MAX_BACK_REFERENCES;
}

/* "…::h0123456789abcdef" is how rustc keeps versions apart; nobody wrote it. */
static bool cut_rust_hash(char *s)
{
    size_t n = strlen(s);
    if (n < RUST_HASH + 4 || strncmp(s + n - RUST_HASH - 3, "::h", 3))
        return false;
    for (size_t i = n - RUST_HASH; i < n; i++) {
        if (!isdigit((unsigned char)s[i]) && !(s[i] >= 'a' && s[i] <= 'f'))
            return false;
    }
    s[n - RUST_HASH - 3] = 0;
    return true;
}

static const struct {
    const char *escaped, *plain;
} rust_escapes[] = {{"$LT$", "<"},  {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},  {"$C$", ","},
                    {"$BP$", "*"},  {"$RF$", "&"},  {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["},
                    {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u3b$", ";"}, {"$u2b$", "+"},
                    {"$u3d$", "="}, {"..", "::"}};

static void decode_rust_escapes(char *s)
{
    char *out = s;
    if (s[0] == '_' && s[1] == '$') /* a name may not begin with '$' for every linker */
        s++;
    while (*s) {
        size_t i = 0, n_escapes = sizeof rust_escapes / sizeof *rust_escapes;
        while (i < n_escapes && strncmp(s, rust_escapes[i].escaped, strlen(rust_escapes[i].escaped)))
            i++;
        if (i == n_escapes) {
            *out++ = *s++;
            continue;
        }
        size_t n = strlen(rust_escapes[i].plain);
        s += strlen(rust_escapes[i].escaped);
        memcpy(out, rust_escapes[i].plain, n);
        out += n;
    }
    *out = 0;
}

/* A name too long ends in a hash of the whole: instances of one template differ only far behind. */
static void copy_cut(const char *name, char *out, size_t cap)
{
    enum { TAIL = 11 }; /* "..#" and 8 digits */
    uint32_t h = 0x811c9dc5u;
    int n = snprintf(out, cap, "%s", name);
    if (n < 0 || (size_t)n < cap || cap <= TAIL)
        return;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x01000193u;
    snprintf(out + cap - 1 - TAIL, TAIL + 1, "..#%08x", h);
}

void demangle(const char *symbol, char *out, size_t cap)
{
    char *plain = NULL;
    int status;
    if (!strncmp(symbol, "_Z", 2) && may_be_demangled(symbol))
        plain = __cxa_demangle(symbol, NULL, NULL, &status);
    if (plain && cut_rust_hash(plain))
        decode_rust_escapes(plain);
    copy_cut(plain ? plain : symbol, out, cap);
    free(plain);
}
