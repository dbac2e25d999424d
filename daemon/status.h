/*
 * status: the daemon's state as one JSON object, for the CLI. Layer 1; pure.
 */
#ifndef STATUS_H
#define STATUS_H

#include "board.h"
#include "config.h"
#include "perf_open.h"

struct status_in {
    const struct config *config;
    const struct perf_source_info *source;
    const struct report *report; /* may be NULL: nothing was ever reported */
    const struct board_writer *writer;
    const uint32_t *n_threads;   /* [report->n] armed now; may be NULL */
    const struct ledger *edge;   /* counts that belong to no process */
    uint32_t pid, n_sessions;
    uint64_t uptime_ns;
    uint64_t store_bytes; /* of its segments now */
    const char *endpoint;
    const char *const *notes; /* [n_notes]; empty ones are left out */
    uint32_t n_notes;
};

/* Fields: version, pid, uptime_s, store, socket, endpoint, event {asked, used, why, kernel, opens}, hz,
 * native, processes [{pid, service, runtime, runtime_version, program, down, threads, armed, failed,
 * scopes_per_s, samples_per_s, ledger}], totals, open_traces, writer {traces, bytes, errors, deleted,
 * last_error}, notes []. */
int status_json(const struct status_in *in, struct dvt_buf *out);

#endif
