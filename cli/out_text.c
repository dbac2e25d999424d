/*
 * out_text: the tree for people at a terminal. Every share has its 95% interval and its count of samples;
 * what is too few to say anything is marked. A chain of single children stays at one indent, so that deep
 * stacks fit.
 */
#include "output.h"
#include "alloc.h"
#include "text.h"

#include "../proto/chunk.h"

#include <inttypes.h>
#include <stdlib.h>

struct view {
    const struct tree *t;
    const struct tree_meta *m;
    struct term term;
    FILE *out;
    char *indent; /* the strokes before the current name; grows and shrinks */
    size_t indent_n, indent_cap;
    uint64_t all_ns, all_samples;
};

static double share_of(const struct view *v, uint64_t part_ns)
{
    return v->all_ns ? (double)part_ns / (double)v->all_ns : 0;
}

static void put_weight(const struct view *v, uint64_t ns)
{
    char text[TEXT_NUMBER_MAX];
    if (v->m->weights_are_counts) {
        text_count(ns, text);
    } else {
        text_duration(ns, text);
    }
    fprintf(v->out, "%9s", text);
}

/* " 31.0%  [26.9, 35.4]": the share in the colour of its weight, the rest dim. */
static void put_share(const struct view *v, uint64_t ns, uint64_t samples)
{
    enum { SHARE_COLUMNS = 6 };
    char text[TEXT_SHARE_MAX];
    double share = share_of(v, ns);
    enum term_style style = share >= 0.25 ? TERM_HOT : share >= 0.05 ? TERM_WARM : TERM_PLAIN;
    text_share(share, samples, v->all_samples, text);
    fprintf(v->out, "%s%.*s%s", term_on(&v->term, style), SHARE_COLUMNS, text, term_off(&v->term, style));
    fprintf(v->out, "%s%s%s", term_on(&v->term, TERM_DIM), text + SHARE_COLUMNS, term_off(&v->term, TERM_DIM));
}

/* " 31.0%  [26.9, 35.4]      480    4.85 s  " */
static void put_numbers(const struct view *v, uint64_t ns, uint64_t samples)
{
    put_share(v, ns, samples);
    fprintf(v->out, " %7" PRIu64 " ", samples);
    put_weight(v, ns);
    fputs("  ", v->out);
}

enum { NUMBERS_COLUMNS = TEXT_SHARE_COLUMNS + 1 + 7 + 1 + 9 + 2 };

static struct dvt_str base_name(struct dvt_str path)
{
    for (size_t i = path.n; i-- > 0;) {
        if (path.p[i] == '/' && i + 1 < path.n) {
            return (struct dvt_str){path.p + i + 1, path.n - i - 1};
        }
    }
    return path;
}

/* "app.py:41", "libc.so.6", "sort.c:88 (libc.so.6)". */
static void put_place(const struct view *v, struct dvt_str name, struct dvt_str module, struct dvt_str file,
                      uint32_t line, uint8_t kind)
{
    struct dvt_str first = file.n ? file : module;
    if (!first.n || kind == DVT_FRAME_SPECIAL || (!file.n && tree_name_has_module(name, module))) {
        return;
    }
    fprintf(v->out, "  %s", term_on(&v->term, TERM_PLACE));
    text_put(v->out, base_name(first), 60);
    if (line) {
        fprintf(v->out, ":%" PRIu32, line);
    }
    if (file.n && module.n) {
        fputs(" (", v->out);
        text_put(v->out, base_name(module), 40);
        fputc(')', v->out);
    }
    fputs(term_off(&v->term, TERM_PLACE), v->out);
}

static size_t room_for_name(const struct view *v)
{
    size_t used = NUMBERS_COLUMNS + text_columns(v->indent ? v->indent : "") + 20;
    return v->term.columns == 0 ? 0 : v->term.columns > used + 24 ? v->term.columns - used : 24;
}

static void put_node(struct view *v, const struct tree_node *n, const char *stroke)
{
    static const enum term_style styles[] = {[TREE_ROOT] = TERM_BOLD,
                                             [TREE_SERVICE] = TERM_BOLD,
                                             [TREE_THREAD] = TERM_BOLD,
                                             [TREE_SCOPE] = TERM_NAME,
                                             [TREE_FRAME] = TERM_PLAIN};
    put_numbers(v, n->total_ns, n->total_samples);
    fprintf(v->out, "%s%s%s", v->indent ? v->indent : "", stroke, term_on(&v->term, styles[n->kind]));
    text_put(v->out, n->name.n ? n->name : dvt_str("(unnamed)"), room_for_name(v));
    fputs(term_off(&v->term, styles[n->kind]), v->out);
    if (n->kind == TREE_FRAME) {
        put_place(v, n->name, n->module, n->file, n->line, n->frame_kind);
    }
    fputc('\n', v->out);
}

static bool is_shown(const struct view *v, const struct tree_node *n)
{
    bool deep = v->m->opt.max_depth && n->depth > v->m->opt.max_depth;
    return n->total_samples && !deep && share_of(v, n->total_ns) >= v->m->opt.min_share;
}

static void push(struct view *v, const char *strokes)
{
    size_t n = strlen(strokes);
    alloc_grow(&v->indent, &v->indent_cap, v->indent_n + n + 1, 1);
    memcpy(v->indent + v->indent_n, strokes, n + 1);
    v->indent_n += n;
}

static void pop(struct view *v, size_t to)
{
    v->indent_n = to;
    v->indent[to] = 0;
}

struct children {
    uint32_t shown, hidden;
    uint64_t hidden_ns, hidden_samples;
};

static struct children count_children(const struct view *v, uint32_t node)
{
    struct children c = {0};
    for (uint32_t i = v->t->nodes[node].first_child; i != TREE_NONE; i = v->t->nodes[i].next_sibling) {
        const struct tree_node *n = &v->t->nodes[i];
        if (is_shown(v, n)) {
            c.shown++;
        } else if (n->total_samples) {
            c.hidden++;
            c.hidden_ns += n->total_ns;
            c.hidden_samples += n->total_samples;
        }
    }
    return c;
}

static void put_hidden(struct view *v, const struct children *c, const char *stroke)
{
    put_numbers(v, c->hidden_ns, c->hidden_samples);
    fprintf(v->out, "%s%s%s… %" PRIu32 " more%s\n", v->indent ? v->indent : "", stroke,
            term_on(&v->term, TERM_DIM), c->hidden, term_off(&v->term, TERM_DIM));
}

/* Depth-first by hand: stacks of the data must not become stack of ours. `at` holds one entry per branching
 * level. */
struct level {
    uint32_t next; /* child to print next, or TREE_NONE */
    struct children counts;
    uint32_t printed;
    size_t indent_n; /* before this level's strokes */
    bool branches;   /* more than one line: children get strokes */
};

static void enter(struct view *v, struct level *l, uint32_t node)
{
    l->counts = count_children(v, node);
    l->next = v->t->nodes[node].first_child;
    l->printed = 0;
    l->indent_n = v->indent_n;
    l->branches = l->counts.shown + (l->counts.hidden > 0) > 1;
}

/* The next shown child of the level, printed; TREE_NONE when the level is done. */
static uint32_t step(struct view *v, struct level *l)
{
    uint32_t lines = l->counts.shown + (l->counts.hidden > 0);
    while (l->next != TREE_NONE) {
        uint32_t node = l->next;
        l->next = v->t->nodes[node].next_sibling;
        if (!is_shown(v, &v->t->nodes[node])) {
            continue;
        }
        bool last = ++l->printed == lines;
        put_node(v, &v->t->nodes[node], !l->branches ? "" : last ? "└ " : "├ ");
        if (l->branches) {
            push(v, last ? "  " : "│ ");
        }
        return node;
    }
    if (l->counts.hidden && l->counts.shown) {
        put_hidden(v, &l->counts, l->branches ? "└ " : "");
    }
    return TREE_NONE;
}

static void put_tree(struct view *v)
{
    struct level *levels = NULL;
    size_t cap = 0, n = 1;
    push(v, "");
    alloc_grow(&levels, &cap, 1, sizeof *levels);
    enter(v, &levels[0], 0);
    while (n > 0) {
        pop(v, levels[n - 1].indent_n);
        uint32_t node = step(v, &levels[n - 1]);
        if (node == TREE_NONE) {
            n--;
            continue;
        }
        alloc_grow(&levels, &cap, n + 1, sizeof *levels);
        enter(v, &levels[n++], node);
    }
    free(levels);
}

/* ---- head and foot ---- */

static void put_times(const struct view *v)
{
    const struct tree_meta *m = v->m;
    char start[40], duration[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX], samples[TEXT_NUMBER_MAX];
    text_time(m->start_ns, false, start);
    text_duration(m->duration_ns, duration);
    text_duration(m->on_cpu_ns, cpu);
    text_count(m->samples, samples);
    fprintf(v->out, m->trace_id ? "began %s, lasted %s; " : "from %s, %s in all; ", start, duration);
    if (!m->weights_are_counts) {
        fprintf(v->out, "%s on CPU, ", cpu);
    }
    fprintf(v->out, "%s sample%s", samples, m->samples == 1 ? "" : "s");
    if (m->event[0]) {
        fprintf(v->out, " of %s", m->event);
    }
    if (m->period_ns) {
        fprintf(v->out, ", one per %.2f ms of CPU time", (double)m->period_ns / 1e6);
    }
    fputc('\n', v->out);
}

static void put_head(const struct view *v)
{
    const struct tree_meta *m = v->m;
    char traces[TEXT_NUMBER_MAX];
    fputs(term_on(&v->term, TERM_BOLD), v->out);
    if (m->trace_id) {
        fprintf(v->out, "trace %s  %s", m->trace_id, m->title);
    } else {
        text_count(m->n_traces, traces);
        fprintf(v->out, "%s trace%s: %s", traces, m->n_traces == 1 ? "" : "s", m->title);
    }
    fprintf(v->out, "%s\n", term_off(&v->term, TERM_BOLD));
    put_times(v);
}

static void put_count(const struct view *v, uint64_t n, const char *what)
{
    char text[TEXT_NUMBER_MAX];
    if (n) {
        text_count(n, text);
        fprintf(v->out, "note: %s %s\n", text, what);
    }
}

/* What the picture does not show, or shows with a caveat. */
static void put_notes(const struct view *v)
{
    const struct tree_meta *m = v->m;
    char text[TEXT_NUMBER_MAX];
    if (v->all_samples < 20) {
        fprintf(v->out,
                "note: too few samples (%" PRIu64 ") to trust shares; ask for more traces or raise --hz\n",
                v->all_samples);
    }
    put_count(v, m->no_stack, "of the samples have no managed stack; the frame says why");
    put_count(v, m->shared, "of the samples are of work shared with other traces, not of this one alone");
    put_count(v, m->ambiguous, "samples fit two contexts and are given to none");
    put_count(v, m->lost_samples, "samples were lost by the kernel");
    put_count(v, m->cut_short, "scopes were still open when their process ended: cut short");
    if (m->uncovered_ns) {
        text_duration(m->uncovered_ns, text);
        fprintf(v->out, "note: %s of CPU time was not covered: threads' first scopes before sampling began\n",
                text);
    }
}

static void put_hottest(const struct view *v)
{
    enum { SHOWN = 10 };
    struct tree_function f[SHOWN];
    size_t n = tree_hottest(v->t, f, SHOWN);
    const char *on = term_on(&v->term, TERM_BOLD), *off = term_off(&v->term, TERM_BOLD);
    fprintf(v->out, "\n%shottest functions%s\n%s%6s  %-13s %7s %6s  %s%s\n", on, off, on, "self", "95% interval",
            "samples", "total", "95% interval", off);
    for (size_t i = 0; i < n; i++) {
        put_share(v, f[i].self_ns, f[i].self_samples);
        fprintf(v->out, " %7" PRIu64 " ", f[i].self_samples);
        put_share(v, f[i].total_ns, f[i].total_samples);
        fputs("  ", v->out);
        text_put(v->out, f[i].name, room_for_name(v));
        put_place(v, f[i].name, f[i].module, f[i].file, f[i].line, f[i].frame_kind);
        fputc('\n', v->out);
    }
}

static int write_text(const struct tree *tree, const struct tree_meta *meta, FILE *out)
{
    struct view v = {.t = tree,
                     .m = meta,
                     .out = out,
                     .term = {meta->opt.colour, meta->opt.columns},
                     .all_ns = tree->nodes[0].total_ns,
                     .all_samples = tree->nodes[0].total_samples};
    put_head(&v);
    fprintf(out, "\n%s%6s  %-13s %7s %9s%s\n", term_on(&v.term, TERM_BOLD), "share", "95% interval", "samples",
            meta->weights_are_counts ? "events" : "time", term_off(&v.term, TERM_BOLD));
    put_tree(&v);
    if (v.indent) {
        pop(&v, 0);
    }
    if (v.all_samples) {
        put_hottest(&v);
    }
    fprintf(out,
            "\n\"?\" marks what too few samples support: fewer than 5 in it, or fewer than 20 in all.\n");
    put_notes(&v);
    free(v.indent);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_text = {"text", ".txt", write_text};
