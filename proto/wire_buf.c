/*
 * wire_buf: the output buffer of all encoders, and the packer on it.
 *
 * A buffer has a maximum, because what goes in may come from a program that names a million things. Growth
 * doubles, so that a sender which keeps its buffer settles and allocates no more.
 */
#include "wire_pack.h"

#include <stdlib.h>

enum { FIRST_CAP_BYTES = 512 };

void dvt_buf_init(struct dvt_buf *b, size_t max)
{
    *b = (struct dvt_buf){.max = max};
}

void dvt_buf_fini(struct dvt_buf *b)
{
    free(b->p);
    free(b->work);
    *b = (struct dvt_buf){0};
}

static size_t grown_cap(const struct dvt_buf *b, size_t need)
{
    size_t cap = b->cap < FIRST_CAP_BYTES / 2 ? FIRST_CAP_BYTES : 2 * b->cap;
    if (cap > b->max)
        cap = b->max;
    return cap < need ? need : cap;
}

int dvt_buf_reserve(struct dvt_buf *b, size_t n)
{
    if (b->n > b->max || n > b->max - b->n)
        return DVT_ELIMIT;
    if (n <= b->cap - b->n)
        return 0;
    size_t cap = grown_cap(b, b->n + n);
    uint8_t *p = realloc(b->p, cap);
    if (!p)
        return DVT_ENOMEM;
    b->p = p;
    b->cap = cap;
    return 0;
}

int dvt_buf_append(struct dvt_buf *b, const void *p, size_t n)
{
    int rc = dvt_buf_reserve(b, n);
    if (rc)
        return rc;
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

void *dvt_buf_work(struct dvt_buf *b, size_t n)
{
    if (n <= b->work_cap)
        return b->work;
    free(b->work); /* its content is of no use any more */
    b->work = malloc(n);
    b->work_cap = b->work ? n : 0;
    return b->work;
}

static int pack_write(void *data, const char *p, size_t n)
{
    struct dvt_packer *k = data;
    struct dvt_buf *b = k->b;
    if (!k->rc && n > 0 && n <= b->cap - b->n) { /* most of the time, for a byte or a few */
        memcpy(b->p + b->n, p, n);
        b->n += n;
    } else if (!k->rc) {
        k->rc = dvt_buf_append(b, p, n);
    }
    return k->rc;
}

void dvt_pack_begin(struct dvt_packer *k, struct dvt_buf *b)
{
    *k = (struct dvt_packer){.b = b, .start = b->n};
    msgpack_packer_init(&k->pk, k, pack_write);
}

int dvt_pack_end(struct dvt_packer *k)
{
    if (k->rc)
        k->b->n = k->start;
    return k->rc;
}

void dvt_pack_message(struct dvt_packer *k, enum dvt_msg_type type, size_t n_pairs)
{
    msgpack_pack_array(&k->pk, 2);
    msgpack_pack_unsigned_int(&k->pk, type);
    msgpack_pack_map(&k->pk, n_pairs);
}

void dvt_pack_key_uint(struct dvt_packer *k, unsigned key, uint64_t value)
{
    msgpack_pack_unsigned_int(&k->pk, key);
    msgpack_pack_uint64(&k->pk, value);
}

void dvt_pack_str(struct dvt_packer *k, struct dvt_str s)
{
    msgpack_pack_str(&k->pk, s.n);
    msgpack_pack_str_body(&k->pk, s.p, s.n);
}

uint8_t *dvt_pack_bin_room(struct dvt_packer *k, size_t n)
{
    msgpack_pack_bin(&k->pk, n);
    if (!k->rc)
        k->rc = dvt_buf_reserve(k->b, n);
    if (k->rc)
        return NULL;
    uint8_t *p = k->b->p + k->b->n;
    k->b->n += n;
    return p;
}
