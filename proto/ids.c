/*
 * ids: trace and span ids, their hex text, and the W3C traceparent header.
 *
 * Source: W3C Trace Context, section 3.2 (traceparent), https://www.w3.org/TR/trace-context/. A header of a
 * later version is read by its rule: the same fields first, anything more after another dash; version ff is
 * never valid.
 */
#include "ids.h"
#include "err.h"

#include <string.h>

static bool all_zero(const uint8_t *b, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= b[i];
    return any == 0;
}

bool dvt_trace_id_is_zero(const struct dvt_trace_id *id)
{
    return all_zero(id->b, sizeof id->b);
}

bool dvt_span_id_is_zero(const struct dvt_span_id *id)
{
    return all_zero(id->b, sizeof id->b);
}

int dvt_trace_id_cmp(const struct dvt_trace_id *a, const struct dvt_trace_id *b)
{
    return memcmp(a->b, b->b, sizeof a->b);
}

/* ---- hex ---- */

static void hex_format(const uint8_t *b, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[b[i] >> 4];
        out[2 * i + 1] = digits[b[i] & 15];
    }
}

static int hex_digit(char c, bool upper_allowed)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (upper_allowed && c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int hex_parse(const char *text, size_t n_bytes, bool upper_allowed, uint8_t *out)
{
    for (size_t i = 0; i < n_bytes; i++) {
        int hi = hex_digit(text[2 * i], upper_allowed), lo = hex_digit(text[2 * i + 1], upper_allowed);
        if (hi < 0 || lo < 0)
            return DVT_EINVAL;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return 0;
}

void dvt_trace_id_format(const struct dvt_trace_id *id, char out[DVT_TRACE_HEX + 1])
{
    hex_format(id->b, sizeof id->b, out);
    out[DVT_TRACE_HEX] = 0;
}

void dvt_span_id_format(const struct dvt_span_id *id, char out[DVT_SPAN_HEX + 1])
{
    hex_format(id->b, sizeof id->b, out);
    out[DVT_SPAN_HEX] = 0;
}

int dvt_trace_id_parse(const char *text, size_t n, struct dvt_trace_id *ret_id)
{
    struct dvt_trace_id id;
    if (n != DVT_TRACE_HEX || hex_parse(text, sizeof id.b, true, id.b))
        return DVT_EINVAL;
    *ret_id = id;
    return 0;
}

int dvt_span_id_parse(const char *text, size_t n, struct dvt_span_id *ret_id)
{
    struct dvt_span_id id;
    if (n != DVT_SPAN_HEX || hex_parse(text, sizeof id.b, true, id.b))
        return DVT_EINVAL;
    *ret_id = id;
    return 0;
}

/* ---- traceparent: vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff ---- */

enum { AT_TRACE = 3, AT_SPAN = 36, AT_FLAGS = 53, VERSION_INVALID = 0xFF };

static bool traceparent_shape_is_valid(const char *t, size_t n)
{
    uint8_t version;
    if (n < DVT_TRACEPARENT_LEN || hex_parse(t, 1, false, &version) || version == VERSION_INVALID)
        return false;
    if (t[AT_TRACE - 1] != '-' || t[AT_SPAN - 1] != '-' || t[AT_FLAGS - 1] != '-')
        return false;
    if (n == DVT_TRACEPARENT_LEN)
        return true;
    return version != 0 && t[DVT_TRACEPARENT_LEN] == '-';
}

int dvt_traceparent_parse(const char *text, size_t n, struct dvt_trace_id *ret_trace,
                          struct dvt_span_id *ret_span, uint8_t *ret_flags)
{
    struct dvt_trace_id trace;
    struct dvt_span_id span;
    uint8_t flags;
    if (!traceparent_shape_is_valid(text, n))
        return DVT_EINVAL;
    if (hex_parse(text + AT_TRACE, sizeof trace.b, false, trace.b) ||
        hex_parse(text + AT_SPAN, sizeof span.b, false, span.b) ||
        hex_parse(text + AT_FLAGS, 1, false, &flags))
        return DVT_EINVAL;
    if (dvt_trace_id_is_zero(&trace) || dvt_span_id_is_zero(&span))
        return DVT_EINVAL;
    *ret_trace = trace;
    *ret_span = span;
    *ret_flags = flags;
    return 0;
}

void dvt_traceparent_format(const struct dvt_trace_id *trace, const struct dvt_span_id *span, uint8_t flags,
                            char out[DVT_TRACEPARENT_LEN + 1])
{
    memcpy(out, "00-", AT_TRACE);
    hex_format(trace->b, sizeof trace->b, out + AT_TRACE);
    out[AT_SPAN - 1] = '-';
    hex_format(span->b, sizeof span->b, out + AT_SPAN);
    out[AT_FLAGS - 1] = '-';
    hex_format(&flags, 1, out + AT_FLAGS);
    out[DVT_TRACEPARENT_LEN] = 0;
}
