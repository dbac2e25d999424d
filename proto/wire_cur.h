/*
 * wire_cur: a bounded reader of msgpack, private to the wire modules.
 *
 * msgpack-c's own unpacker builds a tree in a heap zone; a daemon that reads from every process of the host,
 * and a shim inside somebody's program, must not allocate what a peer asks for. The cursor reads one item's
 * header at a time in place. It never recurses (skipping keeps a count, not a stack), and it never believes a
 * length or a count that the remaining bytes cannot hold. Source:
 * https://github.com/msgpack/msgpack/blob/master/spec.md
 */
#ifndef DVT_WIRE_CUR_H
#define DVT_WIRE_CUR_H

#include "str.h"

enum dvt_item_type {
    DVT_ITEM_NIL,
    DVT_ITEM_BOOL,
    DVT_ITEM_UINT, /* any integer >= 0, however it is encoded */
    DVT_ITEM_NEGATIVE,
    DVT_ITEM_FLOAT,
    DVT_ITEM_STR,
    DVT_ITEM_BIN,
    DVT_ITEM_EXT,
    DVT_ITEM_ARRAY,
    DVT_ITEM_MAP,
    DVT_ITEM_INVALID,
};

struct dvt_item {
    enum dvt_item_type type;
    uint64_t
        u; /* UINT: the value; NEGATIVE: its two's complement; BOOL: 0 or 1; ARRAY: elements; MAP: pairs */
    const char *p; /* STR, BIN: the bytes, u of them */
};

struct dvt_cur {
    const uint8_t *p, *end;
};

static inline struct dvt_cur dvt_cur(struct dvt_str bytes)
{
    const uint8_t *p = (const uint8_t *)bytes.p;
    return (struct dvt_cur){p, bytes.n ? p + bytes.n : p}; /* an empty message may have no address */
}

static inline size_t dvt_cur_left(const struct dvt_cur *c)
{
    return (size_t)(c->end - c->p);
}

/* Reads the next item: a scalar or string whole, of an array or map the header only. False if the bytes do
 * not hold it; the cursor is then of no more use. */
bool dvt_cur_next(struct dvt_cur *c, struct dvt_item *ret);
/* Steps over one whole item with all that it contains. */
bool dvt_cur_skip(struct dvt_cur *c);

/* Typed forms: false also if the item is of another type. */
bool dvt_cur_uint(struct dvt_cur *c, uint64_t *ret);
bool dvt_cur_array(struct dvt_cur *c, uint64_t *ret_n);
bool dvt_cur_map(struct dvt_cur *c, uint64_t *ret_pairs);
bool dvt_cur_str_any(struct dvt_cur *c, struct dvt_str *ret);
bool dvt_cur_bin(struct dvt_cur *c, struct dvt_str *ret);

/* A number below 128 in its shortest form, as all keys are, without a call; else nothing is read. */
static inline bool dvt_cur_small(struct dvt_cur *c, uint64_t *ret)
{
    if (c->p == c->end || *c->p > 127)
        return false;
    *ret = *c->p++;
    return true;
}

/* Strings of less than 32 bytes, as most are, without a call. */
static inline bool dvt_cur_str(struct dvt_cur *c, struct dvt_str *ret)
{
    enum { SHORT_STR = 0xA0, SHORT_STR_MASK = 0xE0 };
    if (c->p == c->end || (*c->p & SHORT_STR_MASK) != SHORT_STR)
        return dvt_cur_str_any(c, ret);
    size_t n = (size_t)(*c->p & ~SHORT_STR_MASK);
    if (n >= dvt_cur_left(c))
        return false;
    *ret = (struct dvt_str){(const char *)c->p + 1, n};
    c->p += 1 + n;
    return true;
}

#endif
