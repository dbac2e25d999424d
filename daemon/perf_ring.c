/*
 * perf_ring: see perf_ring.h. Ordering as in <linux/perf_event.h>, "struct perf_event_mmap_page".
 */
#include "perf_ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int perf_ring_open(int fd, uint32_t data_pages, struct perf_ring *ret, struct dvt_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (1 + (size_t)data_pages) * page;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        int code = errno == EPERM || errno == ENOMEM || errno == EAGAIN ? DVT_EPERM : DVT_EIO;
        return dvt_fail(err, code, errno, "cannot map a sample ring of %zu KiB: %s", bytes / 1024,
                        strerror(errno));
    }
    *ret = (struct perf_ring){.base = p, .map_bytes = bytes, .data_bytes = bytes - page};
    return 0;
}

void perf_ring_close(struct perf_ring *r)
{
    if (r->base)
        munmap(r->base, r->map_bytes);
    r->base = NULL;
}

uint64_t perf_ring_head(const struct perf_ring *r)
{
    const struct perf_event_mmap_page *page = (const void *)r->base;
    return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE); /* pairs with the kernel's store */
}

static void copy_out(const struct perf_ring *r, uint64_t at, uint8_t *out, size_t n)
{
    const uint8_t *data = r->base + (r->map_bytes - r->data_bytes);
    size_t off = (size_t)(at & (r->data_bytes - 1));
    size_t first = r->data_bytes - off < n ? r->data_bytes - off : n;
    memcpy(out, data + off, first);
    memcpy(out + first, data, n - first);
}

int perf_ring_next(struct perf_ring *r, uint64_t head, uint8_t *scratch, const uint8_t **ret_rec,
                   uint32_t *ret_n)
{
    struct perf_event_header h;
    uint64_t left = head - r->tail;
    if (left == 0)
        return 0;
    if (left < sizeof h || left > r->data_bytes) {
        r->tail = head;
        return DVT_EFORMAT;
    }
    copy_out(r, r->tail, (uint8_t *)&h, sizeof h);
    if (h.size < sizeof h || h.size > left) {
        r->tail = head;
        return DVT_EFORMAT;
    }
    size_t off = (size_t)(r->tail & (r->data_bytes - 1));
    if (off + h.size <= r->data_bytes) {
        *ret_rec = r->base + (r->map_bytes - r->data_bytes) + off;
    } else {
        copy_out(r, r->tail, scratch, h.size);
        *ret_rec = scratch;
    }
    *ret_n = h.size;
    r->tail += h.size;
    return 1;
}

void perf_ring_release(struct perf_ring *r)
{
    struct perf_event_mmap_page *page = (void *)r->base;
    __atomic_store_n(&page->data_tail, r->tail, __ATOMIC_RELEASE); /* after our reads of it */
}
