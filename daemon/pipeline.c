/*
 * pipeline: see pipeline.h. What comes in, what is known of it, and the order of work in a tick.
 */
#include "pipeline_state.h"

#include <stdlib.h>

void pipeline_config_default(struct pipeline_config *c)
{
    *c = (struct pipeline_config){
        .period_ns = 10101010, /* 99 Hz */
        .idle_close_ns = 5000000000u,
        .root_grace_ns = 1500000000u,
        .part_cap_ns = 30000000000u,
        .part_cap_samples = 20000,
        .memory_cap_bytes = 256u << 20,
        .settle_cap_ns = 10000000000u,
    };
}

struct pipeline *pipeline_new(const struct pipeline_config *c)
{
    struct pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->cfg = *c;
    p->rules = (struct trace_rules){c->idle_close_ns, c->root_grace_ns, c->part_cap_ns, c->part_cap_samples};
    trace_table_init(&p->traces);
    scope_batch_init(&p->batch);
    return p;
}

static void free_dropped(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->n_dropped; i++) {
        free(p->dropped_list[i]->service);
        free(p->dropped_list[i]->name);
        free(p->dropped_list[i]);
    }
    p->n_dropped = 0;
    ptrmap_fini(&p->dropped);
}

static void free_processes(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->n_procs; i++) {
        codetable_fini(&p->proc_list[i]->codes);
        process_unref(p->proc_list[i]->proc);
        free(p->proc_list[i]);
    }
    free(p->proc_list);
    ptrmap_fini(&p->procs);
}

static void free_threads(struct pipeline *p)
{
    for (uint32_t i = 0; i < p->n_dirty; i++)
        thread_state_unref(p->dirty[i]);
    for (uint32_t i = 0; i < p->n_threads; i++) {
        pipeline_clear_index(p, p->thread_list[i]);
        thread_state_unref(p->thread_list[i]);
    }
    free(p->dirty);
    free(p->thread_list);
    ptrmap_fini(&p->threads);
}

void pipeline_free(struct pipeline *p)
{
    if (!p)
        return;
    for (struct trace *t; (t = pipeline_take_closed(p));)
        trace_free(t);
    free(p->closed);
    trace_table_fini(&p->traces);
    free_threads(p);
    free_processes(p);
    free_dropped(p);
    free(p->dropped_list);
    scope_batch_fini(&p->batch);
    free(p->join_stack);
    free(p->join_rows);
    free(p->cols);
    free(p->cols32);
    free(p);
}

void *pipeline_room(void *list, uint32_t n, uint32_t *cap)
{
    if (n < *cap)
        return list;
    uint32_t more = *cap ? *cap * 2 : 16;
    void *grown = realloc(list, more * sizeof(void *));
    if (grown)
        *cap = more;
    return grown;
}

/* ---- processes and threads ---- */

static bool proc_eq(const void *value, const void *key)
{
    return ((const struct proc_state *)value)->proc->index == *(const uint32_t *)key;
}

static bool thread_eq(const void *value, const void *key)
{
    const struct thread_key *a = &((const struct thread_state *)value)->key, *b = key;
    return a->process == b->process && a->tid == b->tid && a->epoch == b->epoch;
}

uint64_t pipeline_thread_hash(const struct thread_key *k)
{
    return ptrmap_hash((uint64_t)k->process << 32 | k->tid, k->epoch);
}

struct proc_state *pipeline_proc(const struct pipeline *p, uint32_t process)
{
    return ptrmap_get(&p->procs, ptrmap_hash(process, 0), &process, proc_eq);
}

void pipeline_process_up(struct pipeline *p, struct process *proc)
{
    struct proc_state *ps = pipeline_proc(p, proc->index) ? NULL : calloc(1, sizeof *ps);
    if (!ps)
        return; /* without memory its messages and samples find no process, and are counted */
    ps->proc = process_ref(proc);
    if (PIPELINE_PUSH(p->proc_list, p->n_procs, p->cap_procs, ps)) {
        process_unref(proc);
        free(ps);
        return;
    }
    if (ptrmap_add(&p->procs, ptrmap_hash(proc->index, 0), ps)) {
        p->n_procs--;
        process_unref(proc);
        free(ps);
    }
}

static void cut_open_scopes(struct pipeline *p, struct proc_state *ps, struct thread_state *t)
{
    for (uint32_t i = 0; i < t->open.n; i++) {
        struct scope *s = t->open.v[i];
        ps->ledger.scopes_cut++;
        s->cut = true;
        s->flags &= ~(uint32_t)DVT_SCOPE_OPEN;
        struct trace_entry *e = pipeline_place_scope(p, s); /* its last part shows that it was cut */
        if (e)
            e->news_ns = p->now_ns;
        pipeline_uncount_open(p, s);
    }
    pipeline_mark_dirty(p, t);
}

static void set_now(struct pipeline *p, uint64_t now_ns)
{
    if (now_ns > p->now_ns)
        p->now_ns = now_ns;
}

void pipeline_process_down(struct pipeline *p, uint32_t process, uint64_t now_ns)
{
    struct proc_state *ps = pipeline_proc(p, process);
    set_now(p, now_ns);
    if (!ps || ps->down)
        return;
    ps->down = true;
    ps->down_ns = p->now_ns;
    p->next_sweep_ns = p->now_ns;
    for (uint32_t i = 0; i < p->n_threads; i++)
        if (p->thread_list[i]->key.process == process)
            cut_open_scopes(p, ps, p->thread_list[i]);
}

static struct thread_state *add_thread(struct pipeline *p, struct thread_key key)
{
    struct thread_state *t = thread_state_new(key, p->now_ns);
    if (!t || PIPELINE_PUSH(p->thread_list, p->n_threads, p->cap_threads, t)) {
        thread_state_unref(t);
        return NULL;
    }
    t->place = p->n_threads - 1;
    if (ptrmap_add(&p->threads, pipeline_thread_hash(&key), t)) {
        p->n_threads--;
        thread_state_unref(t);
        return NULL;
    }
    if (key.epoch == 0) { /* never armed: no sample will come */
        watermark_drain(&t->mark, 0, true);
        t->ended_ns = p->now_ns;
    }
    return t;
}

struct thread_state *pipeline_thread(struct pipeline *p, struct thread_key key)
{
    struct thread_state *t = ptrmap_get(&p->threads, pipeline_thread_hash(&key), &key, thread_eq);
    struct proc_state *ps = t ? NULL : pipeline_proc(p, key.process);
    if (t || !ps || ps->finished || ps->n_threads >= PIPELINE_MAX_THREADS)
        return t;
    t = add_thread(p, key);
    ps->n_threads += t != NULL;
    p->fed_bytes += sizeof *t;
    return t;
}

void pipeline_mark_dirty(struct pipeline *p, struct thread_state *t)
{
    if (t->is_dirty || PIPELINE_PUSH(p->dirty, p->n_dirty, p->cap_dirty, t))
        return;
    thread_state_ref(t);
    t->is_dirty = true;
}

void pipeline_thread_up(struct pipeline *p, struct thread_key key, uint32_t host_tid)
{
    struct thread_state *t = pipeline_thread(p, key);
    if (!t)
        return;
    t->host_tid = host_tid;
    t->up = true;
}

/* ---- samples ---- */

static void lose_sample(struct sample *s, uint64_t *counter)
{
    ++*counter;
    free(s);
}

void pipeline_sample(struct pipeline *p, struct sample *s)
{
    struct proc_state *ps = pipeline_proc(p, s->thread.process);
    struct thread_state *t = pipeline_thread(p, s->thread);
    struct ledger *l = ps ? &ps->ledger : &p->retired;
    l->samples++;
    if (!t) {
        lose_sample(s, &l->lost_end);
        return;
    }
    size_t bytes = s->bytes;
    if (!t->first_off)
        t->first_off = s->end_off;
    if (s->end_off <= t->floor || thread_state_put_sample(t, s)) {
        t->lost++;
        lose_sample(s, &l->lost_queue);
        return;
    }
    l->pending++;
    t->up = true;
    p->fed_bytes += bytes;
    pipeline_bound_memory(p);
}

void pipeline_progress(struct pipeline *p, struct thread_key key, uint64_t head, uint64_t lost, bool ended)
{
    struct thread_state *t = pipeline_thread(p, key);
    struct proc_state *ps = pipeline_proc(p, key.process);
    (ps ? &ps->ledger : &p->retired)->lost_kernel += lost;
    if (!t)
        return;
    t->up = true;
    t->lost += lost;
    if (ended && !t->mark.ended)
        t->ended_ns = p->now_ns;
    watermark_drain(&t->mark, head, ended);
    pipeline_mark_dirty(p, t);
}

/* ---- switches ---- */

void pipeline_switches(struct pipeline *p, struct thread_key key, const struct switches *s)
{
    struct thread_state *t = pipeline_thread(p, key);
    if (!t)
        return; /* as its samples: it has no scopes either */
    (void)thread_state_put_switches(t, s); /* without memory the log says itself what it does not know */
    p->fed_bytes += s->n * sizeof *s->v;
    pipeline_bound_memory(p);
}

void pipeline_switched(struct pipeline *p, uint64_t until_ns)
{
    p->switched_ns = until_ns;
}

/* ---- messages ---- */

void pipeline_message(struct pipeline *p, uint32_t process, const void *body, size_t n, uint64_t now_ns)
{
    struct proc_state *ps = pipeline_proc(p, process);
    struct ledger *l = ps ? &ps->ledger : &p->retired;
    set_now(p, now_ns);
    l->messages++;
    if (!ps || pipeline_read_message(p, ps, (struct dvt_str){body, n}))
        l->messages_bad++;
}

/* ---- time ---- */

/* A thread whose samples wait for their stacks is looked at again next time. */
static void join_dirty(struct pipeline *p)
{
    uint32_t n = p->n_dirty, n_again = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct thread_state *t = p->dirty[i];
        bool listed = t->place < p->n_threads && p->thread_list[t->place] == t;
        if (listed)
            pipeline_join_thread(p, t, pipeline_how_to_join(p, t), 0);
        if (listed && t->wait_head) {
            p->dirty[n_again++] = t;
            continue;
        }
        t->is_dirty = false;
        thread_state_unref(t);
    }
    p->n_dirty = n_again;
}

void pipeline_tick(struct pipeline *p, uint64_t now_ns)
{
    set_now(p, now_ns);
    join_dirty(p);
    pipeline_sweep(p);
    pipeline_close_due(p);
    pipeline_bound_memory(p);
}

void pipeline_close_all(struct pipeline *p, uint64_t now_ns)
{
    pipeline_tick(p, now_ns);
    pipeline_close_every(p);
}

struct trace *pipeline_take_closed(struct pipeline *p)
{
    if (p->closed_first == p->n_closed) {
        p->closed_first = p->n_closed = 0;
        return NULL;
    }
    struct trace *t = p->closed[p->closed_first++];
    p->closed_bytes -= t->bytes;
    return t;
}

/* ---- reports ---- */

bool pipeline_ledger(const struct pipeline *p, uint32_t process, struct ledger *ret, struct dvt_shim_counts *ret_shim)
{
    const struct proc_state *ps = pipeline_proc(p, process);
    if (!ps)
        return false;
    if (ret)
        *ret = ps->ledger;
    if (ret_shim)
        *ret_shim = ps->shim;
    return true;
}

void pipeline_total(const struct pipeline *p, struct ledger *ret)
{
    *ret = p->retired;
    for (uint32_t i = 0; i < p->n_procs; i++)
        ledger_add(ret, &p->proc_list[i]->ledger);
}

void pipeline_scope_counts(const struct pipeline *p, struct pipeline_scopes *ret)
{
    *ret = p->scopes;
    for (uint32_t i = 0; i < p->n_threads; i++) {
        const struct scope_list *cross = &p->thread_list[i]->cross;
        for (uint32_t k = 0; k < cross->n; k++)
            ret->waiting += cross->v[k]->conditional;
    }
}

uint64_t pipeline_open_traces(const struct pipeline *p)
{
    return p->traces.n;
}

/* ---- dropped scopes ---- */

static bool dropped_eq(const void *value, const void *key)
{
    const struct dropped_count *a = value, *b = key;
    return !strcmp(a->service, b->service) && !strcmp(a->name, b->name);
}

static uint64_t hash_text(uint64_t h, const char *z)
{
    size_t n = strlen(z);
    for (size_t i = 0; i <= n; i += 8) {
        uint64_t w = 0;
        memcpy(&w, z + i, n - i < 8 ? n - i : 8);
        h = ptrmap_hash(h, w);
    }
    return h;
}

static struct dropped_count *add_dropped(struct pipeline *p, const struct dropped_count *key)
{
    struct dropped_count *d = malloc(sizeof *d);
    char *service = strdup(key->service), *name = strdup(key->name);
    if (!d || !service || !name || ptrmap_add(&p->dropped, key->hash, d))
        goto fail;
    *d = (struct dropped_count){service, name, 0, key->hash};
    if (!PIPELINE_PUSH(p->dropped_list, p->n_dropped, p->cap_dropped, d))
        return d;
    ptrmap_remove(&p->dropped, key->hash, d);
fail:
    free(d);
    free(service);
    free(name);
    return NULL;
}

void pipeline_count_dropped(struct pipeline *p, const char *service, struct dvt_str name, uint64_t count)
{
    char clean[DVT_MAX_NAME + 1], other[] = "(other)", copy[DVT_MAX_SERVICE + 1];
    dvt_utf8_clean(name.p, name.n, true, clean, sizeof clean);
    dvt_utf8_clean(service, strlen(service), true, copy, sizeof copy);
    struct dropped_count key = {copy, p->n_dropped < PIPELINE_MAX_DROPPED ? clean : other, 0, 0};
    key.hash = hash_text(hash_text(0, key.service), key.name);
    struct dropped_count *d = ptrmap_get(&p->dropped, key.hash, &key, dropped_eq);
    if (!d)
        d = add_dropped(p, &key);
    if (d)
        d->count += count;
}

void pipeline_take_dropped(struct pipeline *p, void (*fn)(void *ctx, const char *service, const char *name, uint64_t count),
                           void *ctx)
{
    for (uint32_t i = 0; i < p->n_dropped; i++)
        fn(ctx, p->dropped_list[i]->service, p->dropped_list[i]->name, p->dropped_list[i]->count);
    free_dropped(p);
}
