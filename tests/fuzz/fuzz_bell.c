/*
 * fuzz_bell: what is taken for a request is put again as the same bytes, and its texts lie in the packet.
 */
#include "../../proto/bell.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvt_bell b;
    char again[DVT_BELL_MAX];
    if (dvt_bell_get((const char *)data, size, &b) != 0)
        return 0;
    size_t n = dvt_bell_put(&b, again);
    if (n != size || memcmp(again, data, n) != 0)
        abort();
    return 0;
}
