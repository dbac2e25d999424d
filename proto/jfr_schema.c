/*
 * jfr_schema: the table of types. See jfr_schema.h for its rules.
 *
 * Class.classLoader and Class.package are never set; typing them as symbols spares two more types in every
 * chunk. Class.module and Class.file hold what the frame's own module and file are: Class.name is only for
 * display.
 */
#include "jfr_schema.h"

#define F(name, type, flags) {name, JFR_##type, flags}
#define END {NULL, 0, 0}
#define FIELDS(id) static const struct jfr_field id[]
#define START F("startTime", LONG, JFR_TICKS)
#define DURATION F("duration", LONG, JFR_SPAN_TICKS)
#define STRING_KEY(name) F(name, STRING, JFR_POOL)

FIELDS(none) = {END};
FIELDS(class_fields) = {F("classLoader", SYMBOL, JFR_POOL),
                        F("name", SYMBOL, JFR_POOL),
                        F("package", SYMBOL, JFR_POOL),
                        F("modifiers", INT, 0),
                        F("module", SYMBOL, JFR_POOL),
                        F("file", SYMBOL, JFR_POOL),
                        END};
FIELDS(thread_fields) = {F("osName", STRING, 0),     F("osThreadId", LONG, 0), F("javaName", STRING, 0),
                         F("javaThreadId", LONG, 0), F("process", INT, 0),     END};
FIELDS(frame_type_fields) = {F("description", STRING, 0), END};
FIELDS(thread_state_fields) = {F("name", STRING, 0), END};
FIELDS(stack_trace_fields) = {F("truncated", BOOLEAN, 0), F("frames", STACK_FRAME, JFR_ARRAY), END};
FIELDS(stack_frame_fields) = {F("method", METHOD, JFR_POOL), F("lineNumber", INT, 0),
                              F("bytecodeIndex", INT, 0), F("type", FRAME_TYPE, JFR_POOL), END};
FIELDS(method_fields) = {F("type", CLASS, JFR_POOL),        F("name", SYMBOL, JFR_POOL),
                         F("descriptor", SYMBOL, JFR_POOL), F("modifiers", INT, 0),
                         F("hidden", BOOLEAN, 0),           END};
FIELDS(symbol_fields) = {F("string", STRING, 0), END};

FIELDS(sample_fields) = {START,
                         F("sampledThread", THREAD, JFR_POOL),
                         F("stackTrace", STACK_TRACE, JFR_POOL),
                         F("state", THREAD_STATE, JFR_POOL),
                         END};
/* Of the `samples` jdk.ExecutionSamples that follow it in the file. */
FIELDS(sample_run_fields) = {START,
                             F("scope", INT, 0), /* index + 1 of their dovetail.Scope, 0 none */
                             F("samples", INT, 0),
                             F("weight", LONG, JFR_SPAN_TICKS), /* of each */
                             END};
/* How a scope's time was spent: the four add up to its duration. */
FIELDS(scope_time_fields) = {START,
                             F("scope", INT, 0), /* index + 1 of its dovetail.Scope */
                             F("onCpu", LONG, JFR_SPAN_TICKS),
                             F("blocked", LONG, JFR_SPAN_TICKS),
                             F("runnable", LONG, JFR_SPAN_TICKS),
                             F("unknown", LONG, JFR_SPAN_TICKS),
                             F("waits", INT, 0),
                             F("preemptions", INT, 0),
                             END};
FIELDS(setting_fields) = {START, F("id", LONG, 0), F("name", STRING, 0), F("value", STRING, 0), END};
FIELDS(span_fields) = {START, DURATION, F("eventThread", THREAD, JFR_POOL),
                       F("tag", STRING, JFR_POOL | JFR_CONTEXT), END};

FIELDS(trace_fields) = {START,
                        DURATION,
                        F("major", INT, 0),
                        F("minor", INT, 0),
                        STRING_KEY("traceId"),
                        F("part", INT, 0),
                        STRING_KEY("host"),
                        STRING_KEY("event"),
                        F("period", LONG, JFR_SPAN_TICKS),
                        F("unixOffset", LONG, 0), /* ns, of ticks */
                        END};
FIELDS(process_fields) = {START,
                          F("pid", INT, 0),
                          F("startTicks", LONG, 0),
                          STRING_KEY("service"),
                          STRING_KEY("program"),
                          STRING_KEY("runtime"),
                          STRING_KEY("runtimeVersion"),
                          END};
FIELDS(scope_fields) = {START,
                        DURATION,
                        F("eventThread", THREAD, JFR_POOL),
                        F("id", INT, 0),     /* index + 1 */
                        F("parent", INT, 0), /* likewise, 0 none */
                        F("serial", LONG, 0),
                        STRING_KEY("traceId"),
                        STRING_KEY("spanId"),
                        STRING_KEY("parentSpanId"),
                        STRING_KEY("name"),
                        STRING_KEY("tag"),
                        F("flags", INT, 0),
                        END};
FIELDS(label_fields) = {START, F("scope", INT, 0), STRING_KEY("key"), STRING_KEY("value"), END};
FIELDS(link_fields) = {START, F("scope", INT, 0), STRING_KEY("traceId"), END};
FIELDS(ledger_fields) = {START,
                         F("samples", LONG, 0),
                         F("noStack", LONG, 0),
                         F("ambiguous", LONG, 0),
                         F("shared", LONG, 0),
                         F("scopes", LONG, 0),
                         F("cutShort", LONG, 0),
                         F("uncovered", LONG, JFR_SPAN_TICKS),
                         F("lostSamples", LONG, 0),
                         END};
/* One event a reason: `jfr print` fails on arrays of numbers. */
FIELDS(no_stack_fields) = {START, F("reason", INT, 0), F("samples", LONG, 0), END};
FIELDS(value_field) = {F("value", STRING, 0), END};

const struct jfr_type dvt_jfr_types[] = {
    {"boolean", JFR_BOOLEAN, JFR_PLAIN, none},
    {"byte", JFR_BYTE, JFR_PLAIN, none},
    {"int", JFR_INT, JFR_PLAIN, none},
    {"long", JFR_LONG, JFR_PLAIN, none},
    {"java.lang.String", JFR_STRING, JFR_PLAIN, none},
    {"java.lang.Class", JFR_CLASS, JFR_PLAIN, class_fields},
    {"java.lang.Thread", JFR_THREAD, JFR_PLAIN, thread_fields},
    {"jdk.types.FrameType", JFR_FRAME_TYPE, JFR_SIMPLE, frame_type_fields},
    {"jdk.types.ThreadState", JFR_THREAD_STATE, JFR_SIMPLE, thread_state_fields},
    {"jdk.types.StackTrace", JFR_STACK_TRACE, JFR_PLAIN, stack_trace_fields},
    {"jdk.types.StackFrame", JFR_STACK_FRAME, JFR_PLAIN, stack_frame_fields},
    {"jdk.types.Method", JFR_METHOD, JFR_PLAIN, method_fields},
    {"jdk.types.Symbol", JFR_SYMBOL, JFR_SIMPLE, symbol_fields},
    {"jdk.ExecutionSample", JFR_EXECUTION_SAMPLE, JFR_EVENT, sample_fields},
    {"jdk.ActiveSetting", JFR_ACTIVE_SETTING, JFR_EVENT, setting_fields},
    {"profiler.Span", JFR_SPAN, JFR_EVENT, span_fields},
    {"dovetail.Trace", JFR_DVT_TRACE, JFR_EVENT, trace_fields},
    {"dovetail.Process", JFR_DVT_PROCESS, JFR_EVENT, process_fields},
    {"dovetail.Scope", JFR_DVT_SCOPE, JFR_EVENT, scope_fields},
    {"dovetail.ScopeLabel", JFR_DVT_LABEL, JFR_EVENT, label_fields},
    {"dovetail.ScopeLink", JFR_DVT_LINK, JFR_EVENT, link_fields},
    {"dovetail.Ledger", JFR_DVT_LEDGER, JFR_EVENT, ledger_fields},
    {"dovetail.NoStack", JFR_DVT_NO_STACK, JFR_EVENT, no_stack_fields},
    {"dovetail.SampleRun", JFR_DVT_SAMPLE_RUN, JFR_EVENT, sample_run_fields},
    {"dovetail.ScopeTime", JFR_DVT_SCOPE_TIME, JFR_EVENT, scope_time_fields},
    {"jdk.jfr.Timestamp", JFR_TIMESTAMP, JFR_ANNOTATION, value_field},
    {"jdk.jfr.Timespan", JFR_TIMESPAN, JFR_ANNOTATION, value_field},
    {"jdk.jfr.Contextual", JFR_CONTEXTUAL, JFR_ANNOTATION, none},
};
const size_t dvt_jfr_n_types = sizeof dvt_jfr_types / sizeof *dvt_jfr_types;
