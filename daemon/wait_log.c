/*
 * wait_log: see wait_log.h. A small automaton makes spans of records; a sum looks up the first span by halves.
 */
#include "wait_log.h"

#include "../proto/err.h"

#include <stdlib.h>
#include <string.h>

void wait_log_init(struct wait_log *w)
{
    *w = (struct wait_log){.state = WAIT_RUNS, .is_new = true};
}

void wait_log_fini(struct wait_log *w)
{
    free(w->spans);
    *w = (struct wait_log){0};
}

void wait_log_forget(struct wait_log *w)
{
    free(w->spans);
    w->spans = NULL;
    w->n = w->cap = 0;
    w->from_ns = w->last_ns;
    w->state_ns = w->last_ns;
}

static void add(struct wait_sums *to, const struct wait_sums *x)
{
    to->on_cpu_ns += x->on_cpu_ns;
    to->blocked_ns += x->blocked_ns;
    to->runnable_ns += x->runnable_ns;
    to->unknown_ns += x->unknown_ns;
    to->waits += x->waits;
    to->preemptions += x->preemptions;
}

/* ---- records ---- */

/* WAIT_LOG_FOLD spans to one, with what lies between them. */
static struct wait_span folded(const struct wait_span *v)
{
    struct wait_span f = {.start_ns = v->start_ns, .end_ns = v[WAIT_LOG_FOLD - 1].end_ns, .is_folded = true};
    uint64_t inside = 0;
    for (uint32_t i = 0; i < WAIT_LOG_FOLD; i++) {
        add(&f.sums, &v[i].sums);
        inside += v[i].end_ns - v[i].start_ns;
    }
    f.sums.on_cpu_ns += f.end_ns - f.start_ns - inside;
    return f;
}

static void fold_older_half(struct wait_log *w)
{
    const uint32_t half = WAIT_LOG_MAX / 2, n = half / WAIT_LOG_FOLD;
    for (uint32_t i = 0; i < n; i++)
        w->spans[i] = folded(w->spans + i * WAIT_LOG_FOLD);
    memmove(w->spans + n, w->spans + half, (w->n - half) * sizeof *w->spans);
    w->n -= half - n;
}

static int make_room(struct wait_log *w)
{
    if (w->n == WAIT_LOG_MAX)
        fold_older_half(w);
    if (w->n < w->cap)
        return 0;
    uint32_t cap = w->cap ? w->cap * 2 : 64;
    struct wait_span *v = realloc(w->spans, cap * sizeof *v);
    if (!v)
        return DVT_ENOMEM;
    w->spans = v;
    w->cap = cap;
    return 0;
}

static struct wait_sums sums_of(enum wait_state state, uint64_t ns)
{
    switch (state) {
    case WAIT_BLOCKED:
        return (struct wait_sums){.blocked_ns = ns, .waits = 1};
    case WAIT_READY:
        return (struct wait_sums){.runnable_ns = ns, .preemptions = 1};
    case WAIT_UNKNOWN:
        return (struct wait_sums){.unknown_ns = ns};
    default:
        return (struct wait_sums){.on_cpu_ns = ns};
    }
}

/* What the thread did up to a record of this kind, if nothing was lost in between. */
static enum wait_state state_before(const struct wait_log *w, enum switch_kind kind)
{
    bool ran = w->state == WAIT_RUNS, came_in = kind == SWITCH_IN;
    if (w->is_new && !w->gap && !came_in)
        return WAIT_RUNS; /* it fell asleep between the beginning and the look at it */
    return w->gap || ran == came_in ? WAIT_UNKNOWN : w->state;
}

static int put_record(struct wait_log *w, const struct switch_rec *r)
{
    uint64_t t = r->time_ns > w->last_ns ? r->time_ns : w->last_ns;
    enum wait_state was = state_before(w, r->kind);
    int rc = was == WAIT_RUNS || t == w->state_ns ? 0 : make_room(w);
    if (was != WAIT_RUNS && t > w->state_ns && !rc)
        w->spans[w->n++] = (struct wait_span){.start_ns = w->state_ns, .end_ns = t, .sums = sums_of(was, t - w->state_ns)};
    if (rc) { /* nothing is known of what the log does not hold */
        w->n = 0;
        w->from_ns = t;
    }
    w->gap = w->is_new = false;
    w->state = r->kind == SWITCH_IN ? WAIT_RUNS : r->kind == SWITCH_OUT ? WAIT_BLOCKED : WAIT_READY;
    w->state_ns = w->last_ns = t;
    return rc;
}

int wait_log_put(struct wait_log *w, const struct switches *s)
{
    int rc = 0;
    if (!w->from_ns) {
        w->from_ns = w->state_ns = w->last_ns = s->from_ns;
        w->state = s->slept ? WAIT_BLOCKED : WAIT_RUNS;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].kind == SWITCH_GAP)
            w->gap = true;
        else if (put_record(w, &s->v[i]))
            rc = DVT_ENOMEM;
    return rc;
}

/* ---- sums ---- */

/* The first span that ends behind t. */
static uint32_t first_behind(const struct wait_log *w, uint64_t t)
{
    uint32_t lo = 0, hi = w->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (w->spans[mid].end_ns <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static enum wait_state state_of(const struct wait_span *s)
{
    return s->sums.blocked_ns ? WAIT_BLOCKED : s->sums.runnable_ns ? WAIT_READY : WAIT_UNKNOWN;
}

/* The part of a span that lies in [start_ns, end_ns). */
static struct wait_sums part_of(const struct wait_span *s, uint64_t start_ns, uint64_t end_ns)
{
    if (start_ns <= s->start_ns && s->end_ns <= end_ns)
        return s->sums;
    uint64_t from = s->start_ns > start_ns ? s->start_ns : start_ns, to = s->end_ns < end_ns ? s->end_ns : end_ns;
    return sums_of(s->is_folded ? WAIT_UNKNOWN : state_of(s), to - from);
}

/* What follows the last record: the thread's state goes on; after a gap it is not known. */
static struct wait_sums tail_of(const struct wait_log *w, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t from = w->state_ns > start_ns ? w->state_ns : start_ns;
    return from < end_ns ? sums_of(w->gap ? WAIT_UNKNOWN : w->state, end_ns - from) : (struct wait_sums){0};
}

struct wait_sums wait_log_sum(const struct wait_log *w, uint64_t start_ns, uint64_t end_ns, uint64_t until_ns)
{
    struct wait_sums sum = {0};
    uint64_t wall = end_ns > start_ns ? end_ns - start_ns : 0;
    uint64_t from = start_ns > w->from_ns ? start_ns : w->from_ns, to = end_ns < until_ns ? end_ns : until_ns;
    if (!w->from_ns || to <= from)
        return (struct wait_sums){.unknown_ns = wall};
    for (uint32_t i = first_behind(w, from); i < w->n && w->spans[i].start_ns < to; i++) {
        struct wait_sums part = part_of(&w->spans[i], from, to);
        add(&sum, &part);
    }
    if (w->state != WAIT_RUNS || w->gap) {
        struct wait_sums tail = tail_of(w, from, to);
        add(&sum, &tail);
    }
    sum.unknown_ns += wall - (to - from);
    sum.on_cpu_ns = 0; /* of folded spans; all of the rest is */
    sum.on_cpu_ns = wall - sum.blocked_ns - sum.runnable_ns - sum.unknown_ns;
    return sum;
}
