/*
 * tick: see tick.h.
 */
#include "tick.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tick_map.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    TRIES = 8,
    LOOK_NS = 1000000000, /* from one look at the kernel's clocksource to the next */
};

_Atomic uint32_t dvt_tick_unit;

static struct dvt_tick_map map; /* the sender's; before there is one, the starting thread's */
static uint64_t next_look_ns, least_width;
static bool was_used;

/* ---- may it be used ---- */

bool dvt_tick_is_clock(const char *clocksource, bool is_invariant)
{
#if defined(__x86_64__)
    return is_invariant && strcmp(clocksource, "tsc\n") == 0;
#elif defined(__aarch64__)
    return is_invariant && strcmp(clocksource, "arch_sys_counter\n") == 0;
#else
    (void)clocksource;
    (void)is_invariant;
    return false;
#endif
}

static bool is_invariant(void)
{
#if defined(__x86_64__)
    uint32_t a, b, c, d;
    int may_read = PR_TSC_ENABLE; /* a sandbox may make its reading fatal */
    if (prctl(PR_GET_TSC, &may_read) != 0 || may_read != PR_TSC_ENABLE)
        return false;
    /* Invariant TSC: AMD APM 3, Intel SDM 17.17.1. */
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#elif defined(__aarch64__)
    return true; /* Arm ARM D12: the system counter has a fixed frequency */
#else
    return false;
#endif
}

static bool is_clock(void)
{
    char text[64];
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return dvt_tick_is_clock(text, is_invariant());
}

/* ---- reading both ---- */

/* Not before what comes earlier in the program, nor after what comes later. */
static uint64_t read_in_order(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t t = dvt_tick_read();
    __builtin_ia32_lfence();
    return t;
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
    uint64_t t = dvt_tick_read();
    __asm__ volatile("isb" ::: "memory");
    return t;
#else
    return dvt_tick_read();
#endif
}

/* The closest of a few: an interrupt in between makes one wide. Content with one that is about as close as
 * the closest ever. */
static struct dvt_tick_pair read_pair(void)
{
    struct dvt_tick_pair best = {0};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < TRIES && best_width > least_width + least_width / 4; i++) {
        uint64_t before = read_in_order(), ns = dvt_now_ns(), width = read_in_order() - before;
        if (width >= best_width)
            continue;
        best = (struct dvt_tick_pair){before + width / 2, ns, width / 2 + 1};
        best_width = width;
    }
    if (least_width == 0 || best_width < least_width)
        least_width = best_width;
    return best;
}

static void begin(void)
{
    map.n = 0;
    dvt_tick_map_add(&map, read_pair());
}

void dvt_tick_start(bool is_allowed)
{
    if (was_used || !is_allowed || !is_clock())
        return;
    was_used = true;
    begin();
    atomic_store_explicit(&dvt_tick_unit, DVT_F_TICKS, memory_order_relaxed);
}

void dvt_tick_sync(void)
{
    if (!was_used)
        return;
    struct dvt_tick_pair now = read_pair();
    bool good = dvt_tick_map_add(&map, now);
    if (now.ns >= next_look_ns && dvt_tick_is_used()) {
        good = good && is_clock();
        next_look_ns = now.ns + LOOK_NS;
    }
    if (!good) /* for good: what was refused once is not trusted again */
        atomic_store_explicit(&dvt_tick_unit, 0, memory_order_relaxed);
}

uint64_t dvt_tick_ns(uint64_t ticks, uint64_t *ret_err_ns)
{
    if (dvt_tick_map_is_ahead(&map, ticks))
        dvt_tick_sync();
    return dvt_tick_map_ns(&map, ticks, ret_err_ns);
}

void dvt_tick_after_fork_child(void)
{
    if (was_used)
        begin();
}
