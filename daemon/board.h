/*
 * board: where the pipeline's and the writer's threads leave what status and flush need to know. Layer 1; own
 * lock.
 */
#ifndef BOARD_H
#define BOARD_H

#include "process.h"

#include "../proto/err.h"

#include <stdbool.h>

struct report_process {
    struct process *proc; /* a reference */
    struct ledger ledger; /* the pipeline's part: see report_ledger */
    struct dvt_shim_counts shim;
    double scopes_per_s, samples_per_s; /* since the report before */
    uint64_t first_unix_ns, last_unix_ns;
    bool down;
};
struct report_dropped {
    char *service, *name; /* owned */
    uint64_t count;
};
struct report { /* of the pipeline, at one time */
    uint64_t generation; /* of the last request it answers */
    struct report_process *v;
    uint32_t n;
    struct ledger total; /* the daemon's, of all processes since its start */
    uint64_t open_traces;
    struct report_dropped *dropped; /* since the report before; for the store only */
    uint32_t n_dropped;
};
/* The process's ledger as of now: with what is counted at the edge. */
struct ledger report_ledger(const struct report_process *p);
void report_free(struct report *r); /* NULL is fine */
/* Without dropped. NULL without memory. */
struct report *report_copy(const struct report *r);

struct board_writer { /* since start */
    uint64_t traces, errors, deleted;
    char last_error[240];
};

struct board;
int board_new(struct board **ret, struct dvt_err *err);
void board_free(struct board *b);
/* Readable after news; reading it is board_clear_news. */
int board_fd(const struct board *b);
void board_clear_news(struct board *b);

void board_put_report(struct board *b, struct report *r); /* takes it */
void board_put_writer(struct board *b, const struct board_writer *w);
void board_put_flushed(struct board *b, uint64_t generation);

/* A copy, or NULL before the first. */
struct report *board_get_report(struct board *b);
uint64_t board_report_generation(struct board *b);
uint64_t board_flushed(struct board *b);
void board_get_writer(struct board *b, struct board_writer *ret);

#endif
