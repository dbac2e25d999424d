/*
 * out_text: the tree for people at a terminal. Every share has its 95% interval and its count of samples;
 * what is too few to say anything is marked. A chain of single children stays at one indent, so that deep
 * stacks fit.
 */
#include "alloc.h"
#include "brief.h"
#include "outline.h"
#include "output.h"
#include "text.h"

#include "../proto/chunk.h"

#include <inttypes.h>
#include <stdlib.h>

struct view {
    const struct tree *t;
    const struct tree_meta *m;
    struct term term;
    FILE *out;
    struct outline outline;
    bool *bars; /* [cap_bars] by level: a sibling follows, so its line goes on */
    size_t cap_bars;
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

/* " 31.0%  [26.9, 35.4]": the share in the colour of its weight, the rest dim; all dim if it repeats the line
 * above. */
static void put_share(const struct view *v, uint64_t ns, uint64_t samples, bool repeats)
{
    enum { SHARE_COLUMNS = 6 };
    char text[TEXT_SHARE_MAX];
    double share = share_of(v, ns);
    enum term_style style = repeats         ? TERM_DIM
                            : share >= 0.25 ? TERM_HOT
                            : share >= 0.05 ? TERM_WARM
                                            : TERM_PLAIN;
    text_share(share, samples, v->all_samples, text);
    fprintf(v->out, "%s%.*s%s", term_on(&v->term, style), SHARE_COLUMNS, text, term_off(&v->term, style));
    fprintf(v->out, "%s%s%s", term_on(&v->term, TERM_DIM), text + SHARE_COLUMNS,
            term_off(&v->term, TERM_DIM));
}

/* " 31.0%  [26.9, 35.4]      480    4.85 s  " */
static void put_numbers(const struct view *v, uint64_t ns, uint64_t samples, bool repeats)
{
    put_share(v, ns, samples, repeats);
    fprintf(v->out, " %7" PRIu64 " ", samples);
    put_weight(v, ns);
    fputs("  ", v->out);
}

enum {
    NUMBERS_COLUMNS = TEXT_SHARE_COLUMNS + 1 + 7 + 1 + 9 + 2,
    FUNCTION_COLUMNS = TEXT_SHARE_COLUMNS + 1 + 7 + 1 + TEXT_SHARE_COLUMNS + 2
};

static struct dvt_str base_name(struct dvt_str path)
{
    for (size_t i = path.n; i-- > 0;) {
        if (path.p[i] == '/' && i + 1 < path.n) {
            return (struct dvt_str){path.p + i + 1, path.n - i - 1};
        }
    }
    return path;
}

struct place { /* a frame, as far as its line shows it */
    struct dvt_str name, module, file;
    uint32_t line;
    uint8_t kind;
    bool is_frame;
};

/* "app.py:41", "libc.so.6", "sort.c:88 (libc.so.6)"; brief: "sort.c:88"; "" if there is none to show. The
 * caller frees. */
static char *place_text(const struct place *p, bool brief)
{
    struct dvt_str first = p->file.n ? p->file : p->module;
    bool is_said = !p->file.n && tree_name_has_module(p->name, p->module);
    if (!p->is_frame || !first.n || p->kind == DVT_FRAME_SPECIAL || is_said) {
        return alloc_text("", 0);
    }
    char *file = text_safe(base_name(first), 60), *module = text_safe(base_name(p->module), 40),
         line[16] = "";
    if (p->line) {
        snprintf(line, sizeof line, ":%" PRIu32, p->line);
    }
    bool both = p->file.n && p->module.n && !brief;
    char *text = both ? alloc_printf("%s%s (%s)", file, line, module) : alloc_printf("%s%s", file, line);
    free(file);
    free(module);
    return text;
}

/* Columns left for names of n columns of numbers, after the strokes of `level` branches; SIZE_MAX: no bound.
 */
static size_t room_of(const struct view *v, size_t numbers, uint32_t level)
{
    enum { LEAST = 24 };
    size_t used = numbers + 2 * (size_t)level;
    return v->term.columns == 0 ? SIZE_MAX : v->term.columns > used + LEAST ? v->term.columns - used : LEAST;
}

/* A name as it is shown, at most max_columns wide (0: no bound). The caller frees. */
static char *name_text(const struct view *v, struct dvt_str name, uint8_t frame_kind, size_t max_columns)
{
    bool is_compiled = frame_kind == DVT_FRAME_NATIVE || frame_kind == DVT_FRAME_INLINED;
    char *brief = v->m->opt.folds && is_compiled ? brief_name(name) : NULL;
    char *text = text_safe(brief ? dvt_str(brief) : name.n ? name : dvt_str("(unnamed)"), max_columns);
    free(brief);
    return text;
}

/* The name and, as far as it fits beside it, its place: whole, or without the module. */
static void put_frame(const struct view *v, const struct place *place, size_t room, enum term_style style)
{
    char *name = name_text(v, place->name, place->kind, room == SIZE_MAX ? 0 : room);
    size_t used = text_columns(name);
    fprintf(v->out, "%s%s%s", term_on(&v->term, style), name, term_off(&v->term, style));
    for (int brief = 0; brief < 2; brief++) {
        char *text = place_text(place, brief);
        if (*text && used + 2 + text_columns(text) <= room) {
            fprintf(v->out, "  %s%s%s", term_on(&v->term, TERM_PLACE), text, term_off(&v->term, TERM_PLACE));
            brief = 2;
        }
        free(text);
    }
    fputc('\n', v->out);
    free(name);
}

/* "Thread._bootstrap … _WorkItem.run  thread.py:58" */
static void put_chain(const struct view *v, const struct outline_line *line, size_t room)
{
    const struct tree_node *first = &v->t->nodes[line->node], *last = &v->t->nodes[line->last];
    char *begin = name_text(v, first->name, first->frame_kind, 0), *end = name_text(v, last->name, last->frame_kind, 0);
    char *text = alloc_printf("%s … %s", begin, end);
    struct place place = {dvt_str(text), last->module, last->file, last->line, DVT_FRAME_MANAGED, true};
    put_frame(v, &place, room, TERM_DIM);
    free(begin);
    free(end);
    free(text);
}

static void put_hidden(const struct view *v, const struct outline_line *line)
{
    fprintf(v->out, "%s… %" PRIu32 " more under %g%%%s\n", term_on(&v->term, TERM_DIM), line->n_hidden,
            v->outline.min_share * 100, term_off(&v->term, TERM_DIM));
}

static bool repeats_parent(const struct view *v, const struct outline_line *line)
{
    const struct tree_node *n = &v->t->nodes[line->node];
    return !line->n_hidden && n->parent != 0 && v->t->nodes[n->parent].total_samples == n->total_samples;
}

static void put_line(const struct view *v, const struct outline_line *line)
{
    static const enum term_style styles[] = {[TREE_ROOT] = TERM_BOLD,
                                             [TREE_SERVICE] = TERM_BOLD,
                                             [TREE_THREAD] = TERM_BOLD,
                                             [TREE_SCOPE] = TERM_NAME,
                                             [TREE_FRAME] = TERM_PLAIN};
    static const char *const strokes[] = {"", "├ ", "└ "};
    const struct tree_node *n = &v->t->nodes[line->node];
    size_t room = room_of(v, NUMBERS_COLUMNS, line->level + (line->stroke != OUTLINE_NONE));
    put_numbers(v, line->n_hidden ? line->hidden_ns : n->total_ns,
                line->n_hidden ? line->hidden_samples : n->total_samples, repeats_parent(v, line));
    for (uint32_t i = 0; i < line->level; i++) {
        fputs(v->bars[i] ? "│ " : "  ", v->out);
    }
    fputs(strokes[line->stroke], v->out);
    if (line->n_hidden) {
        put_hidden(v, line);
    } else if (line->last != line->node) {
        put_chain(v, line, room);
    } else {
        struct place place = {n->name, n->module, n->file, n->line, n->frame_kind, n->kind == TREE_FRAME};
        put_frame(v, &place, room, styles[n->kind]);
    }
}

static void put_tree(struct view *v)
{
    for (size_t i = 0; i < v->outline.n; i++) {
        const struct outline_line *line = &v->outline.lines[i];
        alloc_grow(&v->bars, &v->cap_bars, line->level + 1u, sizeof *v->bars);
        v->bars[line->level] = line->stroke == OUTLINE_MIDDLE;
        put_line(v, line);
    }
}

/* ---- head and foot ---- */

/* What a trace that mostly waited must say, as its tree shows the rest only. */
static void put_wait(const struct view *v)
{
    const struct tree_meta *m = v->m;
    uint64_t seen_ns = m->on_cpu_ns + m->uncovered_ns;
    if (m->trace_id && !m->filter[0] && !m->weights_are_counts && seen_ns < m->duration_ns / 5 * 4) {
        char text[TEXT_NUMBER_MAX];
        text_duration(m->duration_ns - seen_ns, text);
        fprintf(v->out, "it waited for about %s or more, which is not shown\n", text);
    }
}

static void put_times(const struct view *v)
{
    const struct tree_meta *m = v->m;
    char start[40], duration[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX], samples[TEXT_NUMBER_MAX];
    text_time(m->start_ns, false, start);
    text_duration(m->duration_ns, duration);
    text_duration(m->on_cpu_ns, cpu);
    text_count(m->samples, samples);
    fprintf(v->out, m->trace_id ? "began %s, lasted %s" : "from %s, %s in all", start, duration);
    if (!m->weights_are_counts) {
        fprintf(v->out, "; %s on CPU", cpu);
    }
    fprintf(v->out, "\n%s sample%s", samples, m->samples == 1 ? "" : "s");
    if (m->event[0]) {
        fprintf(v->out, " of %s", m->event);
    }
    if (m->period_ns) {
        fprintf(v->out, ", one per %.2f ms of CPU time", (double)m->period_ns / 1e6);
    }
    fputc('\n', v->out);
    put_wait(v);
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
    enum { SHOWN = 10, SHOWN_OF_ONE = 3 }; /* one sample is no ranking: a few, so that something is there */
    struct tree_function f[SHOWN];
    size_t n = tree_hottest(v->t, f, SHOWN);
    const char *on = term_on(&v->term, TERM_BOLD), *off = term_off(&v->term, TERM_BOLD);
    fprintf(v->out, "\n%shottest functions%s\n%s%6s  %-13s %7s %6s  %s%s\n", on, off, on, "self",
            "95% interval", "samples", "total", "95% interval", off);
    for (size_t i = 0; i < n && (i < SHOWN_OF_ONE || f[i].self_samples > 1); i++) {
        put_share(v, f[i].self_ns, f[i].self_samples, false);
        fprintf(v->out, " %7" PRIu64 " ", f[i].self_samples);
        put_share(v, f[i].total_ns, f[i].total_samples, false);
        fputs("  ", v->out);
        struct place place = {f[i].name, f[i].module, f[i].file, f[i].line, f[i].frame_kind, true};
        put_frame(v, &place, room_of(v, FUNCTION_COLUMNS, 0), TERM_PLAIN);
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
    fprintf(out, "\n%s%6s  %-13s %7s %9s%s\n", term_on(&v.term, TERM_BOLD), "share", "95% interval",
            "samples", meta->weights_are_counts ? "events" : "time", term_off(&v.term, TERM_BOLD));
    outline_init(&v.outline, tree,
                 &(struct outline_options){meta->opt.min_share, meta->opt.max_depth, meta->opt.folds});
    put_tree(&v);
    if (v.all_samples) {
        put_hottest(&v);
    }
    fputs("\n\"?\" marks what too few samples support: fewer than 5 in it, or fewer than 20 in all.\n", out);
    if (v.outline.hides) {
        fprintf(out, "What is under %g%% is left out; --full shows all.\n", v.outline.min_share * 100);
    }
    put_notes(&v);
    outline_fini(&v.outline);
    free(v.bars);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_text = {"text", ".txt", write_text};
