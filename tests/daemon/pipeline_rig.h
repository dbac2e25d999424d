/*
 * pipeline_rig: drives a pipeline with messages in wire form, samples and an injected clock. For tests and the fuzzer.
 */
#ifndef PIPELINE_RIG_H
#define PIPELINE_RIG_H

#include <stdlib.h>
#include <string.h>

#include "../../daemon/pipeline.h"

#define MS 1000000ull
#define SEC 1000000000ull

struct rig {
    struct pipeline_config cfg;
    struct pipeline *p;
    struct process *proc;
    struct dvt_buf body;
    uint64_t now_ns;
};

static inline struct process *rig_process(uint32_t index, bool has_walker)
{
    struct dvt_hello hello = {.pid = 100 + index,
                              .runtime = dvt_str("c"),
                              .runtime_version = dvt_str("17"),
                              .service = dvt_str("shop"),
                              .program = dvt_str("shop"),
                              .tag_template = dvt_str("{trace}"),
                              .has_walker = has_walker};
    struct process *proc = process_new(&hello);
    if (!proc)
        abort();
    proc->index = index;
    proc->host_pid = 100 + index;
    return proc;
}

static inline void rig_start(struct rig *r, const struct pipeline_config *cfg, bool has_walker)
{
    memset(r, 0, sizeof *r);
    if (cfg)
        r->cfg = *cfg;
    else
        pipeline_config_default(&r->cfg);
    r->p = pipeline_new(&r->cfg);
    if (!r->p)
        abort();
    r->now_ns = 1000 * SEC;
    r->proc = rig_process(1, has_walker);
    pipeline_process_up(r->p, r->proc);
    dvt_buf_init(&r->body, DVT_MAX_MESSAGE);
}

static inline void rig_stop(struct rig *r)
{
    pipeline_free(r->p);
    process_unref(r->proc);
    dvt_buf_fini(&r->body);
}

static inline struct thread_key rig_key(uint32_t tid)
{
    return (struct thread_key){1, tid, 1};
}

/* A sample of key whose record ends at off; its instruction pointer is off too, so that it can be told again. */
static inline void rig_sample_of(struct rig *r, struct thread_key key, uint64_t off, uint64_t time_ns)
{
    size_t bytes = sizeof(struct sample) + sizeof(uint64_t);
    struct sample *s = calloc(1, bytes);
    if (!s)
        abort();
    s->thread = key;
    s->time_ns = time_ns;
    s->end_off = off;
    s->n_ips = 1;
    s->ips = (uint64_t *)(s + 1);
    s->ips[0] = off;
    s->bytes = bytes;
    pipeline_sample(r->p, s);
}

static inline void rig_sample(struct rig *r, uint32_t tid, uint64_t off)
{
    rig_sample_of(r, rig_key(tid), off, r->now_ns - SEC + off);
}

static inline void rig_drained(struct rig *r, uint32_t tid, uint64_t head)
{
    pipeline_progress(r->p, rig_key(tid), head, 0, false);
}

static inline void rig_send(struct rig *r)
{
    pipeline_message(r->p, 1, r->body.p, r->body.n, r->now_ns);
    r->body.n = 0;
}

static inline struct dvt_trace_id rig_trace(uint8_t id)
{
    return (struct dvt_trace_id){{[0] = 0xAB, [15] = id}};
}

/* A scope whose times follow its ring offsets, as rig_sample's do. */
static inline struct dvt_scope_rec rig_rec(const struct rig *r, uint64_t serial, uint64_t open, uint64_t close, uint8_t trace)
{
    return (struct dvt_scope_rec){
        .serial = serial,
        .start_ns = r->now_ns - SEC + open,
        .end_ns = r->now_ns - SEC + close + 1,
        .head_open = open,
        .head_close = close,
        .trace = rig_trace(trace),
        .span = {{[7] = (uint8_t)serial}},
        .name = dvt_str("work"),
    };
}

static inline void rig_scopes(struct rig *r, uint32_t tid, uint64_t settled, const struct dvt_scope_rec *v, size_t n)
{
    if (dvt_wire_put_scopes(&r->body, tid, 1, settled, r->now_ns, v, n))
        abort();
    rig_send(r);
}

/* One scope in a message of its own. */
static inline void rig_scope(struct rig *r, uint32_t tid, uint64_t settled, struct dvt_scope_rec rec)
{
    rig_scopes(r, tid, settled, &rec, 1);
}

static inline void rig_code(struct rig *r, uint32_t id, const char *name)
{
    struct dvt_code_info info = {id, dvt_str(name), dvt_str("app.py"), 10};
    if (dvt_wire_put_code(&r->body, &info, 1))
        abort();
    rig_send(r);
}

/* A managed stack of two frames of the code. */
static inline void rig_stack(struct rig *r, uint32_t tid, uint64_t head, uint32_t code, uint32_t reason)
{
    uint32_t codes[] = {code, code}, lines[] = {11, 12};
    struct dvt_stack_rec rec = {head, r->now_ns, reason, 0, reason ? 0 : 2, codes, lines};
    if (dvt_wire_put_stacks(&r->body, tid, 1, &rec, 1))
        abort();
    rig_send(r);
}

static inline void rig_tick(struct rig *r, uint64_t forward_ns)
{
    r->now_ns += forward_ns;
    pipeline_tick(r->p, r->now_ns);
}

static inline struct ledger rig_ledger(const struct rig *r)
{
    struct ledger l;
    pipeline_total(r->p, &l);
    return l;
}

/* The identities of stats.h: nothing vanishes. */
static inline bool rig_adds_up(const struct rig *r)
{
    struct ledger l = rig_ledger(r);
    struct pipeline_scopes s;
    pipeline_scope_counts(r->p, &s);
    return l.samples == l.joined + l.outside + l.ambiguous + l.repeated + l.pending + l.lost_queue + l.lost_end &&
           l.scopes + s.announced == l.scopes_bad + s.empty + s.placed + s.merged + s.waiting + s.lost;
}

/* The place in t of the sample at off, or t->n_samples. */
static inline uint32_t rig_find(const struct trace *t, uint64_t off)
{
    uint32_t i = 0;
    while (i < t->n_samples && t->samples[i].raw->end_off != off)
        i++;
    return i;
}

/* Serial of the scope the sample at off lies in; 0 if the trace does not hold it. */
static inline uint64_t rig_scope_of(const struct trace *t, uint64_t off)
{
    uint32_t i = t ? rig_find(t, off) : 0;
    return t && i < t->n_samples ? t->scopes[t->samples[i].scope].serial : 0;
}

#endif
