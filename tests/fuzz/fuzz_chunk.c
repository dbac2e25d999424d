/* Any bytes: the decoder refuses them or gives a chunk that keeps the rules and can be encoded and decoded
 * again. */
#include <stdlib.h>
#include "../../proto/chunk_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvt_chunk c, again;
    struct dvt_buf out;
    uint64_t told;
    uint32_t base = 1;
    dvt_chunk_size(data, size, &told);
    if (dvt_chunk_decode(data, size, &c, NULL))
        return 0;
    dvt_buf_init(&out, 1u << 28);
    if (dvt_chunk_check(&c, DVT_EFORMAT, NULL) || dvt_chunk_encode(&c, &base, &out, NULL) ||
        dvt_chunk_decode(out.p, out.n, &again, NULL))
        abort();
    if (again.n_samples != c.n_samples || again.n_scopes != c.n_scopes || again.n_labels != c.n_labels ||
        again.n_times != c.n_times)
        abort();
    dvt_chunk_fini(&again);
    dvt_chunk_fini(&c);
    dvt_buf_fini(&out);
    return 0;
}
