/*
 * query: samples of the traces that match, merged into one tree.
 *
 * Few chunks are decoded one by one; many are read from the column files (columns.h), which say the same in a
 * form that folds at hundreds of millions of samples a second. What only chunks hold (tags, spans, pids)
 * always comes from them.
 */
#ifndef QUERY_H
#define QUERY_H

#include "catalog.h"
#include "output.h"
#include "tree.h"

enum query_by {
    QUERY_BY_NONE,  /* no level for scopes */
    QUERY_BY_TAG,   /* the tag of the outermost scope, once per thread */
    QUERY_BY_SCOPE, /* a level for each scope from the outermost to the innermost, by name */
};

struct query_options {
    enum query_by by;
    bool processes; /* services by process: "shop (pid 4711)" */
    bool threads;   /* a level for threads */
    bool tids;      /* threads of one name are told apart: "python3 (1634)" */
    bool native;    /* keep the runtime's own native frames above a managed one */
};

/* Adds the samples of one trace that f picks to tree (made by tree_init; finished here) and their sums to
 * meta. */
int query_one(struct catalog *c, const struct filter *f, const struct catalog_trace *t,
              const struct query_options *o, struct tree *tree, struct tree_meta *meta, struct dvt_err *err);
/* The same for all traces that match f. *ret_found: whether any did. */
int query_all(struct catalog *c, const struct filter *f, const struct query_options *o, struct tree *tree,
              struct tree_meta *meta, bool *ret_found, struct dvt_err *err);

/* ---- for query_columns.c and tests ---- */

/* The trace of one row, if the filter's times take it; tree_finish is the caller's. */
int query_row(struct catalog *c, struct catalog_source row, const struct filter *f,
              const struct query_options *o, struct tree *tree, struct tree_meta *meta, struct dvt_err *err);
void query_sum_event(struct tree_meta *meta, struct dvt_str event);
void query_sum_trace(struct tree_meta *meta, int64_t start_ns, uint64_t duration_ns);

/* A native frame of the interpreter or of the shim in it, by its module: python3.11, libpython3.11.so.1.0,
 * _dovetail.abi3.so, libdovetail.so.0. */
bool query_is_runtime(uint32_t frame_kind, struct dvt_str module);
bool query_is_managed(uint32_t frame_kind);

#endif
