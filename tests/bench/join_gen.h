/*
 * join_gen: nested scopes and samples on many threads, as a busy service would report them. For bench_join.
 *
 * Ring offsets are times: a scope holds a sample iff start < t <= end. Scopes come in the order they closed,
 * up to five deep; samples are evenly spread with jitter. Always the same data.
 */
#ifndef JOIN_GEN_H
#define JOIN_GEN_H

#include <stdint.h>
#include <stdlib.h>

enum { GEN_THREADS = 64, GEN_DEPTH = 5 };

struct gen_scope {
    uint64_t open, close, serial, parent;
    uint32_t depth;
    uint32_t trace; /* each outermost scope is a trace of its own */
};
struct gen_thread {
    struct gen_scope *scopes; /* [n_scopes] in order of close */
    uint64_t *samples;        /* [n_samples] ascending */
    uint32_t n_scopes, n_samples;
    uint64_t serial, clock;
};

static uint64_t gen_state = 88172645463325252u;
static uint32_t gen_traces;

static inline uint64_t gen_random(uint64_t below)
{
    gen_state ^= gen_state << 13;
    gen_state ^= gen_state >> 7;
    gen_state ^= gen_state << 17;
    return gen_state % below;
}

static inline void gen_scope(struct gen_thread *t, uint32_t cap, uint32_t depth, uint64_t parent,
                             uint32_t trace)
{
    struct gen_scope s = {
        .open = t->clock, .serial = ++t->serial, .parent = parent, .depth = depth, .trace = trace};
    t->clock += 50 + gen_random(500);
    for (uint64_t kids = depth + 1 < GEN_DEPTH ? gen_random(4) : 0; kids && t->n_scopes + depth + 2 < cap;
         kids--) {
        gen_scope(t, cap, depth + 1, s.serial, trace);
        t->clock += gen_random(300);
    }
    t->clock += 50 + gen_random(500);
    s.close = t->clock++;
    t->scopes[t->n_scopes++] = s;
}

static inline void gen_samples(struct gen_thread *t, uint32_t n, uint64_t from)
{
    uint64_t step = (t->clock - from) / n;
    t->samples = malloc(n * sizeof *t->samples);
    t->n_samples = n;
    for (uint32_t i = 0; t->samples && i < n; i++)
        t->samples[i] = from + i * step + gen_random(step / 2);
}

static inline void gen_fill(struct gen_thread *t, uint32_t n_scopes, uint32_t n_samples)
{
    uint64_t from = t->clock = 1000000 + gen_random(1000);
    t->scopes = malloc(n_scopes * sizeof *t->scopes);
    while (t->scopes && t->n_scopes < n_scopes) {
        gen_scope(t, n_scopes, 0, 0, ++gen_traces);
        t->clock += gen_random(2000);
    }
    gen_samples(t, n_samples, from);
}

#endif
