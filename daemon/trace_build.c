/*
 * trace_build: see trace_build.h. Arrays grow by doubling; threads and frames are found again by small hash
 * tables.
 */
#include "trace_build.h"

#include <stdlib.h>

struct trace_build *trace_build_new(const struct dvt_trace_id *id, uint32_t part)
{
    struct trace_build *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->id = *id;
    b->part = part;
    b->bytes = sizeof *b;
    return b;
}

void trace_build_free(struct trace_build *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n_scopes; i++) {
        b->scopes[i]->build = NULL;
        scope_unref(b->scopes[i]);
    }
    for (uint32_t i = 0; i < b->n_samples; i++)
        free(b->samples[i].raw);
    for (uint32_t i = 0; i < b->n_threads; i++)
        thread_state_unref(b->threads[i].state);
    for (uint32_t i = 0; i < b->n_processes; i++)
        process_unref(b->processes[i]);
    for (uint32_t i = 0; i < b->n_frames; i++)
        code_unref(b->frames[i].code);
    ptrmap_fini(&b->thread_places);
    ptrmap_fini(&b->frame_places);
    free(b->scopes);
    free(b->scope_threads);
    free(b->samples);
    free(b->threads);
    free(b->processes);
    free(b->frames);
    free(b->mstack);
    free(b);
}

/* p grown to hold n + extra elements; NULL without memory (p is then unchanged). */
static void *grow(struct trace_build *b, void *p, uint32_t n, uint32_t extra, uint32_t *cap, size_t size)
{
    if (extra <= *cap - n && *cap)
        return p;
    uint32_t want = *cap ? *cap * 2 : 4;
    while (want < n + extra)
        want *= 2;
    void *q = realloc(p, want * size);
    if (!q)
        return NULL;
    b->bytes += (want - *cap) * size;
    *cap = want;
    return q;
}

#define GROW(b, array, n, extra, cap)                                                                        \
    __extension__({                                                                                          \
        void *grown = grow(b, (b)->array, n, extra, cap, sizeof *(b)->array);                                \
        if (grown)                                                                                           \
            (b)->array = grown;                                                                              \
        grown != NULL;                                                                                       \
    })

struct place_key {
    const struct trace_build *b;
    const void *p;
    uint32_t line;
};

static void *from_place(uint32_t place)
{
    return (void *)((uintptr_t)place + 1);
}

static uint32_t to_place(const void *value)
{
    return (uint32_t)((uintptr_t)value - 1);
}

static bool thread_eq(const void *value, const void *key)
{
    const struct place_key *k = key;
    return k->b->threads[to_place(value)].state == k->p;
}

static bool frame_eq(const void *value, const void *key)
{
    const struct place_key *k = key;
    const struct trace_build_frame *f = &k->b->frames[to_place(value)];
    return f->code == k->p && f->line == k->line;
}

/* Few processes take part in a trace: a search is enough. */
static int process_place(struct trace_build *b, struct process *p, uint32_t *ret_place)
{
    for (uint32_t i = 0; i < b->n_processes; i++)
        if (b->processes[i] == p) {
            *ret_place = i;
            return 0;
        }
    if (!GROW(b, processes, b->n_processes, 1, &b->cap_processes))
        return DVT_ENOMEM;
    *ret_place = b->n_processes;
    b->processes[b->n_processes++] = process_ref(p);
    return 0;
}

static int thread_place(struct trace_build *b, struct thread_state *t, struct process *p, uint32_t *ret_place)
{
    struct place_key key = {b, t, 0};
    uint64_t hash = ptrmap_hash((uintptr_t)t, 0);
    void *found = ptrmap_get(&b->thread_places, hash, &key, thread_eq);
    uint32_t process;
    if (found) {
        *ret_place = to_place(found);
        return 0;
    }
    if (process_place(b, p, &process) || !GROW(b, threads, b->n_threads, 1, &b->cap_threads) ||
        ptrmap_add(&b->thread_places, hash, from_place(b->n_threads)))
        return DVT_ENOMEM;
    *ret_place = b->n_threads;
    b->threads[b->n_threads++] = (struct trace_build_thread){thread_state_ref(t), process, t->lost};
    return 0;
}

int trace_build_scope(struct trace_build *b, struct scope *s, struct process *p)
{
    uint32_t thread, cap = b->cap_scopes;
    if (s->build == b)
        return 0;
    if (thread_place(b, s->thread, p, &thread) || !GROW(b, scope_threads, b->n_scopes, 1, &cap) ||
        !GROW(b, scopes, b->n_scopes, 1, &b->cap_scopes))
        return DVT_ENOMEM;
    b->scopes[b->n_scopes] = scope_ref(s);
    b->scope_threads[b->n_scopes] = thread;
    s->build = b;
    s->slot = b->n_scopes++;
    b->bytes += s->bytes;
    b->n_indexed += s->indexed;
    return 0;
}

void trace_build_replace(struct trace_build *b, struct scope *before, struct scope *now)
{
    b->scopes[before->slot] = scope_ref(now);
    now->build = b;
    now->slot = before->slot;
    before->build = NULL;
    b->bytes += now->bytes - before->bytes;
    b->n_indexed += (uint32_t)now->indexed - (uint32_t)before->indexed;
    scope_unref(before);
}

static int frame_place(struct trace_build *b, const struct stack_frame *f, uint32_t *ret_place)
{
    struct place_key key = {b, f->code, f->line};
    uint64_t hash = ptrmap_hash((uintptr_t)f->code, f->line);
    void *found = ptrmap_get(&b->frame_places, hash, &key, frame_eq);
    if (found) {
        *ret_place = to_place(found);
        return 0;
    }
    if (!GROW(b, frames, b->n_frames, 1, &b->cap_frames) ||
        ptrmap_add(&b->frame_places, hash, from_place(b->n_frames)))
        return DVT_ENOMEM;
    *ret_place = b->n_frames;
    b->frames[b->n_frames++] = (struct trace_build_frame){code_ref(f->code), f->line};
    b->bytes += f->code->bytes;
    return 0;
}

int trace_build_sample(struct trace_build *b, const struct scope *s, struct sample *raw, uint64_t weight_ns,
                       const struct stack *stack, uint32_t reason)
{
    uint32_t n = stack ? stack->n_frames : 0, first = b->n_mstack;
    if (!GROW(b, samples, b->n_samples, 1, &b->cap_samples) || !GROW(b, mstack, first, n, &b->cap_mstack))
        return DVT_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        if (frame_place(b, &stack->frames[i], &b->mstack[first + i]))
            return DVT_ENOMEM;
    b->n_mstack += n;
    b->samples[b->n_samples++] = (struct trace_sample){
        .raw = raw,
        .thread = b->scope_threads[s->slot],
        .scope = s->slot,
        .weight_ns = weight_ns,
        .reason = reason,
        .first_mframe = first,
        .n_mframes = n,
        .mtruncated = stack && stack->truncated,
    };
    b->bytes += raw->bytes;
    return 0;
}
