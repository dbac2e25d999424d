/* perf_decode on any bytes: byte 0 chooses the layout, the rest is a record. A sample it gives must be
 * sound. */
#include "../../daemon/perf_decode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all that the sample says it has. */
static void check(const struct sample *s)
{
    uint64_t sum = 0;
    if (s->n_kernel > s->n_ips || s->n_ips > PERF_DECODE_MAX_IPS || s->n_regs > SAMPLE_MAX_REGS)
        abort();
    for (uint32_t i = 0; i < s->n_ips; i++)
        sum += s->ips[i];
    for (uint32_t i = 0; i < s->n_regs; i++)
        sum += s->regs[i];
    for (uint32_t i = 0; i < s->n_stack; i++)
        sum += s->stack[i];
    volatile uint64_t sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct perf_layout l = {.native = data[0] % 3, .period_is_true = data[0] & 64};
    l.regs_mask = l.native == PERF_NATIVE_DWARF ? PERF_OPEN_REGS_MASK : 0;
    enum perf_kind kind = PERF_KIND_OTHER;
    struct sample *s = NULL;
    uint64_t lost = 0;
    int r = perf_decode(&l, data + 1, size - 1, &kind, &s, &lost);
    if ((r == 0 && kind == PERF_KIND_SAMPLE) != (s != NULL))
        abort();
    if (s)
        check(s);
    free(s);
    struct switch_rec x = {0, SWITCH_GAP};
    if (perf_decode_switch(data + 1, size - 1, &x) == 0 && x.kind > SWITCH_GAP)
        abort();
    return 0;
}
