/*
 * parts: all parts of one trace, decoded, with the labels of the whole: what a filter by label needs to see
 * at once.
 */
#ifndef PARTS_H
#define PARTS_H

#include "catalog.h"

#include "../proto/labels.h"

struct parts {
    struct dvt_chunk *chunks; /* [n] */
    uint8_t **bufs;           /* [n]; the chunks' strings point into them */
    size_t n, cap_chunks, cap_bufs;
    struct dvt_trace_labels labels;
};

int parts_read(struct catalog *c, const struct catalog_trace *t, struct parts *ret, struct dvt_err *err);
/* One chunk alone, of a trace that has no other. */
int parts_read_chunk(struct catalog *c, const struct catalog_chunk *where, struct parts *ret,
                     struct dvt_err *err);
void parts_fini(struct parts *p);

#endif
