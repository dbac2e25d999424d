/*
 * scope: see scope.h. The block: struct scope, links, labels, then the bytes of name, keys and values.
 */
#include "scope.h"

#include <stdlib.h>

/* Cleaning may turn a bad byte into the three bytes of U+FFFD; the result is cut at cap. */
static size_t clean_bound(struct dvt_str s, size_t cap)
{
    size_t n = s.n > cap ? cap : s.n;
    return (n * 3 > cap ? cap : n * 3) + 1;
}

static struct dvt_str put_clean(char **at, struct dvt_str s, size_t cap)
{
    size_t room = clean_bound(s, cap);
    struct dvt_str out = {*at, dvt_utf8_clean(s.p, s.n, true, *at, room)};
    *at += out.n + 1;
    return out;
}

static size_t block_bytes(const struct dvt_scope_rec *rec)
{
    size_t n = sizeof(struct scope) + rec->n_links * sizeof *rec->links + rec->n_labels * sizeof *rec->labels;
    n += clean_bound(rec->name, DVT_MAX_NAME);
    for (uint32_t i = 0; i < rec->n_labels; i++)
        n += clean_bound(rec->labels[i].key, DVT_MAX_LABEL_KEY) +
             clean_bound(rec->labels[i].value, DVT_MAX_LABEL_VALUE);
    return n;
}

static void fill_fields(struct scope *s, const struct dvt_scope_rec *rec)
{
    *s = (struct scope){
        .refs = 1,
        .flags = rec->flags,
        .serial = rec->serial,
        .parent_serial = rec->parent_serial,
        .start_ns = rec->start_ns,
        .end_ns = rec->end_ns,
        .head_open = rec->head_open,
        .head_close = rec->head_close,
        .trace = rec->trace,
        .span = rec->span,
        .parent_span = rec->parent_span,
        .n_labels = rec->n_labels,
        .n_links = rec->n_links,
    };
}

struct scope *scope_new(const struct dvt_scope_rec *rec)
{
    size_t bytes = block_bytes(rec);
    struct scope *s = malloc(bytes);
    if (!s)
        return NULL;
    fill_fields(s, rec);
    s->bytes = bytes;
    s->labels = (struct dvt_label *)(s + 1);
    s->links = (struct dvt_trace_id *)(s->labels + rec->n_labels);
    char *at = (char *)(s->links + rec->n_links);
    if (rec->n_links)
        memcpy(s->links, rec->links, rec->n_links * sizeof *rec->links);
    s->name = put_clean(&at, rec->name, DVT_MAX_NAME);
    for (uint32_t i = 0; i < rec->n_labels; i++) {
        s->labels[i].key = put_clean(&at, rec->labels[i].key, DVT_MAX_LABEL_KEY);
        s->labels[i].value = put_clean(&at, rec->labels[i].value, DVT_MAX_LABEL_VALUE);
    }
    return s;
}

struct scope *scope_ref(struct scope *s)
{
    s->refs++;
    return s;
}

void scope_unref(struct scope *s)
{
    if (s && --s->refs == 0)
        free(s);
}
