/*
 * wire_fields: encodes and decodes messages by their tables; see wire_fields.h.
 *
 * The decoder works on bytes from other processes: it fills a copy and hands that over only when all of the
 * map was good.
 */
#include "wire_fields.h"

/* ---- encoding ---- */

static uint64_t number_at(const struct dvt_field *f, const void *m)
{
    const char *p = (const char *)m + f->at;
    uint32_t u32;
    uint64_t u64;
    switch (f->kind) {
    case DVT_FIELD_BOOL:
        return *(const bool *)p;
    case DVT_FIELD_U64:
        memcpy(&u64, p, sizeof u64);
        return u64;
    default:
        memcpy(&u32, p, sizeof u32);
        return u32;
    }
}

static struct dvt_str str_at(const struct dvt_field *f, const void *m)
{
    struct dvt_str s;
    memcpy(&s, (const char *)m + f->at, sizeof s);
    return s;
}

static bool is_written(const struct dvt_field *f, const void *m)
{
    if (f->required || f->kind == DVT_FIELD_KEY)
        return true;
    if (f->kind == DVT_FIELD_STR || f->kind == DVT_FIELD_TEXT)
        return str_at(f, m).n > 0;
    return number_at(f, m) != 0;
}

static void pack_text(struct dvt_packer *k, const struct dvt_field *f, struct dvt_str s)
{
    if (f->kind == DVT_FIELD_STR)
        s.n = dvt_utf8_cut(s.p, s.n, f->max);
    else if (s.n > f->max && !k->rc)
        k->rc = DVT_ELIMIT;
    dvt_pack_str(k, s);
}

static void pack_field(struct dvt_packer *k, const struct dvt_field *f, const void *m)
{
    msgpack_pack_uint8(&k->pk, f->key);
    switch (f->kind) {
    case DVT_FIELD_BOOL:
        (number_at(f, m) ? msgpack_pack_true : msgpack_pack_false)(&k->pk);
        break;
    case DVT_FIELD_I32:
        msgpack_pack_int32(&k->pk, (int32_t)(uint32_t)number_at(f, m));
        break;
    case DVT_FIELD_STR:
    case DVT_FIELD_TEXT:
        pack_text(k, f, str_at(f, m));
        break;
    case DVT_FIELD_KEY:
        msgpack_pack_bin_with_body(&k->pk, (const char *)m + f->at, f->max);
        break;
    default:
        msgpack_pack_uint64(&k->pk, number_at(f, m));
    }
}

void dvt_fields_pack(struct dvt_packer *k, const struct dvt_fields *f, const void *m)
{
    size_t n_written = 0;
    for (unsigned i = 0; i < f->n; i++)
        n_written += is_written(&f->v[i], m);
    msgpack_pack_map(&k->pk, n_written);
    for (unsigned i = 0; i < f->n; i++)
        if (is_written(&f->v[i], m))
            pack_field(k, &f->v[i], m);
}

int dvt_fields_put(struct dvt_buf *b, enum dvt_msg_type type, const struct dvt_fields *f, const void *m)
{
    struct dvt_packer k;
    dvt_pack_begin(&k, b);
    msgpack_pack_array(&k.pk, 2);
    msgpack_pack_unsigned_int(&k.pk, type);
    dvt_fields_pack(&k, f, m);
    return dvt_pack_end(&k);
}

/* ---- decoding ---- */

static int fail_at(struct dvt_err *err, int code, const struct dvt_fields *f, const struct dvt_field *field,
                   const char *what)
{
    return dvt_fail(err, code, 0, "%s message: %s %s", f->name, field->name, what);
}

static bool number_fits(const struct dvt_field *f, const struct dvt_item *it)
{
    int64_t v = (int64_t)it->u;
    switch (f->kind) {
    case DVT_FIELD_U32:
        return it->u <= (f->max ? f->max : UINT32_MAX);
    case DVT_FIELD_I32:
        return it->type == DVT_ITEM_UINT ? it->u <= INT32_MAX : v >= INT32_MIN;
    default:
        return true;
    }
}

static int store_number(const struct dvt_fields *m, const struct dvt_field *f, const struct dvt_item *it,
                        char *to, struct dvt_err *err)
{
    bool type_is_right = it->type == (f->kind == DVT_FIELD_BOOL ? DVT_ITEM_BOOL : DVT_ITEM_UINT) ||
                         (f->kind == DVT_FIELD_I32 && it->type == DVT_ITEM_NEGATIVE);
    if (!type_is_right)
        return fail_at(err, DVT_EFORMAT, m, f, "is not of its type");
    if (!number_fits(f, it))
        return fail_at(err, DVT_ELIMIT, m, f, "is out of range");
    uint32_t u32 = (uint32_t)it->u;
    if (f->kind == DVT_FIELD_BOOL)
        *(bool *)to = it->u != 0;
    else if (f->kind == DVT_FIELD_U64)
        memcpy(to, &it->u, sizeof it->u);
    else
        memcpy(to, &u32, sizeof u32);
    return 0;
}

static int store_bytes(const struct dvt_fields *m, const struct dvt_field *f, const struct dvt_item *it,
                       char *to, struct dvt_err *err)
{
    bool is_bin = f->kind == DVT_FIELD_KEY || f->kind == DVT_FIELD_BIN;
    if (it->type != (is_bin ? DVT_ITEM_BIN : DVT_ITEM_STR))
        return fail_at(err, DVT_EFORMAT, m, f, "is not of its type");
    if (f->kind == DVT_FIELD_KEY && it->u != f->max)
        return fail_at(err, DVT_EFORMAT, m, f, "has a wrong length");
    if (!is_bin && it->u > f->max)
        return fail_at(err, DVT_ELIMIT, m, f, "is too long");
    struct dvt_str s = {it->p, it->u};
    if (f->kind == DVT_FIELD_KEY)
        memcpy(to, s.p, s.n);
    else
        memcpy(to, &s, sizeof s);
    return 0;
}

static int read_raw(struct dvt_cur *c, const struct dvt_fields *m, const struct dvt_field *f, char *to,
                    struct dvt_err *err)
{
    const uint8_t *from = c->p;
    if (!dvt_cur_skip(c))
        return fail_at(err, DVT_EFORMAT, m, f, "is cut off");
    struct dvt_str s = {(const char *)from, (size_t)(c->p - from)};
    memcpy(to, &s, sizeof s);
    return 0;
}

static int read_field(struct dvt_cur *c, const struct dvt_fields *m, const struct dvt_field *f, char *to,
                      struct dvt_err *err)
{
    struct dvt_item it;
    if (f->kind == DVT_FIELD_RAW)
        return read_raw(c, m, f, to, err);
    if (!dvt_cur_next(c, &it))
        return fail_at(err, DVT_EFORMAT, m, f, "is cut off");
    bool is_number = f->kind <= DVT_FIELD_BOOL;
    return is_number ? store_number(m, f, &it, to, err) : store_bytes(m, f, &it, to, err);
}

/* Index of the row with this key, f->n if there is none. Keys mostly come in the table's order: looked for
 * from `from` on. */
static unsigned row_of(const struct dvt_fields *f, uint64_t key, unsigned from)
{
    for (unsigned i = from; i < f->n; i++)
        if (f->v[i].key == key)
            return i;
    for (unsigned i = 0; i < from; i++)
        if (f->v[i].key == key)
            return i;
    return f->n;
}

static int read_pair(struct dvt_cur *c, const struct dvt_fields *f, char *to, uint32_t *seen, unsigned *next,
                     struct dvt_err *err)
{
    uint64_t key;
    if (!dvt_cur_small(c, &key) && !dvt_cur_uint(c, &key))
        return dvt_fail(err, DVT_EFORMAT, 0, "%s message: a key is not a number", f->name);
    unsigned i = row_of(f, key, *next);
    if (i == f->n)
        return dvt_cur_skip(c) ? 0 : dvt_fail(err, DVT_EFORMAT, 0, "%s message is cut off", f->name);
    if (*seen & 1u << i)
        return fail_at(err, DVT_EFORMAT, f, &f->v[i], "is given twice");
    *seen |= 1u << i;
    *next = i + 1;
    return read_field(c, f, &f->v[i], to + f->v[i].at, err);
}

int dvt_fields_read(struct dvt_cur *c, const struct dvt_fields *f, void *ret, struct dvt_err *err)
{
    _Alignas(16) char copy[DVT_FIELDS_MAX_STRUCT];
    uint64_t n_pairs;
    uint32_t seen = 0;
    unsigned next = 0;
    memset(copy, 0, f->bytes);
    if (!dvt_cur_map(c, &n_pairs))
        return dvt_fail(err, DVT_EFORMAT, 0, "%s message is not a whole map", f->name);
    for (; n_pairs > 0; n_pairs--) {
        int rc = read_pair(c, f, copy, &seen, &next, err);
        if (rc)
            return rc;
    }
    for (unsigned i = 0; i < f->n; i++)
        if (f->v[i].required && !(seen & 1u << i))
            return fail_at(err, DVT_EFORMAT, f, &f->v[i], "is missing");
    memcpy(ret, copy, f->bytes);
    return 0;
}

int dvt_fields_get(struct dvt_str map, const struct dvt_fields *f, void *ret, struct dvt_err *err)
{
    _Alignas(16) char copy[DVT_FIELDS_MAX_STRUCT];
    struct dvt_cur c = dvt_cur(map);
    int rc = dvt_fields_read(&c, f, copy, err);
    if (rc)
        return rc;
    if (c.p != c.end)
        return dvt_fail(err, DVT_EFORMAT, 0, "%s message: bytes after its end", f->name);
    memcpy(ret, copy, f->bytes);
    return 0;
}
