/*
 * flame_order: the nodes of a finished tree that hold samples, parents before children, heavier siblings
 * first: the order in which flame graphs are laid out. For out_html, out_svg and out_folded.
 */
#ifndef FLAME_ORDER_H
#define FLAME_ORDER_H

#include "tree.h"

struct flame_order {
    uint32_t *nodes; /* [n] */
    uint32_t *depth; /* [n], the root's is 0 */
    size_t n;
};

void flame_order_init(struct flame_order *o, const struct tree *t);
void flame_order_fini(struct flame_order *o);

/* How a node is coloured. The order is that of the tables in flame.js and out_svg.c. */
enum flame_kind {
    FLAME_ROOT,
    FLAME_SERVICE,
    FLAME_THREAD,
    FLAME_SCOPE,
    FLAME_MANAGED,
    FLAME_JIT,
    FLAME_INLINED,
    FLAME_NATIVE,
    FLAME_KERNEL,
    FLAME_SPECIAL,
    FLAME_KINDS
};
enum flame_kind flame_kind_of(const struct tree_node *n);

#endif
