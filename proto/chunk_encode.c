/*
 * chunk_encode: struct dvt_chunk -> one JFR chunk.
 *
 * Layout: header, metadata, events (trace, processes, scopes with their labels and links, their times, samples, ledger),
 * one checkpoint with all constant pools. Ticks are CLOCK_MONOTONIC ns. Sizes and offsets are final before
 * anything is written to a file.
 *
 * How frames print: `jfr print` shows Class.name + "." + Method.name. Class.name is the module's last path
 * component, for managed frames without its extension (orders.py, Orders.total -> "orders.Orders.total()"),
 * for native ones with it ("libc.so.6.memcpy()"); it is empty for special frames. jfrconv shows only the
 * method for native frames. Class.module and Class.file hold both names whole, and these are what
 * dvt_chunk_decode reads.
 *
 * Strings are cleaned (dvt_utf8_clean, control characters too) and cut to DVT_CHUNK_MAX_STRING bytes.
 */
#include "chunk_enc.h"

#include <stdio.h>
#include <stdlib.h>
#include "chunk_check.h"
#include "jfr_schema.h"

/* Every event fits: at most 12 integers of 9 bytes, one size byte, one type byte. */
enum { EVENT_ROOM = 127 };

static uint32_t out_of_memory(struct enc *e)
{
    e->rc = DVT_ENOMEM;
    return 0;
}

/* ---- strings ---- */

static bool is_plain(struct dvt_str s)
{
    if (s.n > DVT_CHUNK_MAX_STRING)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((uint8_t)s.p[i] < 0x20 || (uint8_t)s.p[i] >= 0x7f)
            return false;
    return true;
}

static struct dvt_str text_copy(struct enc *e, struct dvt_str s)
{
    struct text *t = malloc(sizeof *t + s.n + 1);
    if (!t)
        return out_of_memory(e), dvt_str("");
    memcpy(t->b, s.p, s.n);
    t->next = e->texts;
    e->texts = t;
    return (struct dvt_str){t->b, s.n};
}

/* is_passing: s lies in a buffer that will not last. */
static uint32_t intern(struct enc *e, struct dvt_strings *t, struct dvt_str s, bool is_passing)
{
    uint32_t before = t->table.n, i = dvt_strings_put(t, s);
    if (i == UINT32_MAX)
        return out_of_memory(e);
    if (is_passing && t->table.n > before)
        t->items[i] = text_copy(e, s);
    return i;
}

static uint32_t intern_clean(struct enc *e, struct dvt_strings *t, struct dvt_str s)
{
    char buf[DVT_CHUNK_MAX_STRING + 1];
    if (is_plain(s))
        return intern(e, t, s, false);
    size_t n = dvt_utf8_clean(s.p, s.n, true, buf, sizeof buf);
    return intern(e, t, (struct dvt_str){buf, n}, true);
}

static uint32_t symbol(struct enc *e, struct dvt_str s)
{
    return intern_clean(e, &e->symbols, s);
}

/* Key into the pool of strings; 0 (null) for an empty one. */
static uint64_t string_key(struct enc *e, struct dvt_str s)
{
    return s.n ? e->base + intern_clean(e, &e->strings, s) : 0;
}

static uint64_t trace_key(struct enc *e, const struct dvt_trace_id *id)
{
    char hex[DVT_TRACE_HEX + 1];
    dvt_trace_id_format(id, hex);
    return e->base + intern(e, &e->strings, (struct dvt_str){hex, DVT_TRACE_HEX}, true);
}

static uint64_t span_key(struct enc *e, const struct dvt_span_id *id)
{
    char hex[DVT_SPAN_HEX + 1];
    if (dvt_span_id_is_zero(id))
        return 0;
    dvt_span_id_format(id, hex);
    return e->base + intern(e, &e->strings, (struct dvt_str){hex, DVT_SPAN_HEX}, true);
}

/* ---- frames ---- */

static struct dvt_str display_class(const struct dvt_chunk_frame *f)
{
    struct dvt_str s = f->kind == DVT_FRAME_SPECIAL ? dvt_str("") : f->module;
    const char *slash = s.n ? memrchr(s.p, '/', s.n) : NULL;
    if (slash)
        s = (struct dvt_str){slash + 1, s.n - (size_t)(slash + 1 - s.p)};
    bool is_managed = f->kind == DVT_FRAME_MANAGED || f->kind == DVT_FRAME_JIT;
    const char *dot = is_managed && s.n ? memrchr(s.p, '.', s.n) : NULL;
    if (dot && dot > s.p)
        s.n = (size_t)(dot - s.p);
    return s;
}

static uint32_t tuple(struct enc *e, struct dvt_tuples *t, const uint32_t v[DVT_TUPLE])
{
    uint32_t i = dvt_tuples_put(t, v);
    return i == UINT32_MAX ? out_of_memory(e) : i;
}

static void put_frames(struct enc *e)
{
    e->frame_method = malloc((e->c->n_frames + 1ul) * sizeof *e->frame_method);
    if (!e->frame_method) {
        out_of_memory(e);
        return;
    }
    symbol(e, dvt_str("()V")); /* index 0: every method's descriptor */
    for (uint32_t i = 0; i < e->c->n_frames && !e->rc; i++) {
        const struct dvt_chunk_frame *f = &e->c->frames[i];
        uint32_t cls[DVT_TUPLE] = {symbol(e, display_class(f)), symbol(e, f->module), symbol(e, f->file)};
        uint32_t method[DVT_TUPLE] = {tuple(e, &e->classes, cls), symbol(e, f->name)};
        e->frame_method[i] = tuple(e, &e->methods, method);
    }
}

/* ---- events ---- */

static bool event_begin(struct enc *e, uint8_t type)
{
    if (!jfr_room(&e->w, EVENT_ROOM))
        return false;
    e->event = e->w.p++;
    jfr_put_byte(&e->w, type);
    return true;
}

static void event_end(struct enc *e)
{
    *e->event = (uint8_t)(e->w.p - e->event);
}

static uint64_t index_or_none(uint32_t i)
{
    return i == DVT_NONE ? 0 : i + 1ull;
}

static void put_trace(struct enc *e)
{
    const struct dvt_chunk *c = e->c;
    if (!event_begin(e, JFR_DVT_TRACE))
        return;
    put(e, c->start_ns);
    put(e, c->end_ns - c->start_ns);
    put(e, DVT_CHUNK_MAJOR);
    put(e, DVT_CHUNK_MINOR);
    put(e, trace_key(e, &c->trace));
    put(e, c->part);
    put(e, string_key(e, c->host));
    put(e, string_key(e, c->event));
    put(e, c->period_ns);
    put(e, (uint64_t)c->unix_offset_ns);
    event_end(e);
}

/* What jfrconv's heat maps ask for: the sampling interval as a setting. */
static void put_interval(struct enc *e)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)e->c->period_ns);
    if (!event_begin(e, JFR_ACTIVE_SETTING))
        return;
    put(e, e->c->start_ns);
    put(e, JFR_EXECUTION_SAMPLE);
    jfr_put_utf8(&e->w, dvt_str("interval"));
    jfr_put_utf8(&e->w, (struct dvt_str){text, (size_t)n});
    event_end(e);
}

static void put_processes(struct enc *e)
{
    for (uint32_t i = 0; i < e->c->n_processes && event_begin(e, JFR_DVT_PROCESS); i++) {
        const struct dvt_chunk_process *p = &e->c->processes[i];
        put(e, e->c->start_ns);
        put(e, p->pid);
        put(e, p->start_ticks);
        put(e, string_key(e, p->service));
        put(e, string_key(e, p->program));
        put(e, string_key(e, p->runtime));
        put(e, string_key(e, p->runtime_version));
        event_end(e);
    }
}

static void put_span(struct enc *e, const struct dvt_chunk_scope *s, uint64_t tag)
{
    if (!tag || !event_begin(e, JFR_SPAN))
        return;
    put(e, s->start_ns);
    put(e, s->end_ns - s->start_ns);
    put(e, key(e, s->thread));
    put(e, tag);
    event_end(e);
}

static void put_scope(struct enc *e, uint32_t i)
{
    const struct dvt_chunk_scope *s = &e->c->scopes[i];
    uint64_t tag = string_key(e, s->tag);
    if (!event_begin(e, JFR_DVT_SCOPE))
        return;
    put(e, s->start_ns);
    put(e, s->end_ns - s->start_ns);
    put(e, key(e, s->thread));
    put(e, i + 1ull);
    put(e, index_or_none(s->parent));
    put(e, s->serial);
    put(e, trace_key(e, &e->c->trace));
    put(e, span_key(e, &s->span));
    put(e, span_key(e, &s->parent_span));
    put(e, string_key(e, s->name));
    put(e, tag);
    put(e, s->flags);
    event_end(e);
    put_span(e, s, tag);
}

static void put_labels(struct enc *e, uint32_t i)
{
    const struct dvt_chunk_scope *s = &e->c->scopes[i];
    for (uint32_t k = 0; k < s->n_labels && event_begin(e, JFR_DVT_LABEL); k++) {
        const struct dvt_label *l = &e->c->labels[s->first_label + k];
        put(e, s->start_ns);
        put(e, i + 1ull);
        put(e, string_key(e, l->key));
        put(e, string_key(e, l->value));
        event_end(e);
    }
    for (uint32_t k = 0; k < s->n_links && event_begin(e, JFR_DVT_LINK); k++) {
        put(e, s->start_ns);
        put(e, i + 1ull);
        put(e, trace_key(e, &e->c->links[s->first_link + k]));
        event_end(e);
    }
}

static void put_times(struct enc *e)
{
    for (uint32_t i = 0; i < e->c->n_times && event_begin(e, JFR_DVT_SCOPE_TIME); i++) {
        const struct dvt_chunk_times *t = &e->c->times[i];
        put(e, e->c->scopes[t->scope].start_ns);
        put(e, t->scope + 1ull);
        put(e, t->on_cpu_ns);
        put(e, t->blocked_ns);
        put(e, t->runnable_ns);
        put(e, t->unknown_ns);
        put(e, t->waits);
        put(e, t->preemptions);
        event_end(e);
    }
}

/* How many samples from the i-th on have its scope and weight. */
static uint32_t run_length(const struct dvt_chunk *c, uint32_t i)
{
    const struct dvt_chunk_sample *s = &c->samples[i];
    uint32_t n = 1;
    while (n < c->n_samples - i && s[n].scope == s->scope && s[n].weight_ns == s->weight_ns)
        n++;
    return n;
}

/* False: no room. */
static bool put_run(struct enc *e, uint32_t i, uint32_t n)
{
    const struct dvt_chunk_sample *s = &e->c->samples[i];
    if (!event_begin(e, JFR_DVT_SAMPLE_RUN))
        return false;
    put(e, s->time_ns);
    put(e, index_or_none(s->scope));
    put(e, n);
    put(e, s->weight_ns);
    event_end(e);
    return true;
}

static void put_samples(struct enc *e)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < e->c->n_samples; i++, left--) {
        const struct dvt_chunk_sample *s = &e->c->samples[i];
        if ((!left && !put_run(e, i, left = run_length(e->c, i))) || !event_begin(e, JFR_EXECUTION_SAMPLE))
            return;
        put(e, s->time_ns);
        put(e, key(e, s->thread));
        put(e, key(e, s->stack));
        put(e, STATE_DEFAULT);
        event_end(e);
    }
}

static void put_ledger(struct enc *e)
{
    const struct dvt_chunk_ledger *l = &e->c->ledger;
    enum { REASONS = sizeof l->no_stack_by / sizeof *l->no_stack_by };
    if (!event_begin(e, JFR_DVT_LEDGER))
        return;
    put(e, e->c->start_ns);
    put(e, l->samples);
    put(e, l->no_stack);
    put(e, l->ambiguous);
    put(e, l->shared);
    put(e, l->scopes);
    put(e, l->cut_short);
    put(e, l->uncovered_ns);
    put(e, l->lost_samples);
    event_end(e);
    for (uint32_t i = 0; i < REASONS; i++) {
        if (!l->no_stack_by[i])
            continue;
        if (!event_begin(e, JFR_DVT_NO_STACK))
            return;
        put(e, e->c->start_ns);
        put(e, i);
        put(e, l->no_stack_by[i]);
        event_end(e);
    }
}

static void put_events(struct enc *e)
{
    put_trace(e);
    put_interval(e);
    put_processes(e);
    for (uint32_t i = 0; i < e->c->n_scopes && !e->rc; i++) {
        put_scope(e, i);
        put_labels(e, i);
    }
    put_times(e);
    put_samples(e);
    put_ledger(e);
}

/* ---- the chunk ---- */

/* No pool of c can have more entries. */
static uint64_t keys_at_most(const struct dvt_chunk *c)
{
    return 16 + 4ull * c->n_frames + 5ull * c->n_scopes + 2ull * c->n_labels + c->n_links +
           4ull * c->n_processes + c->n_threads + c->n_stacks;
}

static uint32_t keys_used(const struct enc *e)
{
    uint32_t n[] = {e->symbols.table.n, e->strings.table.n, e->classes.table.n,
                    e->methods.table.n, e->c->n_stacks,     e->c->n_threads};
    uint32_t max = 1;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        max = n[i] > max ? n[i] : max;
    return max;
}

static void put_chunk(struct enc *e)
{
    struct jfr_header h = {.start_unix_ns = (int64_t)(e->c->start_ns + (uint64_t)e->c->unix_offset_ns),
                           .start_ticks = e->c->start_ns,
                           .duration_ns = e->c->end_ns - e->c->start_ns};
    size_t start = e->w.b->n;
    if (!jfr_room(&e->w, JFR_HEADER_BYTES))
        return;
    e->w.p += JFR_HEADER_BYTES;
    h.metadata = JFR_HEADER_BYTES;
    dvt_jfr_metadata(&e->w, e->c->n_times > 0);
    put_frames(e);
    if (!e->w.rc && !e->rc)
        put_events(e);
    h.checkpoint = jfr_at(&e->w) - start;
    if (!e->w.rc && !e->rc)
        dvt_enc_pools(e);
    h.bytes = jfr_at(&e->w) - start;
    if (!e->w.rc)
        dvt_jfr_header(e->w.b->p + start, &h);
}

static void enc_fini(struct enc *e)
{
    dvt_strings_fini(&e->symbols);
    dvt_strings_fini(&e->strings);
    dvt_tuples_fini(&e->classes);
    dvt_tuples_fini(&e->methods);
    free(e->frame_method);
    for (struct text *t = e->texts, *next; t; t = next) {
        next = t->next;
        free(t);
    }
}

int dvt_chunk_encode(const struct dvt_chunk *c, uint32_t *key_base, struct dvt_buf *out, struct dvt_err *err)
{
    int rc = dvt_chunk_check(c, DVT_EINVAL, err);
    if (rc)
        return rc;
    uint64_t most = keys_at_most(c);
    if (most >= INT32_MAX)
        return dvt_fail(err, DVT_ELIMIT, 0,
                        "chunk: too many different strings; write the trace in smaller parts");
    struct enc e = {.c = c, .base = *key_base ? *key_base : 1};
    if (e.base + most >= INT32_MAX)
        e.base = 1;
    size_t before = out->n;
    dvt_jfr_open(&e.w, out);
    put_chunk(&e);
    dvt_jfr_close(&e.w);
    rc = e.rc ? e.rc : e.w.rc;
    if (!rc && out->n - before > INT32_MAX)
        rc = DVT_ELIMIT; /* sizes inside are 35-bit, but readers keep offsets in 32 */
    if (!rc)
        *key_base = (uint32_t)(e.base + keys_used(&e));
    enc_fini(&e);
    if (!rc)
        return 0;
    out->n = before;
    return dvt_fail(err, rc, 0,
                    rc == DVT_ELIMIT ? "chunk: larger than %zu bytes" : "chunk: out of memory (%zu bytes)",
                    out->max);
}
