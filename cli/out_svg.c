/*
 * out_svg: the tree as a still picture: icicle, root on top, for documents and issue trackers. Every box has
 * a tooltip
 * (<title>) with its numbers. Boxes narrower than half a pixel are left out, and said to be. Valid XML
 * whatever the names hold.
 */
#include "flame_order.h"
#include "alloc.h"
#include "markup.h"
#include "output.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WIDTH = 1200, MARGIN = 12, ROW = 18, HEAD = 64, FOOT = 46, CHAR_TENTHS = 66 };

static const char *const class_of[FLAME_KINDS] = {"l", "l", "l", "s", "m", "j", "i", "n", "k", "x"};

struct picture {
    const struct tree *t;
    const struct tree_meta *m;
    FILE *out;
    double x_per_unit;
    uint32_t rows;
    uint64_t left_out; /* boxes too narrow */
};

static void put_style(FILE *out)
{
    fputs("<style>\ntext{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1d2229}"
          ".t{font:600 16px system-ui,sans-serif}.d{font:12px system-ui,sans-serif;fill:#5a6472}"
          "rect{stroke:#fff;stroke-width:.6}.bg{fill:#fff;stroke:none}"
          ".l rect{fill:#dfe3e8}.s rect{fill:#9fd8cb}.m rect{fill:#f6b26b}.j rect{fill:#f3d36b}.i "
          "rect{fill:#b9d3f2}"
          ".n rect{fill:#8cb8ea}.k rect{fill:#c9a6e4}.x rect{fill:#c9ced6}\n"
          "@media (prefers-color-scheme:dark){text{fill:#0f1318}.t{fill:#e8ecf1}.d{fill:#9aa5b3}"
          "rect{stroke:#14181d}.bg{fill:#14181d}.l rect{fill:#8b95a3}.x rect{fill:#8f97a3}}\n</style>\n",
          out);
}

static void weight_text(const struct picture *p, uint64_t ns, char out[TEXT_NUMBER_MAX])
{
    if (p->m->weights_are_counts) {
        text_count(ns, out);
    } else {
        text_duration(ns, out);
    }
}

static void put_head(const struct picture *p, unsigned height)
{
    const struct tree_meta *m = p->m;
    char start[40], duration[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX], samples[TEXT_NUMBER_MAX],
        traces[TEXT_NUMBER_MAX];
    text_time(m->start_ns, true, start);
    text_duration(m->duration_ns, duration);
    weight_text(p, m->on_cpu_ns, cpu);
    text_count(m->samples, samples);
    text_count(m->n_traces, traces);
    fprintf(p->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
            "width=\"%d\" height=\"%u\" "
            "viewBox=\"0 0 %d %u\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    markup_xml(p->out, m->title);
    fputs("</title>\n", p->out);
    put_style(p->out);
    fprintf(p->out,
            "<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n<text class=\"t\" x=\"%d\" y=\"26\">",
            MARGIN);
    markup_xml(p->out, m->title);
    fprintf(p->out, "</text>\n<text class=\"d\" x=\"%d\" y=\"46\">", MARGIN);
    if (m->trace_id) {
        fprintf(p->out, "trace %s, ", m->trace_id);
    } else {
        fprintf(p->out, "%s trace%s, ", traces, m->n_traces == 1 ? "" : "s");
    }
    enum { TO_SECONDS = sizeof "2026-11-30T21:04:11" - 1 };
    fprintf(p->out,
            m->trace_id ? "from %.*sZ, lasted %s, %s%s, %s sample%s"
                        : "from %.*sZ, %s in all, %s%s, %s sample%s",
            TO_SECONDS, start, duration, cpu, m->weights_are_counts ? " events" : " on CPU", samples,
            m->samples == 1 ? "" : "s");
    if (m->event[0]) {
        fputs(" of ", p->out);
        markup_xml(p->out, m->event);
    }
    fputs("</text>\n", p->out);
}

static void put_place(const struct picture *p, const struct tree_node *n)
{
    char *file = text_safe(n->file.n ? n->file : n->module, 0), *module = text_safe(n->module, 0);
    if (n->kind == TREE_FRAME && file[0] && !tree_name_has_module(n->name, n->module)) {
        fputc('\n', p->out);
        markup_xml(p->out, file);
        if (n->line) {
            fprintf(p->out, ":%" PRIu32, n->line);
        }
        if (n->file.n && n->module.n) {
            fputs(" (", p->out);
            markup_xml(p->out, module);
            fputc(')', p->out);
        }
    }
    free(file);
    free(module);
}

static void put_title(const struct picture *p, const struct tree_node *n, const char *name)
{
    const struct tree_node *all = &p->t->nodes[0];
    double share = all->total_ns ? (double)n->total_ns / (double)all->total_ns : 0;
    struct text_interval interval = text_interval95(share, all->total_samples);
    char total[TEXT_NUMBER_MAX], self[TEXT_NUMBER_MAX];
    weight_text(p, n->total_ns, total);
    weight_text(p, n->self_ns, self);
    fputs("<title>", p->out);
    markup_xml(p->out, name);
    put_place(p, n);
    fprintf(p->out, "\n%s, %.1f%% [%.1f, %.1f], %" PRIu64 " of %" PRIu64 " samples", total, share * 100,
            interval.low * 100, interval.high * 100, n->total_samples, all->total_samples);
    if (n->self_samples) {
        fprintf(p->out, "\nself %s, %" PRIu64 " samples", self, n->self_samples);
    }
    if (text_too_few(n->total_samples, all->total_samples)) {
        fputs("\ntoo few samples to trust the share", p->out);
    }
    fputs("</title>", p->out);
}

static void put_box(struct picture *p, const struct tree_node *n, uint32_t depth, double x, double width)
{
    char *name = text_safe(n->name.n ? n->name : dvt_str("(unnamed)"), 0);
    size_t columns = (size_t)((width - 6) * 10 / (double)CHAR_TENTHS);
    unsigned y = HEAD + depth * ROW;
    fprintf(p->out, "<g class=\"%s\">", class_of[flame_kind_of(n)]);
    put_title(p, n, name);
    fprintf(p->out, "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" rx=\"1.5\"/>", x, y, width,
            ROW - 1);
    if (width > 30 && columns >= 3) {
        char *label = text_safe(n->name.n ? n->name : dvt_str("(unnamed)"), columns);
        fprintf(p->out, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + 13);
        markup_xml(p->out, label);
        fputs("</text>", p->out);
        free(label);
    }
    fputs("</g>\n", p->out);
    free(name);
}

/* Where each depth's next box begins: a child begins where its parent does, or where its sibling ended. */
static void put_boxes(struct picture *p, const struct flame_order *o)
{
    double *next_x = alloc_array(p->rows + 1u, sizeof *next_x);
    next_x[0] = MARGIN;
    for (size_t i = 0; i < o->n; i++) {
        const struct tree_node *n = &p->t->nodes[o->nodes[i]];
        uint32_t depth = o->depth[i];
        double x = next_x[depth], width = (double)n->total_ns * p->x_per_unit;
        next_x[depth] = x + width;
        next_x[depth + 1] = x;
        if (width < 0.5) {
            p->left_out++;
        } else {
            put_box(p, n, depth, x, width);
        }
    }
    free(next_x);
}

static void put_legend(const struct picture *p, unsigned y)
{
    static const struct {
        const char *class, *name;
    } kinds[] = {{"s", "scope"},   {"m", "managed"}, {"j", "compiled"}, {"n", "native"},
                 {"i", "inlined"}, {"k", "kernel"},  {"x", "special"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        unsigned x = MARGIN + 90 * (unsigned)i;
        fprintf(p->out,
                "<g class=\"%s\"><rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\"/>"
                "<text class=\"d\" x=\"%u\" y=\"%u\">%s</text></g>\n",
                kinds[i].class, x, y, x + 17, y + 10, kinds[i].name);
    }
    if (p->left_out) {
        fprintf(p->out,
                "<text class=\"d\" x=\"%d\" y=\"%u\" text-anchor=\"end\">%" PRIu64
                " boxes too narrow to draw</text>\n",
                WIDTH - MARGIN, y + 10, p->left_out);
    }
}

static int write_svg(const struct tree *tree, const struct tree_meta *meta, FILE *out)
{
    struct flame_order o;
    struct picture p = {.t = tree, .m = meta, .out = out};
    uint64_t all = tree->nodes[0].total_ns;
    flame_order_init(&o, tree);
    for (size_t i = 0; i < o.n; i++) {
        double pixels_times_all = (double)tree->nodes[o.nodes[i]].total_ns * (double)(WIDTH - 2 * MARGIN);
        bool is_drawn = pixels_times_all >= 0.5 * (double)all;
        p.rows = is_drawn && o.depth[i] >= p.rows ? o.depth[i] + 1 : p.rows;
    }
    p.x_per_unit = all ? (double)(WIDTH - 2 * MARGIN) / (double)all : 0;
    put_head(&p, HEAD + p.rows * ROW + FOOT);
    uint32_t drawn_rows = p.rows;
    for (size_t i = 0; i < o.n; i++) { /* next_x needs a place for every depth, drawn or not */
        p.rows = o.depth[i] >= p.rows ? o.depth[i] + 1 : p.rows;
    }
    put_boxes(&p, &o);
    put_legend(&p, HEAD + drawn_rows * ROW + 18);
    fputs("</svg>\n", out);
    flame_order_fini(&o);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_svg = {"svg", ".svg", write_svg};
