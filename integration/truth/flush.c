/*
 * flush: a busy thread whose every 10 ms of CPU time hold 2 ms in flush() and 8 ms in fill(): a sampler that
 * falls into step with it would show 0% or 100%. Prints "flush CPU_NS" and "fill CPU_NS".   flush SECONDS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"
#include "dovetail.h"

static __attribute__((noinline)) uint64_t fill(void)
{
    uint64_t spent = burn(8000000);
    STAY();
    return spent;
}

static __attribute__((noinline)) uint64_t flush(void)
{
    uint64_t spent = burn(2000000);
    STAY();
    return spent;
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10, filled = 0, flushed = 0;
    dvt_start(NULL);
    uint64_t end_ns = monotonic_ns() + seconds * 1000000000u;
    struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){.name = "busy"});
    while (monotonic_ns() < end_ns) {
        filled += fill();
        flushed += flush();
    }
    dvt_scope_close(s);
    printf("fill %" PRIu64 "\nflush %" PRIu64 "\n", filled, flushed);
    return 0;
}
