/*
 * scope_index: the closed scopes of one thread into which samples may still fall, as columns ordered by
 * close. Layer 2.
 *
 * Columns are what the join sweeps over; `scopes` says what a row is and belongs to the caller (it may be
 * left NULL). Rows arrive in order of close; a straggler (closed by another thread) is sorted in before the
 * next join. Pipeline thread only.
 */
#ifndef SCOPE_INDEX_H
#define SCOPE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct scope;

struct scope_index {
    uint64_t *open, *close, *serial; /* [n], in one block */
    struct scope **scopes;           /* [n] */
    uint32_t n, cap;
    uint32_t n_cross; /* rows whose scope was closed by another thread */
    bool is_sorted;
};

void scope_index_init(struct scope_index *x);
void scope_index_fini(struct scope_index *x); /* the scopes are the caller's */
/* Makes room for extra more rows; 0 or DVT_ENOMEM. */
int scope_index_reserve(struct scope_index *x, uint32_t extra);
/* Appends a row; room must have been reserved. */
static inline void scope_index_put(struct scope_index *x, uint64_t open, uint64_t close, uint64_t serial,
                                   struct scope *scope)
{
    uint32_t i = x->n++;
    if (i && close < x->close[i - 1])
        x->is_sorted = false;
    x->open[i] = open;
    x->close[i] = close;
    x->serial[i] = serial;
    x->scopes[i] = scope;
}
/* Sorts by close if a straggler came; equal closes keep their order. 0 or DVT_ENOMEM. */
int scope_index_sort(struct scope_index *x);
/* Keeps only the rows keep[n_keep] (ascending). */
void scope_index_keep(struct scope_index *x, const uint32_t *keep, uint32_t n_keep);

#endif
