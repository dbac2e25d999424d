/*
 * switch_ring: see switch_ring.h.
 */
#include "switch_ring.h"
#include "perf_decode.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MIN_RECORD_BYTES = 8 }; /* a header */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* By the state in its stat file, behind the name, which may hold anything. */
static bool sleeps_now(uint32_t host_tid)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof path, "/proc/%u/stat", host_tid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *name_end = n ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] == ' ' && (name_end[2] == 'S' || name_end[2] == 'D');
}

int switch_ring_open(uint32_t host_tid, uint32_t data_pages, struct switch_ring **ret, struct dvt_err *err)
{
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .context_switch = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .remove_on_exec = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
    };
    int fd = (int)syscall(SYS_perf_event_open, &a, (pid_t)host_tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return dvt_fail(err, errno == ESRCH ? DVT_ENOENT : errno == EACCES || errno == EPERM ? DVT_EPERM : DVT_EIO, errno,
                        "cannot record the switches of thread %u: %s", host_tid, strerror(errno));
    struct switch_ring *r = calloc(1, sizeof *r);
    int rc = r ? perf_ring_open(fd, data_pages, &r->ring, err) : dvt_fail(err, DVT_ENOMEM, 0, "no memory for a thread");
    if (rc) {
        close(fd);
        free(r);
        return rc;
    }
    r->fd = fd;
    r->from_ns = now_ns(); /* records go nowhere before there is a ring */
    r->slept = sleeps_now(host_tid);
    *ret = r;
    return 0;
}

void switch_ring_close(struct switch_ring *r)
{
    if (!r)
        return;
    perf_ring_close(&r->ring);
    close(r->fd);
    free(r);
}

static struct switches *make(const struct switch_ring *r, uint64_t bytes)
{
    size_t n = (size_t)(bytes / MIN_RECORD_BYTES) + 1;
    struct switches *s = malloc(sizeof *s + n * sizeof *s->v);
    if (s)
        *s = (struct switches){.from_ns = r->from_ns, .slept = r->slept};
    return s;
}

/* With time of its own only where the kernel gave the thread's: what is not understood is a gap. */
static void put(struct switches *s, const uint8_t *rec, uint32_t n, uint64_t from_ns)
{
    struct switch_rec x = {0, SWITCH_GAP};
    if (perf_decode_switch(rec, n, &x) == 0 && (x.kind == SWITCH_GAP || x.time_ns >= from_ns))
        s->v[s->n++] = x;
}

/* Room for all of it again, no more than was used. */
static struct switches *trim(struct switches *s)
{
    struct switches *less = realloc(s, sizeof *s + s->n * sizeof *s->v);
    return less ? less : s;
}

struct switches *switch_ring_take(struct switch_ring *r, bool after_gap, uint8_t *scratch, bool *ret_lost)
{
    uint64_t head = perf_ring_head(&r->ring);
    const uint8_t *rec = NULL;
    uint32_t n = 0;
    int rc = 0;
    if (head == r->ring.tail)
        return NULL;
    struct switches *s = make(r, head - r->ring.tail);
    *ret_lost = !s;
    if (s && after_gap)
        s->v[s->n++] = (struct switch_rec){0, SWITCH_GAP};
    while (s && (rc = perf_ring_next(&r->ring, head, scratch, &rec, &n)) > 0)
        put(s, rec, n, r->from_ns);
    r->ring.tail = head;
    perf_ring_release(&r->ring);
    *ret_lost = *ret_lost || rc < 0;
    return s ? trim(s) : NULL;
}
