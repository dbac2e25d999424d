/* outline: see outline.h. */
#include "outline.h"
#include "alloc.h"
#include "library.h"

#include "../proto/chunk.h"

#include <stdlib.h>

#define FOLD_BELOW 0.05    /* of all: heavier kernel frames are worth their lines */
#define SERVICE_SHARE 0.01 /* of all: lighter services may be left out */
enum { LIBRARY_CHAIN = 3 }; /* frames; fewer have a line each */

struct walk {
    const struct tree *t;
    struct outline *o;
    uint32_t max_depth;
    bool folds, chooses; /* chooses: the least share is not the user's */
};

/* What is below one node. */
struct children {
    uint32_t shown, hidden;
    uint64_t hidden_ns, hidden_samples;
};

/* A node whose children are being put; by hand, as stacks of the data must not become stack of ours. */
struct open {
    uint32_t node, next; /* child to put next, or TREE_NONE */
    struct children children;
    uint32_t put, level;
    uint64_t most; /* more samples than half of the service's: always shown */
};

static double share_of(const struct walk *w, const struct tree_node *n)
{
    uint64_t all = w->t->nodes[0].total_ns;
    return all ? (double)n->total_ns / (double)all : 0;
}

static bool is_shown(const struct walk *w, const struct tree_node *n, uint64_t most)
{
    if (n->total_samples == 0 || (w->max_depth && n->depth > w->max_depth)) {
        return false;
    }
    bool is_service = n->kind == TREE_SERVICE && share_of(w, n) >= SERVICE_SHARE;
    return share_of(w, n) >= w->o->min_share || (w->chooses && (is_service || n->total_samples >= most));
}

/* For what lies below the node. */
static uint64_t most_below(const struct tree_node *n, uint64_t most)
{
    return n->kind == TREE_SERVICE ? n->total_samples / 2 + 1 : most;
}

static struct children count_children(const struct walk *w, uint32_t node, uint64_t most)
{
    struct children c = {0};
    for (uint32_t i = w->t->nodes[node].first_child; i != TREE_NONE; i = w->t->nodes[i].next_sibling) {
        const struct tree_node *n = &w->t->nodes[i];
        if (is_shown(w, n, most)) {
            c.shown++;
        } else if (n->total_samples) {
            c.hidden++;
            c.hidden_ns += n->total_ns;
            c.hidden_samples += n->total_samples;
        }
    }
    return c;
}

static bool is_light_kernel(const struct walk *w, uint32_t node)
{
    const struct tree_node *n = &w->t->nodes[node];
    return n->kind == TREE_FRAME && n->frame_kind == DVT_FRAME_KERNEL && share_of(w, n) < FOLD_BELOW;
}

static bool are_of_one_chain(const struct walk *w, uint32_t node, uint32_t child)
{
    const struct tree_node *a = &w->t->nodes[node], *b = &w->t->nodes[child];
    return (is_light_kernel(w, node) && is_light_kernel(w, child)) ||
           (library_has(a) && library_has(b) && a->total_samples == b->total_samples);
}

/* The end of the chain that begins at node, each frame the one line below the one before. */
static uint32_t end_of_chain(const struct walk *w, uint32_t node, uint64_t most)
{
    uint32_t first = node, n = 1;
    for (; w->folds; n++) {
        struct children c = count_children(w, node, most);
        uint32_t child = w->t->nodes[node].first_child; /* the heaviest: if one is shown, it is */
        if (c.shown != 1 || c.hidden || !are_of_one_chain(w, node, child)) {
            break;
        }
        node = child;
    }
    return n < LIBRARY_CHAIN && !is_light_kernel(w, first) ? first : node;
}

static void put_line(struct walk *w, const struct outline_line *line)
{
    alloc_grow(&w->o->lines, &w->o->cap, w->o->n + 1, sizeof *w->o->lines);
    w->o->lines[w->o->n++] = *line;
}

static struct open open_node(struct walk *w, uint32_t node, uint32_t level, uint64_t most)
{
    most = most_below(&w->t->nodes[node], most);
    struct open open = {node, w->t->nodes[node].first_child, count_children(w, node, most), 0, level, most};
    w->o->hides = w->o->hides || open.children.hidden;
    return open;
}

static enum outline_stroke stroke_of(const struct open *open)
{
    uint32_t lines = open->children.shown + (open->children.hidden > 0);
    return lines <= 1 ? OUTLINE_NONE : open->put == lines ? OUTLINE_LAST : OUTLINE_MIDDLE;
}

/* Puts the next line below the open node. Returns the node it ends with, TREE_NONE after the last. */
static uint32_t put_next(struct walk *w, struct open *open)
{
    while (open->next != TREE_NONE) {
        uint32_t node = open->next;
        open->next = w->t->nodes[node].next_sibling;
        const struct tree_node *n = &w->t->nodes[node];
        if (is_shown(w, n, open->most)) {
            open->put++;
            struct outline_line line = {.node = node, .level = open->level, .stroke = stroke_of(open)};
            line.last = end_of_chain(w, node, most_below(n, open->most));
            put_line(w, &line);
            return line.last;
        }
    }
    const struct children *c = &open->children;
    if (c->hidden && c->shown) {
        open->put++;
        put_line(w, &(struct outline_line){open->node, open->node, c->hidden, c->hidden_ns, c->hidden_samples,
                                           open->level, stroke_of(open)});
    }
    return TREE_NONE;
}

static void walk_tree(struct walk *w)
{
    struct open *opens = NULL;
    size_t cap = 0, n = 1;
    w->o->n = 0;
    w->o->hides = false;
    alloc_grow(&opens, &cap, 1, sizeof *opens);
    opens[0] = open_node(w, 0, 0, UINT64_MAX);
    while (n > 0) {
        uint32_t node = put_next(w, &opens[n - 1]);
        if (node == TREE_NONE) {
            n--;
            continue;
        }
        uint32_t level = opens[n - 1].level + (stroke_of(&opens[n - 1]) != OUTLINE_NONE);
        uint64_t most = opens[n - 1].most;
        alloc_grow(&opens, &cap, n + 1, sizeof *opens);
        opens[n++] = open_node(w, node, level, most);
    }
    free(opens);
}

void outline_init(struct outline *o, const struct tree *t, const struct outline_options *options)
{
    static const double shares[] = {0.01, 0.02, 0.03, 0.05, 0.1, 0.2};
    struct walk w = {t, o, options->max_depth, options->folds, options->min_share < 0};
    *o = (struct outline){.min_share = options->min_share};
    if (options->min_share >= 0) {
        walk_tree(&w);
        return;
    }
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        o->min_share = shares[i];
        walk_tree(&w);
        if (o->n <= OUTLINE_LINES) {
            return;
        }
    }
}

void outline_fini(struct outline *o)
{
    free(o->lines);
    *o = (struct outline){0};
}
