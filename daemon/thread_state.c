/*
 * thread_state: see thread_state.h.
 */
#include "thread_state.h"

#include <stdlib.h>

struct thread_state *thread_state_new(struct thread_key key, uint64_t now_ns)
{
    struct thread_state *t = calloc(1, sizeof *t);
    char *name = calloc(1, 1);
    if (!t || !name) {
        free(t);
        free(name);
        return NULL;
    }
    t->key = key;
    t->refs = 1;
    t->name = name;
    t->born_ns = now_ns;
    scope_index_init(&t->closed);
    return t;
}

struct thread_state *thread_state_ref(struct thread_state *t)
{
    t->refs++;
    return t;
}

uint32_t scope_list_find(const struct scope_list *l, uint64_t serial)
{
    uint32_t i = 0;
    while (i < l->n && l->v[i]->serial != serial)
        i++;
    return i;
}

int scope_list_add(struct scope_list *l, struct scope *s, uint32_t max)
{
    if (l->n >= max)
        return DVT_ELIMIT;
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        struct scope **v = realloc(l->v, cap * sizeof(*v));
        if (!v)
            return DVT_ENOMEM;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = scope_ref(s);
    return 0;
}

void scope_list_remove(struct scope_list *l, uint32_t i)
{
    scope_unref(l->v[i]);
    l->v[i] = l->v[--l->n];
}

static void scope_list_fini(struct scope_list *l)
{
    while (l->n)
        scope_list_remove(l, l->n - 1);
    free(l->v);
}

void thread_state_unref(struct thread_state *t)
{
    if (!t || --t->refs)
        return;
    thread_state_drop_samples(t, thread_state_pending(t));
    for (uint32_t i = 0; i < t->closed.n; i++)
        scope_unref(t->closed.scopes[i]);
    scope_index_fini(&t->closed);
    scope_list_fini(&t->cross);
    scope_list_fini(&t->open);
    stacks_fini(&t->stacks);
    if (t->waits)
        wait_log_fini(t->waits);
    free(t->waits);
    free(t->offs);
    free(t->samples);
    free(t->name);
    free(t);
}

static void slide(struct thread_state *t)
{
    memmove(t->offs, t->offs + t->first, (t->n - t->first) * sizeof *t->offs);
    memmove(t->samples, t->samples + t->first, (t->n - t->first) * sizeof(*t->samples));
    t->n -= t->first;
    t->first = 0;
}

static int make_room(struct thread_state *t)
{
    if (t->n < t->cap)
        return 0;
    if (t->first >= t->cap / 2 && t->first) {
        slide(t);
        return 0;
    }
    uint32_t cap = t->cap ? t->cap * 2 : 16;
    uint64_t *offs = realloc(t->offs, cap * sizeof *offs);
    if (offs)
        t->offs = offs;
    struct sample **samples = offs ? realloc(t->samples, cap * sizeof(*samples)) : NULL;
    if (!samples)
        return DVT_ENOMEM;
    t->samples = samples;
    t->cap = cap;
    return 0;
}

int thread_state_put_sample(struct thread_state *t, struct sample *s)
{
    if (make_room(t))
        return DVT_ENOMEM;
    uint32_t at = t->n;
    while (at > t->first && t->offs[at - 1] > s->end_off) { /* a straggler: rare */
        t->offs[at] = t->offs[at - 1];
        t->samples[at] = t->samples[at - 1];
        at--;
    }
    t->offs[at] = s->end_off;
    t->samples[at] = s;
    t->n++;
    t->sample_bytes += s->bytes;
    return 0;
}

void thread_state_drop_samples(struct thread_state *t, uint32_t k)
{
    for (; k; k--, t->first++) {
        struct sample *s = t->samples[t->first];
        if (s)
            t->sample_bytes -= s->bytes;
        free(s);
    }
    if (t->first == t->n)
        t->first = t->n = 0;
}

void thread_state_compact(struct thread_state *t, uint32_t k)
{
    uint32_t to = t->first + k; /* kept samples move up to the rest, order kept */
    for (uint32_t i = t->first + k; i-- > t->first;) {
        if (!t->samples[i])
            continue;
        to--;
        t->samples[to] = t->samples[i];
        t->offs[to] = t->offs[i];
    }
    t->first = to;
    if (t->first == t->n)
        t->first = t->n = 0;
}

void thread_state_set_name(struct thread_state *t, struct dvt_str name)
{
    char clean[DVT_MAX_NAME + 1];
    dvt_utf8_clean(name.p, name.n, true, clean, sizeof clean);
    char *copy = strcmp(clean, t->name) ? strdup(clean) : NULL;
    if (!copy)
        return;
    free(t->name);
    t->name = copy;
}

int thread_state_put_switches(struct thread_state *t, const struct switches *s)
{
    if (!t->waits) {
        t->waits = malloc(sizeof *t->waits);
        if (!t->waits)
            return DVT_ENOMEM;
        wait_log_init(t->waits);
    }
    return wait_log_put(t->waits, s);
}

void thread_state_sum_waits(const struct thread_state *t, struct scope *s, uint64_t until_ns)
{
    if (!t->waits || s->has_waits)
        return;
    s->waits = wait_log_sum(t->waits, s->start_ns, s->end_ns, until_ns);
    s->has_waits = true;
}

size_t thread_state_bytes(const struct thread_state *t)
{
    size_t columns = (size_t)t->cap * (sizeof *t->offs + sizeof(*t->samples)) + (size_t)t->closed.cap * 32;
    columns += t->waits ? wait_log_bytes(t->waits) : 0;
    return sizeof *t + t->sample_bytes + t->scope_bytes + t->stacks.bytes + columns;
}
