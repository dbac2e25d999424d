/*
 * names_text: what HotSpot writes down of names and lines, as people read it. Pure.
 */
#include "names.h"
#include "walker.h"

enum { LINE_END = 0, LINE_ESCAPE = 0xFF, MAX_LINE = 65535 };

/* ---- lines (compressedStream.hpp, CompressedLineNumberReadStream) ---- */

struct lines {
    int major;
    const uint8_t *p;
    size_t n, at;
    int64_t bci, line;
};

static bool signed_u5(struct lines *l, int64_t *ret)
{
    uint32_t v;
    if (!dvt_jvm_read_u5(l->major, l->p, l->n, &l->at, &v))
        return false;
    *ret = (int32_t)(v >> 1 ^ (0u - (v & 1)));
    return true;
}

/* 1: an entry, 0: the end, -1: cut off. */
static int next_entry(struct lines *l)
{
    int64_t bci, line;
    if (l->at >= l->n)
        return -1;
    uint8_t b = l->p[l->at++];
    if (b == LINE_END)
        return 0;
    if (b != LINE_ESCAPE) {
        l->bci += b >> 3;
        l->line += b & 7;
        return 1;
    }
    if (!signed_u5(l, &bci) || !signed_u5(l, &line))
        return -1;
    l->bci += bci;
    l->line += line;
    return 1;
}

size_t dvt_jvm_line_bytes(int major, const uint8_t *p, size_t n)
{
    struct lines l = {.major = major, .p = p, .n = n};
    int rc;
    while ((rc = next_entry(&l)) > 0) {
    }
    return rc == 0 ? l.at : 0;
}

/* Entries need not be in order: the one with the greatest index up to bci holds (Method::line_number_from_bci). */
uint32_t dvt_jvm_line(int major, struct dvt_str table, int64_t bci)
{
    struct lines l = {.major = major, .p = (const uint8_t *)table.p, .n = table.n};
    int64_t best_bci = -1, best = 0;
    while (next_entry(&l) > 0) {
        if (bci < 0)
            return l.line > 0 && l.line <= MAX_LINE ? (uint32_t)l.line : 0;
        if (l.bci <= bci && l.bci >= best_bci) {
            best_bci = l.bci;
            best = l.line;
        }
        if (l.bci == bci)
            break;
    }
    return best > 0 && best <= MAX_LINE ? (uint32_t)best : 0;
}

/* ---- names ---- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* A hidden class has its address behind '+' (ClassFileParser::mangle_hidden_class_name). */
size_t dvt_jvm_stable_length(const char *class_name, size_t n)
{
    size_t i = n;
    while (i > 0 && is_hex(class_name[i - 1]))
        i--;
    bool is_hidden = i > 3 && i < n && class_name[i - 1] == 'x' && class_name[i - 2] == '0' && class_name[i - 3] == '+';
    return is_hidden ? i - 3 : n;
}

struct out {
    char *p;
    size_t n, cap;
};

static void put(struct out *o, const char *p, size_t n)
{
    for (size_t i = 0; i < n && o->n < o->cap; i++)
        o->p[o->n++] = p[i];
}

static bool is_surrogate(const uint8_t *p, size_t n, uint8_t lo, uint8_t hi)
{
    return n >= 3 && p[0] == 0xED && p[1] >= lo && p[1] <= hi && (p[2] & 0xC0) == 0x80;
}

/* A character beyond the 16-bit ones is two of three bytes each in class files (JVMS 4.4.7). */
static void put_pair(struct out *o, const uint8_t *p)
{
    uint32_t high = (uint32_t)(p[1] & 0x0F) << 6 | (p[2] & 0x3F), low = (uint32_t)(p[4] & 0x0F) << 6 | (p[5] & 0x3F);
    uint32_t c = 0x10000 + (high << 10) + low;
    char utf8[4] = {(char)(0xF0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3F)), (char)(0x80 | (c >> 6 & 0x3F)),
                    (char)(0x80 | (c & 0x3F))};
    put(o, utf8, sizeof utf8);
}

static void put_java(struct out *o, struct dvt_str s, bool is_class)
{
    const uint8_t *p = (const uint8_t *)s.p;
    for (size_t i = 0; i < s.n;) {
        if (is_surrogate(p + i, s.n - i, 0xA0, 0xAF) && is_surrogate(p + i + 3, s.n - i - 3, 0xB0, 0xBF)) {
            put_pair(o, p + i);
            i += 6;
        } else {
            char c = is_class && p[i] == '/' ? '.' : (char)p[i];
            put(o, &c, 1);
            i++;
        }
    }
}

size_t dvt_jvm_full_name(struct dvt_str class_name, struct dvt_str method, char *out, size_t cap)
{
    struct out o = {.p = out, .cap = cap};
    put_java(&o, class_name, true);
    if (class_name.n)
        put(&o, ".", 1);
    put_java(&o, method, false);
    return o.n;
}
