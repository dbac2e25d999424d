/*
 * tiny_scopes: N scopes of about 2 us, once to be kept only with a sample inside ("tiny"), once always
 * ("every", a tenth as many, of 20 us). Prints the counts opened.   tiny_scopes N
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"
#include "dovetail.h"

static __attribute__((noinline)) void tiny(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        burn_sink += i;
    STAY();
}

static void loop(uint64_t n, const char *name, bool always)
{
    const struct dvt_name *interned = dvt_name(name);
    static const uint8_t trace[2][16] = {{[15] = 1}, {[15] = 2}};
    for (uint64_t i = 0; i < n; i++) {
        struct dvt_scope s = dvt_scope_open(
            &(struct dvt_scope_args){.interned = interned, .always = always, .trace_id = trace[always]});
        tiny(always ? 10000 : 1000); /* what is always kept must not fill its ring before a busy machine's sender runs */
        dvt_scope_close(s);
    }
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    dvt_start(NULL);
    struct timespec settle = {0, 300000000};
    nanosleep(&settle, NULL);
    uint64_t start_ns = monotonic_ns();
    loop(n, "tiny", false);
    uint64_t mean_ns = (monotonic_ns() - start_ns) / (n ? n : 1);
    loop(n / 10, "every", true);
    printf("tiny %" PRIu64 " every %" PRIu64 " mean_ns %" PRIu64 "\n", n, n / 10, mean_ns);
    return 0;
}
