/*
 * fuzz_traceparent: what is accepted is written again as the same ids and flags.
 */
#include "../../proto/ids.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvt_trace_id trace;
    struct dvt_span_id span;
    uint8_t flags;
    char again[DVT_TRACEPARENT_LEN + 1];
    if (dvt_traceparent_parse((const char *)data, size, &trace, &span, &flags) != 0)
        return 0;
    dvt_traceparent_format(&trace, &span, flags, again);
    if (size < DVT_TRACEPARENT_LEN || memcmp(again + 2, data + 2, DVT_TRACEPARENT_LEN - 2) != 0)
        abort(); /* only the version may differ */
    return 0;
}
