/*
 * scope_batch: one SCOPES message unpacked into columns, checked, and turned into scopes row by row. Layer
 * 2.
 *
 * Unpacking is in three steps, because most rows of a batch may hold no sample: scope_batch_load fills the
 * two columns that tell, scope_batch_serials what the join needs and scope_batch_details the rest, only when
 * there are rows to look at. The buffers are reused from batch to batch.
 */
#ifndef SCOPE_BATCH_H
#define SCOPE_BATCH_H

#include "../proto/wire.h"

enum {
    SCOPE_BATCH_PLAIN = DVT_SCOPE_OUT_OF_ORDER | DVT_SCOPE_UNSAMPLED | DVT_SCOPE_REARMED |
                        DVT_SCOPE_LATE_ARMED, /* flags of scopes that may be dropped without a sample */
};
#define SCOPE_BATCH_FUTURE_NS 10000000000u /* an end later than now by more is impossible */

struct scope_batch {
    const struct dvt_scopes *msg;
    uint32_t n, cap;
    uint64_t *close, *head_span; /* [n] ring heads */
    uint32_t *keep;              /* [n] scratch */
    uint32_t all_flags;          /* no row has others */

    /* The rows during which the ring grew: no others can hold a sample. */
    uint32_t n_grown;
    uint32_t *grown;                     /* [n_grown] */
    uint64_t *grown_open, *grown_close;  /* [n_grown] */
    uint64_t min_open, max_close;        /* of these */
    bool is_sorted;                      /* grown_close ascends */

    uint64_t *serial;             /* [n] */
    uint64_t *dur, *end;          /* [n] */
    bool is_sane;                 /* by their bounds, no row's heads or times are impossible */
    uint32_t *flags;              /* [n] */
    uint64_t future_ns;

    uint64_t *parent_serial; /* [n] */
    struct dvt_span_id *spans, *parent_spans;
    uint32_t *trace, *name, *labelset;
    struct dvt_str *names;
    struct dvt_label *labels;
    uint32_t *first_label;
    const uint8_t **links; /* [n], with their number beside */
    uint32_t *n_links;
    uint32_t cap_names, cap_labels, cap_sets, cap_links;
    struct dvt_trace_id link_ids[DVT_MAX_LINKS]; /* of the row last read */
};

void scope_batch_init(struct scope_batch *b);
void scope_batch_fini(struct scope_batch *b);

/* Unpacks what tells which rows hold samples: the heads. msg must outlive the use of b. 0 or
 * DVT_ENOMEM. Hot. */
int scope_batch_load(struct scope_batch *b, const struct dvt_scopes *msg, uint64_t now_ns);
/* Unpacks the serials, and the times if there is a doubt about them. */
void scope_batch_serials(struct scope_batch *b);
void scope_batch_flags(struct scope_batch *b);

static inline uint64_t scope_batch_open(const struct scope_batch *b, uint32_t row)
{
    return b->close[row] - b->head_span[row];
}

/* Impossible times, heads or serial. Needs scope_batch_serials. */
static inline bool scope_batch_is_bad(const struct scope_batch *b, uint32_t row)
{
    if (b->is_sane)
        return b->serial[row] == 0;
    return (b->dur[row] > b->end[row]) | (b->end[row] > b->future_ns) | (b->head_span[row] > b->close[row]) |
           (b->serial[row] == 0);
}

/* Unpacks the rest. Needs scope_batch_serials. 0, DVT_ENOMEM, or DVT_EFORMAT. */
int scope_batch_details(struct scope_batch *b);
/* Row as a record, valid until the next call. False if its trace id is zero or its parent impossible. */
bool scope_batch_rec(struct scope_batch *b, uint32_t row, struct dvt_scope_rec *ret);

#endif
