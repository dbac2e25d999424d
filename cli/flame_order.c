/* flame_order: see flame_order.h. Walks without recursion: a stack of the data must not become one of ours.
 */
#include "flame_order.h"
#include "alloc.h"

#include "../proto/chunk.h"

#include <stdlib.h>

/* The first of the sibling i and those after it that holds samples. */
static uint32_t with_samples(const struct tree *t, uint32_t i)
{
    while (i != TREE_NONE && t->nodes[i].total_samples == 0) {
        i = t->nodes[i].next_sibling;
    }
    return i;
}

/* The node after i in the order; depth follows. */
static uint32_t next_of(const struct tree *t, uint32_t i, uint32_t *depth)
{
    uint32_t next = with_samples(t, t->nodes[i].first_child);
    if (next != TREE_NONE) {
        ++*depth;
        return next;
    }
    for (; i != 0; i = t->nodes[i].parent, --*depth) {
        next = with_samples(t, t->nodes[i].next_sibling);
        if (next != TREE_NONE) {
            return next;
        }
    }
    return TREE_NONE;
}

void flame_order_init(struct flame_order *o, const struct tree *t)
{
    *o = (struct flame_order){.nodes = alloc_array(t->n_nodes, sizeof *o->nodes),
                              .depth = alloc_array(t->n_nodes, sizeof *o->depth)};
    uint32_t depth = 0;
    for (uint32_t i = 0; i != TREE_NONE; i = next_of(t, i, &depth)) {
        o->depth[o->n] = depth;
        o->nodes[o->n++] = i;
    }
}

void flame_order_fini(struct flame_order *o)
{
    free(o->nodes);
    free(o->depth);
}

enum flame_kind flame_kind_of(const struct tree_node *n)
{
    static const enum flame_kind levels[] = {[TREE_ROOT] = FLAME_ROOT,
                                             [TREE_SERVICE] = FLAME_SERVICE,
                                             [TREE_THREAD] = FLAME_THREAD,
                                             [TREE_SCOPE] = FLAME_SCOPE};
    if (n->kind != TREE_FRAME) {
        return levels[n->kind];
    }
    switch (n->frame_kind) {
    case DVT_FRAME_MANAGED:
        return FLAME_MANAGED;
    case DVT_FRAME_JIT:
        return FLAME_JIT;
    case DVT_FRAME_INLINED:
        return FLAME_INLINED;
    case DVT_FRAME_NATIVE:
        return FLAME_NATIVE;
    case DVT_FRAME_KERNEL:
        return FLAME_KERNEL;
    default:
        return FLAME_SPECIAL;
    }
}
