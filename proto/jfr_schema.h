/*
 * jfr_schema: the JFR types of a Dovetail chunk as one table, the only place where they are declared.
 *
 * The writer turns it into the chunk's metadata event and writes values in its field order; readers (the JDK,
 * JMC, jfrconv, jfr_read.c) go by type and field names, so fields may be appended and type ids changed in a
 * later minor version. Known names (jdk.*, profiler.*) have just the fields other readers insist on, in their
 * order: jfrconv takes what follows the fields it knows for the next event. Ids stay below 128 (one byte) and off 76 ('L', which jfrconv takes for a chunk's
 * magic).
 */
#ifndef DVT_JFR_SCHEMA_H
#define DVT_JFR_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

enum jfr_type_id {
    JFR_METADATA = 0, /* events of the format itself */
    JFR_CHECKPOINT = 1,
    JFR_BOOLEAN = 4,
    JFR_BYTE = 8,
    JFR_INT = 10,
    JFR_LONG = 11,
    JFR_STRING = 20,
    JFR_CLASS,
    JFR_THREAD,
    JFR_FRAME_TYPE,
    JFR_THREAD_STATE,
    JFR_STACK_TRACE,
    JFR_STACK_FRAME,
    JFR_METHOD,
    JFR_SYMBOL,
    JFR_EXECUTION_SAMPLE = 40,
    JFR_ACTIVE_SETTING,
    JFR_SPAN,
    JFR_DVT_TRACE,
    JFR_DVT_PROCESS,
    JFR_DVT_SCOPE,
    JFR_DVT_LABEL,
    JFR_DVT_LINK,
    JFR_DVT_LEDGER,
    JFR_DVT_NO_STACK,
    JFR_DVT_SAMPLE_RUN,
    JFR_DVT_SCOPE_TIME, /* in chunks of wall mode only */
    JFR_TIMESTAMP = 60,
    JFR_TIMESPAN,
    JFR_CONTEXTUAL,
};

/* The metadata event's id. The JDK takes chunks of one id in one file to have the same types: it must change
 * with them. */
enum { JFR_METADATA_ID = 2, JFR_METADATA_WALL_ID };

enum jfr_type_kind { JFR_PLAIN, JFR_SIMPLE, JFR_EVENT, JFR_ANNOTATION };

enum { /* of a field */
    JFR_POOL = 1, /* a key into the constant pool of its type */
    JFR_ARRAY = 2,
    JFR_TICKS = 4,      /* annotated Timestamp("TICKS") */
    JFR_SPAN_TICKS = 8, /* annotated Timespan("TICKS") */
    JFR_CONTEXT = 16,   /* annotated Contextual: `jfr print` shows it at events inside, jfrconv filters */
};

struct jfr_field {
    const char *name; /* NULL ends a list */
    uint8_t type, flags;
};
struct jfr_type {
    const char *name;
    uint8_t id, kind;
    const struct jfr_field *fields;
};

extern const struct jfr_type dvt_jfr_types[];
extern const size_t dvt_jfr_n_types;

#endif
