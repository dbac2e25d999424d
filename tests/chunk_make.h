/*
 * chunk_make: chunks for tests, benchmarks and corpora. The same seed gives the same chunk; different seeds
 * share no frame names, so that a stack shown under the wrong chunk is recognised.
 */
#ifndef CHUNK_MAKE_H
#define CHUNK_MAKE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include "../proto/chunk.h"

struct made {
    struct dvt_chunk c;
    struct made_block {
        struct made_block *next;
        max_align_t data[];
    } *blocks;
};

struct made_size {
    uint32_t threads, scopes, stacks, depth, samples;
};

static inline void *made_array(struct made *m, size_t n, size_t size)
{
    struct made_block *b = calloc(1, sizeof *b + (n + 1) * size);
    if (!b)
        abort();
    b->next = m->blocks;
    m->blocks = b;
    return b->data;
}

static inline struct dvt_str __attribute__((format(printf, 2, 3)))
made_text(struct made *m, const char *fmt, ...)
{
    char buf[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    char *p = made_array(m, (size_t)n, 1);
    memcpy(p, buf, (size_t)n);
    return (struct dvt_str){p, (size_t)n};
}

static inline void made_tables(struct made *m, uint32_t seed, struct made_size z)
{
    struct dvt_chunk *c = &m->c;
    c->processes = made_array(m, c->n_processes = 1, sizeof *c->processes);
    c->processes[0] = (struct dvt_chunk_process){
        4711, 99, dvt_str("shop"), dvt_str("python3"), dvt_str("python"), dvt_str("3.11.7")};
    c->threads = made_array(m, c->n_threads = z.threads, sizeof *c->threads);
    for (uint32_t i = 0; i < z.threads; i++)
        c->threads[i] = (struct dvt_chunk_thread){0, 100 + i, made_text(m, "worker-%u", i)};
    c->frames = made_array(m, c->n_frames = z.depth * 4, sizeof *c->frames);
    for (uint32_t i = 0; i < c->n_frames; i++) {
        static const uint32_t kinds[] = {DVT_FRAME_KERNEL, DVT_FRAME_NATIVE, DVT_FRAME_MANAGED,
                                         DVT_FRAME_MANAGED};
        static const char *const modules[] = {"kernel", "libc.so.6", "/app/shop/orders.py",
                                              "/app/shop/main.py"};
        c->frames[i] = (struct dvt_chunk_frame){made_text(m, "fn_%u_%u", seed, i), dvt_str(modules[i % 4]),
                                                dvt_str(""), i % 4 > 1 ? 10 + i : 0, kinds[i % 4]};
    }
    c->stacks = made_array(m, c->n_stacks = z.stacks, sizeof *c->stacks);
    c->stack_frames = made_array(m, c->n_stack_frames = z.stacks * z.depth, sizeof *c->stack_frames);
    for (uint32_t i = 0; i < c->n_stack_frames; i++)
        c->stack_frames[i] = (i * 7 + i / z.depth + seed) % c->n_frames;
    for (uint32_t i = 0; i < z.stacks; i++)
        c->stacks[i] = (struct dvt_chunk_stack){i * z.depth, z.depth, i % 5 == 4};
}

/* Scope 0 of each thread spans the chunk; the others follow each other within it. Every scope has a tenant
 * label. */
static inline void made_scopes(struct made *m, uint32_t seed, struct made_size z)
{
    struct dvt_chunk *c = &m->c;
    uint64_t step = (c->end_ns - c->start_ns) / (z.scopes + 1);
    c->scopes = made_array(m, c->n_scopes = z.scopes, sizeof *c->scopes);
    c->labels = made_array(m, c->n_labels = z.scopes, sizeof *c->labels);
    for (uint32_t i = 0; i < z.scopes; i++) {
        struct dvt_chunk_scope *s = &c->scopes[i];
        bool is_root = i < z.threads;
        *s = (struct dvt_chunk_scope){.thread = i % z.threads,
                                      .parent = is_root ? DVT_NONE : i % z.threads,
                                      .serial = i + 1,
                                      .start_ns = is_root ? c->start_ns : c->start_ns + step * i,
                                      .end_ns = is_root ? c->end_ns : c->start_ns + step * (i + 1)};
        s->span.b[7] = (uint8_t)(i + 1);
        s->span.b[6] = (uint8_t)((i + 1) >> 8);
        s->span.b[0] = (uint8_t)seed;
        s->name = is_root ? dvt_str("GET /orders") : dvt_str("db.query");
        s->flags = i == 0 ? DVT_SCOPE_ROOT : 0;
        s->tag = made_text(m, "seed%u/%u", seed, is_root ? 0 : i % 16);
        s->first_label = i;
        s->n_labels = 1;
        c->labels[i] = (struct dvt_label){dvt_str("tenant"), seed % 2 ? dvt_str("acme") : dvt_str("globex")};
    }
    for (uint32_t i = z.threads; i < z.scopes; i++)
        c->scopes[i].parent_span = c->scopes[c->scopes[i].parent].span;
}

static inline void made_samples(struct made *m, uint32_t seed, struct made_size z)
{
    struct dvt_chunk *c = &m->c;
    c->samples = made_array(m, c->n_samples = z.samples, sizeof *c->samples);
    for (uint32_t i = 0; i < z.samples; i++) {
        uint32_t scope = z.scopes ? (i * 31 + seed) % z.scopes : DVT_NONE;
        uint32_t thread = scope == DVT_NONE ? 0 : c->scopes[scope].thread;
        c->samples[i] = (struct dvt_chunk_sample){thread, scope, (i * 13 + seed) % z.stacks,
                                                  c->start_ns + (c->end_ns - c->start_ns) / z.samples * i,
                                                  10000000 + i % 1000};
    }
}

static inline struct made *made_new(uint32_t seed, struct made_size z)
{
    struct made *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->c = (struct dvt_chunk){.unix_offset_ns = 1700000000000000000,
                              .start_ns = 259200000000000ull + seed * 1000000ull,
                              .period_ns = 10101010,
                              .event = dvt_str("perf::PERF_COUNT_SW_CPU_CLOCK"),
                              .host = dvt_str("host-a")};
    m->c.end_ns = m->c.start_ns + 300000000;
    m->c.trace.b[0] = 0xab;
    for (int i = 0; i < 4; i++)
        m->c.trace.b[12 + i] = (uint8_t)(seed >> (24 - 8 * i));
    m->c.ledger = (struct dvt_chunk_ledger){.samples = z.samples,
                                            .no_stack = 2,
                                            .ambiguous = 1,
                                            .scopes = z.scopes,
                                            .no_stack_by = {[2] = 1, [6] = 1},
                                            .uncovered_ns = 12345,
                                            .lost_samples = 3};
    made_tables(m, seed, z);
    made_scopes(m, seed, z);
    made_samples(m, seed, z);
    return m;
}

static inline void made_free(struct made *m)
{
    for (struct made_block *b = m->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(m);
}

static const struct made_size made_small = {
    .threads = 2, .scopes = 6, .stacks = 4, .depth = 4, .samples = 12};

#endif
