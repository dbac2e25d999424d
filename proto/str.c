/*
 * str: UTF-8 checks and cuts.
 *
 * Names, labels and tags come from other people's programs: any bytes, any length. What is shown to a person
 * or written to a file goes through dvt_utf8_clean first. Ill-formed input follows the Unicode rule of
 * "maximal subparts" (Unicode 15, section 3.9): one U+FFFD for each.
 */
#include "str.h"

static const char replacement[] = "\xEF\xBF\xBD";
enum { REPLACEMENT_BYTES = 3 };

bool dvt_str_eq(struct dvt_str a, struct dvt_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Bytes of the sequence that a lead byte starts; 0 if it starts none. */
static size_t sequence_bytes(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0)
        return 3;
    return lead < 0xF5 ? 4 : 0;
}

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

/* The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF. */
static bool second_is_valid(unsigned char lead, unsigned char c)
{
    switch (lead) {
    case 0xE0:
        return c >= 0xA0 && c <= 0xBF;
    case 0xED:
        return c >= 0x80 && c <= 0x9F;
    case 0xF0:
        return c >= 0x90 && c <= 0xBF;
    case 0xF4:
        return c >= 0x80 && c <= 0x8F;
    default:
        return is_continuation(c);
    }
}

/* Length of the well-formed prefix of one sequence at p, at least 1; *ret_whole says whether it is a
 * character. */
static size_t sequence_at(const unsigned char *p, size_t n, bool *ret_whole)
{
    size_t need = sequence_bytes(p[0]), have = 1;
    *ret_whole = false;
    if (need == 0)
        return 1;
    if (need > 1 && n > 1 && second_is_valid(p[0], p[1])) {
        have = 2;
        while (have < need && have < n && is_continuation(p[have]))
            have++;
    }
    *ret_whole = have == need;
    return have;
}

size_t dvt_utf8_border(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        if (is_continuation(u[n - back]))
            continue;
        return sequence_bytes(u[n - back]) > back ? n - back : n;
    }
    return n;
}

size_t dvt_utf8_cut(const char *p, size_t n, size_t cap)
{
    return n <= cap ? n : dvt_utf8_border(p, cap);
}

/* C0, DEL and C1 (U+0080..U+009F, which UTF-8 writes as C2 80..9F). */
static bool is_control(const unsigned char *p, size_t n)
{
    return n == 1 ? p[0] < 0x20 || p[0] == 0x7F : n == 2 && p[0] == 0xC2 && p[1] < 0xA0;
}

size_t dvt_utf8_clean(const char *p, size_t n, bool strip_control, char *out, size_t cap)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t used = 0;
    if (cap == 0)
        return 0;
    for (size_t i = 0, step; i < n; i += step) {
        bool whole;
        step = sequence_at(u + i, n - i, &whole);
        bool keep = whole && !(strip_control && is_control(u + i, step));
        const void *from = keep ? (const void *)(u + i) : replacement;
        size_t len = keep ? step : REPLACEMENT_BYTES;
        if (len > cap - 1 - used)
            break;
        memcpy(out + used, from, len);
        used += len;
    }
    out[used] = 0;
    return used;
}
