/*
 * pipeline_close: closes traces that are due, forgets threads and processes that have ended, keeps within the memory cap.
 */
#include "pipeline_state.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_NS 50000000u /* with many open traces they are looked through this often at most */
enum { SCAN_MANY = 1000 };

/* ---- closing ---- */

static bool has_room(const struct pipeline *p, size_t bytes)
{
    return p->closed_bytes + bytes <= p->cfg.memory_cap_bytes;
}

/* Its samples were joined, and are lost after all. */
static void count_lost(struct pipeline *p, const struct trace *t)
{
    p->retired.traces_lost++;
    for (uint32_t i = 0; i < t->n_processes; i++)
        edge_count(t->processes[i]->edge.traces_lost, 1);
    for (uint32_t i = 0; i < t->n_samples; i++) {
        struct proc_state *ps = pipeline_proc(p, t->samples[i].raw->thread.process);
        struct ledger *l = ps ? &ps->ledger : &p->retired;
        l->joined--;
        l->lost_queue++;
    }
}

static void shift_closed(struct pipeline *p)
{
    p->n_closed -= p->closed_first;
    memmove(p->closed, p->closed + p->closed_first, p->n_closed * sizeof *p->closed);
    p->closed_first = 0;
}

static void queue_closed(struct pipeline *p, struct trace *t)
{
    if (!t) {
        p->retired.traces_lost++;
        return;
    }
    if (p->closed_first && p->n_closed == p->cap_closed)
        shift_closed(p);
    if (!has_room(p, t->bytes) || PIPELINE_PUSH(p->closed, p->n_closed, p->cap_closed, t)) {
        count_lost(p, t);
        trace_free(t);
        return;
    }
    p->closed_bytes += t->bytes;
}

static void sum_waits(const struct pipeline *p, const struct trace_build *b)
{
    for (uint32_t i = 0; i < b->n_scopes; i++)
        thread_state_sum_waits(b->threads[b->scope_threads[i]].state, b->scopes[i], p->switched_ns);
}

void pipeline_close_part(struct pipeline *p, struct trace_entry *e)
{
    struct trace_build *b = e->build;
    if (!b)
        return;
    sum_waits(p, b);
    e->build = NULL;
    e->part++;
    e->n_roots = 0;
    e->part_ns = p->now_ns;
    queue_closed(p, trace_build_finish(b));
}

/* Only open scopes that an earlier part has shown already, and no sample. */
static bool has_nothing_new(const struct trace_entry *e)
{
    if (!e->build)
        return true;
    if (e->build->n_samples || !e->part)
        return false;
    for (uint32_t i = 0; i < e->build->n_scopes; i++)
        if (!(e->build->scopes[i]->flags & DVT_SCOPE_OPEN))
            return false;
    return true;
}

static bool works_for(const struct thread_state *t, const struct dvt_trace_id *trace)
{
    for (uint32_t i = 0; i < t->open.n; i++)
        if (memcmp(&t->open.v[i]->trace, trace, sizeof *trace) == 0)
            return true;
    return false;
}

/* Before a trace is closed its threads give it what is known to be its. */
static void join_threads_of(struct pipeline *p, struct trace_entry *e)
{
    struct dvt_trace_id id = e->id;
    for (uint32_t i = 0; e->build && e->build->n_indexed && i < e->build->n_threads; i++) {
        struct thread_state *t = e->build->threads[i].state;
        if (t->place < p->n_threads && p->thread_list[t->place] == t)
            pipeline_join_thread(p, t, PIPELINE_KNOWN, PIPELINE_DUE_GRACE_NS);
    }
    for (uint32_t i = 0; e->n_open && i < p->n_threads; i++)
        if (works_for(p->thread_list[i], &id))
            pipeline_join_thread(p, p->thread_list[i], PIPELINE_KNOWN, PIPELINE_DUE_GRACE_NS);
}

/* Its samples are not all decided, and it is not overdue. */
static bool is_worth_waiting(const struct pipeline *p, const struct trace_entry *e)
{
    return e->build && e->build->n_indexed &&
           p->now_ns < e->news_ns + p->rules.root_grace_ns + p->rules.idle_close_ns;
}

/* True if the entry is gone. What finds no room among the closed ones stays, and is due again: many long traces that
 * began together are cut together. */
static bool close_entry(struct pipeline *p, struct trace_entry *e, enum trace_due due)
{
    join_threads_of(p, e);
    if (due == TRACE_DUE_ROOT && is_worth_waiting(p, e))
        return false;
    if (has_nothing_new(e))
        e->part_ns = p->now_ns;
    else if (p->closed_bytes && !has_room(p, e->build->bytes))
        return false;
    else
        pipeline_close_part(p, e);
    if (e->n_open || e->build)
        return false;
    trace_table_remove(&p->traces, e);
    return true;
}

void pipeline_close_due(struct pipeline *p)
{
    struct trace_table *t = &p->traces;
    if (p->now_ns < t->next_due_ns || (t->n > SCAN_MANY && p->now_ns < p->last_scan_ns + SCAN_NS))
        return;
    p->last_scan_ns = p->now_ns;
    uint64_t next = UINT64_MAX;
    for (uint32_t i = t->n; i-- > 0;) { /* removal moves the last entry here: it has been seen */
        struct trace_entry *e = t->all[i];
        enum trace_due due = trace_entry_due(e, &p->rules, p->now_ns);
        if (due != TRACE_OPEN && close_entry(p, e, due))
            continue;
        uint64_t at = trace_entry_next(e, &p->rules);
        next = at < next ? at : next;
    }
    t->next_due_ns = next > p->now_ns ? next : p->now_ns + 1;
}

void pipeline_close_every(struct pipeline *p)
{
    struct trace_table *t = &p->traces;
    for (uint32_t i = 0; i < p->n_threads; i++)
        pipeline_join_thread(p, p->thread_list[i], PIPELINE_KNOWN, 0);
    for (uint32_t i = t->n; i-- > 0;) {
        struct trace_entry *e = t->all[i];
        if (!has_nothing_new(e))
            pipeline_close_part(p, e);
        if (!e->n_open && !e->build)
            trace_table_remove(t, e);
    }
}

/* ---- what ended ---- */

static bool is_final(const struct pipeline *p, const struct proc_state *ps, const struct thread_state *t)
{
    uint64_t cap = p->cfg.settle_cap_ns;
    if (ps->down && (ps->bye || p->now_ns >= ps->down_ns + cap))
        return true;
    return t->mark.ended && p->now_ns >= t->ended_ns + cap;
}

enum pipeline_how pipeline_how_to_join(const struct pipeline *p, const struct thread_state *t)
{
    const struct proc_state *ps = pipeline_proc(p, t->key.process);
    if (is_final(p, ps, t))
        return PIPELINE_FINAL;
    return ps->down ? PIPELINE_KNOWN : PIPELINE_SETTLED;
}

static void forget_thread(struct pipeline *p, struct proc_state *ps, struct thread_state *t)
{
    pipeline_drop_samples(p, t, UINT64_MAX, &ps->ledger.lost_end);
    pipeline_clear_index(p, t);
    while (t->open.n) {
        struct scope *s = t->open.v[t->open.n - 1];
        s->cut = true;
        s->flags &= ~(uint32_t)DVT_SCOPE_OPEN;
        pipeline_end_open(p, t, t->open.n - 1);
    }
    ptrmap_remove(&p->threads, pipeline_thread_hash(&t->key), t);
    p->thread_list[t->place] = p->thread_list[--p->n_threads];
    p->thread_list[t->place]->place = t->place;
    ps->n_threads--;
    thread_state_unref(t);
}

static void sweep_thread(struct pipeline *p, struct thread_state *t)
{
    struct proc_state *ps = pipeline_proc(p, t->key.process);
    uint64_t cap = p->cfg.settle_cap_ns;
    if (!t->up && !t->mark.ended && p->now_ns >= t->born_ns + cap) {
        watermark_drain(&t->mark, 0, true); /* the sampler never heard of it: no sample will come */
        t->ended_ns = p->now_ns;
    }
    enum pipeline_how how = pipeline_how_to_join(p, t);
    if (how != PIPELINE_SETTLED)
        pipeline_join_thread(p, t, how, 0);
    bool sampler_is_silent = ps->down && p->now_ns >= ps->down_ns + 2 * cap;
    if (sampler_is_silent || (how == PIPELINE_FINAL && t->mark.ended))
        forget_thread(p, ps, t);
}

static void forget_process(struct pipeline *p, uint32_t i)
{
    struct proc_state *ps = p->proc_list[i];
    ledger_add(&p->retired, &ps->ledger);
    ptrmap_remove(&p->procs, ptrmap_hash(ps->proc->index, 0), ps);
    process_unref(ps->proc);
    free(ps);
    p->n_procs--;
    memmove(p->proc_list + i, p->proc_list + i + 1, (p->n_procs - i) * sizeof(*p->proc_list));
}

static void sweep_processes(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->n_procs; i++) {
        struct proc_state *ps = p->proc_list[i];
        if (ps->finished || !ps->down || ps->n_threads || p->now_ns < ps->down_ns + p->cfg.settle_cap_ns)
            continue;
        codetable_fini(&ps->codes);
        ps->finished = true;
        p->n_finished++;
    }
    for (uint32_t i = 0; p->n_finished > PIPELINE_MAX_FINISHED && i < p->n_procs;) {
        if (!p->proc_list[i]->finished) {
            i++;
            continue;
        }
        forget_process(p, i);
        p->n_finished--;
    }
}

void pipeline_sweep(struct pipeline *p)
{
    if (p->now_ns < p->next_sweep_ns)
        return;
    p->next_sweep_ns = p->now_ns + PIPELINE_SWEEP_NS;
    for (uint32_t i = p->n_threads; i-- > 0;)
        sweep_thread(p, p->thread_list[i]);
    sweep_processes(p);
}

/* ---- memory ---- */

static size_t measure(const struct pipeline *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_threads; i++)
        n += thread_state_bytes(p->thread_list[i]);
    for (uint32_t i = 0; i < p->traces.n; i++)
        n += sizeof(struct trace_entry) + (p->traces.all[i]->build ? p->traces.all[i]->build->bytes : 0);
    for (uint32_t i = 0; i < p->n_procs; i++)
        n += p->proc_list[i]->codes.bytes;
    return n;
}

/* Closes the traces whose last news is older than half of the oldest's age; false if there is none to close. */
static bool close_older_half(struct pipeline *p)
{
    struct trace_table *t = &p->traces;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->all[i]->build && t->all[i]->news_ns < oldest)
            oldest = t->all[i]->news_ns;
    if (oldest == UINT64_MAX)
        return false;
    uint64_t upto = oldest + (p->now_ns - oldest) / 2;
    for (uint32_t i = t->n; i-- > 0;) {
        struct trace_entry *e = t->all[i];
        if (e->news_ns > upto)
            continue;
        pipeline_close_part(p, e);
        if (!e->n_open)
            trace_table_remove(t, e);
    }
    return true;
}

/* Ring offset of the thread's last sample taken at or before the time; 0 if none. */
static uint64_t offset_at(const struct thread_state *t, uint64_t time_ns)
{
    uint64_t off = 0;
    for (uint32_t i = t->first; i < t->n && t->samples[i]->time_ns <= time_ns; i++)
        off = t->offs[i];
    return off;
}

/* Drops the older half, in time, of all waiting samples; false if none waits. */
static bool drop_older_half(struct pipeline *p)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < p->n_threads; i++) {
        const struct thread_state *t = p->thread_list[i];
        if (thread_state_pending(t) && t->samples[t->first]->time_ns < oldest)
            oldest = t->samples[t->first]->time_ns;
    }
    if (oldest == UINT64_MAX)
        return false;
    uint64_t upto = oldest + (p->now_ns > oldest ? (p->now_ns - oldest) / 2 : 0);
    for (uint32_t i = 0; i < p->n_threads; i++) {
        struct thread_state *t = p->thread_list[i];
        struct proc_state *ps = pipeline_proc(p, t->key.process);
        pipeline_drop_samples(p, t, offset_at(t, upto), &ps->ledger.lost_queue);
        pipeline_join_thread(p, t, PIPELINE_SETTLED, 0);
    }
    return true;
}

/* Gives up what waits for samples that do not come. A sample that comes after all is dropped too: without these scopes it
 * might be given to an outer one. */
static void give_up(struct pipeline *p, struct thread_state *t)
{
    struct proc_state *ps = pipeline_proc(p, t->key.process);
    for (uint32_t i = 0; i < t->closed.n; i++)
        t->floor = t->closed.close[i] > t->floor ? t->closed.close[i] : t->floor;
    for (uint32_t i = 0; i < t->cross.n; i++)
        t->floor = t->cross.v[i]->head_close > t->floor ? t->cross.v[i]->head_close : t->floor;
    pipeline_drop_samples(p, t, t->floor, &ps->ledger.lost_queue);
    pipeline_clear_index(p, t);
    scope_index_fini(&t->closed);
    stacks_drop(&t->stacks, UINT64_MAX);
    if (t->waits)
        wait_log_forget(t->waits);
}

void pipeline_bound_memory(struct pipeline *p)
{
    size_t cap = p->cfg.memory_cap_bytes;
    if (p->fed_bytes < cap / 32)
        return;
    p->fed_bytes = 0;
    while (measure(p) > cap && close_older_half(p))
        ;
    while (measure(p) > cap && drop_older_half(p))
        ;
    size_t now = measure(p);
    for (uint32_t i = 0; i < p->n_threads && now > cap; i++) {
        size_t before = thread_state_bytes(p->thread_list[i]);
        give_up(p, p->thread_list[i]);
        now -= before - thread_state_bytes(p->thread_list[i]);
    }
}
