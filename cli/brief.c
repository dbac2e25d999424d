/* brief: see brief.h. */
#include "brief.h"
#include "alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool contains(struct dvt_str s, const char *what)
{
    return s.n && memmem(s.p, s.n, what, strlen(what));
}

static size_t anonymous_at(struct dvt_str s, size_t i)
{
    static const char text[] = "(anonymous namespace)::";
    size_t n = strlen(text);
    return s.n - i >= n && memcmp(s.p + i, text, n) == 0 ? n : 0;
}

/* Copies what is in no brackets to out, which holds s.n + 1. False if they do not balance. */
static bool copy_unbracketed(struct dvt_str s, char *out)
{
    size_t depth = 0, skip;
    for (size_t i = 0; i < s.n; i += skip) {
        skip = depth ? 0 : anonymous_at(s, i);
        if (skip) {
            continue;
        }
        skip = 1;
        if (strchr("<(", s.p[i]) && s.p[i]) {
            depth++;
        } else if (strchr(">)", s.p[i]) && s.p[i]) {
            if (depth-- == 0) {
                return false;
            }
        } else if (depth == 0) {
            *out++ = s.p[i];
        }
    }
    *out = 0;
    return depth == 0;
}

static void cut_at(char *text, const char *what)
{
    char *at = strstr(text, what);
    if (at) {
        *at = 0;
    }
}

char *brief_name(struct dvt_str name)
{
    if (!contains(name, "::") || contains(name, "operator") || memchr(name.p, 0, name.n)) {
        return NULL;
    }
    char *text = alloc_bytes(name.n + 1);
    bool whole = copy_unbracketed(name, text);
    cut_at(text, " [");
    cut_at(text, " const");
    const char *last = strrchr(text, ' ');
    last = last ? last + 1 : text;
    char *result = whole && *last && *last != ':' ? alloc_text(last, strlen(last)) : NULL;
    free(text);
    return result;
}
