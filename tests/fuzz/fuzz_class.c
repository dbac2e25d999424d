/*
 * fuzz_class: any bytes as a class file, patched and relocated as those of tracers are. What is patched is longer by the new
 * constants alone, and nothing is left in it to patch.
 */
#include <stdlib.h>

#include "../../shims/jvm/patch.h"
#include "../../shims/jvm/relocate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void patch(const uint8_t *data, size_t size)
{
    const struct dvt_jvm_patch how = {"attach", "io/opentelemetry/context/DovetailOtel"};
    uint8_t *out = malloc(size + DVT_JVM_PATCH_EXTRA), *again = NULL; /* of its true size, so that a write beyond it is seen */
    size_t n, again_n;
    if (out && dvt_jvm_patch(data, size, &how, out, &n) > 0) {
        if (n <= size || n > size + DVT_JVM_PATCH_EXTRA)
            abort();
        again = malloc(n + DVT_JVM_PATCH_EXTRA);
        if (again && dvt_jvm_patch(out, n, &how, again, &again_n) > 0)
            abort();
    }
    free(again);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *out;
    size_t n;
    patch(data, size);
    if (dvt_jvm_relocate(data, size, &out, &n) == 0) {
        if (n < size)
            abort();
        free(out);
    }
    return 0;
}
