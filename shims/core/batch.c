/*
 * batch: see batch.h.
 */
#include "batch.h"

#include "arena.h"
#include "names.h"
#include "push.h"

void dvt_batch_clear(struct dvt_batch *b)
{
    b->n = b->n_labels = b->n_links = b->bytes = 0;
}

static void add_item(struct dvt_batch *b, struct dvt_scope_rec *r, const struct dvt_blob_item *item)
{
    switch (item->kind) {
    case DVT_BLOB_NAME:
        r->name = item->value;
        break;
    case DVT_BLOB_LABEL:
        if (r->n_labels < DVT_MAX_LABELS) {
            b->labels[b->n_labels++] = (struct dvt_label){item->key, item->value};
            r->n_labels++;
        }
        break;
    case DVT_BLOB_LINK:
        if (r->n_links < DVT_MAX_LINKS) {
            memcpy(b->links[b->n_links++].b, item->value.p, sizeof b->links[0].b);
            r->n_links++;
        }
        break;
    }
}

bool dvt_batch_add(struct dvt_batch *b, const struct dvt_scope_entry *e, const uint8_t *blob)
{
    const uint8_t *p = blob, *end = blob + e->blob_bytes;
    struct dvt_blob_item item;
    if (b->n == DVT_BATCH_SCOPES || b->bytes > DVT_PUSH_BATCH_BYTES ||
        b->n_labels + DVT_MAX_LABELS > DVT_BATCH_LABELS || b->n_links + DVT_MAX_LINKS > DVT_BATCH_LINKS)
        return false;
    struct dvt_scope_rec *r = &b->recs[b->n++];
    *r = (struct dvt_scope_rec){
        .serial = e->serial,
        .parent_serial = e->parent_serial,
        .start_ns = e->start,
        .end_ns = e->end,
        .head_open = e->head_open,
        .head_close = e->head_close,
        .trace = e->trace,
        .span = e->span,
        .parent_span = e->parent_span,
        .name = {"", 0},
        .flags = e->flags & ~(uint32_t)DVT_F_INTERNAL,
        .labels = b->labels + b->n_labels,
        .links = b->links + b->n_links,
    };
    if (e->name)
        r->name = (struct dvt_str){e->name->text, e->name->n};
    while (dvt_blob_next(&p, end, &item))
        add_item(b, r, &item);
    b->bytes += sizeof *e + e->blob_bytes;
    return true;
}
