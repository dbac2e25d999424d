/*
 * wire_cols: columns of whole numbers, private to the wire modules; PROTOCOL.md "Columns".
 */
#ifndef DVT_WIRE_COLS_H
#define DVT_WIRE_COLS_H

#include "wire_pack.h"

/* A column's bytes: head, base, number of patches, parts, places of the patches, patches. */
enum {
    DVT_COL_HEAD_BYTES = 2,
    DVT_COL_KIND_MASK = 3,
    DVT_COL_EIGHTS = 4,   /* parts and patches count in eights */
    DVT_COL_HAS_BASE = 8, /* else it is 0 */
    DVT_COL_HEAD_MASK = 15,
};

/* ---- encoding (wire_cols_put.c) ---- */

/* What an encoder expects of a column's values; the reader takes any. */
enum dvt_col_form {
    DVT_COL_SMALL,  /* small numbers: written as they are */
    DVT_COL_NEAR,   /* near each other: distances from the least */
    DVT_COL_RISING, /* seldom falling: steps up if they do not, else steps either way */
};

/* Packs v[n] as a bin, each value in at least width_min bytes (0 or 1). v is overwritten. */
void dvt_col_pack(struct dvt_packer *k, uint64_t *v, size_t n, enum dvt_col_form form, unsigned width_min);

/* The parts of a column that the caller made itself: x[n] as the kind says, and all of them or-ed.
 * Overwrites x. A value is made of its part and of the values before it, or of the base; see enum
 * dvt_col_kind. */
struct dvt_parts {
    uint32_t *x;
    uint64_t bits, base;
    enum dvt_col_kind kind;
    unsigned width_min;
};
void dvt_col_pack_parts(struct dvt_packer *k, const struct dvt_parts *parts, size_t n);

/* A step either way as a small number: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...; these are the parts of a
 * signed column here, while its widths are chosen. Both need the same bytes. */
static inline uint64_t dvt_zigzag(uint64_t step)
{
    return step << 1 ^ (0 - (step >> 63));
}

/* ---- decoding (wire_cols_get.c) ---- */

/* Reads a column of n values from the bytes of its bin. */
bool dvt_col_parse(struct dvt_str bin, uint32_t n, struct dvt_col *ret);

/* True if no value is limit (<= 2^32) or above; false for every column of kind signed. */
bool dvt_col_is_below(const struct dvt_col *c, uint64_t limit);
/* The sum of a plain column's values, modulo 2^64. */
uint64_t dvt_col_sum(const struct dvt_col *c);

#endif
