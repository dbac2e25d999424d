/* parts: see parts.h. */
#include "parts.h"
#include "alloc.h"

#include <stdlib.h>

struct read {
    struct catalog *c;
    struct parts *parts;
};

static int read_part(void *ctx, const struct catalog_chunk *where, struct dvt_err *err)
{
    struct read *r = ctx;
    struct parts *p = r->parts;
    uint8_t *buf = NULL;
    size_t cap = 0;
    struct dvt_chunk chunk;
    int rc = catalog_read(r->c, where, &buf, &cap, err);
    if (rc == 0) {
        rc = dvt_chunk_decode(buf, where->bytes, &chunk, err);
    }
    if (rc) {
        free(buf);
        return rc;
    }
    alloc_grow(&p->chunks, &p->cap_chunks, p->n + 1, sizeof *p->chunks);
    alloc_grow(&p->bufs, &p->cap_bufs, p->n + 1, sizeof *p->bufs);
    p->chunks[p->n] = chunk;
    p->bufs[p->n++] = buf;
    return dvt_trace_labels_add(&p->labels, &chunk) ? dvt_fail(err, DVT_ENOMEM, 0, "out of memory") : 0;
}

int parts_read(struct catalog *c, const struct catalog_trace *t, struct parts *ret, struct dvt_err *err)
{
    struct read r = {c, ret};
    *ret = (struct parts){0};
    int rc = catalog_trace_chunks(c, t, read_part, &r, err);
    if (rc) {
        parts_fini(ret);
    }
    return rc;
}

int parts_read_chunk(struct catalog *c, const struct catalog_chunk *where, struct parts *ret,
                     struct dvt_err *err)
{
    struct read r = {c, ret};
    *ret = (struct parts){0};
    int rc = read_part(&r, where, err);
    if (rc) {
        parts_fini(ret);
    }
    return rc;
}

void parts_fini(struct parts *p)
{
    dvt_trace_labels_fini(&p->labels);
    for (size_t i = 0; i < p->n; i++) {
        dvt_chunk_fini(&p->chunks[i]);
        free(p->bufs[i]);
    }
    free(p->chunks);
    free(p->bufs);
    *p = (struct parts){0};
}
