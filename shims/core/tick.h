/*
 * tick: when a scope opened and closed, by the processor's counter, for a third of what a clock read costs.
 *
 * Ticks stay ticks until the sender sends the record: only then, for the few scopes that are sent, it makes
 * CLOCK_MONOTONIC of them, between two moments at which it read both (tick_map.h). So no thread and no signal
 * handler converts anything, and there is nothing to share but whether ticks are in use.
 *
 * They are, where the kernel itself makes the clock of this counter: x86-64 with an invariant TSC and
 * clocksource "tsc"; aarch64 with "arch_sys_counter" (written from the manual, not run). Elsewhere, and from
 * the moment on at which the counter leaves its line or the kernel its counter, scopes read the clock. A
 * scope that is open then is reported to have opened (or closed) when that was noticed, a second later at
 * most: never earlier than it did. No sample goes to it by that time that is not its own.
 */
#ifndef DVT_TICK_H
#define DVT_TICK_H

#include "slot.h"

/* DVT_F_TICKS if scopes are timed in ticks, else 0. */
extern _Atomic uint32_t dvt_tick_unit __attribute__((visibility("hidden")));

#if defined(__x86_64__)
static inline uint64_t dvt_tick_read(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t dvt_tick_read(void)
{
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}
#else
static inline uint64_t dvt_tick_read(void)
{
    return 0;
}
#endif

static inline bool dvt_tick_is_used(void)
{
    return atomic_load_explicit(&dvt_tick_unit, memory_order_relaxed) != 0;
}

/* Decides whether ticks are used; before the first scope. May be called again. */
void dvt_tick_start(bool is_allowed);
/* Reads counter and clock together. Sender, once a second at least. */
void dvt_tick_sync(void);
/* CLOCK_MONOTONIC at a tick read before this call, and how much that may be wrong. Sender. */
uint64_t dvt_tick_ns(uint64_t ticks, uint64_t *ret_err_ns);
void dvt_tick_after_fork_child(void);

/* Whether the counter may be used, by what the kernel says of its clock (the text of current_clocksource) and
 * whether the processor says that the counter never changes its pace. */
bool dvt_tick_is_clock(const char *clocksource, bool is_invariant);

#endif
