/* select: see select.h. */
#include "select.h"
#include "alloc.h"

#include <stdlib.h>

typedef bool claim(const struct filter *f, const struct dvt_chunk *c, uint32_t scope);

static bool has_name(const struct filter *f, const struct dvt_chunk *c, uint32_t scope)
{
    return filter_glob(f->name, c->scopes[scope].name);
}

static bool has_tag(const struct filter *f, const struct dvt_chunk *c, uint32_t scope)
{
    return filter_tag_matches(f->tag, c->scopes[scope].tag);
}

static bool has_span(const struct filter *f, const struct dvt_chunk *c, uint32_t scope)
{
    char hex[DVT_SPAN_HEX + 1];
    dvt_span_id_format(&c->scopes[scope].span, hex);
    return strncasecmp(hex, f->span, strlen(f->span)) == 0;
}

struct select_span {
    struct dvt_span_id span;
    uint32_t scope;
};

static int by_span(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct dvt_span_id));
}

void select_up_init(struct select_up *u, const struct dvt_chunk *c)
{
    u->n = c->n_scopes;
    u->rows = alloc_array(c->n_scopes, sizeof *u->rows);
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        u->rows[i] = (struct select_span){c->scopes[i].span, i};
    }
    qsort(u->rows, u->n, sizeof *u->rows, by_span);
}

void select_up_fini(struct select_up *u)
{
    free(u->rows);
}

/* Any scope of the parent span: those of one span match or fail alike but for their tag, which holds the span
 * too. */
uint32_t select_up(const struct select_up *u, const struct dvt_chunk *c, uint32_t scope)
{
    const struct dvt_chunk_scope *s = &c->scopes[scope];
    if (s->parent != DVT_NONE) {
        return s->parent;
    }
    if (dvt_span_id_is_zero(&s->parent_span)) {
        return DVT_NONE;
    }
    const struct select_span *row = bsearch(&s->parent_span, u->rows, u->n, sizeof *u->rows, by_span);
    return row ? row->scope : DVT_NONE;
}

/* Leaves ok[] set only for scopes that satisfy the claim or lie under one that does. */
static void keep_under(claim *holds, const struct filter *f, const struct dvt_chunk *c,
                       const struct select_up *up, bool *ok)
{
    bool *self = alloc_array(c->n_scopes, sizeof *self);
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        self[i] = holds(f, c, i);
    }
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        uint32_t s = i;
        for (int steps = 0; steps < SELECT_UP_MAX && s != DVT_NONE && !self[s]; steps++) {
            s = select_up(up, c, s);
        }
        ok[i] = ok[i] && s != DVT_NONE && self[s];
    }
    free(self);
}

static void keep_spans(struct select *s, const struct filter *f, const struct dvt_chunk *c)
{
    static claim *const claims[] = {has_name, has_tag, has_span};
    const char *const asked[] = {f->name, f->tag, f->span};
    struct select_up up;
    if (!f->name && !f->tag && !f->span) {
        return;
    }
    select_up_init(&up, c);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        if (asked[i]) {
            keep_under(claims[i], f, c, &up, s->scopes);
            s->no_scope = false;
        }
    }
    select_up_fini(&up);
}

static bool has_label(const struct filter_label *want, const struct dvt_trace_labels *labels,
                      const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (dvt_str_eq(dvt_label_key(labels, ids[i]), want->key) &&
            filter_glob(want->value, dvt_label_value(labels, ids[i]))) {
            return true;
        }
    }
    return false;
}

bool select_labels(const struct filter *f, const struct dvt_trace_labels *labels, const uint32_t *ids,
                   size_t n)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        if (!has_label(&f->labels[i], labels, ids, n)) {
            return false;
        }
    }
    return true;
}

static int keep_labels(struct select *s, const struct filter *f, const struct dvt_chunk *c,
                       struct dvt_trace_labels *labels)
{
    struct dvt_label_sets sets;
    int rc = dvt_labels_effective(labels, c, &sets);
    if (rc) {
        return rc;
    }
    uint32_t n_sets = sets.sets.table.n;
    bool *ok = alloc_array(n_sets, sizeof *ok);
    for (uint32_t i = 0; i < n_sets; i++) {
        ok[i] = select_labels(f, labels, sets.sets.values + sets.sets.items[i].first, sets.sets.items[i].n);
    }
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        s->scopes[i] = s->scopes[i] && ok[sets.of_scope[i]];
    }
    s->no_scope = s->no_scope && ok[sets.of_no_scope];
    free(ok);
    dvt_label_sets_fini(&sets);
    return 0;
}

int select_init(struct select *ret, const struct filter *f, const struct dvt_chunk *c,
                struct dvt_trace_labels *labels)
{
    ret->scopes = alloc_array(c->n_scopes, sizeof *ret->scopes);
    ret->processes = alloc_array(c->n_processes, sizeof *ret->processes);
    ret->no_scope = true;
    memset(ret->scopes, true, c->n_scopes);
    for (uint32_t i = 0; i < c->n_processes; i++) {
        ret->processes[i] = !f->service || filter_glob(f->service, c->processes[i].service);
    }
    keep_spans(ret, f, c);
    int rc = f->n_labels ? keep_labels(ret, f, c, labels) : 0;
    if (rc) {
        select_fini(ret);
    }
    return rc;
}

void select_fini(struct select *s)
{
    free(s->scopes);
    free(s->processes);
}

bool select_sample(const struct select *s, const struct dvt_chunk *c, const struct dvt_chunk_sample *sample)
{
    bool scope_is_picked = sample->scope == DVT_NONE ? s->no_scope : s->scopes[sample->scope];
    return scope_is_picked && s->processes[c->threads[sample->thread].process];
}
