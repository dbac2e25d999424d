/*
 * trace_table: the traces that are open now, by id, and when each is to be closed. Layer 4.
 *
 * Deciding (trace_entry_due) is pure. Ids are chosen by others, so they are hashed with a random seed. The
 * last closed ids are remembered, in a bounded ring, so that late news of a trace opens its next part.
 * Pipeline thread only.
 */
#ifndef TRACE_TABLE_H
#define TRACE_TABLE_H

#include "trace_build.h"

enum { TRACE_TABLE_REMEMBERED = 65536 };

struct trace_rules {
    uint64_t idle_close_ns, root_grace_ns, part_cap_ns;
    uint32_t part_cap_samples;
};

enum trace_due {
    TRACE_OPEN,
    TRACE_DUE_ROOT, /* its root has ended, and no more came */
    TRACE_DUE_IDLE, /* nothing came for long */
    TRACE_DUE_PART, /* it goes on, but what there is gets written */
};

struct trace_entry {
    struct dvt_trace_id id;
    struct trace_build *build; /* owned; NULL: nothing new since the last part */
    uint32_t part;             /* of build, or of the next one */
    uint32_t n_open, n_open_roots; /* announced scopes that still run */
    uint32_t n_roots;          /* root scopes that ended in this part */
    uint64_t part_ns;          /* when the part began */
    uint64_t news_ns;          /* when a scope was last told */
    uint64_t hash;
    uint32_t place;
};

struct trace_memory {
    struct dvt_trace_id id;
    uint32_t next_part;
    uint64_t hash;
};

struct trace_table {
    struct ptrmap map, memory_map;
    struct trace_entry **all; /* [n] */
    uint32_t n, cap;
    struct trace_memory *memory; /* ring [TRACE_TABLE_REMEMBERED], made at first use */
    uint32_t memory_at;
    uint64_t next_due_ns;     /* no entry is due before */
};

void trace_table_init(struct trace_table *t);
void trace_table_fini(struct trace_table *t);

struct trace_entry *trace_table_find(const struct trace_table *t, const struct dvt_trace_id *id);
/* The open trace with the id; opened, as its next part, if there was none. NULL without memory. */
struct trace_entry *trace_table_enter(struct trace_table *t, const struct dvt_trace_id *id, uint64_t now_ns);
/* Its part, begun if there was none; NULL without memory. */
struct trace_build *trace_entry_build(struct trace_entry *e, uint64_t now_ns);
/* Forgets it but for its next part number; frees e. */
void trace_table_remove(struct trace_table *t, struct trace_entry *e);

/* Whether it is to be closed now, and the time before which that cannot change without news. */
enum trace_due trace_entry_due(const struct trace_entry *e, const struct trace_rules *r, uint64_t now_ns);
uint64_t trace_entry_next(const struct trace_entry *e, const struct trace_rules *r);

#endif
