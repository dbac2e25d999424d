/*
 * perf_open: see perf_open.h. Names come from libpfm4, everything else of the attribute from here.
 */
#include "perf_open.h"

#include <errno.h>
#include <linux/perf_event.h> /* before libpfm's header, which brings an older copy of it */
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct perf_source {
    struct perf_event_attr attr; /* type, config, excludes; the rest is filled for each thread */
    struct perf_source_info info;
    uint32_t stack_bytes;
    enum perf_native native;
};

#define FALLBACK_EVENT "cpu-clock"

static int event_open(const struct perf_event_attr *a, pid_t tid)
{
    return (int)syscall(SYS_perf_event_open, a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* "name@period": cuts name[cap] and reads the period, 0 without one. */
static int split_event(const char *event, char *name, size_t cap, uint64_t *ret_period, struct dvt_err *err)
{
    const char *at = strrchr(event, '@');
    size_t n = at ? (size_t)(at - event) : strlen(event);
    if (n == 0 || n >= cap)
        return dvt_fail(err, DVT_EINVAL, 0, "event name is empty or longer than %zu bytes", cap - 1);
    uint64_t period = 0;
    if (at) {
        char *end;
        errno = 0;
        period = strtoull(at + 1, &end, 10);
        if (at[1] < '0' || at[1] > '9' || *end || errno || period == 0)
            return dvt_fail(err, DVT_EINVAL, 0, "bad period in event '%s': write NAME@COUNT, COUNT > 0",
                            event);
    }
    memcpy(name, event, n);
    name[n] = 0;
    *ret_period = period;
    return 0;
}

static int encode(const char *name, struct perf_event_attr *ret, struct dvt_err *err)
{
    struct perf_event_attr a = {.size = sizeof a};
    pfm_perf_encode_arg_t arg = {.attr = &a, .size = sizeof arg};
    int r = pfm_initialize();
    if (r == PFM_SUCCESS)
        r = pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &arg);
    if (r != PFM_SUCCESS)
        return dvt_fail(err, DVT_EINVAL, 0,
                        "unknown event '%s' (%s); try cpu-clock, cycles, instructions, page-faults; "
                        "`dovetail doctor` lists what opens here",
                        name, pfm_strerror(r));
    a.size = sizeof a;
    *ret = a;
    return 0;
}

static bool attr_is_time(const struct perf_event_attr *a)
{
    return a->type == PERF_TYPE_SOFTWARE &&
           (a->config == PERF_COUNT_SW_CPU_CLOCK || a->config == PERF_COUNT_SW_TASK_CLOCK);
}

static void set_period(struct perf_source *s, uint64_t period)
{
    s->info.is_time = attr_is_time(&s->attr);
    s->info.period = period;
    if (s->info.is_time && period == 0)
        s->info.period = 1000000000u / s->info.hz;
}

static void fill_attr(const struct perf_source *s, enum perf_native native, uint64_t first_period,
                      struct perf_event_attr *ret)
{
    struct perf_event_attr a = s->attr;
    a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD;
    a.sample_type |= native == PERF_NATIVE_LEAF ? PERF_SAMPLE_IP : PERF_SAMPLE_CALLCHAIN;
    if (native == PERF_NATIVE_DWARF) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = PERF_OPEN_REGS_MASK;
        a.sample_stack_user = s->stack_bytes;
        a.exclude_callchain_user = 1; /* the kernel's frame pointer walk is not to be trusted */
    }
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    a.remove_on_exec = 1;
    a.watermark = 1; /* nobody waits for the ring (sampler.h): the kernel need not count its records */
    if (s->info.period) {
        a.sample_period = s->info.is_time ? first_period : s->info.period;
    } else {
        a.freq = 1;
        a.sample_freq = s->info.hz;
    }
    *ret = a;
}

/* 0, or the errno of opening it on the calling thread. */
static int try_open(const struct perf_source *s)
{
    struct perf_event_attr a;
    fill_attr(s, s->native, s->info.period, &a);
    int fd = event_open(&a, 0);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* Finds out whether this machine gives kernel code too. 0 or errno. */
static int probe(struct perf_source *s)
{
    int e = try_open(s);
    if ((e == EACCES || e == EPERM) && !s->attr.exclude_kernel) {
        s->attr.exclude_kernel = 1;
        s->attr.exclude_hv = 1;
        e = try_open(s);
        if (e == 0)
            snprintf(s->info.why, sizeof s->info.why,
                     "kernel code is not sampled: perf_event_paranoid > 1 and no CAP_PERFMON");
    }
    s->info.kernel = !s->attr.exclude_kernel;
    s->info.opens = e == 0;
    return e;
}

static int fall_back(struct perf_source *s, int sys_errno, struct dvt_err *err)
{
    int r = encode(FALLBACK_EVENT, &s->attr, err);
    if (r)
        return r;
    snprintf(s->info.used, sizeof s->info.used, "%s", FALLBACK_EVENT);
    set_period(s, 0);
    int e = probe(s);
    if (e == 0)
        snprintf(s->info.why, sizeof s->info.why, "'%s' does not open here (%s): sampling by %s instead%s",
                 s->info.asked, strerror(sys_errno), FALLBACK_EVENT,
                 s->info.kernel ? "" : ", kernel code excluded");
    return 0;
}

static void explain_refusal(struct perf_source *s, int sys_errno)
{
    if (!s->info.opens)
        snprintf(s->info.why, sizeof s->info.why,
                 "perf events do not open here (%s): set kernel.perf_event_paranoid to 2 or less, or give "
                 "the daemon CAP_PERFMON; scopes are kept without samples",
                 strerror(sys_errno));
}

int perf_source_new(const struct perf_source_config *c, struct perf_source **ret, struct dvt_err *err)
{
    struct perf_source *s = calloc(1, sizeof *s);
    if (!s)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for an event");
    uint64_t period = 0;
    int r = split_event(c->event, s->info.used, sizeof s->info.used, &period, err);
    if (r == 0)
        r = encode(s->info.used, &s->attr, err);
    if (r)
        goto out;
    snprintf(s->info.asked, sizeof s->info.asked, "%s", c->event);
    s->info.hz = c->hz;
    s->native = PERF_OPEN_REGS_MASK == 0 && c->native == PERF_NATIVE_DWARF ? PERF_NATIVE_FP : c->native;
    s->stack_bytes = c->stack_bytes;
    set_period(s, period);
    int e = probe(s);
    if (e && e != EACCES && e != EPERM && strcmp(s->info.used, FALLBACK_EVENT) != 0)
        r = fall_back(s, e, err);
    explain_refusal(s, e);
    if (r == 0)
        *ret = s;
out:
    if (r)
        free(s);
    return r;
}

void perf_source_free(struct perf_source *s)
{
    free(s);
}

const struct perf_source_info *perf_source_info(const struct perf_source *s)
{
    return &s->info;
}

struct perf_layout perf_source_layout(const struct perf_source *s, enum perf_native native)
{
    return (struct perf_layout){
        .native = native,
        .regs_mask = native == PERF_NATIVE_DWARF ? PERF_OPEN_REGS_MASK : 0,
        .period_is_true = !s->info.is_time,
    };
}

uint64_t perf_first_period(uint64_t period_ns, uint64_t random)
{
    const uint64_t floor_ns = 500000;
    uint64_t low = period_ns < floor_ns ? period_ns : floor_ns;
    uint64_t p = period_ns ? random % period_ns + 1 : 0;
    return p < low ? low : p;
}

int perf_open_thread(const struct perf_source *s, uint32_t host_tid, enum perf_native native,
                     uint64_t first_period, int *ret_fd, struct dvt_err *err)
{
    struct perf_event_attr a;
    fill_attr(s, native, first_period, &a);
    int fd = event_open(&a, (pid_t)host_tid);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    int e = errno;
    if (e == ESRCH)
        return dvt_fail(err, DVT_ENOENT, e, "thread %u is gone", host_tid);
    if (e == EACCES || e == EPERM)
        return dvt_fail(err, DVT_EPERM, e,
                        "may not sample thread %u: it is of another user, and the daemon has no CAP_PERFMON",
                        host_tid);
    if (e == EMFILE || e == ENFILE)
        return dvt_fail(err, DVT_EIO, e, "no file descriptor left for thread %u: raise RLIMIT_NOFILE",
                        host_tid);
    return dvt_fail(err, DVT_EIO, e, "cannot open %s on thread %u: %s", s->info.used, host_tid, strerror(e));
}
