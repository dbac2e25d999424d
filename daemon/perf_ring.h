/*
 * perf_ring: the reader's side of one kernel ring buffer. Layer 1; sampler thread.
 *
 * The kernel writes records behind data_head (release); we read them and give the room back by data_tail
 * (release). A record may wrap at the end of the buffer: it is then put together in the caller's scratch.
 */
#ifndef PERF_RING_H
#define PERF_RING_H

#include "../proto/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PERF_RING_SCRATCH = 65536 }; /* a record's size is 16 bits */

struct perf_ring {
    uint8_t *base; /* one page of struct perf_event_mmap_page, then the data */
    size_t map_bytes, data_bytes; /* data_bytes is a power of two */
    uint64_t tail; /* read so far, not given back yet */
};

/* Maps 1 + data_pages pages of the event. DVT_EPERM: the budget of locked memory is used up. */
int perf_ring_open(int fd, uint32_t data_pages, struct perf_ring *ret, struct dvt_err *err);
void perf_ring_close(struct perf_ring *r);

uint64_t perf_ring_head(const struct perf_ring *r);
/* The next record before head: 1 and *ret_rec (in the ring or in scratch[PERF_RING_SCRATCH]; good until
 * given back) with its size, 0 at the end, DVT_EFORMAT when the bytes make no sense: all up to head is
 * skipped. r->tail is then its end. */
int perf_ring_next(struct perf_ring *r, uint64_t head, uint8_t *scratch, const uint8_t **ret_rec,
                   uint32_t *ret_n);
/* Gives back what was read. */
void perf_ring_release(struct perf_ring *r);

#endif
