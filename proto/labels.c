/*
 * labels: see labels.h. Scopes are grouped by span id; a group's set is made after those of its parents'
 * groups, by a walk with its own stack. Groups may form rings (a parent's scope run inside its child's, or
 * ids made up by others): of a group met again while it waits for its parents only its own labels are taken.
 */
#include "labels.h"

#include <stdlib.h>

int dvt_trace_labels_add(struct dvt_trace_labels *t, const struct dvt_chunk *c)
{
    for (uint32_t i = 0; i < c->n_labels; i++) {
        uint32_t pair[DVT_TUPLE] = {dvt_strings_put(&t->strings, c->labels[i].key),
                                    dvt_strings_put(&t->strings, c->labels[i].value)};
        if (pair[0] == UINT32_MAX || pair[1] == UINT32_MAX || dvt_tuples_put(&t->labels, pair) == UINT32_MAX)
            return DVT_ENOMEM;
    }
    return 0;
}

void dvt_trace_labels_fini(struct dvt_trace_labels *t)
{
    dvt_strings_fini(&t->strings);
    dvt_tuples_fini(&t->labels);
}

struct set {
    uint32_t ids[DVT_LABEL_SET_MAX], n;
};

struct walk {
    struct dvt_trace_labels *t;
    const struct dvt_chunk *c;
    struct dvt_tuples spans; /* span id halves, or a scope's index and a mark; the index is the group */
    uint32_t *group, *next; /* [n_scopes] a scope's group, next scope of its group */
    uint32_t *first;        /* [n_scopes] first scope of a group */
    uint32_t *set;                    /* [n_scopes] by group: index in sets + 1, 0 not yet */
    bool *waits;                      /* by group: its parents were pushed */
    uint32_t *stack;                  /* [3 * n_scopes + 1] groups */
    struct set common;                /* rule 3 */
    struct dvt_label_sets *sets;
};

static uint32_t key_of(const struct walk *w, uint32_t id)
{
    return w->t->labels.items[id][0];
}

static void add(struct set *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->ids[i] == id)
            return;
    if (s->n < DVT_LABEL_SET_MAX)
        s->ids[s->n++] = id;
}

/* Adds id unless one of the first n_near labels has its key. */
static void add_farther(const struct walk *w, struct set *s, uint32_t n_near, uint32_t id)
{
    for (uint32_t i = 0; i < n_near; i++)
        if (key_of(w, s->ids[i]) == key_of(w, id))
            return;
    add(s, id);
}

/* ---- rule 3 ---- */

static int find_common(struct walk *w)
{
    uint32_t n_keys = w->t->strings.table.n;
    uint32_t *values = calloc(n_keys + 1u, sizeof *values); /* distinct values by key */
    if (!values)
        return DVT_ENOMEM;
    for (uint32_t id = 0; id < w->t->labels.table.n; id++)
        values[key_of(w, id)]++;
    for (uint32_t id = 0; id < w->t->labels.table.n; id++)
        if (values[key_of(w, id)] == 1)
            add(&w->common, id);
    free(values);
    return 0;
}

/* ---- groups ---- */

static uint32_t span_group(struct walk *w, const struct dvt_span_id *id)
{
    uint32_t v[DVT_TUPLE] = {0};
    memcpy(v, id->b, sizeof id->b);
    return dvt_tuples_put(&w->spans, v);
}

static int make_groups(struct walk *w)
{
    for (uint32_t i = w->c->n_scopes; i-- > 0;) {
        const struct dvt_chunk_scope *s = &w->c->scopes[i];
        const uint32_t alone[DVT_TUPLE] = {i, 0, 1, 0};
        uint32_t g =
            dvt_span_id_is_zero(&s->span) ? dvt_tuples_put(&w->spans, alone) : span_group(w, &s->span);
        if (g == UINT32_MAX)
            return DVT_ENOMEM;
        w->group[i] = g;
        w->next[i] = w->first[g];
        w->first[g] = i;
    }
    return 0;
}

/* The group of a scope's parent span, DVT_NONE if no scope of the chunk has that span. */
static uint32_t parent_group(struct walk *w, const struct dvt_chunk_scope *s)
{
    uint32_t known = w->spans.table.n;
    if (dvt_span_id_is_zero(&s->parent_span))
        return DVT_NONE;
    uint32_t g = span_group(w, &s->parent_span);
    return g < known && g < w->c->n_scopes && w->first[g] != DVT_NONE ? g : DVT_NONE;
}

/* Calls fn with each parent group of g but itself. */
static void each_parent(struct walk *w, uint32_t g, void (*fn)(struct walk *, uint32_t, void *), void *ctx)
{
    for (uint32_t i = w->first[g]; i != DVT_NONE; i = w->next[i]) {
        const struct dvt_chunk_scope *s = &w->c->scopes[i];
        uint32_t enclosing = s->parent == DVT_NONE ? DVT_NONE : w->group[s->parent],
                 span = parent_group(w, s);
        if (enclosing != DVT_NONE && enclosing != g)
            fn(w, enclosing, ctx);
        if (span != DVT_NONE && span != g && span != enclosing)
            fn(w, span, ctx);
    }
}

/* ---- sets ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Index of the set in sets, completed by rule 3. */
static uint32_t put_set(struct walk *w, struct set *s)
{
    uint32_t n_near = s->n;
    for (uint32_t i = 0; i < w->common.n; i++)
        add_farther(w, s, n_near, w->common.ids[i]);
    qsort(s->ids, s->n, sizeof *s->ids, by_number);
    return dvt_seqs_put(&w->sets->sets, s->ids, s->n, 0);
}

static uint32_t label_id(struct walk *w, const struct dvt_label *l)
{
    const uint32_t pair[DVT_TUPLE] = {dvt_strings_put(&w->t->strings, l->key),
                                      dvt_strings_put(&w->t->strings, l->value)};
    return dvt_tuples_put(&w->t->labels, pair);
}

/* Adds a group's own labels but those whose key one of the first n_near has. */
static bool add_own(struct walk *w, uint32_t g, struct set *s, uint32_t n_near)
{
    for (uint32_t i = w->first[g]; i != DVT_NONE; i = w->next[i])
        for (uint32_t k = 0; k < w->c->scopes[i].n_labels; k++) {
            uint32_t id = label_id(w, &w->c->labels[w->c->scopes[i].first_label + k]);
            if (id == UINT32_MAX)
                return false;
            add_farther(w, s, n_near, id);
        }
    return true;
}

struct inherit {
    struct set *s;
    uint32_t n_near;
    bool is_failed;
};

static void inherit(struct walk *w, uint32_t parent, void *ctx)
{
    struct inherit *in = ctx;
    if (!w->set[parent]) { /* a ring */
        in->is_failed = !add_own(w, parent, in->s, in->n_near) || in->is_failed;
        return;
    }
    const struct dvt_seq *from = &w->sets->sets.items[w->set[parent] - 1];
    for (uint32_t i = 0; i < from->n; i++)
        add_farther(w, in->s, in->n_near, w->sets->sets.values[from->first + i]);
}

static bool resolve_group(struct walk *w, uint32_t g)
{
    struct set s = {.n = 0};
    if (!add_own(w, g, &s, 0))
        return false;
    struct inherit in = {&s, s.n, false};
    each_parent(w, g, inherit, &in);
    w->set[g] = put_set(w, &s) + 1;
    return w->set[g] != 0 && !in.is_failed;
}

static void push_parent(struct walk *w, uint32_t parent, void *ctx)
{
    uint32_t *n = ctx;
    if (!w->set[parent] && !w->waits[parent])
        w->stack[(*n)++] = parent;
}

/* Each scope pushes at most two groups, once. */
static bool resolve_from(struct walk *w, uint32_t g)
{
    uint32_t n = 0;
    w->stack[n++] = g;
    while (n > 0) {
        uint32_t top = w->stack[n - 1];
        if (w->set[top]) {
            n--;
        } else if (!w->waits[top]) {
            w->waits[top] = true;
            each_parent(w, top, push_parent, &n);
        } else if (!resolve_group(w, top)) {
            return false;
        }
    }
    return true;
}

static int walk_scopes(struct walk *w, bool with_common)
{
    struct set none = {.n = 0};
    uint32_t n = w->c->n_scopes;
    memset(w->first, 0xff, (n + 1ul) * sizeof *w->first);
    if ((with_common && find_common(w)) || make_groups(w))
        return DVT_ENOMEM;
    w->sets->of_no_scope = put_set(w, &none);
    if (w->sets->of_no_scope == UINT32_MAX)
        return DVT_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (!w->set[w->group[i]] && !resolve_from(w, w->group[i]))
            return DVT_ENOMEM;
        w->sets->of_scope[i] = w->set[w->group[i]] - 1;
    }
    return 0;
}

static int make_sets(struct dvt_trace_labels *t, const struct dvt_chunk *c, bool with_common,
                     struct dvt_label_sets *ret)
{
    size_t n = c->n_scopes + 1ul;
    uint32_t *block = calloc(n * 7 + 1, sizeof *block);
    bool *waits = calloc(n, sizeof *waits);
    *ret = (struct dvt_label_sets){.of_scope = calloc(n, sizeof *ret->of_scope)};
    int rc = DVT_ENOMEM;
    if (block && waits && ret->of_scope) {
        struct walk w = {.t = t,
                         .c = c,
                         .group = block,
                         .next = block + n,
                         .first = block + 2 * n,
                         .set = block + 3 * n,
                         .stack = block + 4 * n,
                         .waits = waits,
                         .sets = ret};
        rc = walk_scopes(&w, with_common);
        dvt_tuples_fini(&w.spans);
    }
    free(block);
    free(waits);
    if (rc)
        dvt_label_sets_fini(ret);
    return rc;
}

int dvt_labels_effective(struct dvt_trace_labels *t, const struct dvt_chunk *c, struct dvt_label_sets *ret)
{
    return make_sets(t, c, true, ret);
}

int dvt_labels_near(struct dvt_trace_labels *t, const struct dvt_chunk *c, struct dvt_label_sets *ret)
{
    return make_sets(t, c, false, ret);
}

void dvt_label_sets_fini(struct dvt_label_sets *s)
{
    free(s->of_scope);
    dvt_seqs_fini(&s->sets);
    *s = (struct dvt_label_sets){0};
}
