/*
 * query_fold: the samples of a column view that a filter picks, added to a tree. Weights are summed per trie
 * node first: one pass over the samples, one backwards and one forwards over the nodes.
 */
#include "alloc.h"
#include "query_columns.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_MANAGED = 1, NODE_NO_STACK = 2 }; /* a managed frame, a "[no stack" frame, at or above */

struct fold_node {
    uint64_t self_ns, total_ns;
    uint32_t samples;
    uint32_t out; /* the tree's node */
    uint32_t flags;
};
struct fold {
    const struct columns_view *v;
    const struct filter *f;
    const struct query_options *o;
    struct tree *tree;
    struct tree_meta *meta;
    bool *contexts;          /* [n_contexts] picked */
    struct fold_node *nodes; /* [n_nodes] */
    uint32_t event;          /* the string told last; UINT32_MAX none */
    struct tree_key *frames; /* [n_frames], interned when first used: name.p is NULL before */
};

/* ---- which contexts ---- */

static bool *match_labels(const struct columns_view *v, const struct filter_label *want)
{
    bool *ok = alloc_array(v->n_labels, sizeof *ok);
    for (uint32_t i = 0; i < v->n_labels; i++) {
        ok[i] = dvt_str_eq(columns_string(v, v->labels[i].key), want->key) &&
                filter_glob(want->value, columns_string(v, v->labels[i].value));
    }
    return ok;
}

/* A set matches if one of its ids does. */
static bool any_of(const uint32_t *ends, const uint32_t *ids, uint32_t set, const bool *ok)
{
    for (uint32_t i = set ? ends[set - 1] : 0; i < ends[set]; i++) {
        if (ok[ids[i]]) {
            return true;
        }
    }
    return false;
}

static bool *match_strings(const struct columns_view *v, const char *pattern)
{
    bool *ok = alloc_array(v->n_strings, sizeof *ok);
    for (uint32_t i = 0; i < v->n_strings; i++) {
        ok[i] = filter_glob(pattern, columns_string(v, i));
    }
    return ok;
}

static void keep_labels(struct fold *d)
{
    for (size_t k = 0; k < d->f->n_labels; k++) {
        bool *ok = match_labels(d->v, &d->f->labels[k]);
        for (uint32_t i = 0; i < d->v->n_contexts; i++) {
            d->contexts[i] =
                d->contexts[i] && any_of(d->v->label_set_ends, d->v->label_ids, d->v->contexts[i].labels, ok);
        }
        free(ok);
    }
}

static void match_contexts(struct fold *d)
{
    const struct columns_view *v = d->v;
    d->contexts = alloc_array(v->n_contexts, sizeof *d->contexts);
    memset(d->contexts, true, v->n_contexts);
    keep_labels(d);
    bool *names = d->f->name ? match_strings(v, d->f->name) : NULL;
    bool *services = d->f->service ? match_strings(v, d->f->service) : NULL;
    for (uint32_t i = 0; i < v->n_contexts; i++) {
        bool named = !names || any_of(v->name_set_ends, v->name_ids, v->contexts[i].names, names);
        d->contexts[i] = d->contexts[i] && named && (!services || services[v->contexts[i].service]);
    }
    free(names);
    free(services);
}

/* ---- samples ---- */

static void fold_samples(struct fold *d, uint32_t from, uint32_t to, uint64_t *ret_samples,
                         uint64_t *ret_shared)
{
    const struct columns_view *v = d->v;
    uint64_t samples = 0, shared = 0;
    for (uint32_t i = from; i < to; i++) {
        uint32_t context = v->sample_context[i];
        if (d->contexts[context]) {
            struct fold_node *n = &d->nodes[v->sample_node[i]];
            n->self_ns += v->sample_weight[i];
            n->samples++;
            samples++;
            shared += v->contexts[context].shared;
        }
    }
    *ret_samples = samples;
    *ret_shared = shared;
}

static void sum_chunk(struct fold *d, const struct columns_chunk *c)
{
    struct tree_meta *m = d->meta;
    if (c->event != d->event) { /* the same all the time */
        query_sum_event(m, columns_string(d->v, c->event));
        d->event = c->event;
    }
    query_sum_trace(m, c->start_ns, c->duration_ns);
    m->ambiguous += c->ambiguous;
    m->lost_samples += c->lost_samples;
    m->uncovered_ns += c->uncovered_ns;
    m->cut_short += c->cut_short;
    m->period_ns = c->period_ns;
    m->weights_are_counts = m->weights_are_counts || c->period_ns == 0;
}

static void fold_chunks(struct fold *d, const bool *is_live)
{
    for (uint32_t k = 0; k < d->v->n_chunks; k++) {
        const struct columns_chunk *c = &d->v->chunks[k];
        uint64_t samples, shared;
        if (!is_live[k] || !c->is_whole || !filter_takes_trace(d->f, c->start_ns, c->duration_ns)) {
            continue;
        }
        fold_samples(d, c->first_sample, c->first_sample + c->n_samples, &samples, &shared);
        d->meta->samples += samples;
        d->meta->shared += shared;
        if (samples || !filter_picks_samples(d->f)) {
            sum_chunk(d, c);
        }
    }
}

/* ---- nodes ---- */

static void sum_totals(struct fold *d)
{
    for (uint32_t i = 0; i < d->v->n_nodes; i++) {
        d->nodes[i].total_ns += d->nodes[i].self_ns;
    }
    for (uint32_t i = d->v->n_nodes; i-- > 1;) {
        d->nodes[d->v->nodes[i].parent].total_ns += d->nodes[i].total_ns;
    }
}

static const struct tree_key *key_of(struct fold *d, uint32_t frame)
{
    struct tree_key *key = &d->frames[frame];
    if (!key->name.p) {
        const struct columns_frame *f = &d->v->frames[frame];
        *key = (struct tree_key){(uint8_t)(f->kind >> 8), (uint8_t)f->kind, columns_string(d->v, f->name),
                                 columns_string(d->v, f->module), columns_string(d->v, f->file)};
        tree_intern(d->tree, key);
    }
    return key;
}

static uint32_t flags_of(const struct tree_key *key)
{
    static const char mark[] = "[no stack";
    if (key->kind != TREE_FRAME) {
        return 0;
    }
    bool missing = key->frame_kind == DVT_FRAME_SPECIAL && key->name.n >= strlen(mark) &&
                   memcmp(key->name.p, mark, strlen(mark)) == 0;
    return (query_is_managed(key->frame_kind) ? NODE_MANAGED : 0u) | (missing ? NODE_NO_STACK : 0u);
}

static bool is_left_out(const struct fold *d, const struct tree_key *key, uint32_t flags)
{
    if (key->kind == TREE_THREAD) {
        return !d->o->threads;
    }
    return key->kind == TREE_FRAME && (flags & NODE_MANAGED) && !d->o->native &&
           query_is_runtime(key->frame_kind, key->module);
}

static void place_node(struct fold *d, uint32_t i)
{
    struct fold_node *n = &d->nodes[i];
    const struct fold_node *parent = &d->nodes[d->v->nodes[i].parent];
    const struct columns_frame *frame = &d->v->frames[d->v->nodes[i].frame];
    const struct tree_key *key = key_of(d, d->v->nodes[i].frame);
    n->flags = parent->flags | flags_of(key);
    n->out = parent->out;
    if (!is_left_out(d, key, n->flags)) {
        n->out = tree_child_interned(d->tree, parent->out, key);
        if (key->kind == TREE_FRAME) {
            tree_line(d->tree, n->out, frame->line, n->total_ns);
        }
    }
    if (n->samples) {
        tree_add(d->tree, n->out, n->self_ns, n->samples);
        d->meta->on_cpu_ns += n->self_ns;
        d->meta->no_stack += n->flags & NODE_NO_STACK ? n->samples : 0;
    }
}

void query_columns_fold(const struct columns_view *v, const bool *is_live, const struct filter *f,
                        const struct query_options *o, struct tree *tree, struct tree_meta *meta)
{
    struct fold d = {.v = v, .f = f, .o = o, .tree = tree, .meta = meta, .event = UINT32_MAX};
    match_contexts(&d);
    d.nodes = alloc_array(v->n_nodes, sizeof *d.nodes);
    d.frames = alloc_array(v->n_frames, sizeof *d.frames);
    fold_chunks(&d, is_live);
    sum_totals(&d);
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        if (d.nodes[i].total_ns || d.nodes[i].samples) {
            place_node(&d, i);
        }
    }
    free(d.contexts);
    free(d.nodes);
    free(d.frames);
}
