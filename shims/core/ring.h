/*
 * ring: a byte ring with one producer and one consumer, records in one piece each.
 *
 * The producer is one thread (or the signal handler on it), the consumer the sender. A position is a lap
 * (high 32 bits) and an offset; w == r means empty. A record never straddles the end: a wrap mark sends the
 * reader to the next lap. An empty ring whose write offset has passed `soft` starts the next lap at once, so
 * that a thread that reports little touches few of its pages although the ring can take a burst of `size`
 * bytes. Refuses a record that does not fit; the caller counts it.
 */
#ifndef DVT_RING_H
#define DVT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_ring {
    uint8_t *p; /* [size], 8-aligned */
    uint32_t size, soft;
    _Alignas(64) _Atomic uint64_t w;  /* producer */
    _Atomic uint64_t restarted_at;    /* producer: where it last left a lap early; all before was consumed */
    uint64_t next_w, restart;         /* producer: w after the reserved record; its restarted_at */
    uint32_t at;                      /* producer: offset of the reserved record */
    _Alignas(64) _Atomic uint64_t r;  /* consumer */
};

struct dvt_ring_head {
    uint32_t bytes; /* with this header, a multiple of 8 */
    uint32_t kind;  /* DVT_RING_WRAP or the caller's, from 1 */
};
enum { DVT_RING_WRAP = 0, DVT_RING_ALIGN = 8 };

void dvt_ring_init(struct dvt_ring *ring, void *p, uint32_t size, uint32_t soft);
/* Producer: room for `bytes` bytes after the header, or NULL if full. Nothing is visible before commit; a
 * reservation that is not committed is forgotten. */
void *dvt_ring_reserve(struct dvt_ring *ring, uint32_t bytes, uint32_t kind);
void dvt_ring_commit(struct dvt_ring *ring);
/* Producer, between the two: fewer bytes were needed. */
void dvt_ring_shrink(struct dvt_ring *ring, uint32_t bytes);
/* Producer: bytes that wait for the consumer. */
uint32_t dvt_ring_used(const struct dvt_ring *ring);

/* Consumer: the write offset now; records before it can be read. */
uint64_t dvt_ring_end(const struct dvt_ring *ring);
/* Consumer: the record at *pos (start at dvt_ring_begin), advancing *pos; NULL at `end`. */
uint64_t dvt_ring_begin(const struct dvt_ring *ring);
const void *dvt_ring_next(const struct dvt_ring *ring, uint64_t *pos, uint64_t end, uint32_t *ret_kind);
/* Consumer: gives everything before pos back to the producer. */
void dvt_ring_release(struct dvt_ring *ring, uint64_t pos);

#endif
