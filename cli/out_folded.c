/*
 * out_folded: one line a stack, heaviest subtrees first, root first, frames joined by ';', then a space and
 * the weight in microseconds (or samples). Read by flamegraph.pl, inferno, speedscope. A ';' within a name
 * becomes ','; control characters become \xNN, so a line is always one stack.
 */
#include "alloc.h"
#include "flame_order.h"
#include "output.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

/* Names as they are written, made once each: [n_nodes], NULL until then. */
static const char *name_of(const struct tree *t, uint32_t node, char **names)
{
    if (!names[node]) {
        struct dvt_str name = t->nodes[node].name;
        names[node] = text_safe(name.n ? name : dvt_str("(unnamed)"), 0);
        for (char *p = names[node]; (p = strchr(p, ';')); p++) {
            *p = ',';
        }
    }
    return names[node];
}

/* path[depth] is the node of each depth above and at `depth`; the root has no name here. */
static void put_path(const struct tree *t, const uint32_t *path, uint32_t depth, char **names, FILE *out)
{
    for (uint32_t d = 1; d <= depth; d++) {
        fputs_unlocked(name_of(t, path[d], names), out);
        putc_unlocked(d < depth ? ';' : ' ', out);
    }
}

/* Microseconds, rounded so that the lines of one file add up to its whole: *carry_ns holds what rounding
 * left. */
static uint64_t microseconds(uint64_t ns, uint64_t *carry_ns)
{
    uint64_t all = ns + *carry_ns;
    *carry_ns = all % 1000;
    return all / 1000;
}

static int write_folded(const struct tree *tree, const struct tree_meta *meta, FILE *out)
{
    struct flame_order o;
    flame_order_init(&o, tree);
    uint32_t *path = alloc_array(o.n, sizeof *path); /* no node is deeper than there are nodes */
    char **names = alloc_array(tree->n_nodes, sizeof *names);
    uint64_t carry_ns = 500;
    for (size_t i = 0; i < o.n; i++) {
        const struct tree_node *n = &tree->nodes[o.nodes[i]];
        path[o.depth[i]] = o.nodes[i];
        if (n->self_samples == 0 || o.depth[i] == 0) {
            continue;
        }
        put_path(tree, path, o.depth[i], names, out);
        bool samples = meta->opt.counts;
        uint64_t v = samples                    ? n->self_samples
                     : meta->weights_are_counts ? n->self_ns
                                                : microseconds(n->self_ns, &carry_ns);
        fprintf(out, "%" PRIu64 "\n", v);
    }
    for (size_t i = 0; i < tree->n_nodes; i++) {
        free(names[i]);
    }
    free(names);
    free(path);
    flame_order_fini(&o);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_folded = {"folded", ".folded", write_folded};
