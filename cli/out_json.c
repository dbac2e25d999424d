/*
 * out_json: the tree as one JSON object: what it is of, and "nodes", each with the index of its parent (which
 * comes before it). Names that are not UTF-8 are shown with U+FFFD.
 */
#include "json.h"
#include "output.h"
#include "text.h"

#include "../proto/chunk.h"

static const char *kind_name(const struct tree_node *n)
{
    static const char *const levels[] = {
        [TREE_ROOT] = "root", [TREE_SERVICE] = "service", [TREE_THREAD] = "thread", [TREE_SCOPE] = "scope"};
    if (n->kind != TREE_FRAME) {
        return levels[n->kind];
    }
    switch (n->frame_kind) {
    case DVT_FRAME_MANAGED:
        return "managed";
    case DVT_FRAME_JIT:
        return "jit";
    case DVT_FRAME_INLINED:
        return "inlined";
    case DVT_FRAME_NATIVE:
        return "native";
    case DVT_FRAME_KERNEL:
        return "kernel";
    default:
        return "special";
    }
}

static void put_node(struct json *j, const struct tree *t, uint32_t i)
{
    const struct tree_node *n = &t->nodes[i];
    double all = (double)t->nodes[0].total_ns, share = all > 0 ? (double)n->total_ns / all : 0;
    json_open(j, NULL, '{');
    json_i64(j, "parent", i ? (int64_t)n->parent : -1);
    json_text(j, "kind", dvt_str(kind_name(n)));
    json_text(j, "name", n->name);
    if (n->kind == TREE_FRAME) {
        json_text(j, "module", n->module);
        json_text(j, "file", n->file);
        json_u64(j, "line", n->line);
    }
    json_u64(j, "self_ns", n->self_ns);
    json_u64(j, "total_ns", n->total_ns);
    json_u64(j, "self_samples", n->self_samples);
    json_u64(j, "total_samples", n->total_samples);
    json_share(j, "share", share);
    struct text_interval interval = text_interval95(share, t->nodes[0].total_samples);
    json_share(j, "interval95_low", interval.low);
    json_share(j, "interval95_high", interval.high);
    json_close(j, '}');
}

static void put_meta(struct json *j, const struct tree_meta *m)
{
    json_text(j, "title", dvt_str(m->title));
    if (m->trace_id) {
        json_text(j, "trace_id", dvt_str(m->trace_id));
    }
    json_text(j, "filter", dvt_str(m->filter));
    json_text(j, "event", dvt_str(m->event));
    json_u64(j, "traces", m->n_traces);
    json_i64(j, "start_unix_ns", m->start_ns);
    json_u64(j, "duration_ns", m->duration_ns);
    json_u64(j, "on_cpu_ns", m->on_cpu_ns);
    json_u64(j, "period_ns", m->period_ns);
    json_bool(j, "weights_are_counts", m->weights_are_counts);
    json_u64(j, "samples", m->samples);
    json_u64(j, "no_stack", m->no_stack);
    json_u64(j, "shared", m->shared);
    json_u64(j, "ambiguous", m->ambiguous);
    json_u64(j, "lost_samples", m->lost_samples);
    json_u64(j, "uncovered_ns", m->uncovered_ns);
    json_u64(j, "cut_short", m->cut_short);
}

static int write_json(const struct tree *tree, const struct tree_meta *meta, FILE *out)
{
    struct json j = {.out = out};
    json_open(&j, NULL, '{');
    put_meta(&j, meta);
    json_open(&j, "nodes", '[');
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        put_node(&j, tree, i);
    }
    json_close(&j, ']');
    json_close(&j, '}');
    fputc('\n', out);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_json = {"json", ".json", write_json};
