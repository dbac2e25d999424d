/*
 * pipeline_join: gives one thread's samples to scopes and traces.
 *
 * A sample's candidates are the closed scopes that hold it and the announced open ones whose stretch up to the announcement
 * holds it; the last opened wins. What "decided" means depends on how much is known:
 * - settled: sampler and shim have both passed it; no candidate means it lies outside;
 * - at or below an announcement's head: every scope that holds it is closed and told, or announced;
 * - above, its closed candidate did not end out of order: scopes opened later inside it ended, and were told, before it.
 */
#include "pipeline_state.h"

#include <stdlib.h>

struct joining {
    struct pipeline *p;
    struct proc_state *ps;
    struct thread_state *t;
    enum pipeline_how how;
    uint64_t settled;   /* decided up to here */
    uint64_t known;     /* up to here all scopes are known, open ones included */
    uint64_t newest_ns; /* KNOWN looks at samples up to here */
};

static int fit_scratch(struct pipeline *p, uint32_t n_rows, uint32_t n_samples)
{
    if (n_rows > p->cap_join_stack) {
        free(p->join_stack);
        p->join_stack = malloc(2 * (size_t)n_rows * sizeof *p->join_stack);
        p->cap_join_stack = p->join_stack ? 2 * n_rows : 0;
    }
    if (n_samples > p->cap_join_rows) {
        free(p->join_rows);
        p->join_rows = malloc(2 * (size_t)n_samples * sizeof *p->join_rows);
        p->cap_join_rows = p->join_rows ? 2 * n_samples : 0;
    }
    return p->cap_join_stack < n_rows || p->cap_join_rows < n_samples ? DVT_ENOMEM : 0;
}

/* ---- managed stacks ---- */

/* The first settled sample that should wait for its managed stack, as place among the pending; n if none. */
static uint32_t first_without_stack(const struct thread_state *t, uint64_t settled)
{
    const uint64_t *offs = thread_state_offs(t);
    uint32_t n = thread_state_pending(t), i = join_count_upto(offs, n, t->stacks_due);
    while (i < n && offs[i] <= settled && stacks_has(&t->stacks, offs[i]))
        i++;
    return i < n && offs[i] <= settled ? i : n;
}

/* Samples settled together wait together, so that a thread without any stacks is late once, not once per sample. */
static bool wait_is_over(struct pipeline *p, struct thread_state *t, uint64_t settled)
{
    if (!t->wait_head) {
        t->wait_head = settled;
        t->wait_since_ns = p->now_ns;
        t->wait_messages = 0;
    }
    if (!t->wait_messages && p->now_ns - t->wait_since_ns < PIPELINE_STACK_WAIT_NS)
        return false;
    t->stacks_due = t->wait_head;
    t->wait_head = 0;
    return true;
}

static uint64_t decided_head(const struct joining *j)
{
    uint64_t settled = watermark_settled(&j->t->mark);
    if (!j->ps->proc->has_walker || j->how != PIPELINE_SETTLED)
        return settled;
    for (;;) {
        uint32_t i = first_without_stack(j->t, settled);
        if (i == thread_state_pending(j->t)) {
            j->t->wait_head = 0;
            return settled;
        }
        if (!wait_is_over(j->p, j->t, settled))
            return thread_state_offs(j->t)[i] - 1;
    }
}

/* ---- one sample ---- */

static struct scope *later_opened(struct scope *a, struct scope *b)
{
    return !a || b->serial > a->serial ? b : a;
}

static bool holds(const struct scope *s, uint64_t off)
{
    return s->head_open < off && off <= s->head_close;
}

/* An announced scope that was not told closed runs on to where knowledge ends; but not into what is settled: what lies there
 * was told. */
static bool open_holds(const struct joining *j, const struct scope *s, uint64_t off)
{
    return holds(s, off) || (s->head_open < off && off > j->t->mark.told && off <= j->known);
}

/* A scope opened before its ring was there has no head of its own to begin at: its time says where it began. */
static bool began_before(const struct scope *s, uint64_t time_ns)
{
    return !(s->flags & (DVT_SCOPE_LATE_ARMED | DVT_SCOPE_REARMED)) || s->start_ns <= time_ns;
}

/* The closed scope that the columns name, or the last opened around it that had begun. */
static struct scope *closed_candidate(const struct thread_state *t, const struct sample *s, uint32_t row)
{
    struct scope *best = row < JOIN_AMBIGUOUS ? t->closed.scopes[row] : NULL;
    if (!best || began_before(best, s->time_ns))
        return best;
    best = NULL;
    for (uint32_t i = 0; i < t->closed.n; i++)
        if (holds(t->closed.scopes[i], s->end_off) && began_before(t->closed.scopes[i], s->time_ns))
            best = later_opened(best, t->closed.scopes[i]);
    return best;
}

static struct scope *candidate(const struct joining *j, const struct sample *s, uint32_t row)
{
    const struct thread_state *t = j->t;
    struct scope *best = closed_candidate(t, s, row);
    for (uint32_t i = 0; i < t->cross.n; i++)
        if (holds(t->cross.v[i], s->end_off) && s->time_ns < t->cross.v[i]->end_ns &&
            began_before(t->cross.v[i], s->time_ns))
            best = later_opened(best, t->cross.v[i]);
    for (uint32_t i = 0; i < t->open.n; i++)
        if (open_holds(j, t->open.v[i], s->end_off) && began_before(t->open.v[i], s->time_ns))
            best = later_opened(best, t->open.v[i]);
    return best;
}

static bool is_known(const struct joining *j, const struct sample *s, const struct scope *best)
{
    if (!best || s->time_ns > j->newest_ns)
        return false;
    return s->end_off <= j->known || !(best->flags & (DVT_SCOPE_OUT_OF_ORDER | DVT_SCOPE_CROSS_THREAD));
}

struct trace_entry *pipeline_place_scope(struct pipeline *p, struct scope *s)
{
    struct proc_state *ps = pipeline_proc(p, s->thread->key.process);
    struct trace_entry *e = ps ? trace_table_enter(&p->traces, &s->trace, p->now_ns) : NULL;
    struct trace_build *b = e ? trace_entry_build(e, p->now_ns) : NULL;
    if (!b || trace_build_scope(b, s, ps->proc))
        return NULL;
    if (p->traces.next_due_ns > p->now_ns)
        p->traces.next_due_ns = p->now_ns;
    return e;
}

/* A scope that comes into a part brings the open scopes around it, so that the part shows where it lies. */
static struct trace_entry *place_with_open(struct pipeline *p, struct scope *s)
{
    struct trace_entry *e = pipeline_place_scope(p, s);
    const struct scope_list *open = &s->thread->open;
    for (uint32_t i = 0; e && i < open->n; i++)
        if (open->v[i]->serial < s->serial && !open->v[i]->build &&
            memcmp(&open->v[i]->trace, &s->trace, sizeof s->trace) == 0)
            pipeline_place_scope(p, open->v[i]);
    return e;
}

static struct trace_entry *entry_of(struct pipeline *p, struct scope *s)
{
    if (s->build)
        return trace_table_find(&p->traces, &s->trace);
    struct trace_entry *e = place_with_open(p, s);
    if (e && s->conditional) {
        s->conditional = false;
        p->scopes.placed++;
        e->n_roots += scope_is_root(s);
        e->news_ns = p->now_ns;
    }
    return e;
}

static bool is_missing(uint32_t reason)
{
    return reason != DVT_STACK_OK && reason != DVT_STACK_NO_THREAD_STATE;
}

/* Gives the sample to the scope; it belongs to the trace then. */
static void deliver(const struct joining *j, struct sample *s, struct scope *to)
{
    bool walks = j->ps->proc->has_walker;
    struct stack *stack = walks ? stacks_take(&j->t->stacks, s->end_off) : NULL;
    uint32_t reason = stack ? stack->reason : walks ? DVT_STACK_NO_SIGNAL : DVT_STACK_OK;
    uint64_t weight_ns = j->p->cfg.period_ns ? j->p->cfg.period_ns : s->period;
    struct trace_entry *e = entry_of(j->p, to);
    if (!e || trace_build_sample(to->build, to, s, weight_ns, stack, reason)) {
        j->ps->ledger.lost_queue++;
        free(s);
    } else {
        j->ps->ledger.joined++;
        j->ps->ledger.no_stack += is_missing(reason);
        if (e->build->n_samples >= j->p->rules.part_cap_samples)
            pipeline_close_part(j->p, e);
    }
    stack_free(stack);
}

/* Two scopes of one serial hold it: counted in the traces of both, given to none. */
static void count_ambiguous(const struct joining *j, struct sample *s)
{
    const struct scope_index *x = &j->t->closed;
    uint64_t serial = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (holds(x->scopes[i], s->end_off) && x->serial[i] > serial)
            serial = x->serial[i];
    for (uint32_t i = 0; i < x->n; i++)
        if (x->serial[i] == serial && holds(x->scopes[i], s->end_off) && x->scopes[i]->build)
            x->scopes[i]->build->ambiguous++;
    j->ps->ledger.ambiguous++;
    free(s);
}

/* A short first period goes on until the thread's own signal handler sets the next: only the sample that ends it counts. */
static bool is_repeat(const struct thread_state *t, const struct sample *s)
{
    return s->end_off <= t->armed_head && s->end_off != t->first_off;
}

/* Decides on one sample, if that is possible yet; true if it is gone. */
static bool decide(const struct joining *j, struct sample *s, uint32_t row)
{
    struct ledger *l = &j->ps->ledger;
    if (is_repeat(j->t, s)) {
        l->repeated++;
        free(s);
        return true;
    }
    struct scope *best = candidate(j, s, row);
    bool is_settled = s->end_off <= j->settled;
    if (row == JOIN_AMBIGUOUS && (is_settled || j->how == PIPELINE_FINAL)) {
        count_ambiguous(j, s);
        return true;
    }
    if (best && row != JOIN_AMBIGUOUS && (is_settled || is_known(j, s, best))) {
        if (s->end_off > watermark_settled(&j->t->mark) && s->end_off > j->t->early_head)
            j->t->early_head = s->end_off;
        deliver(j, s, best);
        return true;
    }
    if (!is_settled && j->how != PIPELINE_FINAL)
        return false;
    l->outside += is_settled;
    l->lost_end += !is_settled;
    free(s);
    return true;
}

/* ---- the thread ---- */

static void decide_all(const struct joining *j, uint32_t m)
{
    struct thread_state *t = j->t;
    struct join_scopes columns = {t->closed.open, t->closed.close, t->closed.serial, t->closed.n};
    join_innermost(&columns, thread_state_offs(t), m, j->p->join_stack, j->p->join_rows);
    for (uint32_t i = 0; i < m; i++) {
        struct sample *s = t->samples[t->first + i];
        size_t bytes = s->bytes;
        if (!decide(j, s, j->p->join_rows[i]))
            continue;
        t->samples[t->first + i] = NULL;
        t->sample_bytes -= bytes;
        j->ps->ledger.pending--;
    }
    thread_state_compact(t, m);
}

static void release(struct scope *s)
{
    s->indexed = false;
    if (s->build)
        s->build->n_indexed--;
    scope_unref(s);
}

/* Drops closed scopes whose stretch is drained and holds no waiting sample. */
static void retire_closed(struct pipeline *p, struct thread_state *t)
{
    struct scope_index *x = &t->closed;
    uint32_t n_drained = join_count_upto(x->close, x->n, t->mark.drained), next = 0;
    struct join_scopes columns = {x->open, x->close, x->serial, n_drained};
    uint32_t *keep = p->join_stack;
    uint32_t n_keep = join_filter(&columns, thread_state_offs(t), thread_state_pending(t), keep);
    for (uint32_t i = n_drained; i < x->n; i++)
        keep[n_keep++] = i;
    for (uint32_t i = 0; i < x->n; i++) {
        if (next < n_keep && keep[next] == i) {
            next++;
            continue;
        }
        t->scope_bytes -= x->scopes[i]->bytes;
        release(x->scopes[i]);
    }
    scope_index_keep(x, keep, n_keep);
}

static bool holds_pending(const struct thread_state *t, const struct scope *s)
{
    const uint64_t *offs = thread_state_offs(t);
    uint32_t n = thread_state_pending(t);
    return join_count_upto(offs, n, s->head_close) > join_count_upto(offs, n, s->head_open);
}

static void count_empty(struct pipeline *p, const struct thread_state *t)
{
    struct proc_state *ps = pipeline_proc(p, t->key.process);
    p->scopes.empty++;
    if (ps)
        ps->ledger.scopes_empty++;
}

static void retire_cross(struct pipeline *p, struct thread_state *t)
{
    for (uint32_t i = t->cross.n; i-- > 0;) {
        struct scope *s = t->cross.v[i];
        if (s->head_close > t->mark.drained || holds_pending(t, s))
            continue;
        if (s->conditional)
            count_empty(p, t);
        release(scope_ref(s));
        scope_list_remove(&t->cross, i);
    }
}

/* An announced scope held the sample it was announced at; once the shim has told all scopes up to there it has ended, and
 * its record was lost on the way (full ring). Its end stays what was known. */
static void retire_open(struct pipeline *p, struct thread_state *t)
{
    for (uint32_t i = t->open.n; i-- > 0;) {
        struct scope *s = t->open.v[i];
        if (s->head_close <= s->head_open || s->head_close > watermark_settled(&t->mark) || holds_pending(t, s))
            continue;
        s->cut = true;
        s->flags &= ~(uint32_t)DVT_SCOPE_OPEN;
        pipeline_end_open(p, t, i);
    }
}

/* Stacks whose samples are drained and gone wait for nothing. */
static void retire_stacks(struct thread_state *t)
{
    uint64_t upto = t->mark.drained;
    if (thread_state_pending(t) && thread_state_offs(t)[0] - 1 < upto)
        upto = thread_state_offs(t)[0] - 1;
    stacks_drop(&t->stacks, upto);
}

void pipeline_join_thread(struct pipeline *p, struct thread_state *t, enum pipeline_how how, uint64_t grace_ns)
{
    struct proc_state *ps = pipeline_proc(p, t->key.process);
    if (!ps || scope_index_sort(&t->closed) || fit_scratch(p, t->closed.n + 1, thread_state_pending(t) + 1))
        return; /* without memory: the next tick tries again */
    struct joining j = {.p = p, .ps = ps, .t = t, .how = how};
    uint32_t m = thread_state_pending(t);
    j.known = watermark_known(&t->mark, p->now_ns, ps->down);
    j.newest_ns = how == PIPELINE_FINAL || grace_ns == 0 ? UINT64_MAX
                  : p->now_ns > grace_ns                 ? p->now_ns - grace_ns
                                                         : 0;
    j.settled = m ? decided_head(&j) : 0;
    if (how == PIPELINE_SETTLED)
        m = join_count_upto(thread_state_offs(t), m, j.settled);
    if (m)
        decide_all(&j, m);
    retire_closed(p, t);
    retire_cross(p, t);
    retire_open(p, t);
    retire_stacks(t);
}

void pipeline_uncount_open(struct pipeline *p, struct scope *s)
{
    struct trace_entry *e = s->counted ? trace_table_find(&p->traces, &s->trace) : NULL;
    s->counted = false;
    if (!e)
        return;
    e->n_open--;
    e->n_open_roots -= scope_is_root(s);
    e->n_roots += scope_is_root(s);
    p->traces.next_due_ns = 0;
}

void pipeline_end_open(struct pipeline *p, struct thread_state *t, uint32_t i)
{
    pipeline_uncount_open(p, t->open.v[i]);
    scope_list_remove(&t->open, i);
}

void pipeline_drop_samples(struct pipeline *p, struct thread_state *t, uint64_t upto, uint64_t *counter)
{
    struct proc_state *ps = pipeline_proc(p, t->key.process);
    uint32_t k = join_count_upto(thread_state_offs(t), thread_state_pending(t), upto);
    *counter += k;
    t->lost += k;
    if (ps)
        ps->ledger.pending -= k;
    thread_state_drop_samples(t, k);
}

void pipeline_clear_index(struct pipeline *p, struct thread_state *t)
{
    for (uint32_t i = 0; i < t->closed.n; i++)
        release(t->closed.scopes[i]);
    t->closed.n = 0;
    t->scope_bytes = 0;
    while (t->cross.n) {
        if (t->cross.v[t->cross.n - 1]->conditional)
            count_empty(p, t);
        release(scope_ref(t->cross.v[t->cross.n - 1]));
        scope_list_remove(&t->cross, t->cross.n - 1);
    }
}
