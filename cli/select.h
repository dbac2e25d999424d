/*
 * select: which samples of a decoded chunk a filter picks. Pure.
 *
 * A sample is picked if its process is of the service, and its innermost scope, or one that encloses it (on its thread,
 * or by its parent span anywhere in the chunk), has the name, the tag, the span; labels are the effective ones of
 * its innermost scope (proto/labels.h).
 */
#ifndef SELECT_H
#define SELECT_H

#include "filter.h"

#include "../proto/chunk.h"

struct select {
    bool *scopes;    /* [n_scopes]: samples in this innermost scope are picked */
    bool *processes; /* [n_processes] */
};

/* Fills ret for the chunk; free with select_fini. */
void select_init(struct select *ret, const struct filter *f, const struct dvt_chunk *c);
void select_fini(struct select *s);
bool select_sample(const struct select *s, const struct dvt_chunk *c, const struct dvt_chunk_sample *sample);

#endif
