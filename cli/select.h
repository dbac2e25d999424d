/*
 * select: which samples of a decoded chunk a filter picks. Pure.
 *
 * A sample is picked if its process is of the service, and its innermost scope, or one that encloses it (on
 * its thread, or by its parent span anywhere in the chunk), has the name, the tag, the span; labels are the
 * effective ones of its innermost scope (proto/labels.h).
 */
#ifndef SELECT_H
#define SELECT_H

#include "filter.h"

#include "../proto/labels.h"

struct select {
    bool *scopes;    /* [n_scopes]: samples in this innermost scope are picked */
    bool *processes; /* [n_processes] */
    bool no_scope;   /* samples in no scope are picked */
};

/* The way up from a scope: to the one that encloses it on its thread, else to one of its parent span. Parent
 * spans may form a ring: take at most SELECT_UP_MAX steps. */
enum { SELECT_UP_MAX = 256 };
struct select_up {
    struct select_span *rows; /* [n] by span */
    size_t n;
};
void select_up_init(struct select_up *u, const struct dvt_chunk *c);
void select_up_fini(struct select_up *u);
uint32_t select_up(const struct select_up *u, const struct dvt_chunk *c,
                   uint32_t scope); /* DVT_NONE at the top */

/* Fills ret for the chunk; labels are those of its whole trace. Free with select_fini. 0 or DVT_ENOMEM. */
int select_init(struct select *ret, const struct filter *f, const struct dvt_chunk *c,
                struct dvt_trace_labels *labels);
void select_fini(struct select *s);
/* All label conditions hold in the set of ids. */
bool select_labels(const struct filter *f, const struct dvt_trace_labels *labels, const uint32_t *ids,
                   size_t n);
bool select_sample(const struct select *s, const struct dvt_chunk *c, const struct dvt_chunk_sample *sample);

#endif
