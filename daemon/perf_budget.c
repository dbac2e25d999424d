/*
 * perf_budget: how large a sample ring a thread gets. Declared in perf_open.h.
 *
 * Rings are locked memory: without CAP_IPC_LOCK the kernel counts them against perf_event_mlock_kb for each
 * CPU of the user, then against RLIMIT_MEMLOCK (kernel/events/core.c, perf_mmap). Large rings are for the
 * first threads; what is left is for many.
 */
#include "perf_open.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LARGE_RING_PAGES = 16,    /* 7 samples with 8 KiB of stack */
    LARGE_RING_THREADS = 512, /* 34 MiB */
    ROOMY_RING_THREADS = 64,  /* twice that: a reader kept off the CPU for 100 ms loses nothing */
    FP_RING_PAGES = 2,        /* 4 samples of 127 frames */
    FP_RECORD_BYTES = 2048,
    LEAF_RECORD_BYTES = 64,
    LEAF_RING_PAGES = 1,
    HOLD_SAMPLES = 4,
    FAST_RING_THREADS = 16,   /* 250 ms: a reader that wakes rarely; 100 ms at 1 kHz */
    FAST_RING_BYTES = 1 << 20,
    CAP_BIT_IPC_LOCK = 14,
};

static long read_long(const char *path, long otherwise)
{
    long v = otherwise;
    FILE *f = fopen(path, "re");
    if (!f)
        return v;
    if (fscanf(f, "%ld", &v) != 1)
        v = otherwise;
    fclose(f);
    return v;
}

static bool have_ipc_lock(void)
{
    char line[128];
    unsigned long long caps = 0;
    FILE *f = fopen("/proc/self/status", "re");
    if (!f)
        return false;
    while (fgets(line, sizeof line, f) && sscanf(line, "CapEff: %llx", &caps) != 1)
        ;
    fclose(f);
    return caps >> CAP_BIT_IPC_LOCK & 1;
}

void perf_budget_read(struct perf_budget *b)
{
    long kb = read_long("/proc/sys/kernel/perf_event_mlock_kb", 516);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct rlimit lim;
    *b = (struct perf_budget){.limit_bytes = (uint64_t)kb * 1024 * (uint64_t)(cpus > 0 ? cpus : 1)};
    b->unlimited = have_ipc_lock() || read_long("/proc/sys/kernel/perf_event_paranoid", 2) < 0;
    if (getrlimit(RLIMIT_MEMLOCK, &lim) != 0)
        return;
    if (lim.rlim_cur == RLIM_INFINITY)
        b->unlimited = true;
    else
        b->limit_bytes += lim.rlim_cur;
}

static uint32_t dwarf_record_bytes(uint32_t stack_bytes)
{
    return stack_bytes + 1024; /* registers, a kernel chain of about 100 frames */
}

static uint32_t dwarf_pages(uint32_t stack_bytes, uint32_t page_bytes)
{
    uint32_t pages = 1;
    while (pages * page_bytes < dwarf_record_bytes(stack_bytes) * HOLD_SAMPLES)
        pages *= 2;
    return pages;
}

/* The large ring of one of the first threads. */
static uint32_t roomy_pages(const struct perf_budget *b, uint32_t pages, uint32_t stack_bytes, uint32_t page_bytes)
{
    uint64_t want = (uint64_t)dwarf_record_bytes(stack_bytes) * (b->hz / 4);
    pages *= 2;
    while (b->n_threads < FAST_RING_THREADS && (uint64_t)pages * page_bytes < want && pages * page_bytes < FAST_RING_BYTES)
        pages *= 2;
    return pages;
}

static bool fits(const struct perf_budget *b, uint32_t pages, uint32_t page_bytes, uint64_t limit)
{
    return b->unlimited || b->used_bytes + (uint64_t)(pages + 1) * page_bytes <= limit;
}

struct perf_plan perf_budget_plan(const struct perf_budget *b, enum perf_native native, uint32_t stack_bytes,
                                  uint32_t page_bytes)
{
    if (native == PERF_NATIVE_DWARF && b->n_threads < LARGE_RING_THREADS) {
        uint32_t pages = dwarf_pages(stack_bytes, page_bytes);
        if (b->unlimited && pages < LARGE_RING_PAGES)
            pages = LARGE_RING_PAGES;
        uint32_t roomy = roomy_pages(b, pages, stack_bytes, page_bytes);
        if (b->n_threads < ROOMY_RING_THREADS && fits(b, roomy, page_bytes, b->limit_bytes / 4))
            return (struct perf_plan){roomy, PERF_NATIVE_DWARF};
        if (fits(b, pages, page_bytes, b->limit_bytes / 2))
            return (struct perf_plan){pages, PERF_NATIVE_DWARF};
    }
    if (native != PERF_NATIVE_LEAF && fits(b, FP_RING_PAGES, page_bytes, b->limit_bytes))
        return (struct perf_plan){FP_RING_PAGES, PERF_NATIVE_FP};
    if (fits(b, LEAF_RING_PAGES, page_bytes, b->limit_bytes))
        return (struct perf_plan){LEAF_RING_PAGES, PERF_NATIVE_LEAF};
    return (struct perf_plan){0, PERF_NATIVE_LEAF};
}

uint32_t perf_plan_holds(const struct perf_plan *plan, uint32_t stack_bytes, uint32_t page_bytes)
{
    uint32_t record = plan->native == PERF_NATIVE_DWARF ? dwarf_record_bytes(stack_bytes)
                      : plan->native == PERF_NATIVE_FP  ? FP_RECORD_BYTES
                                                        : LEAF_RECORD_BYTES;
    return plan->data_pages * page_bytes / record;
}
