/*
 * batch: ring entries of one thread as scope records, ready to encode. The records point into the ring (or a
 * copy of it), which must not be released before the batch is sent.
 */
#ifndef DVT_BATCH_H
#define DVT_BATCH_H

#include "slot.h"

enum { DVT_BATCH_SCOPES = 1024, DVT_BATCH_LABELS = 8192, DVT_BATCH_LINKS = 8192 };

struct dvt_batch {
    size_t n, n_labels, n_links, bytes;
    struct dvt_scope_rec recs[DVT_BATCH_SCOPES];
    struct dvt_label labels[DVT_BATCH_LABELS];
    struct dvt_trace_id links[DVT_BATCH_LINKS];
};

/* Adds the entry e, whose times are in ns and whose blob is at `blob`. False if the batch is full: send it
 * first. */
bool dvt_batch_add(struct dvt_batch *b, const struct dvt_scope_entry *e, const uint8_t *blob);
void dvt_batch_clear(struct dvt_batch *b);

#endif
