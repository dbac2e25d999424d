/*
 * lines: see lines.h. The format changed twice: 3.9 Objects/lnotab_notes.txt; 3.10 the same file; 3.11 on
 * Objects/locations.md (InternalDocs/code_objects.md since 3.14).
 */
#include "lines.h"
#include "guard.h"

#include <patchlevel.h>
#include <stdbool.h>

struct input {
    uintptr_t at;
    size_t left;     /* bytes not yet fetched */
    size_t pos, got; /* of piece */
    uint8_t piece[128];
};

/* The next byte, or -1 at the end (or where memory ends). */
static int next_byte(struct input *in)
{
    if (in->pos == in->got) {
        size_t n = in->left < sizeof in->piece ? in->left : sizeof in->piece;
        if (n == 0 || !dvt_guard_read(in->piece, in->at, n)) {
            in->left = 0;
            return -1;
        }
        in->at += n;
        in->left -= n;
        in->pos = 0;
        in->got = n;
    }
    return in->piece[in->pos++];
}

#if PY_VERSION_HEX >= 0x030B0000

/* A varint of 6-bit groups, least significant first; bit 6: more follow. */
static uint32_t next_varint(struct input *in)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
        int b = next_byte(in);
        if (b < 0)
            return 0;
        value |= ((uint32_t)b & 63) << shift;
        if (!(b & 64))
            break;
    }
    return value;
}

static int32_t next_signed(struct input *in)
{
    uint32_t v = next_varint(in);
    return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* Entries begin with a byte that has bit 7; its bits 3..6 are the form, 0..2 the length in code units less
 * one. */
static uint32_t scan(struct input *in, uint32_t first_line, int64_t offset)
{
    int64_t end = 0;
    int32_t line = (int32_t)first_line;
    int b = next_byte(in);
    while (b >= 0) {
        int form = (b >> 3) & 15;
        end += ((b & 7) + 1) * 2;
        if (form == 13 || form == 14)
            line += next_signed(in);
        else if (form >= 10 && form <= 12)
            line += form - 10;
        if (offset < end)
            return form == 15 || line < 0 ? 0 : (uint32_t)line;
        do
            b = next_byte(in);
        while (b >= 0 && !(b & 128));
    }
    return 0;
}

#elif PY_VERSION_HEX >= 0x030A0000

/* Pairs: bytes covered, signed line delta; -128: no line. */
static uint32_t scan(struct input *in, uint32_t first_line, int64_t offset)
{
    int64_t end = 0;
    int32_t line = (int32_t)first_line;
    for (;;) {
        int bytes = next_byte(in), raw = next_byte(in);
        if (raw < 0)
            return 0;
        int delta = (int8_t)raw;
        end += bytes;
        if (delta != -128)
            line += delta;
        if (offset < end)
            return delta == -128 || line < 0 ? 0 : (uint32_t)line;
    }
}

#else

/* Pairs: bytes from the last address, then the signed line delta that holds from there on. */
static uint32_t scan(struct input *in, uint32_t first_line, int64_t offset)
{
    int64_t at = 0;
    int32_t line = (int32_t)first_line;
    for (;;) {
        int bytes = next_byte(in), raw = next_byte(in);
        if (raw < 0)
            break;
        at += bytes;
        if (at > offset)
            break;
        line += (int8_t)raw;
    }
    return line < 0 ? 0 : (uint32_t)line;
}

#endif

uint32_t dvt_py_line(uintptr_t table, size_t n, uint32_t first_line, int64_t offset)
{
    struct input in = {.at = table, .left = n};
    return offset < 0 ? first_line : scan(&in, first_line, offset);
}
