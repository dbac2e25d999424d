/*
 * tree: stacks of many samples merged into one tree, as every output shows it.
 *
 * Node 0 is the root ("all"). Below it lie the levels that were asked for (service, thread, scope) and below
 * those the frames, root first. A node's parent has a smaller index; children are in the order they came
 * until tree_finish sorts them, heaviest first. self counts samples that end in the node, total those that
 * end in it or below. Frames of one function are one node; its line is the one most of its weight was at.
 * Strings are interned in the tree: equal strings have equal pointers. They are raw bytes of the trace,
 * bounded but hostile: escape them for whatever they are written to.
 */
#ifndef TREE_H
#define TREE_H

#include "../proto/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TREE_NONE = UINT32_MAX, TREE_MAX_NODES = 1 << 24 };

enum tree_kind { TREE_ROOT, TREE_SERVICE, TREE_THREAD, TREE_SCOPE, TREE_FRAME };

struct tree_node {
    uint32_t parent, first_child, next_sibling; /* TREE_NONE: none */
    uint8_t kind;                               /* enum tree_kind */
    uint8_t frame_kind;                         /* enum dvt_frame_kind, of TREE_FRAME */
    uint16_t depth;                             /* of the root 0; saturates */
    uint32_t line;                              /* of most of its weight; 0 unknown */
    struct dvt_str name;
    struct dvt_str module, file; /* of TREE_FRAME as in struct dvt_chunk_frame */
    uint64_t self_ns,
        total_ns; /* weights: ns of CPU time (counts of events if the recording has no period) */
    uint64_t self_samples, total_samples;
    uint64_t line_weight; /* private: the majority vote for line */
};

struct tree_key { /* what makes children of one parent the same */
    uint8_t kind, frame_kind;
    struct dvt_str name, module, file;
};

struct tree {
    struct tree_node *nodes; /* [n_nodes] */
    size_t n_nodes, cap_nodes;
    bool is_full; /* TREE_MAX_NODES was reached: what did not fit is counted in the parents */
    struct intern *strings;
    uint32_t *table; /* private: open addressing by (parent, key) */
    size_t table_size;
};

void tree_init(struct tree *t);
void tree_fini(struct tree *t);

/* The child of parent with that key, made if need be; its parent if the tree is full. */
uint32_t tree_child(struct tree *t, uint32_t parent, const struct tree_key *key);
/* For many children of one key: replaces its strings by the tree's own once, then tree_child_interned is
 * fast. */
void tree_intern(struct tree *t, struct tree_key *key);
uint32_t tree_child_interned(struct tree *t, uint32_t parent, const struct tree_key *key);
/* Adds samples that end in node. */
void tree_add(struct tree *t, uint32_t node, uint64_t weight_ns, uint64_t samples);
/* One more vote for the line of a frame's node. */
void tree_line(struct tree *t, uint32_t node, uint32_t line, uint64_t weight_ns);
/* Sums totals, sorts children. After the last add, before reading totals and children. */
void tree_finish(struct tree *t);

/* Whether the name says the module already, as that of a frame without symbol does: "libz.so.1+0x2f30". */
bool tree_name_has_module(struct dvt_str name, struct dvt_str module);

/* A function over the whole tree, for "hottest functions": recursion counts once. */
struct tree_function {
    struct dvt_str name, module, file;
    uint32_t line;
    uint8_t frame_kind;
    uint64_t self_ns, total_ns, self_samples, total_samples;
};
/* The functions with the most self time, at most cap; returns how many. After tree_finish. */
size_t tree_hottest(const struct tree *t, struct tree_function *ret, size_t cap);

#endif
