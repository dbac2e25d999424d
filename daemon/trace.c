/*
 * trace: a finished part of a trace: made from the assembly (trace_build.h), freed by the writer.
 *
 * Enclosing scopes are found here: a scope's parent is the one it named, if that is in this part; else the
 * last opened scope of its thread in this part that encloses it in time (the one between them belongs to
 * another trace, or was dropped).
 */
#include "trace.h"

#include <stdlib.h>

#include "trace_build.h"

void trace_free(struct trace *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->n_processes; i++)
        process_unref(t->processes[i]);
    for (uint32_t i = 0; i < t->n_threads; i++)
        free(t->threads[i].name);
    for (uint32_t i = 0; i < t->n_scopes; i++) {
        free(t->scopes[i].name);
        free(t->scopes[i].labels);
        free(t->scopes[i].links);
    }
    for (uint32_t i = 0; i < t->n_samples; i++)
        free(t->samples[i].raw);
    for (uint32_t i = 0; i < t->n_mframes; i++) {
        free(t->mframes[i].name);
        free(t->mframes[i].file);
    }
    free(t->processes);
    free(t->threads);
    free(t->scopes);
    free(t->samples);
    free(t->mframes);
    free(t->mstack);
    free(t);
}

static char *copy_bytes(const void *p, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, p, n);
        copy[n] = 0;
    }
    return copy;
}

static struct dvt_str put_bytes(char **at, struct dvt_str s)
{
    struct dvt_str out = {*at, s.n};
    memcpy(*at, s.p, s.n);
    (*at)[s.n] = 0;
    *at += s.n + 1;
    return out;
}

/* One block: the labels, then their bytes. */
static struct dvt_label *copy_labels(const struct scope *s)
{
    size_t n = s->n_labels * sizeof *s->labels;
    for (uint32_t i = 0; i < s->n_labels; i++)
        n += s->labels[i].key.n + s->labels[i].value.n + 2;
    struct dvt_label *copy = malloc(n);
    char *at = (char *)(copy + s->n_labels);
    for (uint32_t i = 0; copy && i < s->n_labels; i++) {
        copy[i].key = put_bytes(&at, s->labels[i].key);
        copy[i].value = put_bytes(&at, s->labels[i].value);
    }
    return copy;
}

static bool fill_scope(struct trace_scope *to, const struct scope *s, uint32_t thread)
{
    *to = (struct trace_scope){
        .thread = thread,
        .parent = DVT_NONE,
        .serial = s->serial,
        .start_ns = s->start_ns,
        .end_ns = s->end_ns,
        .span = s->span,
        .parent_span = s->parent_span,
        .flags = s->flags,
        .cut = s->cut,
        .has_waits = s->has_waits,
        .waits = s->waits,
        .name = copy_bytes(s->name.p, s->name.n),
        .n_labels = s->n_labels,
        .n_links = s->n_links,
    };
    if (s->n_labels)
        to->labels = copy_labels(s);
    if (s->n_links)
        to->links = (struct dvt_trace_id *)copy_bytes(s->links, s->n_links * sizeof *s->links);
    return to->name && (!s->n_labels || to->labels) && (!s->n_links || to->links);
}

static bool fill_threads(struct trace *t, const struct trace_build *b)
{
    for (; t->n_threads < b->n_threads; t->n_threads++) {
        const struct trace_build_thread *from = &b->threads[t->n_threads];
        const struct thread_state *s = from->state;
        t->threads[t->n_threads] = (struct trace_thread){
            s->key, from->process, copy_bytes(s->name, strlen(s->name)), s->host_tid, s->uncovered_ns};
        t->lost_samples += s->lost - from->lost_before;
        if (!t->threads[t->n_threads].name)
            return false;
    }
    return true;
}

static bool fill_frames(struct trace *t, const struct trace_build *b)
{
    for (; t->n_mframes < b->n_frames; t->n_mframes++) {
        const struct trace_build_frame *f = &b->frames[t->n_mframes];
        struct trace_mframe *to = &t->mframes[t->n_mframes];
        *to = (struct trace_mframe){copy_bytes(f->code->name, strlen(f->code->name)),
                                    copy_bytes(f->code->file, strlen(f->code->file)), f->line};
        if (!to->name || !to->file) {
            t->n_mframes++;
            return false;
        }
    }
    return true;
}

static bool fill_scopes(struct trace *t, const struct trace_build *b)
{
    for (; t->n_scopes < b->n_scopes; t->n_scopes++)
        if (!fill_scope(&t->scopes[t->n_scopes], b->scopes[t->n_scopes], b->scope_threads[t->n_scopes])) {
            t->n_scopes++;
            return false;
        }
    return true;
}

struct open_order {
    uint32_t thread, slot;
    uint64_t serial, parent_serial;
};

static int open_order_cmp(const void *a, const void *b)
{
    const struct open_order *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* A scope that was still open when it was last heard of may enclose anything that comes after. */
static uint64_t known_end(const struct trace_scope *s)
{
    return s->cut || (s->flags & DVT_SCOPE_OPEN) ? UINT64_MAX : s->end_ns;
}

/* The stack holds places of v: scopes of one thread, opened before v[i], each within the one below. A scope
 * that ends before a later opened one cannot enclose anything after that. */
static uint32_t find_parent(const struct trace *t, const struct open_order *v, uint32_t *stack, uint32_t *n,
                            uint32_t i)
{
    const struct trace_scope *s = &t->scopes[v[i].slot];
    if (*n && v[stack[*n - 1]].thread != v[i].thread)
        *n = 0;
    for (uint32_t k = *n; k-- > 0 && v[stack[k]].serial >= v[i].parent_serial;)
        if (v[stack[k]].serial == v[i].parent_serial)
            return v[stack[k]].slot;
    while (*n && known_end(&t->scopes[v[stack[*n - 1]].slot]) < s->end_ns)
        --*n;
    return *n && v[i].parent_serial ? v[stack[*n - 1]].slot : DVT_NONE;
}

static bool link_parents(struct trace *t, const struct trace_build *b)
{
    struct open_order *v = malloc((t->n_scopes + 1) * sizeof *v);
    uint32_t *stack = malloc((t->n_scopes + 1) * sizeof *stack), n = 0;
    for (uint32_t i = 0; v && i < t->n_scopes; i++)
        v[i] = (struct open_order){t->scopes[i].thread, i, t->scopes[i].serial, b->scopes[i]->parent_serial};
    if (v)
        qsort(v, t->n_scopes, sizeof *v, open_order_cmp);
    for (uint32_t i = 0; v && stack && i < t->n_scopes; i++) {
        t->scopes[v[i].slot].parent = find_parent(t, v, stack, &n, i);
        stack[n++] = i;
    }
    bool done = v && stack;
    free(v);
    free(stack);
    return done;
}

/* calloc that may be asked for nothing. */
static void *array(uint32_t n, size_t size)
{
    return calloc(n ? n : 1, size);
}

struct trace *trace_build_finish(struct trace_build *b)
{
    struct trace *t = calloc(1, sizeof *t);
    if (!t) {
        trace_build_free(b);
        return NULL;
    }
    t->id = b->id;
    t->part = b->part;
    t->ambiguous = b->ambiguous;
    t->bytes = b->bytes;
    t->threads = array(b->n_threads, sizeof *t->threads);
    t->scopes = array(b->n_scopes, sizeof *t->scopes);
    t->mframes = array(b->n_frames, sizeof *t->mframes);
    if (!t->threads || !t->scopes || !t->mframes || !fill_threads(t, b) || !fill_frames(t, b) ||
        !fill_scopes(t, b) || !link_parents(t, b)) {
        trace_free(t);
        trace_build_free(b);
        return NULL;
    }
    t->samples = b->samples, t->n_samples = b->n_samples; /* these move over */
    t->processes = b->processes, t->n_processes = b->n_processes;
    t->mstack = b->mstack, t->n_mstack = b->n_mstack;
    b->samples = NULL, b->n_samples = 0;
    b->processes = NULL, b->n_processes = 0;
    b->mstack = NULL;
    trace_build_free(b);
    return t;
}
