/*
 * chunk_decode: one JFR chunk of dvt_chunk_encode -> struct dvt_chunk.
 *
 * Steps: header; metadata, compiled to one plan per type we know; the constant pools into plain tables, in
 * whatever order they stand; a counting walk over the events; one allocation for the result; a filling walk;
 * the rules of chunk_check. Strings point into the input.
 *
 * Refused as DVT_EFORMAT: whatever contradicts its own sizes, keys out of range, pools whose keys do not
 * ascend by one from their first (our writer's rule, which makes a look-up one subtraction), strings that are
 * not clean UTF-8. Memory is proportional to the input: each table entry is paid for by the bytes it was read
 * from.
 */
#include "chunk_dec.h"

#include <stdlib.h>
#include <sys/mman.h>
#include "chunk_check.h"
#include "jfr_write.h"

int dvt_dec_damaged(struct dec *d, const char *what)
{
    return dvt_fail(d->err, d->rc ? d->rc : DVT_EFORMAT, 0,
                    d->rc ? "chunk: out of memory for its %s" : "chunk: damaged %s", what);
}

/* ---- events ---- */

struct event {
    struct jfr_r r; /* its fields */
    uint32_t record;
};

/* The next event from *p to end; false at the end or if it cannot be (then *p is NULL). */
static bool next_event(const struct dec *d, const uint8_t **p, const uint8_t *end, struct event *ret)
{
    struct jfr_r r = {*p, end, false};
    if (*p == end)
        return false;
    uint64_t size = jfr_get(&r);
    if (size > (uint64_t)(end - *p)) {
        *p = NULL;
        return false;
    }
    r.end = *p + size;
    uint64_t type = r.p <= r.end ? jfr_get(&r) : JFR_MAX_TYPES;
    if (r.bad || type >= JFR_MAX_TYPES || r.p > r.end) {
        *p = NULL;
        return false;
    }
    *p = r.end;
    ret->r = r;
    ret->record = type > 1 ? d->record_of[type] : R_OTHER;
    return true;
}

static struct dvt_str string_of(const struct dec *d, uint64_t key, bool *bad)
{
    uint32_t i = pool_index(&d->pools[R_STRING], key);
    if (i != UINT32_MAX)
        return d->strings[i];
    *bad = *bad || key != 0;
    return dvt_str("");
}

static struct dvt_trace_id trace_of(const struct dec *d, uint64_t key, bool *bad)
{
    struct dvt_trace_id id = {{0}};
    struct dvt_str s = string_of(d, key, bad);
    if (dvt_trace_id_parse(s.p, s.n, &id))
        *bad = true;
    return id;
}

static struct dvt_span_id span_of(const struct dec *d, uint64_t key, bool *bad)
{
    struct dvt_span_id id = {{0}};
    struct dvt_str s = string_of(d, key, bad);
    if (s.n && dvt_span_id_parse(s.p, s.n, &id))
        *bad = true;
    return id;
}

static uint32_t u32(uint64_t v, bool *bad)
{
    *bad = *bad || v > UINT32_MAX;
    return (uint32_t)v;
}

/* 0 -> DVT_NONE, else the index. */
static uint32_t index_of(uint64_t v, bool *bad)
{
    return v ? u32(v - 1, bad) : DVT_NONE;
}

static void get_trace(struct dec *d, const struct jfr_values *v, bool *bad)
{
    struct dvt_chunk *c = &d->c;
    c->trace = trace_of(d, v->v[TRACE_ID], bad);
    c->part = u32(v->v[TRACE_PART], bad);
    c->host = string_of(d, v->v[TRACE_HOST], bad);
    c->event = string_of(d, v->v[TRACE_EVENT], bad);
    c->period_ns = v->v[TRACE_PERIOD];
    c->start_ns = v->v[TRACE_START];
    c->end_ns = c->start_ns + v->v[TRACE_DURATION];
    c->unix_offset_ns = (int64_t)v->v[TRACE_OFFSET];
    *bad = *bad || c->end_ns < c->start_ns;
}

/* Counts events by record and reads the trace event. */
static int count_events(struct dec *d, const uint8_t *p, const uint8_t *end)
{
    struct event ev;
    struct jfr_values v = {0};
    bool bad = false;
    while (next_event(d, &p, end, &ev)) {
        if (ev.record >= N_EVENTS)
            continue;
        bad = bad ||
              (uint64_t)(ev.r.end - ev.r.p) < d->plans[ev.record].n; /* a field takes at least one byte */
        d->counts[ev.record]++;
        if (ev.record != R_TRACE)
            continue;
        jfr_run(&d->meta, &d->plans[R_TRACE], &ev.r, &v);
        bad = bad || ev.r.bad;
    }
    if (!p || bad || d->counts[R_TRACE] != 1)
        return dvt_dec_damaged(d, "events");
    if (v.v[TRACE_MAJOR] > DVT_CHUNK_MAJOR)
        return dvt_fail(d->err, DVT_EVERSION, 0,
                        "chunk: format %llu is newer than this program's %d: update it",
                        (unsigned long long)v.v[TRACE_MAJOR], DVT_CHUNK_MAJOR);
    get_trace(d, &v, &bad);
    return bad ? dvt_dec_damaged(d, "trace event") : 0;
}

struct fill {
    struct dec *d;
    struct dvt_chunk *c;
    uint32_t next[N_EVENTS];
    uint32_t *label_scope, *link_scope; /* scratch: the scope of each label and link, in order of events */
    struct {                            /* the samples to come */
        uint64_t n, weight_ns;
        uint32_t scope;
    } run;
    bool bad;
};

/* Reasons of later versions are left out; no_stack counts them. */
static void get_no_stack(struct dvt_chunk_ledger *l, const uint64_t *v)
{
    if (v[NO_STACK_REASON] < sizeof l->no_stack_by / sizeof *l->no_stack_by)
        l->no_stack_by[v[NO_STACK_REASON]] = v[NO_STACK_SAMPLES];
}

static void get_ledger(struct dvt_chunk_ledger *l, const uint64_t *v)
{
    l->samples = v[LEDGER_SAMPLES];
    l->no_stack = v[LEDGER_NO_STACK];
    l->ambiguous = v[LEDGER_AMBIGUOUS];
    l->shared = v[LEDGER_SHARED];
    l->scopes = v[LEDGER_SCOPES];
    l->cut_short = v[LEDGER_CUT];
    l->uncovered_ns = v[LEDGER_UNCOVERED];
    l->lost_samples = v[LEDGER_LOST];
}

static void get_process(struct fill *f, struct dvt_chunk_process *p, const uint64_t *v)
{
    p->pid = u32(v[PROCESS_PID], &f->bad);
    p->start_ticks = v[PROCESS_START];
    p->service = string_of(f->d, v[PROCESS_SERVICE], &f->bad);
    p->program = string_of(f->d, v[PROCESS_PROGRAM], &f->bad);
    p->runtime = string_of(f->d, v[PROCESS_RUNTIME], &f->bad);
    p->runtime_version = string_of(f->d, v[PROCESS_VERSION], &f->bad);
}

static void get_scope(struct fill *f, uint32_t i, const uint64_t *v)
{
    struct dec *d = f->d;
    struct dvt_chunk_scope *s = &f->c->scopes[i];
    s->thread = pool_index(&d->pools[R_THREAD], v[SCOPE_THREAD]);
    s->parent = index_of(v[SCOPE_PARENT], &f->bad);
    s->serial = v[SCOPE_SERIAL];
    s->start_ns = v[SCOPE_TIME];
    s->end_ns = s->start_ns + v[SCOPE_DURATION]; /* an overflow lies before its start: chunk_check */
    s->span = span_of(d, v[SCOPE_SPAN], &f->bad);
    s->parent_span = span_of(d, v[SCOPE_PARENT_SPAN], &f->bad);
    s->name = string_of(d, v[SCOPE_NAME], &f->bad);
    s->tag = string_of(d, v[SCOPE_TAG], &f->bad);
    s->flags = u32(v[SCOPE_FLAGS], &f->bad);
    f->bad = f->bad || v[SCOPE_ID] != i + 1ull;
}

static void get_times(struct fill *f, struct dvt_chunk_times *t, const uint64_t *v)
{
    *t = (struct dvt_chunk_times){
        .scope = index_of(v[TIMES_SCOPE], &f->bad),
        .waits = u32(v[TIMES_WAITS], &f->bad),
        .preemptions = u32(v[TIMES_PREEMPTIONS], &f->bad),
        .on_cpu_ns = v[TIMES_ON_CPU],
        .blocked_ns = v[TIMES_BLOCKED],
        .runnable_ns = v[TIMES_RUNNABLE],
        .unknown_ns = v[TIMES_UNKNOWN],
    };
}

static void get_run(struct fill *f, const uint64_t *v)
{
    f->bad = f->bad || f->run.n; /* the one before was longer than its samples */
    f->run.scope = index_of(v[RUN_SCOPE], &f->bad);
    f->run.n = v[RUN_SAMPLES];
    f->run.weight_ns = v[RUN_WEIGHT];
}

static void get_sample(struct fill *f, struct dvt_chunk_sample *s, const uint64_t *v)
{
    f->bad = f->bad || f->run.n == 0;
    f->run.n--;
    s->thread = pool_index(&f->d->pools[R_THREAD], v[SAMPLE_THREAD]);
    s->stack = pool_index(&f->d->pools[R_STACK], v[SAMPLE_STACK]);
    s->scope = f->run.scope;
    s->time_ns = v[SAMPLE_TIME];
    s->weight_ns = f->run.weight_ns;
}

static void get_event(struct fill *f, uint32_t record, const uint64_t *v)
{
    uint32_t i = f->next[record]++;
    switch (record) {
    case R_SAMPLE:
        get_sample(f, &f->c->samples[i], v);
        break;
    case R_RUN:
        get_run(f, v);
        break;
    case R_TIMES:
        get_times(f, &f->c->times[i], v);
        break;
    case R_PROCESS:
        get_process(f, &f->c->processes[i], v);
        break;
    case R_SCOPE:
        get_scope(f, i, v);
        break;
    case R_LABEL:
        f->label_scope[i] = index_of(v[LABEL_SCOPE], &f->bad);
        f->c->labels[i] = (struct dvt_label){string_of(f->d, v[LABEL_KEY], &f->bad),
                                             string_of(f->d, v[LABEL_VALUE], &f->bad)};
        break;
    case R_LINK:
        f->link_scope[i] = index_of(v[LINK_SCOPE], &f->bad);
        f->c->links[i] = trace_of(f->d, v[LINK_TRACE], &f->bad);
        break;
    case R_LEDGER:
        get_ledger(&f->c->ledger, v);
        break;
    case R_NO_STACK:
        get_no_stack(&f->c->ledger, v);
        break;
    default:
        break;
    }
}

static void fill_events(struct fill *f, const uint8_t *p, const uint8_t *end)
{
    struct event ev;
    struct jfr_values v = {0};
    while (next_event(f->d, &p, end, &ev)) {
        if (ev.record >= N_EVENTS)
            continue;
        jfr_run(&f->d->meta, &f->d->plans[ev.record], &ev.r, &v);
        f->bad = f->bad || ev.r.bad || ev.r.p != ev.r.end;
        get_event(f, ev.record, v.v);
    }
    f->bad = f->bad || !p || f->run.n;
}

/* Labels and links of one scope follow each other, scopes in order: our writer's rule, checked here. */
static void slice_scopes(struct fill *f)
{
    struct dvt_chunk *c = f->c;
    uint32_t label = 0, link = 0;
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        struct dvt_chunk_scope *s = &c->scopes[i];
        s->first_label = label;
        s->first_link = link;
        while (label < c->n_labels && f->label_scope[label] == i)
            label++;
        while (link < c->n_links && f->link_scope[link] == i)
            link++;
        s->n_labels = label - s->first_label;
        s->n_links = link - s->first_link;
    }
    f->bad = f->bad || label != c->n_labels || link != c->n_links;
}

/* ---- the result ---- */

static void fill_frames(struct fill *f)
{
    struct dec *d = f->d;
    for (uint32_t i = 0; i < f->c->n_frames; i++) {
        const uint32_t *k = d->frames.items[i];
        uint32_t m = pool_index(&d->pools[R_METHOD], k[0] | (uint64_t)k[1] << 32);
        uint32_t cls = m == UINT32_MAX ? m : pool_index(&d->pools[R_CLASS], d->methods[m][METHOD_CLASS]);
        uint32_t name = m == UINT32_MAX ? m : pool_index(&d->pools[R_SYMBOL], d->methods[m][METHOD_NAME]);
        uint32_t module =
            cls == UINT32_MAX ? cls : pool_index(&d->pools[R_SYMBOL], d->classes[cls][CLASS_MODULE]);
        uint32_t file =
            cls == UINT32_MAX ? cls : pool_index(&d->pools[R_SYMBOL], d->classes[cls][CLASS_FILE]);
        if (name == UINT32_MAX || module == UINT32_MAX || file == UINT32_MAX) {
            f->bad = true;
            return;
        }
        f->c->frames[i] =
            (struct dvt_chunk_frame){d->symbols[name], d->symbols[module], d->symbols[file], k[2], k[3]};
    }
}

static void *take(uintptr_t *at, uint64_t n, size_t size)
{
    void *p = (void *)*at;
    *at += (n * size + 15) / 16 * 16;
    return p;
}

/* Lays the arrays out from `at`; the processes first, so that the block is found again by them. Called with 0
 * first to learn the size. */
static uintptr_t lay_out(struct fill *f, uintptr_t at)
{
    struct dvt_chunk *c = f->c;
    c->processes = take(&at, c->n_processes + 1ull, sizeof *c->processes);
    c->threads = take(&at, c->n_threads, sizeof *c->threads);
    c->frames = take(&at, c->n_frames, sizeof *c->frames);
    c->stacks = take(&at, c->n_stacks, sizeof *c->stacks);
    c->stack_frames = take(&at, c->n_stack_frames, sizeof *c->stack_frames);
    c->scopes = take(&at, c->n_scopes, sizeof *c->scopes);
    c->labels = take(&at, c->n_labels, sizeof *c->labels);
    c->links = take(&at, c->n_links, sizeof *c->links);
    c->samples = take(&at, c->n_samples, sizeof *c->samples);
    c->times = take(&at, c->n_times, sizeof *c->times);
    return at;
}

/* Page faults are what a large chunk's decoding would cost most: huge pages where there are some. Freed by
 * free(). */
static void *block_alloc(size_t n)
{
    const size_t huge = 2 << 20;
    if (n < 2 * huge)
        return malloc(n);
    n = (n + huge - 1) / huge * huge;
    void *p = aligned_alloc(huge, n);
    if (p)
        madvise(p, n, MADV_HUGEPAGE); /* refused where there are none: then it is slower */
    return p;
}

static void copy(void *to, const void *from, size_t n)
{
    if (n)
        memcpy(to, from, n);
}

static int fill_chunk(struct fill *f, const uint8_t *events, const uint8_t *end)
{
    struct dvt_chunk *c = f->c;
    struct dec *d = f->d;
    fill_frames(f);
    copy(c->threads, d->threads, c->n_threads * sizeof *c->threads);
    copy(c->stacks, d->stacks, c->n_stacks * sizeof *c->stacks);
    copy(c->stack_frames, d->stack_frames, c->n_stack_frames * sizeof *c->stack_frames);
    fill_events(f, events, end);
    slice_scopes(f);
    if (f->bad)
        return dvt_dec_damaged(d, "events or frames");
    return dvt_chunk_check(c, DVT_EFORMAT, d->err);
}

static int make_chunk(struct dec *d, const uint8_t *events, const uint8_t *end, struct dvt_chunk *ret)
{
    struct dvt_chunk *c = &d->c;
    struct fill f = {.d = d, .c = c};
    c->n_processes = d->counts[R_PROCESS];
    c->n_threads = d->pools[R_THREAD].n;
    c->n_frames = d->frames.table.n;
    c->n_stacks = d->pools[R_STACK].n;
    c->n_stack_frames = d->n_stack_frames;
    c->n_scopes = d->counts[R_SCOPE];
    c->n_labels = d->counts[R_LABEL];
    c->n_links = d->counts[R_LINK];
    c->n_samples = d->counts[R_SAMPLE];
    c->n_times = d->counts[R_TIMES];
    void *block = block_alloc(lay_out(&f, 0));
    f.label_scope = malloc((c->n_labels + 1ull) * sizeof *f.label_scope);
    f.link_scope = malloc((c->n_links + 1ull) * sizeof *f.link_scope);
    int rc = DVT_ENOMEM;
    if (block && f.label_scope && f.link_scope) {
        lay_out(&f, (uintptr_t)block);
        rc = fill_chunk(&f, events, end);
    } else {
        d->rc = rc;
        dvt_dec_damaged(d, "tables");
    }
    free(f.label_scope);
    free(f.link_scope);
    if (!rc)
        *ret = *c;
    else
        free(block);
    return rc;
}

static void dec_free(struct dec *d)
{
    dvt_jfr_meta_fini(&d->meta);
    dvt_tuples_fini(&d->frames);
    free(d->symbols);
    free(d->strings);
    free(d->threads);
    free(d->classes);
    free(d->methods);
    free(d->stacks);
    free(d->stack_frames);
    free(d);
}

int dvt_chunk_decode(const uint8_t *p, size_t n, struct dvt_chunk *ret, struct dvt_err *err)
{
    struct jfr_head h;
    if (dvt_jfr_get_head(p, n, &h) || h.bytes != n)
        return dvt_fail(err, DVT_EFORMAT, 0, "chunk: not a whole, finished JFR chunk of %zu bytes", n);
    struct dec *d = calloc(1, sizeof *d);
    if (!d)
        return dvt_fail(err, DVT_ENOMEM, 0, "chunk: out of memory");
    d->err = err;
    int rc = dvt_jfr_meta_read(p + h.metadata, n - h.metadata, &d->meta, err);
    if (!rc)
        rc = dvt_dec_plans(d);
    if (!rc)
        rc = dvt_dec_pools(d, p + h.checkpoint, n - h.checkpoint);
    if (!rc)
        rc = count_events(d, p + JFR_HEADER_BYTES, p + n);
    if (!rc)
        rc = make_chunk(d, p + JFR_HEADER_BYTES, p + n, ret);
    dec_free(d);
    return rc;
}

void dvt_chunk_fini(struct dvt_chunk *c)
{
    free(c->processes);
    *c = (struct dvt_chunk){0};
}

int dvt_chunk_size(const uint8_t *p, size_t n, uint64_t *ret_size)
{
    struct jfr_head h;
    if (dvt_jfr_get_head(p, n, &h))
        return DVT_EFORMAT;
    *ret_size = h.bytes;
    return 0;
}
