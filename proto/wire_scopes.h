/*
 * wire_scopes: the keys of SCOPES, and what its encoder works on; PROTOCOL.md "SCOPES". Private to the wire
 * modules.
 *
 * The encoder has two halves: wire_scopes_spread.c takes the records apart into columns, wire_scopes_put.c
 * packs them.
 */
#ifndef DVT_WIRE_SCOPES_H
#define DVT_WIRE_SCOPES_H

#include "wire_cols.h"
#include "wire_intern.h"

enum dvt_scopes_key {
    DVT_SCOPES_TID = 1,
    DVT_SCOPES_EPOCH = 2,
    DVT_SCOPES_N = 3,
    DVT_SCOPES_SETTLED_HEAD = 4,
    DVT_SCOPES_SETTLED_NS = 5,
    DVT_SCOPES_SPANS = 6,
    DVT_SCOPES_PARENT_SPANS = 7,
    DVT_SCOPES_TRACES = 8,
    DVT_SCOPES_NAMES = 9,
    DVT_SCOPES_LABELSETS = 10,
    DVT_SCOPES_LINKS = 11,
    DVT_SCOPES_COLS = 16, /* the first of the columns, which follow in the order below */
};

enum dvt_scopes_col {
    DVT_COL_END,
    DVT_COL_DUR,
    DVT_COL_HEAD_CLOSE,
    DVT_COL_HEAD_SPAN,
    DVT_COL_SERIAL,
    DVT_COL_PARENT_ROW,
    DVT_COL_PARENT_BACK,
    DVT_COL_TRACE,
    DVT_COL_NAME,
    DVT_COL_LABELSET,
    DVT_COL_FLAGS,
    DVT_COL_SPAN, /* only if spans come more than once */
    DVT_N_SCOPES_COLS,
};

/* tid, epoch, n, two settled, spans, traces, names, labelsets and the columns but that of spans; parent
 * spans, links and it if they are needed. */
enum { DVT_SCOPES_ALWAYS_PAIRS = 9 + DVT_N_SCOPES_COLS - 1 };

/* ---- encoding ---- */

/* Shims keep one copy of a name: an address met before needs no look at the bytes. */
struct dvt_seen_name {
    const char *p;
    size_t n;
    uint32_t entry;
};
enum { DVT_N_SEEN_NAMES = 64, DVT_RECENT_SPANS_BITS = 10 };

/* All that one call works on, in the buffer's working memory. */
struct dvt_scopes_work {
    const struct dvt_scope_rec *v;
    size_t n, n_with_links, n_spans, n_parent_spans;
    struct dvt_parts cols[DVT_N_SCOPES_COLS]; /* x is [n] */
    uint64_t *wide;         /* [n] the values of one column whose parts have more than 32 bits */
    uint64_t *spans;        /* [n + 1] at first one for each scope, then the distinct ones */
    uint64_t *parent_spans; /* [n] at first one for each scope, then at the end those that no row holds */
    uint32_t *serial;       /* [n] the low bits */
    struct dvt_intern traces, names, labelsets;
    struct dvt_seen_name seen[DVT_N_SEEN_NAMES];
    uint32_t link_bits; /* numbers of links, or-ed */
    bool spans_repeat, serials_are_wide, serials_are_odd;
    uint32_t recent[1 << DVT_RECENT_SPANS_BITS]; /* rows by hash of their span */
};

/* Fills w from v[n]. 0, DVT_ELIMIT, DVT_EINVAL or DVT_ENOMEM. */
int dvt_scopes_spread(struct dvt_scopes_work *w, struct dvt_buf *b, const struct dvt_scope_rec *v, size_t n);
/* The values of a column of numbers into w->wide. */
void dvt_scopes_widen(struct dvt_scopes_work *w, enum dvt_scopes_col col);

#endif
