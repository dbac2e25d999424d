/*
 * wire_cols: columns of whole numbers, the compact form of scopes and stacks; PROTOCOL.md "Columns".
 *
 * A batch's values of one field lie together, as small differences from a base in the narrowest of five widths. That costs
 * a fraction of packing each number by itself, in time and in bytes, and needs no parsing: a reader checks the length once
 * and widens the values in one loop.
 * All arithmetic is modulo 2^64, so that any bytes have a defined meaning.
 */
#include "wire_cols.h"

#include <endian.h>

enum { KIND_PLAIN = 0, KIND_DELTA = 1 };

/* ---- encoding ---- */

struct extent {
    uint64_t min, max;
    uint64_t max_step; /* UINT64_MAX if a value is below the one before it */
};

static struct extent extent_of(const uint64_t *v, size_t n)
{
    struct extent e = {n ? v[0] : 0, n ? v[0] : 0, 0};
    for (size_t i = 1; i < n; i++) {
        uint64_t step = v[i] < v[i - 1] ? UINT64_MAX : v[i] - v[i - 1];
        e.min = v[i] < e.min ? v[i] : e.min;
        e.max = v[i] > e.max ? v[i] : e.max;
        e.max_step = step > e.max_step ? step : e.max_step;
    }
    return e;
}

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

static void subtract(uint64_t *v, size_t n, uint64_t base, bool delta)
{
    if (!delta) {
        for (size_t i = 0; i < n; i++)
            v[i] -= base;
        return;
    }
    for (size_t i = n; i-- > 1;)
        v[i] -= v[i - 1];
    if (n)
        v[0] = 0;
}

static void narrow(const uint64_t *v, size_t n, unsigned width, uint8_t *out)
{
    for (size_t i = 0; width == 1 && i < n; i++)
        out[i] = (uint8_t)v[i];
    for (size_t i = 0; width == 2 && i < n; i++) {
        uint16_t x = htole16((uint16_t)v[i]);
        memcpy(out + 2 * i, &x, sizeof x);
    }
    for (size_t i = 0; width == 4 && i < n; i++) {
        uint32_t x = htole32((uint32_t)v[i]);
        memcpy(out + 4 * i, &x, sizeof x);
    }
    for (size_t i = 0; width == 8 && i < n; i++) {
        uint64_t x = htole64(v[i]);
        memcpy(out + 8 * i, &x, sizeof x);
    }
}

void dvt_col_pack(struct dvt_packer *k, uint64_t *v, size_t n, bool may_delta, unsigned width_min)
{
    struct extent e = extent_of(v, n);
    unsigned width = width_for(e.max - e.min), delta_width = width_for(e.max_step);
    bool delta = may_delta && delta_width < width;
    if (delta)
        width = delta_width;
    if (width < width_min)
        width = width_min;
    uint8_t *p = dvt_pack_bin_room(k, DVT_COL_HEAD_BYTES + n * width);
    if (!p)
        return;
    uint64_t base = delta ? v[0] : e.min, base_le = htole64(base); /* delta implies n > 1 */
    p[0] = delta ? KIND_DELTA : KIND_PLAIN;
    p[1] = (uint8_t)width;
    memcpy(p + 2, &base_le, sizeof base_le);
    subtract(v, n, base, delta);
    narrow(v, n, width, p + DVT_COL_HEAD_BYTES);
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
#define WIDEN(type, out, c, width)                                                                                   \
    do {                                                                                                              \
        type value = (type)(c)->base;                                                                                 \
        if ((c)->delta)                                                                                               \
            for (size_t i = 0; i < (c)->n; i++)                                                                       \
                (out)[i] = (value += (type)load((c)->p, i, width));                                                   \
        else                                                                                                          \
            for (size_t i = 0; i < (c)->n; i++)                                                                       \
                (out)[i] = value + (type)load((c)->p, i, width);                                                      \
    } while (0)

#define EXPAND(type, out, c)                                                                                         \
    switch ((c)->width) {                                                                                             \
    case 0:                                                                                                           \
        for (size_t i = 0; i < (c)->n; i++)                                                                           \
            (out)[i] = (type)(c)->base;                                                                               \
        break;                                                                                                        \
    case 1:                                                                                                           \
        WIDEN(type, out, c, 1);                                                                                       \
        break;                                                                                                        \
    case 2:                                                                                                           \
        WIDEN(type, out, c, 2);                                                                                       \
        break;                                                                                                        \
    case 4:                                                                                                           \
        WIDEN(type, out, c, 4);                                                                                       \
        break;                                                                                                        \
    default:                                                                                                          \
        WIDEN(type, out, c, 8);                                                                                       \
    }

void dvt_col_expand_u64(const struct dvt_col *c, uint64_t *out)
{
    EXPAND(uint64_t, out, c)
}

void dvt_col_expand_u32(const struct dvt_col *c, uint32_t *out)
{
    EXPAND(uint32_t, out, c)
}
