/*
 * arm: maps the perf ring that the daemon opened for a thread, arms its signal, and takes both away again.
 * Sender only.
 */
#ifndef DVT_ARM_H
#define DVT_ARM_H

#include "slot.h"

/* What WELCOME said about sampling. */
struct dvt_sampling {
    uint64_t period_ns;
    uint32_t jitter_permille;
    bool use_signal;
};

/* Takes the answer to an ARM; fd (or -1) is adopted. Unknown threads are ignored. */
void dvt_arm_take(const struct dvt_armed *m, int fd, const struct dvt_sampling *how);
/* Asks for every live thread that is not armed yet. True if some could not be asked now. */
bool dvt_arm_ask_all(void);
/* The daemon is gone: stops the kernel from sampling for nobody, and gives live threads a new arming number.
 * Their rings' addresses stay readable, since a thread may be reading there. */
void dvt_arm_hang_up(void);
/* Before recording stops: no sample falls from here on. One that fell later would be given to a scope that is still
 * open, though the thread may be in another since, of which nobody heard. */
void dvt_arm_quiet(void);
/* An ended thread's ring and descriptor. */
void dvt_arm_release(struct dvt_slot *s);
/* Threads that the daemon could not sample, and their CPU time outside sampling. */
void dvt_arm_count(struct dvt_shim_counts *sum);
void dvt_arm_add_uncovered(struct dvt_slot *s, uint64_t ns);
void dvt_arm_after_fork_child(void);

#endif
