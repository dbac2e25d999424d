/*
 * handler: SIGURG, sent by the kernel to a sampled thread at each sample.
 *
 * It draws the next sampling period, announces the scopes that are open, and has the runtime walk its frames;
 * all into the thread's own ring. It touches no lock and no heap and keeps errno. What is not from our events
 * goes to the handler the application had or has since installed.
 */
#ifndef DVT_HANDLER_H
#define DVT_HANDLER_H

#include "slot.h"

/* Installs the handler in front of what is there; again if the application has replaced it. Sender. */
void dvt_handler_install(void);
/* The period and the walker the handler uses. Sender, before the first event is armed. */
void dvt_handler_configure(uint64_t period_ns, uint32_t jitter_permille, const struct dvt_runtime *rt);
/* Says which descriptors' signals are ours. */
void dvt_handler_own_fd(int fd, bool ours);
/*
 * When samples are taken. The thread's CPU time is cut into strata of one mean period; each gets one sample,
 * at a random place in it. So a stretch of n periods holds n samples, give or take one, and work that repeats
 * with the period or any other is met at all of its phases alike: a period that merely varies by some percent
 * walks through the phases slowly, and its shares err several times more than their interval says. The
 * event's first period, drawn by the daemon, is the place in the first stratum.
 */
struct dvt_plan {
    uint64_t next_ns; /* thread CPU time at which the next stratum begins; 0: not known yet */
    uint64_t due_ns;  /* thread CPU time of the sample planned last; 0: none was */
    uint64_t late_ns; /* how long after its sample the handler came, lately */
};

enum { DVT_PLAN_MAX_BEHIND = 8 }; /* strata missed, while signals were off, before it begins anew */
/* From the handler to the next sample, at most a quarter of the mean: one that came while the handler runs,
 * or before the kernel has sent its signal (30 to 150 us here), would be without a managed stack. */
#define DVT_PLAN_MIN_NS 250000u
/* Times the handler's delay, at most half the mean, so that missed strata are caught up with: a period shorter than
 * what a sample costs would let the thread do nothing but be sampled, without ever coming to the handler that sets
 * the next. On a busy host the delay can be 0.5 ms. */
enum { DVT_PLAN_MIN_LATE = 4 };

/* The least period from now_ns on, by how late handlers came. */
static inline uint64_t dvt_plan_least(struct dvt_plan *plan, uint64_t now_ns, uint64_t mean_ns)
{
    uint64_t late = plan->due_ns && now_ns > plan->due_ns ? now_ns - plan->due_ns : 0;
    plan->late_ns -= plan->late_ns / 8;
    if (late > plan->late_ns)
        plan->late_ns = late < mean_ns ? late : mean_ns;
    uint64_t least = mean_ns / 4 < DVT_PLAN_MIN_NS ? mean_ns / 4 : DVT_PLAN_MIN_NS;
    uint64_t safe = plan->late_ns * DVT_PLAN_MIN_LATE;
    if (safe > mean_ns / 2)
        safe = mean_ns / 2;
    return safe > least ? safe : least;
}

/* The period from now_ns (thread CPU time) to the next sample, and the plan moved on by a stratum. The place
 * in the stratum is uniform over jitter/1000 of it, about its middle. Pure. */
static inline uint64_t dvt_plan_next(struct dvt_plan *plan, uint64_t now_ns, uint64_t mean_ns,
                                     uint32_t jitter_permille, uint64_t random)
{
    uint64_t width = mean_ns / 1000 * jitter_permille, least = dvt_plan_least(plan, now_ns, mean_ns);
    uint64_t place = (mean_ns - width) / 2 + (width ? random % width : 0);
    if (plan->next_ns + DVT_PLAN_MAX_BEHIND * mean_ns < now_ns || plan->next_ns > now_ns + 2 * mean_ns)
        plan->next_ns = now_ns;
    uint64_t at = plan->next_ns + place;
    plan->next_ns += mean_ns;
    plan->due_ns = at > now_ns + least ? at : now_ns + least;
    return plan->due_ns - now_ns;
}

/* Sets the event's next period by the plan. Async-signal-safe; from the thread's own handler, or once from
 * the sender while it arms the signal. */
void dvt_handler_next_period(struct dvt_slot *s, int fd);

#endif
