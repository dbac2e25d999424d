/*
 * ids: trace and span ids and the W3C traceparent header.
 * Source: W3C Trace Context, https://www.w3.org/TR/trace-context/ (version 00; later versions are
 * read by its rule: same fields first).
 */
#ifndef DVT_IDS_H
#define DVT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_trace_id {
    uint8_t b[16]; /* big-endian, as in the hex text */
};
struct dvt_span_id {
    uint8_t b[8];
};

enum { DVT_TRACE_HEX = 32, DVT_SPAN_HEX = 16, DVT_TRACEPARENT_LEN = 55 };

bool dvt_trace_id_is_zero(const struct dvt_trace_id *id);
bool dvt_span_id_is_zero(const struct dvt_span_id *id);
int dvt_trace_id_cmp(const struct dvt_trace_id *a, const struct dvt_trace_id *b);

/* Lower-case hex with a final NUL into out[33] and out[17]. */
void dvt_trace_id_format(const struct dvt_trace_id *id, char out[DVT_TRACE_HEX + 1]);
void dvt_span_id_format(const struct dvt_span_id *id, char out[DVT_SPAN_HEX + 1]);

/* n must be exactly 32 or 16 hex digits (any case). 0 or DVT_EINVAL. */
int dvt_trace_id_parse(const char *text, size_t n, struct dvt_trace_id *ret_id);
int dvt_span_id_parse(const char *text, size_t n, struct dvt_span_id *ret_id);

/* Parses a traceparent header of n bytes. All-zero ids, version ff, upper-case or short headers are
 * DVT_EINVAL. flags bit 0 is "sampled". */
int dvt_traceparent_parse(const char *text, size_t n, struct dvt_trace_id *ret_trace,
                          struct dvt_span_id *ret_span, uint8_t *ret_flags);
/* Writes version 00, 55 bytes and a NUL. */
void dvt_traceparent_format(const struct dvt_trace_id *trace, const struct dvt_span_id *span, uint8_t flags,
                            char out[DVT_TRACEPARENT_LEN + 1]);

#endif
