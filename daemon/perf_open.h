/*
 * perf_open: from a libpfm4 event name to perf events on threads. Layer 1.
 *
 * A perf_source is what is sampled by in all threads: it is tried on the calling thread when it is made, so
 * that what does not open here is known at once (a fallback to cpu-clock, kernel code excluded, or nothing
 * allowed at all), and told in its info. Sampler thread only, after perf_source_new.
 */
#ifndef PERF_OPEN_H
#define PERF_OPEN_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_native { /* how native user frames are had */
    PERF_NATIVE_DWARF = 0, /* registers and stack bytes, unwound later by CFI */
    PERF_NATIVE_FP = 1,    /* the kernel follows frame pointers */
    PERF_NATIVE_LEAF = 2,  /* the instruction pointer only */
};

/* User registers in a dwarf sample, lowest bit of the mask first. */
#if defined(__x86_64__)
/* AX BX CX DX SI DI BP SP IP (0 to 8), R8 to R15 (16 to 23); <asm/perf_regs.h> */
#define PERF_OPEN_REGS_MASK 0x00ff01ffull
#elif defined(__aarch64__)
#define PERF_OPEN_REGS_MASK 0x1ffffffffull /* X0 to X29, LR, SP, PC */
#else
#define PERF_OPEN_REGS_MASK 0ull
#endif

/* What perf_decode must know of an event's records. */
struct perf_layout {
    enum perf_native native;
    uint64_t regs_mask; /* 0 unless dwarf */
    bool period_is_true; /* the record's PERIOD counts; false: see perf_decode.h */
};

struct perf_source_info {
    char asked[128], used[128]; /* event names */
    char why[240];  /* why used differs, kernel code is missing or nothing opens; else empty */
    bool is_time;   /* period_ns is a period of CPU time; else counts */
    bool kernel;    /* kernel code is sampled too */
    bool opens;     /* false: not allowed here */
    uint64_t period; /* ns if is_time, events; 0: by frequency */
    uint32_t hz;
};

struct perf_source;

struct perf_source_config {
    const char *event; /* "cpu-clock", "cycles", "instructions@1000000" (a period in events) */
    uint32_t hz;
    enum perf_native native;
    uint32_t stack_bytes; /* of a dwarf sample */
};

/* DVT_EINVAL with examples in the text for a name libpfm4 does not know or a bad @period. */
int perf_source_new(const struct perf_source_config *c, struct perf_source **ret, struct dvt_err *err);
void perf_source_free(struct perf_source *s);
const struct perf_source_info *perf_source_info(const struct perf_source *s);
struct perf_layout perf_source_layout(const struct perf_source *s, enum perf_native native);

/* Uniform in (0, period], at least 0.5 ms (or period, if that is less): random is 64 random bits. Pure. */
uint64_t perf_first_period(uint64_t period_ns, uint64_t random);

/* Opens the event on a thread, running at once. first_period is used if the source is_time. read(2) on it gives its count alone, 8 bytes, which shims use. DVT_EPERM,
 * DVT_ENOENT (the thread is gone), DVT_EIO. */
int perf_open_thread(const struct perf_source *s, uint32_t host_tid, enum perf_native native,
                     uint64_t first_period, int *ret_fd, struct dvt_err *err);

/* How large a ring a thread gets. */
struct perf_plan {
    uint32_t data_pages; /* a power of two; 0: no room at all */
    enum perf_native native;
};
struct perf_budget {
    bool unlimited;       /* CAP_IPC_LOCK: locked memory is not counted against us */
    uint64_t limit_bytes; /* perf_event_mlock_kb * CPUs + RLIMIT_MEMLOCK */
    uint64_t used_bytes;
    uint32_t n_threads;
    uint32_t hz; /* samples a second of a busy thread */
};
/* Reads what the machine allows this process. */
void perf_budget_read(struct perf_budget *b);
/* The plan for one more thread. Pure. */
struct perf_plan perf_budget_plan(const struct perf_budget *b, enum perf_native native, uint32_t stack_bytes,
                                  uint32_t page_bytes);
/* How many samples at least its ring holds. Pure. */
uint32_t perf_plan_holds(const struct perf_plan *plan, uint32_t stack_bytes, uint32_t page_bytes);

#endif
