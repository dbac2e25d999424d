/*
 * join_messages: the generated scopes as the sealed messages that a shim would send. For bench_join.
 */
#ifndef JOIN_MESSAGES_H
#define JOIN_MESSAGES_H

#include <stdbool.h>
#include <stdio.h>

#include "../../proto/wire.h"
#include "join_gen.h"

enum { BATCH = 1024 };

struct message {
    uint8_t *p;
    size_t n;
    uint32_t thread;
};

static struct gen_thread threads[GEN_THREADS];
static struct message *messages; /* [n_messages], in the order they were sent */
static size_t n_messages, message_bytes;
static const uint8_t key[DVT_KEY_BYTES] = {1, 2, 3};

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench_join: %s\n", what);
    exit(2);
}

/* Numbers of gen_id: spans by thread and serial, then remote parents, then traces. */
static struct dvt_span_id span_of(uint32_t thread, uint64_t serial)
{
    struct dvt_span_id span;
    uint64_t id = gen_id((uint64_t)(thread + 1) << 40 | serial);
    memcpy(span.b, &id, sizeof id);
    return span;
}

static struct dvt_trace_id trace_of(uint64_t number)
{
    struct dvt_trace_id trace;
    uint64_t id[] = {gen_id(UINT64_C(1) << 62 | number), gen_id(UINT64_C(1) << 63 | number)};
    memcpy(trace.b, id, sizeof id);
    return trace;
}

static struct dvt_scope_rec record(uint32_t thread, const struct gen_scope *s)
{
    static const char *const names[] = {"request", "handler", "query", "fetch", "parse"};
    const struct gen_thread *t = &threads[thread];
    return (struct dvt_scope_rec){
        .serial = s->serial,
        .parent_serial = s->parent,
        .start_ns = s->open,
        .end_ns = s->close,
        .head_open = gen_head(t, s->open),
        .head_close = gen_head(t, s->close),
        .trace = trace_of(s->trace),
        .span = span_of(thread, s->serial),
        .parent_span = s->parent ? span_of(thread, s->parent) : span_of(GEN_THREADS, s->serial),
        .name = dvt_str(names[s->depth]),
        .flags = s->parent ? 0 : DVT_SCOPE_REMOTE_PARENT,
    };
}

/* What a shim may call settled after scope i: where the outermost scope that is still open was opened. */
static uint64_t settled_after(const struct gen_thread *t, uint32_t i)
{
    uint32_t root = i;
    while (root < t->n_scopes && t->scopes[root].depth)
        root++;
    if (root == i || root == t->n_scopes)
        return gen_head(t, t->scopes[i].close);
    return gen_head(t, t->scopes[root].open);
}

static void seal_batch(uint32_t thread, uint32_t first, uint32_t n)
{
    static struct dvt_scope_rec recs[BATCH];
    static struct dvt_buf body;
    struct dvt_buf out;
    const struct gen_thread *t = &threads[thread];
    uint64_t settled = settled_after(t, first + n - 1);
    for (uint32_t i = 0; i < n; i++)
        recs[i] = record(thread, &t->scopes[first + i]);
    if (!body.max)
        dvt_buf_init(&body, DVT_MAX_MESSAGE);
    dvt_buf_init(&out, DVT_MAX_MESSAGE);
    body.n = 0;
    struct message *m = &messages[n_messages++];
    require(!dvt_wire_put_scopes(&body, thread, 1, settled, 0, recs, n), "encode");
    require(!dvt_wire_seal(&out, 1, n_messages, key, body.p, body.n), "seal");
    *m = (struct message){out.p, out.n, thread};
    message_bytes += m->n;
}

/* Threads take turns, as their batches would arrive. */
static void make_messages(uint32_t per_thread)
{
    messages = calloc(GEN_THREADS * (per_thread / BATCH + 1), sizeof *messages);
    require(messages != NULL, "memory");
    for (uint32_t first = 0; first < per_thread; first += BATCH)
        for (uint32_t i = 0; i < GEN_THREADS; i++)
            seal_batch(i, first, per_thread - first < BATCH ? per_thread - first : BATCH);
}

#endif
