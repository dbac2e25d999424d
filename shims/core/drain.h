/*
 * drain: takes what all threads left in their slots and sends it: stacks first, then scopes with how far the
 * thread is settled, then what there is to say about threads, dropped scopes and counts. Sender only.
 */
#ifndef DVT_DRAIN_H
#define DVT_DRAIN_H

#include "slot.h"

enum dvt_drain_mode {
    DVT_DRAIN_NORMAL,
    DVT_DRAIN_FINAL,  /* waits for nothing: unresolved stacks and unarmed threads are left out */
    DVT_DRAIN_WAITING, /* no daemon yet: only ended threads' slots are taken back, if they hold nothing */
    DVT_DRAIN_ABSENT,  /* no daemon: with what they hold */
};

void dvt_drain(enum dvt_drain_mode mode);
/* Whether records wait for the daemon's answer to an ARM. */
bool dvt_drain_waits_for_arming(void);
/* DROPPED: what was dropped by name since the last time. */
void dvt_drain_dropped(void);
/* Fills the shim's half of the ledger. */
void dvt_drain_counts(struct dvt_shim_counts *ret);
/* A new daemon knows no thread. */
void dvt_drain_new_session(uint64_t now_ns);
void dvt_drain_after_fork_child(void);

#endif
