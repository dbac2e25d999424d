/*
 * kept: which frames of a walk are kept, for walkers that meet the leaf first: of a stack deeper than there is room for, three
 * quarters on the leaf side and one on the root side (limits.h: 384 and 128 of 512). Async-signal-safe.
 */
#ifndef DVT_KEPT_H
#define DVT_KEPT_H

#include "runtime.h"

/* The first leaf_cap frames in order, later ones round and round in the rest. */
struct dvt_kept {
    struct dvt_rt_frame *frames; /* borrowed */
    int leaf_cap, root_cap;
    int n; /* frames seen */
};

/* cap: of frames, at least 1. */
static inline struct dvt_kept dvt_kept_in(struct dvt_rt_frame *frames, int cap)
{
    int root_cap = cap < 4 ? 1 : cap / 4;
    return (struct dvt_kept){.frames = frames, .leaf_cap = cap - root_cap, .root_cap = root_cap};
}

static inline void dvt_kept_add(struct dvt_kept *k, uint64_t key, int64_t offset)
{
    int at = k->n < k->leaf_cap ? k->n : k->leaf_cap + (k->n - k->leaf_cap) % k->root_cap;
    k->frames[at] = (struct dvt_rt_frame){.key = key, .offset = offset};
    k->n++;
}

static inline void dvt_kept_reverse(struct dvt_rt_frame *f, int n)
{
    for (int i = 0; i < n / 2; i++) {
        struct dvt_rt_frame t = f[i];
        f[i] = f[n - 1 - i];
        f[n - 1 - i] = t;
    }
}

/* Puts the root side in order. Returns the number of frames kept. */
static inline int dvt_kept_end(struct dvt_kept *k)
{
    int cap = k->leaf_cap + k->root_cap;
    if (k->n <= cap)
        return k->n;
    int first = (k->n - k->leaf_cap) % k->root_cap; /* the oldest kept is there */
    struct dvt_rt_frame *root = k->frames + k->leaf_cap;
    dvt_kept_reverse(root, first);
    dvt_kept_reverse(root + first, k->root_cap - first);
    dvt_kept_reverse(root, k->root_cap);
    return cap;
}

#endif
