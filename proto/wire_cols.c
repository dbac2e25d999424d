/*
 * wire_cols: columns of whole numbers, the compact form of scopes and stacks; PROTOCOL.md "Columns".
 *
 * A batch's values of one field lie together, as small differences from a base in the narrowest of five
 * widths. That costs a fraction of packing each number by itself, in time and in bytes, and needs no parsing:
 * a reader checks the length once and widens the values in one loop. All arithmetic is modulo 2^64, so that
 * any bytes have a defined meaning.
 */
#include "wire_cols.h"

#include <endian.h>

enum { KIND_PLAIN = 0, KIND_DELTA = 1 };

/* ---- encoding ---- */

static unsigned width_for(uint64_t max)
{
    if (max == 0)
        return 0;
    if (max <= UINT8_MAX)
        return 1;
    if (max <= UINT16_MAX)
        return 2;
    return max <= UINT32_MAX ? 4 : 8;
}

static uint64_t min_of(const uint64_t *v, size_t n)
{
    uint64_t min = n ? v[0] : 0;
    for (size_t i = 1; i < n; i++)
        min = v[i] < min ? v[i] : min;
    return min;
}

static bool never_falls(const uint64_t *v, size_t n)
{
    unsigned falls = 0;
    for (size_t i = 1; i < n; i++)
        falls |= v[i] < v[i - 1];
    return !falls;
}

/* What is written for value i: its step from the one before, or its distance from the base. */
#define PART(v, i, base, delta) ((v)[i] - ((delta) ? (v)[(i) - 1] : (base)))

/* The bits that occur in any part: these need the width of the largest. Value 0 of a delta column is the
 * base. */
static uint64_t bits_of(const uint64_t *v, size_t n, uint64_t base, bool delta)
{
    uint64_t bits = 0;
    for (size_t i = 1; delta && i < n; i++)
        bits |= PART(v, i, base, true);
    for (size_t i = 0; !delta && i < n; i++)
        bits |= PART(v, i, base, false);
    return bits;
}

/* One loop for each width and kind, so that each has its condition outside. */
#define NARROW(bits, v, n, base, delta, out)                                                                 \
    do {                                                                                                     \
        uint##bits##_t x = 0;                                                                                \
        if (delta)                                                                                           \
            memcpy(out, &x, sizeof x);                                                                       \
        for (size_t i = 1; (delta) && i < (n); i++) {                                                        \
            x = htole##bits((uint##bits##_t)PART(v, i, base, true));                                         \
            memcpy((out) + i * sizeof x, &x, sizeof x);                                                      \
        }                                                                                                    \
        for (size_t i = 0; !(delta) && i < (n); i++) {                                                       \
            x = htole##bits((uint##bits##_t)PART(v, i, base, false));                                        \
            memcpy((out) + i * sizeof x, &x, sizeof x);                                                      \
        }                                                                                                    \
    } while (0)
#define htole8(x) (x)

static void narrow(const uint64_t *v, size_t n, uint64_t base, bool delta, unsigned width, uint8_t *out)
{
    if (width == 1)
        NARROW(8, v, n, base, delta, out);
    else if (width == 2)
        NARROW(16, v, n, base, delta, out);
    else if (width == 4)
        NARROW(32, v, n, base, delta, out);
    else if (width == 8)
        NARROW(64, v, n, base, delta, out);
}

void dvt_col_pack(struct dvt_packer *k, const uint64_t *v, size_t n, enum dvt_col_form form,
                  unsigned width_min)
{
    bool delta = form == DVT_COL_RISING && n > 1 && never_falls(v, n);
    uint64_t base = delta ? v[0] : form == DVT_COL_SMALL ? 0 : min_of(v, n);
    unsigned width = width_for(bits_of(v, n, base, delta));
    if (width < width_min)
        width = width_min;
    uint8_t *p = dvt_pack_bin_room(k, DVT_COL_HEAD_BYTES + n * width);
    if (!p)
        return;
    uint64_t base_le = htole64(base);
    p[0] = delta ? KIND_DELTA : KIND_PLAIN;
    p[1] = (uint8_t)width;
    memcpy(p + 2, &base_le, sizeof base_le);
    narrow(v, n, base, delta, width, p + DVT_COL_HEAD_BYTES);
}

/* ---- decoding ---- */

bool dvt_col_parse(struct dvt_str bin, uint32_t n, struct dvt_col *ret)
{
    const uint8_t *p = (const uint8_t *)bin.p;
    if (bin.n < DVT_COL_HEAD_BYTES || p[0] > KIND_DELTA)
        return false;
    uint8_t width = p[1];
    if (width > 8 || (width & (width - 1)) != 0 || bin.n != DVT_COL_HEAD_BYTES + (uint64_t)n * width)
        return false;
    uint64_t base_le;
    memcpy(&base_le, p + 2, sizeof base_le);
    *ret = (struct dvt_col){p + DVT_COL_HEAD_BYTES, le64toh(base_le), n, width, p[0] == KIND_DELTA};
    return true;
}

/* Value i of a column of a constant width: inlined, this is one load. */
static inline uint64_t load(const uint8_t *p, size_t i, unsigned width)
{
    uint16_t x2;
    uint32_t x4;
    uint64_t x8;
    switch (width) {
    case 1:
        return p[i];
    case 2:
        memcpy(&x2, p + 2 * i, sizeof x2);
        return le16toh(x2);
    case 4:
        memcpy(&x4, p + 4 * i, sizeof x4);
        return le32toh(x4);
    default:
        memcpy(&x8, p + 8 * i, sizeof x8);
        return le64toh(x8);
    }
}

static inline __attribute__((always_inline)) uint64_t max_of(const struct dvt_col *c, unsigned width)
{
    uint64_t max = 0;
    for (size_t i = 0; i < c->n; i++) {
        uint64_t x = load(c->p, i, width);
        max = x > max ? x : max;
    }
    return max;
}

bool dvt_col_is_below(const struct dvt_col *c, uint64_t limit)
{
    uint64_t max = 0;
    if (c->delta)
        return false;
    if (c->n == 0)
        return true;
    if (c->width == 1)
        max = max_of(c, 1);
    else if (c->width == 2)
        max = max_of(c, 2);
    else if (c->width == 4)
        max = max_of(c, 4);
    else if (c->width == 8)
        max = max_of(c, 8);
    return c->base < limit && max < limit - c->base;
}

uint64_t dvt_col_sum(const struct dvt_col *c)
{
    uint64_t sum = c->base * c->n;
    for (size_t i = 0; c->width > 0 && i < c->n; i++)
        sum += load(c->p, i, c->width);
    return sum;
}

/* One loop for each width and kind: the conditions are on constants. The type says where values are cut. */
#define WIDEN(type, out, c, width)                                                                           \
    do {                                                                                                     \
        type value = (type)(c)->base;                                                                        \
        if ((c)->delta)                                                                                      \
            for (size_t i = 0; i < (c)->n; i++)                                                              \
                (out)[i] = (value += (type)load((c)->p, i, width));                                          \
        else                                                                                                 \
            for (size_t i = 0; i < (c)->n; i++)                                                              \
                (out)[i] = value + (type)load((c)->p, i, width);                                             \
    } while (0)

#define EXPAND(type, out, c)                                                                                 \
    switch ((c)->width) {                                                                                    \
    case 0:                                                                                                  \
        for (size_t i = 0; i < (c)->n; i++)                                                                  \
            (out)[i] = (type)(c)->base;                                                                      \
        break;                                                                                               \
    case 1:                                                                                                  \
        WIDEN(type, out, c, 1);                                                                              \
        break;                                                                                               \
    case 2:                                                                                                  \
        WIDEN(type, out, c, 2);                                                                              \
        break;                                                                                               \
    case 4:                                                                                                  \
        WIDEN(type, out, c, 4);                                                                              \
        break;                                                                                               \
    default:                                                                                                 \
        WIDEN(type, out, c, 8);                                                                              \
    }

void dvt_col_expand_u64(const struct dvt_col *c, uint64_t *out)
{
    EXPAND(uint64_t, out, c)
}

void dvt_col_expand_u32(const struct dvt_col *c, uint32_t *out)
{
    EXPAND(uint32_t, out, c)
}
