/*
 * wire_cur: reads msgpack in place; see wire_cur.h.
 */
#include "wire_cur.h"

/* First bytes 0xC0..0xDF: the type, and how many bytes of length, count or value follow. */
static const struct {
    uint8_t type, bytes;
} formats[32] = {
    {DVT_ITEM_NIL, 0},      {DVT_ITEM_INVALID, 0},  {DVT_ITEM_BOOL, 0},     {DVT_ITEM_BOOL, 0},
    {DVT_ITEM_BIN, 1},      {DVT_ITEM_BIN, 2},      {DVT_ITEM_BIN, 4},      {DVT_ITEM_EXT, 1},
    {DVT_ITEM_EXT, 2},      {DVT_ITEM_EXT, 4},      {DVT_ITEM_FLOAT, 4},    {DVT_ITEM_FLOAT, 8},
    {DVT_ITEM_UINT, 1},     {DVT_ITEM_UINT, 2},     {DVT_ITEM_UINT, 4},     {DVT_ITEM_UINT, 8},
    {DVT_ITEM_NEGATIVE, 1}, {DVT_ITEM_NEGATIVE, 2}, {DVT_ITEM_NEGATIVE, 4}, {DVT_ITEM_NEGATIVE, 8},
    {DVT_ITEM_EXT, 0},      {DVT_ITEM_EXT, 0},      {DVT_ITEM_EXT, 0},      {DVT_ITEM_EXT, 0},
    {DVT_ITEM_EXT, 0},      {DVT_ITEM_STR, 1},      {DVT_ITEM_STR, 2},      {DVT_ITEM_STR, 4},
    {DVT_ITEM_ARRAY, 2},    {DVT_ITEM_ARRAY, 4},    {DVT_ITEM_MAP, 2},      {DVT_ITEM_MAP, 4},
};
enum { FIXEXT_FIRST = 0xD4, FIXEXT_LAST = 0xD8, TRUE_BYTE = 0xC3 };

static uint64_t be_value(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static uint64_t sign_extended(uint64_t v, unsigned n_bytes)
{
    unsigned shift = 64 - 8 * n_bytes;
    return (uint64_t)((int64_t)(v << shift) >> shift);
}

/* Formats whose first byte holds the value, length or count. */
static void short_form(uint8_t first, struct dvt_item *ret)
{
    if (first < 0x80)
        *ret = (struct dvt_item){.type = DVT_ITEM_UINT, .u = first};
    else if (first < 0x90)
        *ret = (struct dvt_item){.type = DVT_ITEM_MAP, .u = first & 0x0F};
    else if (first < 0xA0)
        *ret = (struct dvt_item){.type = DVT_ITEM_ARRAY, .u = first & 0x0F};
    else if (first < 0xC0)
        *ret = (struct dvt_item){.type = DVT_ITEM_STR, .u = first & 0x1F};
    else
        *ret = (struct dvt_item){.type = DVT_ITEM_NEGATIVE, .u = sign_extended(first, 1)};
}

static bool long_form(struct dvt_cur *c, uint8_t first, struct dvt_item *ret)
{
    unsigned bytes = formats[first - 0xC0].bytes;
    if (dvt_cur_left(c) < bytes)
        return false;
    *ret = (struct dvt_item){.type = formats[first - 0xC0].type, .u = be_value(c->p, bytes)};
    c->p += bytes;
    if (ret->type == DVT_ITEM_BOOL)
        ret->u = first == TRUE_BYTE;
    else if (ret->type == DVT_ITEM_NEGATIVE) {
        ret->u = sign_extended(ret->u, bytes);
        if ((int64_t)ret->u >= 0)
            ret->type = DVT_ITEM_UINT;
    } else if (ret->type == DVT_ITEM_EXT) {
        if (first >= FIXEXT_FIRST && first <= FIXEXT_LAST)
            ret->u = 1u << (first - FIXEXT_FIRST);
        ret->u++; /* the byte of the extension's type */
    }
    return ret->type != DVT_ITEM_INVALID;
}

bool dvt_cur_next(struct dvt_cur *c, struct dvt_item *ret)
{
    if (c->p == c->end)
        return false;
    uint8_t first = *c->p++;
    if (first < 0xC0 || first > 0xDF)
        short_form(first, ret);
    else if (!long_form(c, first, ret))
        return false;
    switch (ret->type) {
    case DVT_ITEM_STR:
    case DVT_ITEM_BIN:
    case DVT_ITEM_EXT:
        if (ret->u > dvt_cur_left(c))
            return false;
        ret->p = (const char *)c->p;
        c->p += ret->u;
        return true;
    case DVT_ITEM_ARRAY: /* an element has at least one byte, a pair two */
        return ret->u <= dvt_cur_left(c);
    case DVT_ITEM_MAP:
        return ret->u <= dvt_cur_left(c) / 2;
    default:
        return true;
    }
}

bool dvt_cur_skip(struct dvt_cur *c)
{
    struct dvt_item it;
    for (uint64_t todo = 1; todo > 0; todo--) { /* cannot overflow: every count is at most the bytes left */
        if (!dvt_cur_next(c, &it))
            return false;
        if (it.type == DVT_ITEM_ARRAY)
            todo += it.u;
        else if (it.type == DVT_ITEM_MAP)
            todo += 2 * it.u;
    }
    return true;
}

static bool next_of(struct dvt_cur *c, enum dvt_item_type type, struct dvt_item *it)
{
    return dvt_cur_next(c, it) && it->type == type;
}

bool dvt_cur_uint(struct dvt_cur *c, uint64_t *ret)
{
    struct dvt_item it;
    if (!next_of(c, DVT_ITEM_UINT, &it))
        return false;
    *ret = it.u;
    return true;
}

bool dvt_cur_array(struct dvt_cur *c, uint64_t *ret_n)
{
    struct dvt_item it;
    if (!next_of(c, DVT_ITEM_ARRAY, &it))
        return false;
    *ret_n = it.u;
    return true;
}

bool dvt_cur_map(struct dvt_cur *c, uint64_t *ret_pairs)
{
    struct dvt_item it;
    if (!next_of(c, DVT_ITEM_MAP, &it))
        return false;
    *ret_pairs = it.u;
    return true;
}

bool dvt_cur_str_any(struct dvt_cur *c, struct dvt_str *ret)
{
    struct dvt_item it;
    if (!next_of(c, DVT_ITEM_STR, &it))
        return false;
    *ret = (struct dvt_str){it.p, it.u};
    return true;
}

bool dvt_cur_bin(struct dvt_cur *c, struct dvt_str *ret)
{
    struct dvt_item it;
    if (!next_of(c, DVT_ITEM_BIN, &it))
        return false;
    *ret = (struct dvt_str){it.p, it.u};
    return true;
}
