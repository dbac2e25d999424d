/*
 * labels: which labels count for which scope of a trace. The store's sums and the CLI's filters use this one
 * rule.
 *
 * A scope's effective labels are, nearer ones hiding farther ones of the same key:
 *   1. its own and those of all scopes with its span id in the chunk (a span's scopes share what one of them
 * learned),
 *   2. the effective labels of the scopes that enclose those on their threads, and of their parent span's
 * scopes,
 *   3. keys that have exactly one value in the whole trace.
 * A key with several values at the same distance keeps them all. "Whole trace" is what was added to
 * dvt_trace_labels: add every part before asking for the sets of any.
 */
#ifndef DVT_LABELS_H
#define DVT_LABELS_H

#include "chunk.h"
#include "chunk_intern.h"

enum { DVT_LABEL_SET_MAX = 64 }; /* labels of one set; farther ones are left out */

/* The distinct labels of a trace. Strings are borrowed from the chunks added, which must live as long. */
struct dvt_trace_labels {
    struct dvt_strings strings;
    struct dvt_tuples labels; /* key string, value string; the index is the label's id */
};
/* 0 or DVT_ENOMEM. */
int dvt_trace_labels_add(struct dvt_trace_labels *t, const struct dvt_chunk *c);
void dvt_trace_labels_fini(struct dvt_trace_labels *t);
static inline struct dvt_str dvt_label_key(const struct dvt_trace_labels *t, uint32_t id)
{
    return t->strings.items[t->labels.items[id][0]];
}
static inline struct dvt_str dvt_label_value(const struct dvt_trace_labels *t, uint32_t id)
{
    return t->strings.items[t->labels.items[id][1]];
}

struct dvt_label_sets {
    uint32_t *of_scope;   /* [n_scopes] index of a scope's set */
    uint32_t of_no_scope; /* the set of samples without scope: rule 3 alone */
    struct dvt_seqs sets; /* sets.items[i]: ids sets.values[first .. first + n), ascending */
};
/* The sets of c's scopes; t must hold c's labels. Free with dvt_label_sets_fini. 0 or DVT_ENOMEM. */
int dvt_labels_effective(struct dvt_trace_labels *t, const struct dvt_chunk *c, struct dvt_label_sets *ret);
/* The same by rules 1 and 2 alone: what a chunk tells whatever the other parts are. */
int dvt_labels_near(struct dvt_trace_labels *t, const struct dvt_chunk *c, struct dvt_label_sets *ret);
void dvt_label_sets_fini(struct dvt_label_sets *s);

#endif
