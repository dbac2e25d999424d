/*
 * fuzz_unwind: registers and stack bytes of a sample may be anything. They are unwound through this program's
 * own mappings, so that real frame information meets impossible stacks. It must end, within bounds, and give
 * names.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../daemon/perf_open.h"
#include "../../daemon/procmap.h"
#include "../../daemon/symbols.h"

enum { MAX_FRAMES = 64, N_REGS = SAMPLE_MAX_REGS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct symbols *symbols;
static struct process process;

static void set_up(void)
{
    symbols = symbols_new();
    if (!symbols || procmap_new((uint32_t)getpid(), &process.map, NULL))
        abort();
}

/* Makes a number an address of this program or of libc, so that the walk gets somewhere. */
static uint64_t into_code(uint64_t x)
{
    uint64_t base = x & 1 ? (uint64_t)(uintptr_t)LLVMFuzzerTestOneInput : (uint64_t)(uintptr_t)memcpy;
    return base + (x >> 1) % 65536;
}

/* The first byte says how much of the rest becomes addresses of code; then registers, then stack. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t regs[N_REGS] = {0}, stack[512];
    struct symbols_frame frames[MAX_FRAMES];
    uint32_t above, n_regs = (uint32_t)__builtin_popcountll(PERF_OPEN_REGS_MASK);
    bool truncated;
    if (!symbols)
        set_up();
    if (size < 1 + sizeof *regs)
        return 0;
    uint8_t how = *data++;
    size--;
    size_t n = size < n_regs * sizeof *regs ? size : n_regs * sizeof *regs;
    memcpy(regs, data, n);
    size_t n_stack = size - n < sizeof stack ? size - n : sizeof stack;
    memcpy(stack, data + n, n_stack);
    for (size_t i = 0; i < n_stack / sizeof *stack; i++) {
        if (how >> (i % 8) & 1)
            stack[i] = into_code(stack[i]);
    }
    for (uint32_t i = 0; i < n_regs; i++) {
        if (regs[i] % 4 == 0)
            regs[i] = into_code(regs[i] / 4);
    }
    uint64_t *block = malloc(n_stack + 1); /* of its true size, so that a read beyond it is seen */
    memcpy(block, stack, n_stack);
    struct sample s = {
        .regs = regs, .n_regs = n_regs, .stack = (uint8_t *)block, .n_stack = (uint32_t)n_stack};
    uint32_t got = symbols_resolve(symbols, &process, &s, frames, MAX_FRAMES, &above, &truncated);
    if (got > MAX_FRAMES || above > got)
        abort();
    for (uint32_t i = 0; i < got; i++) {
        if (!frames[i].name[0])
            abort();
    }
    free(block);
    return 0;
}
