/* A JVM's file of counters, which is another process's memory: any bytes are taken or refused. */
#include "../../cli/hsperf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hsperf h = {0};
    if (hsperf_decode(data, size, &h) == 0) {
        hsperf_fini(&h);
    }
    return 0;
}
