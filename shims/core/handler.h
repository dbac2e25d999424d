/*
 * handler: SIGURG, sent by the kernel to a sampled thread at each sample.
 *
 * It draws the next sampling period, announces the scopes that are open, and has the runtime walk its frames; all into
 * the thread's own ring. It touches no lock and no heap and keeps errno. What is not from our events goes to the handler the
 * application had or has since installed.
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
/* Sets the event's next period, random about the mean; on_thread: by the plan, which is on its CPU clock. Async-signal-safe. */
void dvt_handler_next_period(struct dvt_slot *s, int fd, bool on_thread);

enum { DVT_PERIOD_FLOOR_NS = 500000 }; /* shorter ones storm; a mean below it is the user's will */

/* The period for a random number: uniform in mean * (1 +- jitter), at least the floor. Pure. */
static inline uint64_t dvt_handler_draw_period(uint64_t mean_ns, uint32_t jitter_permille, uint64_t random)
{
    uint64_t half = mean_ns / 1000 * jitter_permille;
    uint64_t period = mean_ns - half + (half ? random % (2 * half + 1) : 0);
    return period > DVT_PERIOD_FLOOR_NS || mean_ns <= DVT_PERIOD_FLOOR_NS ? period : DVT_PERIOD_FLOOR_NS;
}

#endif
