/*
 * ring: see ring.h. Pairing: the producer's release store of w makes a record (and restarted_at) visible to
 * the consumer's acquire load; the consumer's release store of r gives the bytes back to the producer's
 * acquire load.
 */
#include "ring.h"

#include <string.h>

enum { HEAD = sizeof(struct dvt_ring_head) };

static uint32_t offset(uint64_t pos)
{
    return (uint32_t)pos;
}

static uint64_t next_lap(uint64_t pos)
{
    return ((pos >> 32) + 1) << 32;
}

void dvt_ring_init(struct dvt_ring *ring, void *p, uint32_t size, uint32_t soft)
{
    ring->p = p;
    ring->size = size;
    ring->soft = soft;
    ring->next_w = 0;
    ring->restart = UINT64_MAX;
    atomic_store_explicit(&ring->restarted_at, UINT64_MAX, memory_order_relaxed);
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

/* Whether the consumer has yet to follow the producer into a lap begun early: it has nothing unread but that
 * lap. */
static bool is_behind_restart(const struct dvt_ring *ring, uint64_t w, uint64_t r)
{
    return w != r && r == atomic_load_explicit(&ring->restarted_at, memory_order_relaxed);
}

/* Where a record of `len` bytes goes, as the position of its first byte; false if nowhere. One header's room
 * always stays behind w for the wrap mark, so w never meets r from behind. */
static bool place(const struct dvt_ring *ring, uint32_t len, uint64_t *ret_pos)
{
    uint64_t w = atomic_load_explicit(&ring->w, memory_order_relaxed);
    uint64_t r = atomic_load_explicit(&ring->r, memory_order_acquire);
    bool behind = is_behind_restart(ring, w, r), same_lap = w >> 32 == r >> 32;
    uint32_t room = behind || same_lap ? ring->size - offset(w) : offset(r) - offset(w);
    *ret_pos = w == r && offset(w) >= ring->soft ? next_lap(w) : w;
    if (*ret_pos != w || (uint64_t)len + HEAD <= room)
        return true;
    *ret_pos = next_lap(w);
    return same_lap && (uint64_t)len + HEAD <= offset(r);
}

void *dvt_ring_reserve(struct dvt_ring *ring, uint32_t bytes, uint32_t kind)
{
    uint64_t w = atomic_load_explicit(&ring->w, memory_order_relaxed), pos;
    if (bytes > ring->size - 2 * HEAD - DVT_RING_ALIGN)
        return NULL;
    uint32_t len = record_bytes(bytes);
    if (!place(ring, len, &pos))
        return NULL;
    ring->restart = UINT64_MAX;
    if (pos != w && atomic_load_explicit(&ring->r, memory_order_acquire) == w)
        ring->restart = w;
    else if (pos != w)
        put_head(ring, offset(w), 0, DVT_RING_WRAP);
    ring->at = offset(pos);
    put_head(ring, ring->at, len, kind);
    ring->next_w = pos + len;
    return ring->p + ring->at + HEAD;
}

void dvt_ring_shrink(struct dvt_ring *ring, uint32_t bytes)
{
    struct dvt_ring_head h;
    memcpy(&h, ring->p + ring->at, sizeof h);
    ring->next_w -= h.bytes - record_bytes(bytes);
    put_head(ring, ring->at, record_bytes(bytes), h.kind);
}

void dvt_ring_commit(struct dvt_ring *ring)
{
    if (ring->restart != UINT64_MAX)
        atomic_store_explicit(&ring->restarted_at, ring->restart, memory_order_relaxed);
    atomic_store_explicit(&ring->w, ring->next_w, memory_order_release);
}

uint32_t dvt_ring_used(const struct dvt_ring *ring)
{
    uint64_t w = atomic_load_explicit(&ring->w, memory_order_relaxed);
    uint64_t r = atomic_load_explicit(&ring->r, memory_order_relaxed);
    if (is_behind_restart(ring, w, r))
        return offset(w);
    return w >> 32 == r >> 32 ? offset(w) - offset(r) : ring->size - offset(r) + offset(w);
}

uint64_t dvt_ring_end(const struct dvt_ring *ring)
{
    return atomic_load_explicit(&ring->w, memory_order_acquire);
}

uint64_t dvt_ring_begin(const struct dvt_ring *ring)
{
    return atomic_load_explicit(&ring->r, memory_order_relaxed);
}

const void *dvt_ring_next(const struct dvt_ring *ring, uint64_t *pos, uint64_t end, uint32_t *ret_kind)
{
    struct dvt_ring_head h;
    if (*pos == end)
        return NULL;
    if (*pos == atomic_load_explicit(&ring->restarted_at, memory_order_relaxed))
        *pos = next_lap(*pos);
    memcpy(&h, ring->p + offset(*pos), sizeof h);
    if (h.kind == DVT_RING_WRAP) {
        *pos = next_lap(*pos);
        memcpy(&h, ring->p, sizeof h);
    }
    const void *rec = ring->p + offset(*pos) + HEAD;
    *pos += h.bytes;
    *ret_kind = h.kind;
    return rec;
}

void dvt_ring_release(struct dvt_ring *ring, uint64_t pos)
{
    atomic_store_explicit(&ring->r, pos, memory_order_release);
}
