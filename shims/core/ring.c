/*
 * ring: see ring.h. Pairing: the producer's release store of w makes a record visible to the consumer's acquire load;
 * the consumer's release store of r gives the bytes back to the producer's acquire load.
 */
#include "ring.h"

#include <string.h>

enum { HEAD = sizeof(struct dvt_ring_head) };

void dvt_ring_init(struct dvt_ring *ring, void *p, uint32_t size, uint32_t soft)
{
    ring->p = p;
    ring->size = size;
    ring->soft = soft;
    ring->next_w = 0;
    atomic_store_explicit(&ring->w, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->r, 0, memory_order_relaxed);
}

static void put_head(struct dvt_ring *ring, uint32_t at, uint32_t bytes, uint32_t kind)
{
    struct dvt_ring_head h = {bytes, kind};
    memcpy(ring->p + at, &h, sizeof h);
}

static uint32_t record_bytes(uint32_t bytes)
{
    return (bytes + HEAD + DVT_RING_ALIGN - 1) / DVT_RING_ALIGN * DVT_RING_ALIGN;
}

/* Where a record of `len` bytes can go; false if nowhere. One header's room always stays behind w for the wrap mark, so
 * w never meets r from behind. */
static bool place(const struct dvt_ring *ring, uint32_t len, uint32_t *ret_at)
{
    uint32_t w = atomic_load_explicit(&ring->w, memory_order_relaxed);
    uint32_t r = atomic_load_explicit(&ring->r, memory_order_acquire);
    bool restart = w == r && w >= ring->soft;
    uint32_t room = w >= r ? ring->size - w : r - w;
    if (!restart && (uint64_t)len + HEAD <= room) {
        *ret_at = w;
        return true;
    }
    if (w >= r && (uint64_t)len + HEAD <= r) {
        *ret_at = 0;
        return true;
    }
    *ret_at = w;
    return (uint64_t)len + HEAD <= room;
}

void *dvt_ring_reserve(struct dvt_ring *ring, uint32_t bytes, uint32_t kind)
{
    uint32_t w = atomic_load_explicit(&ring->w, memory_order_relaxed), at;
    if (bytes > ring->size - 2 * HEAD)
        return NULL;
    uint32_t len = record_bytes(bytes);
    if (!place(ring, len, &at))
        return NULL;
    if (at != w)
        put_head(ring, w, 0, DVT_RING_WRAP);
    put_head(ring, at, len, kind);
    ring->at = at;
    ring->next_w = at + len;
    return ring->p + at + HEAD;
}

void dvt_ring_shrink(struct dvt_ring *ring, uint32_t bytes)
{
    struct dvt_ring_head h;
    memcpy(&h, ring->p + ring->at, sizeof h);
    put_head(ring, ring->at, record_bytes(bytes), h.kind);
    ring->next_w = ring->at + record_bytes(bytes);
}

void dvt_ring_commit(struct dvt_ring *ring)
{
    atomic_store_explicit(&ring->w, ring->next_w, memory_order_release);
}

uint32_t dvt_ring_used(const struct dvt_ring *ring)
{
    uint32_t w = atomic_load_explicit(&ring->w, memory_order_relaxed);
    uint32_t r = atomic_load_explicit(&ring->r, memory_order_relaxed);
    return w >= r ? w - r : ring->size - r + w;
}

uint32_t dvt_ring_end(const struct dvt_ring *ring)
{
    return atomic_load_explicit(&ring->w, memory_order_acquire);
}

uint32_t dvt_ring_begin(const struct dvt_ring *ring)
{
    return atomic_load_explicit(&ring->r, memory_order_relaxed);
}

const void *dvt_ring_next(const struct dvt_ring *ring, uint32_t *pos, uint32_t end, uint32_t *ret_kind)
{
    struct dvt_ring_head h;
    if (*pos == end)
        return NULL;
    memcpy(&h, ring->p + *pos, sizeof h);
    if (h.kind == DVT_RING_WRAP) {
        *pos = 0;
        memcpy(&h, ring->p, sizeof h);
    }
    const void *rec = ring->p + *pos + HEAD;
    *pos += h.bytes;
    *ret_kind = h.kind;
    return rec;
}

void dvt_ring_release(struct dvt_ring *ring, uint32_t pos)
{
    atomic_store_explicit(&ring->r, pos, memory_order_release);
}
