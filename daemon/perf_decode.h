/*
 * perf_decode: bytes of one perf record to a struct sample. Layer 1; pure, never reads beyond n, fuzzed.
 *
 * Source: <linux/perf_event.h>, "enum perf_event_type". Our events ask for IP (leaf only) TID TIME PERIOD
 * CALLCHAIN (but leaf) REGS_USER STACK_USER (dwarf only), in that order in the record.
 *
 * PERIOD of the kernel's CPU clock events is the period the event was opened with, for ever: measured on
 * Linux 6.18, it does not follow PERF_EVENT_IOC_PERIOD (perf_swevent_hrtimer reports hw.last_period, set
 * once). Since shims change the period at every sample, it is given as 0, unknown, for time events.
 */
#ifndef PERF_DECODE_H
#define PERF_DECODE_H

#include "perf_open.h"
#include "sample.h"
#include "switches.h"

enum { PERF_DECODE_MAX_IPS = 512 };

enum perf_kind {
    PERF_KIND_SAMPLE,
    PERF_KIND_LOST,  /* *ret_lost records were not written */
    PERF_KIND_OTHER, /* valid, of no interest */
};

/* Decodes rec[n], whose header's size must be n. For a sample, *ret_sample is a new block (free it with
 * free) with thread and end_off unset. DVT_EFORMAT: damaged; DVT_ENOMEM. Outputs are untouched on failure. */
int perf_decode(const struct perf_layout *l, const uint8_t *rec, size_t n, enum perf_kind *ret_kind,
                struct sample **ret_sample, uint64_t *ret_lost);

/* Decodes a record of a switch_ring, whose events ask for TID and TIME at the end of every record: a switch, or
 * SWITCH_GAP where records were lost. DVT_EFORMAT: damaged; DVT_ENOENT: valid, of no interest. */
int perf_decode_switch(const uint8_t *rec, size_t n, struct switch_rec *ret);

#endif
