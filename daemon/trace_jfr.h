/*
 * trace_jfr: a closed trace to a chunk: symbols, merge of managed over native frames, interning. Layer 5.
 */
#ifndef TRACE_JFR_H
#define TRACE_JFR_H

#include "symbols.h"
#include "trace.h"

/* Builds the chunk's tables from t. A sample's stack, leaf first: kernel frames, native frames above the
 * interpreter's evaluation function, managed frames, and nothing of the interpreter below them; without
 * managed frames all native ones. A sample whose managed stack is missing in a thread that should have one
 * gets its native frames down to the evaluation function, then the special frame "[no stack: reason]". The
 * result's arrays and strings live in *ret until trace_jfr_free. */
struct trace_jfr;
int trace_jfr_build(const struct trace *t, struct symbols *sym, int64_t unix_offset_ns, uint64_t period_ns,
                    const char *event, const char *host, struct trace_jfr **ret, struct dvt_err *err);
const struct dvt_chunk *trace_jfr_chunk(const struct trace_jfr *j);
void trace_jfr_free(struct trace_jfr *j);

#endif
