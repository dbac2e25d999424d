/*
 * stats: see stats.h.
 */
#include "stats.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void ledger_add(struct ledger *sum, const struct ledger *x)
{
#define X(name) sum->name += x->name;
    LEDGER_FIELDS(X)
#undef X
}

void edge_counts_add(const struct edge_counts *e, struct ledger *sum)
{
#define X(name) sum->name += atomic_load_explicit(&e->name, memory_order_relaxed);
    EDGE_FIELDS(X)
#undef X
}

static int put_field(struct dvt_buf *out, const char *prefix, const char *name, uint64_t value)
{
    char text[96];
    bool first = out->n > 0 && out->p[out->n - 1] == '{';
    int n = snprintf(text, sizeof text, "%s\"%s%s\":%llu", first ? "" : ",", prefix, name,
                     (unsigned long long)value);
    return dvt_buf_append(out, text, (size_t)n);
}

/* The fields of struct dvt_shim_counts, in its order. */
#define SHIM_FIELDS(X)                                                                                       \
    X(opened) X(closed) X(kept) X(dropped) X(lost_ring) X(lost_send) X(misuse_order) X(misuse_thread)        \
    X(misuse_depth) X(misuse_stale) X(signals) X(stacks_ok) X(stacks_none) X(stacks_lost) X(threads_started) \
    X(threads_ended) X(threads_unarmed) X(uncovered_ns) X(labels_cut) X(names_over) X(traceparents_bad)

#define X(name) +1
static_assert(sizeof(struct dvt_shim_counts) == sizeof(uint64_t) * (0 SHIM_FIELDS(X)), "a field is missing");
#undef X

int ledger_json(const struct ledger *l, const struct dvt_shim_counts *shim, struct dvt_buf *out)
{
    int r = dvt_buf_append(out, "{", 1);
#define X(name)                                                                                              \
    if (r == 0)                                                                                              \
        r = put_field(out, "", #name, l->name);
    LEDGER_FIELDS(X)
#undef X
#define X(name)                                                                                              \
    if (r == 0 && shim)                                                                                      \
        r = put_field(out, "shim_", #name, shim->name);
    SHIM_FIELDS(X)
#undef X
    return r ? r : dvt_buf_append(out, "}", 1);
}
