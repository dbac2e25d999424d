/*
 * pipeline_message: reads one process's messages into threads, scopes, stacks and counts.
 *
 * A message is read through once before anything of it is used: a malformed one changes nothing. Single scopes that
 * cannot be (times, heads, references) are refused one by one and counted.
 */
#include "pipeline_state.h"

#include <stdlib.h>

struct reading {
    struct pipeline *p;
    struct proc_state *ps;
    struct thread_state *t;
};

/* ---- SCOPES ---- */

/* With nothing unusual about batch and thread, only scopes that hold a waiting sample are of use. */
static bool is_plain(const struct scope_batch *b, const struct thread_state *t)
{
    return b->is_sorted && !(b->all_flags & ~(uint32_t)SCOPE_BATCH_PLAIN) && !t->open.n && !t->lost &&
           b->max_close <= t->mark.drained && b->min_open >= t->early_head;
}

/* A sample of its stretch may still come, was taken before it was settled, or was lost: then the scope is kept as sent. */
static bool may_hold_sample(const struct thread_state *t, uint64_t open, uint64_t close)
{
    const uint64_t *offs = thread_state_offs(t);
    uint32_t n = thread_state_pending(t);
    return close > t->mark.drained || open < t->early_head || t->lost ||
           join_count_upto(offs, n, close) > join_count_upto(offs, n, open);
}

static bool is_wanted(const struct reading *r, const struct scope_batch *b, uint32_t i)
{
    if (b->flags[i] & ~(uint32_t)SCOPE_BATCH_PLAIN)
        return true;
    return may_hold_sample(r->t, scope_batch_open(b, i), b->close[i]) ||
           scope_list_find(&r->t->open, b->serial[i]) < r->t->open.n;
}

static void count_empty(const struct reading *r, uint64_t n)
{
    r->p->scopes.empty += n;
    r->ps->ledger.scopes_empty += n;
}

/* Takes impossible scopes out of b->keep[n]; returns how many stay. */
static uint32_t drop_bad(const struct reading *r, struct scope_batch *b, uint32_t n)
{
    uint32_t n_keep = 0;
    for (uint32_t k = 0; k < n; k++) {
        b->keep[n_keep] = b->keep[k];
        n_keep += !scope_batch_is_bad(b, b->keep[k]);
    }
    r->ps->ledger.scopes_bad += n - n_keep;
    return n_keep;
}

/* Only scopes that hold a sample are looked at: what the others say does not matter. */
static uint32_t choose_with_samples(const struct reading *r, struct scope_batch *b)
{
    struct join_scopes grown = {b->grown_open, b->grown_close, NULL, b->n_grown};
    uint32_t n = join_filter(&grown, thread_state_offs(r->t), thread_state_pending(r->t), b->keep);
    count_empty(r, b->n - n);
    if (!n)
        return 0;
    for (uint32_t k = 0; k < n; k++)
        b->keep[k] = b->grown[b->keep[k]];
    scope_batch_serials(b);
    return drop_bad(r, b, n);
}

/* Rows worth keeping go to b->keep. */
static uint32_t choose_rows(const struct reading *r, struct scope_batch *b)
{
    uint32_t n = 0;
    if (is_plain(b, r->t))
        return choose_with_samples(r, b);
    scope_batch_serials(b);
    scope_batch_flags(b);
    for (uint32_t i = 0; i < b->n; i++)
        b->keep[i] = i;
    uint32_t n_good = drop_bad(r, b, b->n);
    for (uint32_t k = 0; k < n_good; k++) {
        bool wanted = is_wanted(r, b, b->keep[k]);
        b->keep[n] = b->keep[k];
        n += wanted;
        count_empty(r, !wanted);
    }
    return n;
}

static bool same_trace(const struct scope *a, const struct scope *b)
{
    return memcmp(&a->trace, &b->trace, sizeof a->trace) == 0;
}

/* Puts s where its announcement was, if that part is still open. */
static struct trace_entry *replace_or_place(struct reading *r, struct scope *before, struct scope *s)
{
    if (!before->build)
        return pipeline_place_scope(r->p, s);
    trace_build_replace(before->build, before, s);
    return trace_table_find(&r->p->traces, &s->trace);
}

/* An announcement of a scope that had been told closed comes too late to say anything. */
static bool is_over(const struct thread_state *t, const struct dvt_scope_rec *rec)
{
    return rec->head_close <= t->mark.told;
}

/* Without a sample in it so far it may end untold, by rule: nothing may be given to it before its end is known. */
static bool may_end_untold(const struct dvt_scope_rec *rec)
{
    return rec->head_close == rec->head_open && !(rec->flags & DVT_SCOPE_ALWAYS);
}

/* True if there is nothing more to do with the announcement. */
static bool skip_announcement(struct reading *r, const struct dvt_scope_rec *rec)
{
    bool over = is_over(r->t, rec), idle = !over && may_end_untold(rec);
    r->p->scopes.merged += over;
    r->p->scopes.empty += idle;
    return over || idle;
}

static struct trace_entry *put_announced(struct reading *r, struct scope *s)
{
    struct thread_state *t = r->t;
    uint32_t i = scope_list_find(&t->open, s->serial);
    struct trace_entry *e;
    if (i < t->open.n) {
        struct scope *before = t->open.v[i];
        e = replace_or_place(r, before, s);
        s->counted = before->counted;
        t->open.v[i] = scope_ref(s);
        scope_unref(before);
        r->p->scopes.merged++;
        return e;
    }
    e = pipeline_place_scope(r->p, s);
    if (!e || scope_list_add(&t->open, s, DVT_MAX_DEPTH))
        return NULL;
    s->counted = true;
    e->n_open++;
    e->n_open_roots += scope_is_root(s);
    r->p->scopes.placed++;
    return e;
}

/* Into the index first: the trace counts the scopes whose samples may still come. */
static int put_index(struct thread_state *t, struct scope *s)
{
    if (s->flags & DVT_SCOPE_CROSS_THREAD) {
        s->indexed = true;
        return scope_list_add(&t->cross, s, PIPELINE_MAX_CROSS);
    }
    if (scope_index_reserve(&t->closed, 1))
        return DVT_ENOMEM;
    scope_index_put(&t->closed, s->head_open, s->head_close, s->serial, scope_ref(s));
    t->scope_bytes += s->bytes;
    s->indexed = true;
    return 0;
}

/* Sent only because its thread's arming was under way: it comes into its trace with its first sample, or not at all. */
static bool is_conditional(const struct scope *s)
{
    const uint32_t pending = DVT_SCOPE_LATE_ARMED | DVT_SCOPE_CROSS_THREAD;
    return (s->flags & pending) == pending && !(s->flags & DVT_SCOPE_ALWAYS);
}

/* NULL if it is in no trace: lost, or conditional. */
static struct trace_entry *put_closed(struct reading *r, struct scope *s)
{
    struct thread_state *t = r->t;
    uint32_t i = scope_list_find(&t->open, s->serial);
    if (put_index(t, s))
        return NULL;
    if (r->p->switched_ns >= s->end_ns) /* while the log is fresh; else at the trace's close */
        thread_state_sum_waits(t, s, r->p->switched_ns);
    s->conditional = i == t->open.n && is_conditional(s);
    if (s->conditional)
        return NULL;
    if (i == t->open.n) {
        struct trace_entry *e = pipeline_place_scope(r->p, s);
        r->p->scopes.placed += e != NULL;
        if (e)
            e->n_roots += scope_is_root(s);
        return e;
    }
    struct trace_entry *e = replace_or_place(r, t->open.v[i], s);
    pipeline_end_open(r->p, t, i); /* counts the root */
    r->p->scopes.merged++;
    return e;
}

/* Refuses a scope whose announcement named another trace. */
static bool is_consistent(const struct thread_state *t, const struct scope *s)
{
    uint32_t i = scope_list_find(&t->open, s->serial);
    return i == t->open.n || same_trace(t->open.v[i], s);
}

static void count_lost(const struct reading *r, uint64_t n)
{
    r->p->scopes.lost += n;
    r->ps->ledger.scopes_lost += n;
}

static void put_scope(struct reading *r, const struct dvt_scope_rec *rec)
{
    bool is_open = rec->flags & DVT_SCOPE_OPEN;
    if (is_open)
        watermark_announce(&r->t->mark, rec->head_close);
    if (is_open && skip_announcement(r, rec))
        return;
    struct scope *s = scope_new(rec);
    struct trace_entry *e = NULL;
    if (s) {
        s->thread = r->t;
        r->p->fed_bytes += s->bytes;
    }
    if (s && !is_consistent(r->t, s)) {
        r->ps->ledger.scopes_bad++;
    } else {
        e = !s ? NULL : is_open ? put_announced(r, s) : put_closed(r, s);
        count_lost(r, !e && !(s && s->conditional));
    }
    if (e)
        e->news_ns = r->p->now_ns;
    scope_unref(s);
}

static void put_rows(struct reading *r, struct scope_batch *b, uint32_t n_keep)
{
    for (uint32_t k = 0; k < n_keep; k++) {
        struct dvt_scope_rec rec;
        if (scope_batch_rec(b, b->keep[k], &rec))
            put_scope(r, &rec);
        else
            r->ps->ledger.scopes_bad++;
        pipeline_bound_memory(r->p);
    }
}

static void count_rows(struct reading *r, const struct scope_batch *b)
{
    uint64_t n_open = 0;
    for (uint32_t i = 0; (b->all_flags & DVT_SCOPE_OPEN) && i < b->n; i++)
        n_open += (b->flags[i] & DVT_SCOPE_OPEN) != 0;
    r->p->scopes.announced += n_open;
    r->ps->ledger.scopes += b->n - n_open;
}

static int read_scopes(struct reading *r, struct dvt_str map)
{
    struct dvt_scopes m;
    struct scope_batch *b = &r->p->batch;
    int rc = dvt_wire_get_scopes(map, &m, NULL);
    if (rc)
        return rc;
    r->t = pipeline_thread(r->p, (struct thread_key){r->ps->proc->index, m.tid, m.epoch});
    if (!r->t)
        return DVT_ELIMIT;
    if ((rc = scope_batch_load(b, &m, r->p->now_ns)))
        return rc;
    uint32_t n_keep = choose_rows(r, b);
    if (n_keep && (rc = scope_batch_details(b)))
        return rc;
    count_rows(r, b);
    put_rows(r, b, n_keep);
    watermark_tell(&r->t->mark, m.settled_head);
    if (r->t->wait_head && r->p->now_ns > r->t->wait_since_ns + PIPELINE_BURST_NS)
        r->t->wait_messages++;
    pipeline_mark_dirty(r->p, r->t);
    return 0;
}

/* ---- STACKS ---- */

enum { STACK_COLS64 = 2, STACK_COLS32 = 3, FRAME_COLS32 = 2 };

static int fit_stack_columns(struct pipeline *p, const struct dvt_stacks *m)
{
    size_t n64 = STACK_COLS64 * (size_t)m->n, n32 = STACK_COLS32 * (size_t)m->n + FRAME_COLS32 * (size_t)m->n_frames_total;
    if (n64 > p->cap_cols) {
        free(p->cols);
        p->cols = malloc(n64 * sizeof *p->cols);
        p->cap_cols = p->cols ? n64 : 0;
    }
    if (n32 > p->cap_cols32) {
        free(p->cols32);
        p->cols32 = malloc(n32 * sizeof *p->cols32);
        p->cap_cols32 = p->cols32 ? n32 : 0;
    }
    return n64 > p->cap_cols || n32 > p->cap_cols32 ? DVT_ENOMEM : 0;
}

/* A stack whose sample is gone, or that nothing can be done with, is not kept. */
static void put_stack(struct reading *r, const struct dvt_stack_rec *rec)
{
    struct stack *s = rec->n_frames <= DVT_MAX_FRAMES ? stack_new(&r->ps->codes, rec) : NULL;
    watermark_stack(&r->t->mark, rec->head, r->p->now_ns);
    if (s && stacks_put(&r->t->stacks, s))
        stack_free(s);
    else if (s)
        r->p->fed_bytes += s->bytes;
}

static void put_stacks(struct reading *r, const struct dvt_stacks *m)
{
    uint64_t *head = r->p->cols, *time = head + m->n, at = 0;
    uint32_t *reason = r->p->cols32, *depth = reason + m->n, *truncated = depth + m->n;
    uint32_t *code = truncated + m->n, *line = code + m->n_frames_total;
    dvt_col_expand_u64(&m->head, head);
    dvt_col_expand_u64(&m->time, time);
    dvt_col_expand_u32(&m->reason, reason);
    dvt_col_expand_u32(&m->depth, depth);
    dvt_col_expand_u32(&m->truncated, truncated);
    dvt_col_expand_u32(&m->code, code);
    dvt_col_expand_u32(&m->line, line);
    for (uint32_t i = 0; i < m->n && depth[i] <= m->n_frames_total - at; at += depth[i++])
        put_stack(r, &(struct dvt_stack_rec){head[i], time[i], reason[i], truncated[i], depth[i], code + at, line + at});
}

static int read_stacks(struct reading *r, struct dvt_str map)
{
    struct dvt_stacks m;
    int rc = dvt_wire_get_stacks(map, &m, NULL);
    if (rc)
        return rc;
    r->t = pipeline_thread(r->p, (struct thread_key){r->ps->proc->index, m.tid, m.epoch});
    if (!r->t)
        return DVT_ELIMIT;
    if ((rc = fit_stack_columns(r->p, &m)))
        return rc;
    put_stacks(r, &m);
    pipeline_mark_dirty(r->p, r->t);
    return 0;
}

/* ---- the others ---- */

static int read_code(struct reading *r, struct dvt_str map)
{
    struct dvt_code_info info;
    size_t pos = 0;
    int rc;
    while ((rc = dvt_wire_next_code(map, &pos, &info, NULL)) > 0)
        ;
    if (rc)
        return rc;
    for (pos = 0; dvt_wire_next_code(map, &pos, &info, NULL) > 0;)
        (void)codetable_put(&r->ps->codes, &info); /* refused: its stacks will say so */
    return 0;
}

static void put_thread(struct reading *r, const struct dvt_thread_info *info)
{
    struct thread_state *t = pipeline_thread(r->p, (struct thread_key){r->ps->proc->index, info->tid, info->epoch});
    if (!t)
        return;
    thread_state_set_name(t, info->name);
    if (info->armed_head > t->armed_head)
        t->armed_head = info->armed_head;
    if (info->ended) {
        watermark_tell(&t->mark, UINT64_MAX);
        pipeline_mark_dirty(r->p, t);
    }
    if (info->uncovered_ns > t->uncovered_ns) {
        r->ps->ledger.uncovered_ns += info->uncovered_ns - t->uncovered_ns;
        t->uncovered_ns = info->uncovered_ns;
    }
}

static int read_threads(struct reading *r, struct dvt_str map)
{
    struct dvt_thread_info info;
    size_t pos = 0;
    int rc;
    while ((rc = dvt_wire_next_thread(map, &pos, &info, NULL)) > 0)
        ;
    if (rc)
        return rc;
    for (pos = 0; dvt_wire_next_thread(map, &pos, &info, NULL) > 0;)
        put_thread(r, &info);
    return 0;
}

static int read_dropped(struct reading *r, struct dvt_str map)
{
    struct dvt_dropped d;
    size_t pos = 0;
    int rc;
    while ((rc = dvt_wire_next_dropped(map, &pos, &d, NULL)) > 0)
        ;
    if (rc)
        return rc;
    for (pos = 0; dvt_wire_next_dropped(map, &pos, &d, NULL) > 0;)
        pipeline_count_dropped(r->p, r->ps->proc->service, d.name, d.count);
    return 0;
}

static int read_counts(struct reading *r, struct dvt_str map, bool bye)
{
    struct dvt_shim_counts c;
    uint64_t then_ns;
    int rc = dvt_wire_get_counts(map, &c, &then_ns, NULL);
    if (rc)
        return rc;
    r->ps->shim = c;
    r->ps->bye = r->ps->bye || bye;
    return 0;
}

int pipeline_read_message(struct pipeline *p, struct proc_state *ps, struct dvt_str body)
{
    struct reading r = {p, ps, NULL};
    struct dvt_str map;
    uint32_t type;
    int rc = dvt_wire_type(body, &type, &map, NULL);
    if (rc)
        return rc;
    switch (type) {
    case DVT_MSG_THREADS:
        return read_threads(&r, map);
    case DVT_MSG_SCOPES:
        return read_scopes(&r, map);
    case DVT_MSG_STACKS:
        return read_stacks(&r, map);
    case DVT_MSG_CODE:
        return read_code(&r, map);
    case DVT_MSG_DROPPED:
        return read_dropped(&r, map);
    case DVT_MSG_HEARTBEAT:
    case DVT_MSG_BYE:
        return read_counts(&r, map, type == DVT_MSG_BYE);
    default:
        return 0; /* a type of a later minor version */
    }
}
