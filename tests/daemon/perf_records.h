/* Makes perf records as the kernel lays them out, for the decoder's tests and the fuzzer's corpus. */
#ifndef PERF_RECORDS_H
#define PERF_RECORDS_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>

struct record {
    uint8_t bytes[16384];
    size_t n;
};

static inline void record_u64(struct record *r, uint64_t v)
{
    memcpy(r->bytes + r->n, &v, sizeof v);
    r->n += sizeof v;
}

static inline void record_begin(struct record *r, uint32_t type, uint16_t misc)
{
    struct perf_event_header h = {.type = type, .misc = misc};
    memcpy(r->bytes, &h, sizeof h);
    r->n = sizeof h;
}

static inline void record_end(struct record *r)
{
    struct perf_event_header h;
    memcpy(&h, r->bytes, sizeof h);
    h.size = (uint16_t)r->n;
    memcpy(r->bytes, &h, sizeof h);
}

/* TID TIME PERIOD CALLCHAIN */
static inline void record_chain_part(struct record *r, uint64_t time_ns, const uint64_t *chain, uint64_t n)
{
    record_u64(r, 7 | 8ull << 32);
    record_u64(r, time_ns);
    record_u64(r, 10101010);
    record_u64(r, n);
    for (uint64_t i = 0; i < n; i++)
        record_u64(r, chain[i]);
}

/* REGS_USER of n registers 100, 101, ... and STACK_USER of `size` bytes, `filled` of them 0, 1, 2, ... */
static inline void record_user_part(struct record *r, uint64_t abi, uint32_t n, uint64_t size,
                                    uint64_t filled)
{
    record_u64(r, abi);
    for (uint32_t i = 0; abi && i < n; i++)
        record_u64(r, 100 + i);
    record_u64(r, size);
    for (uint64_t i = 0; i < size; i++)
        r->bytes[r->n++] = (uint8_t)i;
    if (size)
        record_u64(r, filled);
}

#endif
