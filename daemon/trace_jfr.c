/*
 * trace_jfr: a closed trace to a chunk. See trace_jfr.h for the merge rule.
 *
 * Strings are copied, frames and stacks are kept once each. Tags are rendered from a scope's effective labels
 * (proto/labels.h), so that a scope inside a request carries the request's tenant in its tag. A stack longer
 * than DVT_MAX_FRAMES keeps its ends and is marked truncated.
 */
#include "trace_jfr.h"

#include <stdlib.h>
#include "../proto/chunk_check.h"
#include "../proto/labels.h"
#include "../proto/limits.h"
#include "../proto/tag.h"

enum { ARENA_BYTES = 64 << 10, STACK_CAP = 2 * DVT_MAX_FRAMES };

struct block {
    struct block *next;
    size_t used;
    char b[ARENA_BYTES];
};

struct trace_jfr {
    struct dvt_chunk c;
    const struct trace *t;
    struct symbols *sym;
    struct block *texts;
    struct dvt_strings strings;
    struct dvt_tuples places; /* module, file, kind */
    struct dvt_tuples frames; /* name, place, line */
    struct dvt_seqs stacks;
    uint32_t *mframe; /* [n_mframes] frame of a managed frame, + 1; 0 not yet */
    bool is_out_of_memory;
};

static uint32_t out_of_memory(struct trace_jfr *j)
{
    j->is_out_of_memory = true;
    return 0;
}

static void *array(struct trace_jfr *j, size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        out_of_memory(j);
    return p;
}

/* ---- strings ---- */

static struct dvt_str copy(struct trace_jfr *j, struct dvt_str s)
{
    size_t n = s.n < ARENA_BYTES ? s.n : ARENA_BYTES;
    if (!j->texts || ARENA_BYTES - j->texts->used < n) {
        struct block *b = malloc(sizeof *b);
        if (!b)
            return out_of_memory(j), dvt_str("");
        b->next = j->texts;
        b->used = 0;
        j->texts = b;
    }
    char *to = j->texts->b + j->texts->used;
    if (n)
        memcpy(to, s.p, n);
    j->texts->used += n;
    return (struct dvt_str){to, n};
}

static uint32_t string_index(struct trace_jfr *j, struct dvt_str s)
{
    uint32_t before = j->strings.table.n, i = dvt_strings_put(&j->strings, s);
    if (i == UINT32_MAX)
        return out_of_memory(j);
    if (j->strings.table.n > before)
        j->strings.items[i] = copy(j, s);
    return i;
}

static struct dvt_str text(struct trace_jfr *j, const char *z)
{
    uint32_t i = string_index(j, dvt_str(z ? z : ""));
    return j->is_out_of_memory ? dvt_str("") : j->strings.items[i];
}

static struct dvt_str text_of(struct trace_jfr *j, struct dvt_str s)
{
    uint32_t i = string_index(j, s);
    return j->is_out_of_memory ? dvt_str("") : j->strings.items[i];
}

/* ---- frames and stacks ---- */

static uint32_t frame(struct trace_jfr *j, const char *name, const char *module, const char *file,
                      uint32_t line, uint32_t kind)
{
    const uint32_t place[DVT_TUPLE] = {string_index(j, dvt_str(module ? module : "")),
                                       string_index(j, dvt_str(file ? file : "")), kind};
    uint32_t p = dvt_tuples_put(&j->places, place);
    const uint32_t key[DVT_TUPLE] = {string_index(j, dvt_str(name ? name : "")), p,
                                     line <= DVT_CHUNK_MAX_LINE ? line : 0};
    uint32_t f = dvt_tuples_put(&j->frames, key);
    return p == UINT32_MAX || f == UINT32_MAX ? out_of_memory(j) : f;
}

static uint32_t managed_frame(struct trace_jfr *j, uint32_t i)
{
    const struct trace_mframe *m = &j->t->mframes[i];
    if (!j->mframe[i])
        j->mframe[i] = frame(j, m->name, m->file, NULL, m->line, DVT_FRAME_MANAGED) + 1;
    return j->mframe[i] - 1;
}

static const char *reason_text(uint32_t reason)
{
    static const char *const texts[] = {
        [DVT_STACK_WINDOW] = "[no stack: frames in motion]",
        [DVT_STACK_RING_FULL] = "[no stack: buffer full]",
        [DVT_STACK_FAULT] = "[no stack: unreadable memory]",
        [DVT_STACK_NOT_ARMED] = "[no stack: thread not armed]",
        [DVT_STACK_NO_SIGNAL] = "[no stack: no signal]",
        [DVT_STACK_CODE_GONE] = "[no stack: code gone]",
        [DVT_STACK_LATE] = "[no stack: late signal]",
    };
    bool is_known = reason < sizeof texts / sizeof *texts && texts[reason];
    return is_known ? texts[reason] : "[no stack: unknown reason]";
}

struct stack { /* being put together, leaf first */
    uint32_t frames[STACK_CAP], n;
    bool is_truncated;
};

static void push(struct stack *s, uint32_t f)
{
    if (s->n < STACK_CAP)
        s->frames[s->n++] = f;
    else
        s->is_truncated = true;
}

static void push_native(struct trace_jfr *j, struct stack *s, const struct symbols_frame *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        push(s, frame(j, v[i].name, v[i].module, v[i].file, v[i].line, v[i].kind));
}

static bool stack_is_missing(const struct process *p, const struct trace_sample *x)
{
    return p->has_walker && x->reason != DVT_STACK_OK && x->reason != DVT_STACK_NO_THREAD_STATE;
}

static void merge(struct trace_jfr *j, const struct trace_sample *x, struct stack *s)
{
    struct symbols_frame native[DVT_MAX_FRAMES];
    struct process *p = j->t->processes[j->t->threads[x->thread].process];
    uint32_t above = 0;
    bool is_cut = false;
    uint32_t n = symbols_resolve(j->sym, p, x->raw, native, DVT_MAX_FRAMES, &above, &is_cut);
    above = above < n ? above : n;
    s->n = 0;
    s->is_truncated = false;
    if (stack_is_missing(p, x)) {
        push_native(j, s, native, above);
        push(s, frame(j, reason_text(x->reason), NULL, NULL, 0, DVT_FRAME_SPECIAL));
    } else if (x->reason == DVT_STACK_OK && x->n_mframes > 0) {
        push_native(j, s, native, above);
        for (uint32_t i = 0; i < x->n_mframes; i++)
            push(s, managed_frame(j, j->t->mstack[x->first_mframe + i]));
        s->is_truncated = s->is_truncated || x->mtruncated;
    } else {
        push_native(j, s, native, n);
        s->is_truncated = s->is_truncated || is_cut;
    }
}

static void shorten(struct stack *s)
{
    const uint32_t root = DVT_MAX_FRAMES - DVT_MAX_FRAMES_LEAF;
    if (s->n <= DVT_MAX_FRAMES)
        return;
    memmove(s->frames + DVT_MAX_FRAMES_LEAF, s->frames + s->n - root, root * sizeof *s->frames);
    s->n = DVT_MAX_FRAMES;
    s->is_truncated = true;
}

/* ---- tables ---- */

static void put_processes(struct trace_jfr *j)
{
    struct dvt_chunk *c = &j->c;
    c->processes = array(j, j->t->n_processes, sizeof *c->processes);
    c->threads = array(j, j->t->n_threads, sizeof *c->threads);
    for (uint32_t i = 0; i < j->t->n_processes && !j->is_out_of_memory; i++) {
        const struct process *p = j->t->processes[i];
        c->processes[c->n_processes++] =
            (struct dvt_chunk_process){p->host_pid,           p->start_ticks,      text(j, p->service),
                                       text(j, p->program), text(j, p->runtime), text(j, p->runtime_version)};
    }
    for (uint32_t i = 0; i < j->t->n_threads && !j->is_out_of_memory; i++) {
        const struct trace_thread *x = &j->t->threads[i];
        c->threads[c->n_threads++] =
            (struct dvt_chunk_thread){x->process, x->host_tid ? x->host_tid : x->key.tid, text(j, x->name)};
        c->ledger.uncovered_ns += x->uncovered_ns;
    }
}

static void put_scope(struct trace_jfr *j, const struct trace_scope *x)
{
    struct dvt_chunk *c = &j->c;
    c->scopes[c->n_scopes++] = (struct dvt_chunk_scope){.thread = x->thread,
                                                        .parent = x->parent,
                                                        .serial = x->serial,
                                                        .start_ns = x->start_ns,
                                                        .end_ns = x->end_ns,
                                                        .span = x->span,
                                                        .parent_span = x->parent_span,
                                                        .name = text(j, x->name),
                                                        .flags = x->flags,
                                                        .first_label = c->n_labels,
                                                        .n_labels = x->n_labels,
                                                        .first_link = c->n_links,
                                                        .n_links = x->n_links};
    for (uint32_t k = 0; k < x->n_labels; k++)
        c->labels[c->n_labels++] =
            (struct dvt_label){text_of(j, x->labels[k].key), text_of(j, x->labels[k].value)};
    for (uint32_t k = 0; k < x->n_links; k++)
        c->links[c->n_links++] = x->links[k];
    c->ledger.cut_short += x->cut;
}

static void put_scopes(struct trace_jfr *j)
{
    size_t labels = 0, links = 0;
    for (uint32_t i = 0; i < j->t->n_scopes; i++) {
        labels += j->t->scopes[i].n_labels;
        links += j->t->scopes[i].n_links;
    }
    j->c.scopes = array(j, j->t->n_scopes, sizeof *j->c.scopes);
    j->c.labels = array(j, labels, sizeof *j->c.labels);
    j->c.links = array(j, links, sizeof *j->c.links);
    for (uint32_t i = 0; i < j->t->n_scopes && !j->is_out_of_memory; i++)
        put_scope(j, &j->t->scopes[i]);
    j->c.ledger.scopes = j->c.n_scopes;
}

static void put_times(struct trace_jfr *j)
{
    struct dvt_chunk *c = &j->c;
    c->times = array(j, j->t->n_scopes, sizeof *c->times);
    for (uint32_t i = 0; i < j->t->n_scopes && !j->is_out_of_memory; i++) {
        const struct wait_sums *w = &j->t->scopes[i].waits;
        if (j->t->scopes[i].has_waits)
            c->times[c->n_times++] = (struct dvt_chunk_times){i,
                                                              w->waits,
                                                              w->preemptions,
                                                              w->on_cpu_ns,
                                                              w->blocked_ns,
                                                              w->runnable_ns,
                                                              w->unknown_ns};
    }
}

static struct dvt_str template_of(const struct process *p)
{
    struct dvt_str s = dvt_str(p->tag_template ? p->tag_template : "");
    return s.n && dvt_tag_check(s, NULL) == 0 ? s : dvt_str(DVT_TAG_DEFAULT);
}

static struct dvt_str render_tag(struct trace_jfr *j, struct dvt_str tmpl, const struct dvt_chunk_scope *x,
                                 const struct dvt_trace_labels *all, const struct dvt_seqs *sets,
                                 uint32_t set)
{
    struct dvt_label labels[DVT_LABEL_SET_MAX];
    char tag[DVT_MAX_TAG + 1];
    const struct dvt_seq *ids = &sets->items[set];
    for (uint32_t i = 0; i < ids->n; i++) {
        uint32_t id = sets->values[ids->first + i];
        labels[i] = (struct dvt_label){dvt_label_key(all, id), dvt_label_value(all, id)};
    }
    struct dvt_tag_in in = {&j->c.trace, &x->span,
                            x->name,     j->c.processes[j->c.threads[x->thread].process].service,
                            labels,      ids->n};
    size_t n = dvt_tag_render(tmpl, &in, tag, sizeof tag);
    return text_of(j, (struct dvt_str){tag, n});
}

static void put_tags(struct trace_jfr *j)
{
    struct dvt_trace_labels all = {0};
    struct dvt_label_sets sets = {0};
    if (dvt_trace_labels_add(&all, &j->c) || dvt_labels_effective(&all, &j->c, &sets))
        out_of_memory(j);
    for (uint32_t i = 0; i < j->c.n_scopes && !j->is_out_of_memory; i++) {
        struct dvt_chunk_scope *x = &j->c.scopes[i];
        struct dvt_str tmpl = template_of(j->t->processes[j->t->threads[x->thread].process]);
        x->tag = render_tag(j, tmpl, x, &all, &sets.sets, sets.of_scope[i]);
    }
    dvt_label_sets_fini(&sets);
    dvt_trace_labels_fini(&all);
}

static void count_sample(struct trace_jfr *j, const struct trace_sample *x)
{
    struct dvt_chunk_ledger *l = &j->c.ledger;
    const struct process *p = j->t->processes[j->t->threads[x->thread].process];
    l->samples++;
    if (x->scope != DVT_NONE)
        l->shared += (j->t->scopes[x->scope].flags & DVT_SCOPE_SHARED) != 0;
    if (!stack_is_missing(p, x))
        return;
    l->no_stack++;
    if (x->reason < sizeof l->no_stack_by / sizeof *l->no_stack_by)
        l->no_stack_by[x->reason]++;
}

/* By scope, then time: long runs (jfr_schema.c) make small chunks. */
static int by_scope(const void *a, const void *b)
{
    const struct dvt_chunk_sample *x = a, *y = b;
    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static void put_samples(struct trace_jfr *j)
{
    struct dvt_chunk *c = &j->c;
    struct stack *s = array(j, 1, sizeof *s);
    c->samples = array(j, j->t->n_samples, sizeof *c->samples);
    j->mframe = array(j, j->t->n_mframes, sizeof *j->mframe);
    for (uint32_t i = 0; i < j->t->n_samples && !j->is_out_of_memory; i++) {
        const struct trace_sample *x = &j->t->samples[i];
        merge(j, x, s);
        shorten(s);
        uint32_t stack = dvt_seqs_put(&j->stacks, s->frames, s->n, s->is_truncated);
        if (stack == UINT32_MAX)
            out_of_memory(j);
        c->samples[c->n_samples++] =
            (struct dvt_chunk_sample){x->thread, x->scope, stack, x->raw->time_ns, x->weight_ns};
        count_sample(j, x);
    }
    if (c->n_samples)
        qsort(c->samples, c->n_samples, sizeof *c->samples, by_scope);
    free(s);
}

static void put_stacks(struct trace_jfr *j)
{
    struct dvt_chunk *c = &j->c;
    c->frames = array(j, j->frames.table.n, sizeof *c->frames);
    c->stacks = array(j, j->stacks.table.n, sizeof *c->stacks);
    if (j->is_out_of_memory)
        return;
    for (; c->n_frames < j->frames.table.n; c->n_frames++) {
        const uint32_t *f = j->frames.items[c->n_frames], *place = j->places.items[f[1]];
        c->frames[c->n_frames] = (struct dvt_chunk_frame){j->strings.items[f[0]], j->strings.items[place[0]],
                                                          j->strings.items[place[1]], f[2], place[2]};
    }
    for (; c->n_stacks < j->stacks.table.n; c->n_stacks++) {
        const struct dvt_seq *s = &j->stacks.items[c->n_stacks];
        c->stacks[c->n_stacks] = (struct dvt_chunk_stack){s->first, s->n, s->extra != 0};
    }
    c->stack_frames = j->stacks.values;
    c->n_stack_frames = j->stacks.n_values;
}

static void include(struct dvt_chunk *c, uint64_t start_ns, uint64_t end_ns)
{
    c->start_ns = start_ns < c->start_ns ? start_ns : c->start_ns;
    c->end_ns = end_ns > c->end_ns ? end_ns : c->end_ns;
}

static void put_extent(struct trace_jfr *j)
{
    struct dvt_chunk *c = &j->c;
    c->start_ns = UINT64_MAX;
    for (uint32_t i = 0; i < c->n_scopes; i++)
        include(c, c->scopes[i].start_ns, c->scopes[i].end_ns);
    for (uint32_t i = 0; i < c->n_samples; i++)
        include(c, c->samples[i].time_ns, c->samples[i].time_ns);
    c->start_ns = c->start_ns == UINT64_MAX ? c->end_ns : c->start_ns;
}

int trace_jfr_build(const struct trace *t, struct symbols *sym, int64_t unix_offset_ns, uint64_t period_ns,
                    const char *event, const char *host, struct trace_jfr **ret, struct dvt_err *err)
{
    struct trace_jfr *j = calloc(1, sizeof *j);
    if (!j)
        return dvt_fail(err, DVT_ENOMEM, 0, "trace: out of memory");
    j->t = t;
    j->sym = sym;
    j->c = (struct dvt_chunk){.trace = t->id,
                              .part = t->part,
                              .unix_offset_ns = unix_offset_ns,
                              .period_ns = period_ns,
                              .event = text(j, event),
                              .host = text(j, host)};
    j->c.ledger.ambiguous = t->ambiguous;
    j->c.ledger.lost_samples = t->lost_samples;
    put_processes(j);
    put_scopes(j);
    put_times(j);
    if (!j->is_out_of_memory)
        put_tags(j);
    if (!j->is_out_of_memory)
        put_samples(j);
    if (!j->is_out_of_memory)
        put_stacks(j);
    put_extent(j);
    if (j->is_out_of_memory) {
        trace_jfr_free(j);
        return dvt_fail(err, DVT_ENOMEM, 0, "trace: out of memory for its chunk of %u samples", t->n_samples);
    }
    *ret = j;
    return 0;
}

const struct dvt_chunk *trace_jfr_chunk(const struct trace_jfr *j)
{
    return &j->c;
}

void trace_jfr_free(struct trace_jfr *j)
{
    if (!j)
        return;
    free(j->c.processes);
    free(j->c.threads);
    free(j->c.frames);
    free(j->c.stacks);
    free(j->c.scopes);
    free(j->c.labels);
    free(j->c.links);
    free(j->c.samples);
    free(j->c.times);
    free(j->mframe);
    dvt_strings_fini(&j->strings);
    dvt_tuples_fini(&j->places);
    dvt_tuples_fini(&j->frames);
    dvt_seqs_fini(&j->stacks); /* with stack_frames */
    for (struct block *b = j->texts, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(j);
}
