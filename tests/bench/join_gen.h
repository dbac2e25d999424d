/*
 * join_gen: nested scopes and samples on many threads, as a busy service would report them. For bench_join.
 *
 * Each outermost scope is a request: a trace of its own with a remote parent. Trace and span ids are
 * random, as OpenTelemetry makes them: no span id comes twice, and a trace id comes once a scope of its
 * trace, 13 times on average. Scopes come in the order they closed, up to five deep; samples are evenly
 * spread with jitter. Ring offsets are what perf gives: a sample's record has some hundred bytes, and a
 * scope's heads are those of the records before it opened and before it closed. So (open, close] holds a
 * sample's time iff (head(open), head(close)] holds its record's end. Always the same data.
 */
#ifndef JOIN_GEN_H
#define JOIN_GEN_H

#include <stdint.h>
#include <stdlib.h>

enum { GEN_THREADS = 64, GEN_DEPTH = 5 };
enum { GEN_RECORD_BYTES = 64, GEN_MAX_FRAMES = 100 }; /* of a sample: the fixed part, and 8 for each frame */

struct gen_scope {
    uint64_t open, close; /* times */
    uint64_t serial, parent;
    uint32_t depth;
    uint32_t trace;
};
struct gen_thread {
    struct gen_scope *scopes; /* [n_scopes] in order of close */
    uint64_t *samples;        /* [n_samples] times, ascending */
    uint64_t *offs;           /* [n_samples] where their records end in the ring */
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

/* Eight random bytes for each number, the same whenever it is asked (splitmix64). */
static inline uint64_t gen_id(uint64_t number)
{
    uint64_t x = number * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
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
    uint64_t step = (t->clock - from) / n, head = 0;
    t->samples = malloc(2 * n * sizeof *t->samples);
    t->offs = t->samples + n;
    t->n_samples = n;
    for (uint32_t i = 0; t->samples && i < n; i++) {
        t->samples[i] = from + i * step + gen_random(step / 2);
        t->offs[i] = head += GEN_RECORD_BYTES + 8 * gen_random(GEN_MAX_FRAMES);
    }
}

/* The ring's head at a time. */
static inline uint64_t gen_head(const struct gen_thread *t, uint64_t time)
{
    uint32_t lo = 0, hi = t->n_samples;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->samples[mid] <= time)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? t->offs[lo - 1] : 0;
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
