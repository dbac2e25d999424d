/*
 * wire_cols: columns of whole numbers, private to the wire modules; see wire_cols.c.
 */
#ifndef DVT_WIRE_COLS_H
#define DVT_WIRE_COLS_H

#include "wire_pack.h"

enum { DVT_COL_HEAD_BYTES = 10 }; /* u8 kind, u8 width, u64 base */

/* What an encoder expects of a column's values; the reader takes any. */
enum dvt_col_form {
    DVT_COL_SMALL,  /* small numbers: written as they are */
    DVT_COL_NEAR,   /* near each other: distances from the least */
    DVT_COL_RISING, /* seldom falling: steps if they do not, else as NEAR */
};

/* Packs v[n] as a bin, in the narrowest width of at least width_min (0 or 1). */
void dvt_col_pack(struct dvt_packer *k, const uint64_t *v, size_t n, enum dvt_col_form form,
                  unsigned width_min);

/* Reads a column of n values from the bytes of its bin. */
bool dvt_col_parse(struct dvt_str bin, uint32_t n, struct dvt_col *ret);

/* True if the column is plain and all its values are below limit (<= 2^32). */
bool dvt_col_is_below(const struct dvt_col *c, uint64_t limit);
/* The sum of a plain column's values. */
uint64_t dvt_col_sum(const struct dvt_col *c);

#endif
