/* tree: see tree.h. */
#include "tree.h"
#include "alloc.h"

#include "intern.h"

#include <stdlib.h>
#include <string.h>

void tree_init(struct tree *t)
{
    *t = (struct tree){.strings = intern_new()};
    alloc_grow(&t->nodes, &t->cap_nodes, 64, sizeof *t->nodes);
    t->nodes[0] = (struct tree_node){.parent = TREE_NONE,
                                     .first_child = TREE_NONE,
                                     .next_sibling = TREE_NONE,
                                     .kind = TREE_ROOT,
                                     .name = dvt_str("all")};
    t->n_nodes = 1;
    t->table_size = 256;
    t->table = alloc_array(t->table_size,
                           sizeof *t->table); /* 0, the root, is nobody's child: it marks a free slot */
}

void tree_fini(struct tree *t)
{
    intern_free(t->strings);
    free(t->nodes);
    free(t->table);
    *t = (struct tree){0};
}

/* Interned strings differ in their pointers, so those are enough of a hash. */
static size_t slot_of(const struct tree *t, uint32_t parent, const struct tree_node *n)
{
    uint64_t h = parent * 0x9e3779b97f4a7c15u;
    h = (h ^ (uintptr_t)n->name.p) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 29) ^ (uintptr_t)n->module.p) * 0xc4ceb9fe1a85ec53u;
    h = (h ^ (h >> 31) ^ (uintptr_t)n->file.p ^ n->kind ^ (uint64_t)n->frame_kind << 8) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 20) & (t->table_size - 1);
}

static bool is_same(const struct tree_node *a, const struct tree_node *b)
{
    return a->parent == b->parent && a->name.p == b->name.p && a->module.p == b->module.p &&
           a->file.p == b->file.p && a->kind == b->kind && a->frame_kind == b->frame_kind;
}

static void grow_table(struct tree *t)
{
    free(t->table);
    t->table_size *= 2;
    t->table = alloc_array(t->table_size, sizeof *t->table);
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        size_t slot = slot_of(t, t->nodes[i].parent, &t->nodes[i]);
        while (t->table[slot]) {
            slot = (slot + 1) & (t->table_size - 1);
        }
        t->table[slot] = i;
    }
}

static uint32_t append(struct tree *t, size_t slot, struct tree_node *node)
{
    struct tree_node *parent = &t->nodes[node->parent];
    uint32_t index = (uint32_t)t->n_nodes;
    node->depth = (uint16_t)(parent->depth + (parent->depth < UINT16_MAX));
    node->next_sibling = parent->first_child;
    parent->first_child = index;
    alloc_grow(&t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes);
    t->nodes[t->n_nodes++] = *node;
    t->table[slot] = index;
    if (t->n_nodes * 2 > t->table_size) {
        grow_table(t);
    }
    return index;
}

void tree_intern(struct tree *t, struct tree_key *key)
{
    key->name = intern(t->strings, key->name);
    key->module = intern(t->strings, key->module);
    key->file = intern(t->strings, key->file);
}

uint32_t tree_child(struct tree *t, uint32_t parent, const struct tree_key *key)
{
    struct tree_key kept = *key;
    tree_intern(t, &kept);
    return tree_child_interned(t, parent, &kept);
}

uint32_t tree_child_interned(struct tree *t, uint32_t parent, const struct tree_key *key)
{
    struct tree_node node = {.parent = parent,
                             .first_child = TREE_NONE,
                             .kind = key->kind,
                             .frame_kind = key->frame_kind,
                             .name = key->name,
                             .module = key->module,
                             .file = key->file};
    size_t slot = slot_of(t, parent, &node);
    for (; t->table[slot]; slot = (slot + 1) & (t->table_size - 1)) {
        if (is_same(&t->nodes[t->table[slot]], &node)) {
            return t->table[slot];
        }
    }
    if (t->n_nodes >= TREE_MAX_NODES) {
        t->is_full = true;
        return parent;
    }
    return append(t, slot, &node);
}

void tree_add(struct tree *t, uint32_t node, uint64_t weight_ns, uint64_t samples)
{
    t->nodes[node].self_ns += weight_ns;
    t->nodes[node].self_samples += samples;
}

/* Boyer-Moore: a line with more than half of the weight always wins. */
void tree_line(struct tree *t, uint32_t node, uint32_t line, uint64_t weight_ns)
{
    struct tree_node *n = &t->nodes[node];
    if (n->line == line) {
        n->line_weight += weight_ns;
    } else if (n->line_weight >= weight_ns) {
        n->line_weight -= weight_ns;
    } else {
        n->line = line;
        n->line_weight = weight_ns - n->line_weight;
    }
}

/* ---- finishing ---- */

static int compare_nodes(const struct tree_node *x, const struct tree_node *y)
{
    if (x->total_ns != y->total_ns) {
        return x->total_ns < y->total_ns ? 1 : -1;
    }
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int order = n ? memcmp(x->name.p, y->name.p, n) : 0;
    return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

static int by_weight(const void *a, const void *b, void *nodes)
{
    const struct tree_node *all = nodes;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = compare_nodes(&all[x], &all[y]);
    return order ? order : (x > y) - (x < y);
}

static void sort_children(struct tree *t, uint32_t node, uint32_t **order, size_t *cap)
{
    size_t n = 0;
    for (uint32_t c = t->nodes[node].first_child; c != TREE_NONE; c = t->nodes[c].next_sibling) {
        alloc_grow(order, cap, n + 1, sizeof **order);
        (*order)[n++] = c;
    }
    if (n < 2) {
        return;
    }
    qsort_r(*order, n, sizeof **order, by_weight, t->nodes);
    t->nodes[node].first_child = (*order)[0];
    for (size_t i = 0; i < n; i++) {
        t->nodes[(*order)[i]].next_sibling = i + 1 < n ? (*order)[i + 1] : TREE_NONE;
    }
}

void tree_finish(struct tree *t)
{
    uint32_t *order = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        t->nodes[i].total_ns = t->nodes[i].self_ns;
        t->nodes[i].total_samples = t->nodes[i].self_samples;
    }
    for (size_t i = t->n_nodes; i-- > 1;) { /* parents lie before children */
        t->nodes[t->nodes[i].parent].total_ns += t->nodes[i].total_ns;
        t->nodes[t->nodes[i].parent].total_samples += t->nodes[i].total_samples;
    }
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        sort_children(t, i, &order, &cap);
    }
    free(order);
}

/* ---- functions ---- */

bool tree_name_has_module(struct dvt_str name, struct dvt_str module)
{
    size_t n = module.n;
    while (n > 0 && module.p[n - 1] != '/') {
        n--;
    }
    struct dvt_str base = {module.p + n, module.n - n};
    return base.n && name.n > base.n && name.p[base.n] == '+' && memcmp(name.p, base.p, base.n) == 0;
}

static bool is_function_of(const struct tree_node *a, const struct tree_node *b)
{
    return a->kind == TREE_FRAME && a->name.p == b->name.p && a->module.p == b->module.p &&
           a->file.p == b->file.p;
}

static bool is_recursive(const struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes[node];
    for (uint32_t up = n->parent; up != TREE_NONE; up = t->nodes[up].parent) {
        if (is_function_of(&t->nodes[up], n)) {
            return true;
        }
    }
    return false;
}

static int by_function(const void *a, const void *b, void *nodes)
{
    const struct tree_node *all = nodes;
    const struct tree_node *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    const uintptr_t keys[3][2] = {{(uintptr_t)x->name.p, (uintptr_t)y->name.p},
                                  {(uintptr_t)x->module.p, (uintptr_t)y->module.p},
                                  {(uintptr_t)x->file.p, (uintptr_t)y->file.p}};
    for (int i = 0; i < 3; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static struct tree_function sum_function(const struct tree *t, const uint32_t *nodes, size_t n)
{
    const struct tree_node *first = &t->nodes[nodes[0]];
    struct tree_function f = {
        .name = first->name, .module = first->module, .file = first->file, .frame_kind = first->frame_kind};
    uint64_t best = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tree_node *node = &t->nodes[nodes[i]];
        f.self_ns += node->self_ns;
        f.self_samples += node->self_samples;
        if (!is_recursive(t, nodes[i])) {
            f.total_ns += node->total_ns;
            f.total_samples += node->total_samples;
        }
        if (node->self_ns >= best) {
            best = node->self_ns;
            f.line = node->line;
        }
    }
    return f;
}

/* Keeps ret sorted by self time; n of cap are in use. */
static size_t insert(struct tree_function *ret, size_t n, size_t cap, const struct tree_function *f)
{
    size_t at = n;
    while (at > 0 && ret[at - 1].self_ns < f->self_ns) {
        at--;
    }
    if (at == cap) {
        return n;
    }
    size_t moved = (n < cap ? n : cap - 1) - at;
    memmove(ret + at + 1, ret + at, moved * sizeof *ret);
    ret[at] = *f;
    return n < cap ? n + 1 : cap;
}

size_t tree_hottest(const struct tree *t, struct tree_function *ret, size_t cap)
{
    uint32_t *frames = alloc_array(t->n_nodes, sizeof *frames);
    size_t n = 0, found = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        if (t->nodes[i].kind == TREE_FRAME) {
            frames[n++] = i;
        }
    }
    qsort_r(frames, n, sizeof *frames, by_function, t->nodes);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_function(&frames[i], &frames[end], t->nodes) == 0; end++) {
        }
        struct tree_function f = sum_function(t, frames + i, end - i);
        if (f.self_samples && cap) {
            found = insert(ret, found, cap, &f);
        }
    }
    free(frames);
    return found;
}
