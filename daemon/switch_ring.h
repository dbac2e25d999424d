/*
 * switch_ring: the kernel's records of one thread's context switches. Layer 1; sampler thread.
 *
 * An event that counts nothing carries them, with a ring of its own: the sample ring's heads say where samples are, and
 * switches may be many. Nobody waits for the ring. Needs no privilege beyond that of sampling the thread.
 */
#ifndef SWITCH_RING_H
#define SWITCH_RING_H

#include "perf_ring.h"
#include "switches.h"

#include <stdbool.h>

struct switch_ring {
    int fd;
    struct perf_ring ring;
    uint64_t from_ns; /* switches are recorded since then */
    bool slept;       /* as in struct switches */
};

/* data_pages: a power of two. Errors as perf_open_thread and perf_ring_open. */
int switch_ring_open(uint32_t host_tid, uint32_t data_pages, struct switch_ring **ret, struct dvt_err *err);
void switch_ring_close(struct switch_ring *r); /* frees it; NULL is fine */
/* What came since last time; NULL: nothing, or no memory (*ret_lost is then true, as for a damaged ring: the caller says so
 * with SWITCH_GAP). scratch[PERF_RING_SCRATCH]. */
struct switches *switch_ring_take(struct switch_ring *r, bool after_gap, uint8_t *scratch, bool *ret_lost);

#endif
