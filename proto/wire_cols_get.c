/*
 * wire_cols_get: reads columns; PROTOCOL.md "Columns".
 *
 * The bytes come from other processes: dvt_col_parse checks length and patches once, so that the loops over
 * values need no checks. All arithmetic is modulo 2^64, so that any bytes have a defined meaning. Each loop
 * has its width outside, as a constant, so that compilers vectorise it.
 */
#include "wire_cols.h"

#include <endian.h>

enum { SHIFT_OF_EIGHTS = 3 };

/* Value i of a column of a constant width: inlined, this is one load. */
static inline __attribute__((always_inline)) uint64_t load(const uint8_t *p, size_t i, unsigned width)
{
    uint16_t x2;
    uint32_t x4;
    uint64_t x8;
    switch (width) {
    case 0:
        return 0;
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

/* The same as a signed number. */
static inline __attribute__((always_inline)) uint64_t load_signed(const uint8_t *p, size_t i, unsigned width)
{
    uint64_t x = load(p, i, width);
    switch (width) {
    case 1:
        return (uint64_t)(int8_t)x;
    case 2:
        return (uint64_t)(int16_t)x;
    case 4:
        return (uint64_t)(int32_t)x;
    default:
        return x;
    }
}

static inline uint32_t patch_place(const struct dvt_col *c, uint32_t k)
{
    return (uint32_t)load(c->places, k, 2);
}

/* ---- parsing ---- */

static bool is_width(unsigned width)
{
    return width <= 8 && (width & (width - 1)) == 0;
}

static bool places_rise(const struct dvt_col *c)
{
    const uint8_t *places = c->places;
    uint32_t n = c->n_patches;
    bool falls = false;
    for (uint32_t k = 1; k < n; k++)
        falls |= (uint16_t)load(places, k, 2) <= (uint16_t)load(places, k - 1, 2);
    return n == 0 || (!falls && patch_place(c, n - 1) < c->n);
}

bool dvt_col_parse(struct dvt_str bin, uint32_t n, struct dvt_col *ret)
{
    const uint8_t *p = (const uint8_t *)bin.p;
    struct dvt_col c = {.n = n};
    if (bin.n < DVT_COL_HEAD_BYTES || (p[0] & ~DVT_COL_HEAD_MASK))
        return false;
    bool has_base = p[0] & DVT_COL_HAS_BASE;
    c.kind = p[0] & DVT_COL_KIND_MASK;
    c.shift = p[0] & DVT_COL_EIGHTS ? SHIFT_OF_EIGHTS : 0;
    c.width = p[1] & 0xF;
    c.patch_width = p[1] >> 4;
    size_t head_bytes = DVT_COL_HEAD_BYTES + 8u * has_base + (c.patch_width ? 2 : 0);
    if (c.kind > DVT_COL_SIGNED || (c.kind == DVT_COL_SIGNED && c.shift))
        return false;
    if (!is_width(c.width) || !is_width(c.patch_width) || bin.n < head_bytes)
        return false;
    c.base = has_base ? load(p + DVT_COL_HEAD_BYTES, 0, 8) : 0;
    c.n_patches = c.patch_width ? (uint32_t)load(p + head_bytes - 2, 0, 2) : 0;
    if (bin.n != head_bytes + (uint64_t)n * c.width + c.n_patches * (2 + (uint64_t)c.patch_width))
        return false;
    c.p = p + head_bytes;
    c.places = c.p + (size_t)n * c.width;
    c.patches = c.places + 2 * (size_t)c.n_patches;
    *ret = c;
    return places_rise(&c);
}

/* ---- looking through ---- */

#define MAX_OF(type, p, n, ret)                                                                              \
    do {                                                                                                     \
        type max = 0;                                                                                        \
        for (size_t i = 0; i < (n); i++) {                                                                   \
            type x = (type)load(p, i, sizeof(type));                                                         \
            max = x > max ? x : max;                                                                         \
        }                                                                                                    \
        (ret) = max;                                                                                         \
    } while (0)

static uint64_t max_of(const uint8_t *p, size_t n, unsigned width)
{
    uint64_t ret = 0;
    if (width == 1)
        MAX_OF(uint8_t, p, n, ret);
    else if (width == 2)
        MAX_OF(uint16_t, p, n, ret);
    else if (width == 4)
        MAX_OF(uint32_t, p, n, ret);
    else if (width == 8)
        MAX_OF(uint64_t, p, n, ret);
    return ret;
}

#define ADD_UP(p, n, width, ret)                                                                             \
    for (size_t i = 0; i < (n); i++)                                                                         \
    (ret) += load(p, i, width)

/* The sum of all parts, with the patches in their places. */
static uint64_t sum_of(const struct dvt_col *c)
{
    uint64_t sum = 0;
    if (c->width == 1)
        ADD_UP(c->p, c->n, 1, sum);
    else if (c->width == 2)
        ADD_UP(c->p, c->n, 2, sum);
    else if (c->width == 4)
        ADD_UP(c->p, c->n, 4, sum);
    else if (c->width == 8)
        ADD_UP(c->p, c->n, 8, sum);
    for (uint32_t k = 0; k < c->n_patches; k++)
        sum += load(c->patches, k, c->patch_width) - load(c->p, patch_place(c, k), c->width);
    return sum << c->shift;
}

/* The last value of a delta column is the largest: with all of at most 2^22 steps below 2^32 no sum wraps. */
bool dvt_col_is_below(const struct dvt_col *c, uint64_t limit)
{
    if (c->n == 0)
        return true;
    if (c->kind == DVT_COL_SIGNED || c->base >= limit)
        return false;
    uint64_t room = (limit - 1 - c->base) >> c->shift;
    if (max_of(c->p, c->n, c->width) > room || max_of(c->patches, c->n_patches, c->patch_width) > room)
        return false;
    return c->kind == DVT_COL_PLAIN || sum_of(c) < limit - c->base;
}

bool dvt_col_range(const struct dvt_col *c, uint64_t *ret_min, uint64_t *ret_max)
{
    unsigned width = c->width > c->patch_width ? c->width : c->patch_width;
    if (c->kind == DVT_COL_SIGNED || width > 4 || c->base > UINT64_MAX / 2)
        return false;
    uint64_t patch = max_of(c->patches, c->n_patches, c->patch_width), part = max_of(c->p, c->n, c->width);
    *ret_min = c->base;
    *ret_max = c->base + (c->kind == DVT_COL_DELTA ? sum_of(c) : (part > patch ? part : patch) << c->shift);
    return true;
}

uint64_t dvt_col_bits(const struct dvt_col *c)
{
    uint64_t bits = 0;
    if (c->kind != DVT_COL_PLAIN || c->base)
        return UINT64_MAX; /* sums may have any */
    for (size_t i = 0; c->width > 0 && i < c->n; i++)
        bits |= load(c->p, i, c->width);
    for (uint32_t k = 0; k < c->n_patches; k++)
        bits |= load(c->patches, k, c->patch_width);
    return bits << c->shift;
}

uint64_t dvt_col_sum(const struct dvt_col *c)
{
    return c->base * c->n + sum_of(c);
}

/* ---- widening ---- */

/* In all of these, c is a column and type the type of out: it says where values are cut. Most columns do
 * not count in eights, and loops without a shift are shorter: plain columns have one of each, steps are
 * shifted at the end. */

#define FOR_EACH_UNROLLED(i, from, to) _Pragma("GCC unroll 8") for (size_t i = from; i < (to); i++)

#define SPREAD(type, out, c, width)                                                                          \
    do {                                                                                                     \
        const type base = (type)(c).base;                                                                    \
        if ((c).shift)                                                                                       \
            for (size_t i = 0; i < (c).n; i++)                                                               \
                (out)[i] = (type)((type)load((c).p, i, width) << SHIFT_OF_EIGHTS) + base;                    \
        else                                                                                                 \
            for (size_t i = 0; i < (c).n; i++)                                                               \
                (out)[i] = (type)load((c).p, i, width) + base;                                               \
        for (uint32_t k = 0; k < (c).n_patches; k++) {                                                       \
            type patch = (type)load((c).patches, k, (c).patch_width);                                        \
            (out)[patch_place(&(c), k)] = (type)(patch << (c).shift) + base;                                 \
        }                                                                                                    \
    } while (0)

/* From patch to patch. Where only patches are not 0, these can be shifted at once. */
#define ADD_STEPS(type, out, c, width, load_step)                                                            \
    do {                                                                                                     \
        const bool later = (width) > 0 && (c).shift, now = !later && (c).shift;                              \
        type value = later ? 0 : (type)(c).base;                                                             \
        size_t done = 0;                                                                                     \
        for (uint32_t k = 0; k < (c).n_patches; k++) {                                                       \
            for (size_t place = patch_place(&(c), k); done < place; done++)                                  \
                (out)[done] = value += (type)load_step((c).p, done, width);                                  \
            type patch = (type)load_step((c).patches, k, (c).patch_width);                                   \
            (out)[done++] = value += (type)(patch << (now ? SHIFT_OF_EIGHTS : 0));                           \
        }                                                                                                    \
        FOR_EACH_UNROLLED(i, done, (c).n)                                                                    \
        (out)[i] = value += (type)load_step((c).p, i, width);                                                \
        for (size_t i = 0; later && i < (c).n; i++)                                                          \
            (out)[i] = (type)((out)[i] << SHIFT_OF_EIGHTS) + (type)(c).base;                                 \
    } while (0)

#define EXPAND_WIDTH(type, out, c, width)                                                                    \
    do {                                                                                                     \
        if ((c).kind == DVT_COL_PLAIN)                                                                       \
            SPREAD(type, out, c, width);                                                                     \
        else if ((c).kind == DVT_COL_DELTA)                                                                  \
            ADD_STEPS(type, out, c, width, load);                                                            \
        else                                                                                                 \
            ADD_STEPS(type, out, c, width, load_signed);                                                     \
    } while (0)

#define EXPAND(type, out, c)                                                                                 \
    do {                                                                                                     \
        if ((c).width == 0)                                                                                  \
            EXPAND_WIDTH(type, out, c, 0);                                                                   \
        else if ((c).width == 1)                                                                             \
            EXPAND_WIDTH(type, out, c, 1);                                                                   \
        else if ((c).width == 2)                                                                             \
            EXPAND_WIDTH(type, out, c, 2);                                                                   \
        else if ((c).width == 4)                                                                             \
            EXPAND_WIDTH(type, out, c, 4);                                                                   \
        else                                                                                                 \
            EXPAND_WIDTH(type, out, c, 8);                                                                   \
    } while (0)

/* The column is copied: what is written to out cannot change it then. */

void dvt_col_expand_u64(const struct dvt_col *col, uint64_t *out)
{
    const struct dvt_col c = *col;
    EXPAND(uint64_t, out, c);
}

void dvt_col_expand_u32(const struct dvt_col *col, uint32_t *out)
{
    const struct dvt_col c = *col;
    EXPAND(uint32_t, out, c);
}
