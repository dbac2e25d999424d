/*
 * chunk_dec: one chunk while it is decoded: what the files of the decoder share. Included by these only:
 *
 *   chunk_decode.c     header, events, the result
 *   chunk_dec_plans.c  the chunk's own types against those we know
 *   chunk_dec_pools.c  constant pools into plain tables
 */
#ifndef DVT_CHUNK_DEC_H
#define DVT_CHUNK_DEC_H

#include "chunk.h"
#include "chunk_intern.h"
#include "jfr_read.h"

enum record { /* what is read: events, then constant pools and a frame, which is part of a stack */
    R_SAMPLE,
    R_TRACE,
    R_PROCESS,
    R_SCOPE,
    R_LABEL,
    R_LINK,
    R_LEDGER,
    R_NO_STACK,
    R_RUN,
    R_TIMES,
    N_EVENTS,
    R_SYMBOL = N_EVENTS,
    R_STRING,
    R_THREAD,
    R_CLASS,
    R_METHOD,
    R_STACK,
    R_FRAME,
    N_RECORDS,
    R_OTHER = N_RECORDS,
};

/* The fields of each record, by their slots in its plan. */
enum { SAMPLE_TIME, SAMPLE_THREAD, SAMPLE_STACK };
enum { TIMES_SCOPE, TIMES_ON_CPU, TIMES_BLOCKED, TIMES_RUNNABLE, TIMES_UNKNOWN, TIMES_WAITS, TIMES_PREEMPTIONS };
enum { RUN_SCOPE, RUN_SAMPLES, RUN_WEIGHT };
enum { TRACE_MAJOR, TRACE_ID, TRACE_PART, TRACE_HOST, TRACE_EVENT, TRACE_PERIOD, TRACE_START, TRACE_DURATION,
       TRACE_OFFSET };
enum { PROCESS_PID, PROCESS_START, PROCESS_SERVICE, PROCESS_PROGRAM, PROCESS_RUNTIME, PROCESS_VERSION };
enum {
    SCOPE_TIME,
    SCOPE_DURATION,
    SCOPE_THREAD,
    SCOPE_ID,
    SCOPE_PARENT,
    SCOPE_SERIAL,
    SCOPE_SPAN,
    SCOPE_PARENT_SPAN,
    SCOPE_NAME,
    SCOPE_TAG,
    SCOPE_FLAGS
};
enum { LABEL_SCOPE, LABEL_KEY, LABEL_VALUE };
enum { LINK_SCOPE, LINK_TRACE };
enum {
    LEDGER_SAMPLES,
    LEDGER_NO_STACK,
    LEDGER_AMBIGUOUS,
    LEDGER_SHARED,
    LEDGER_SCOPES,
    LEDGER_CUT,
    LEDGER_UNCOVERED,
    LEDGER_LOST
};
enum { NO_STACK_REASON, NO_STACK_SAMPLES };
enum { THREAD_NAME, THREAD_TID, THREAD_PROCESS };
enum { CLASS_MODULE, CLASS_FILE };
enum { METHOD_CLASS, METHOD_NAME };
enum { STACK_TRUNCATED, STACK_FRAMES };
enum { FRAME_METHOD, FRAME_LINE, FRAME_TYPE };

enum { RECENT_FRAMES = 1024 };

struct pool { /* entry i has the key base + i */
    uint64_t base;
    uint32_t n;
    bool is_read;
};

struct dec {
    struct jfr_meta meta;
    struct jfr_plan plans[N_RECORDS];
    uint8_t record_of[JFR_MAX_TYPES]; /* by type id; R_OTHER */
    uint32_t type_of[N_RECORDS];
    struct pool pools[N_RECORDS];
    struct dvt_str *symbols, *strings;
    struct dvt_chunk_thread *threads;
    uint64_t (*classes)[2], (*methods)[2]; /* keys, by slot */
    struct dvt_chunk_stack *stacks;
    uint32_t *stack_frames;
    uint32_t n_stack_frames, cap_stack_frames;
    struct dvt_tuples frames; /* method key (two halves), line, type */
    struct { /* the last frames seen: stacks of one trace share most of theirs */
        uint64_t method;
        uint32_t line_type, index;
    } recent[RECENT_FRAMES];
    uint32_t counts[N_EVENTS];
    struct dvt_chunk c;
    struct dvt_err *err;
    int rc; /* DVT_ENOMEM */
};

/* Fails with what is damaged, or out of memory if that is what happened (d->rc). */
int dvt_dec_damaged(struct dec *d, const char *what);

/* Compiles the plans of the types we know from the chunk's metadata. DVT_EFORMAT if the chunk is not of this
 * program. */
int dvt_dec_plans(struct dec *d);

/* Reads the checkpoint at p[n] into the tables of d. */
int dvt_dec_pools(struct dec *d, const uint8_t *p, size_t n);

/* Index of key in a pool; UINT32_MAX if it is not there. */
static inline uint32_t pool_index(const struct pool *p, uint64_t key)
{
    return key - p->base < p->n ? (uint32_t)(key - p->base) : UINT32_MAX;
}

#endif
