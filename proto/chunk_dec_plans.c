/*
 * chunk_dec_plans: which fields the decoder reads of each type, as one table, and their place in a chunk by
 * the chunk's own metadata: a type or field that is not there reads as 0, one that we do not know is passed
 * over.
 */
#include "chunk_dec.h"

struct record_spec {
    const char *type;
    const char *names[JFR_SLOTS]; /* op and field name, in the order of the slots below */
};

static const struct record_spec specs[N_RECORDS] = {
    [R_SAMPLE] = {"jdk.ExecutionSample", {"istartTime", "isampledThread", "istackTrace"}},
    [R_RUN] = {"dovetail.SampleRun", {"iscope", "isamples", "iweight"}},
    [R_TIMES] = {"dovetail.ScopeTime",
                 {"iscope", "ionCpu", "iblocked", "irunnable", "iunknown", "iwaits", "ipreemptions"}},
    [R_TRACE] = {"dovetail.Trace",
                 {"imajor", "itraceId", "ipart", "ihost", "ievent", "iperiod", "istartTime", "iduration",
                  "iunixOffset"}},
    [R_PROCESS] = {"dovetail.Process",
                   {"ipid", "istartTicks", "iservice", "iprogram", "iruntime", "iruntimeVersion"}},
    [R_SCOPE] = {"dovetail.Scope",
                 {"istartTime", "iduration", "ieventThread", "iid", "iparent", "iserial", "ispanId",
                  "iparentSpanId", "iname", "itag", "iflags"}},
    [R_LABEL] = {"dovetail.ScopeLabel", {"iscope", "ikey", "ivalue"}},
    [R_LINK] = {"dovetail.ScopeLink", {"iscope", "itraceId"}},
    [R_LEDGER] = {"dovetail.Ledger",
                  {"isamples", "inoStack", "iambiguous", "ishared", "iscopes", "icutShort", "iuncovered",
                   "ilostSamples"}},
    [R_NO_STACK] = {"dovetail.NoStack", {"ireason", "isamples"}},
    [R_SYMBOL] = {"jdk.types.Symbol", {"sstring"}},
    [R_STRING] = {"java.lang.String", {NULL}},
    [R_THREAD] = {"java.lang.Thread", {"sosName", "iosThreadId", "iprocess"}},
    [R_CLASS] = {"java.lang.Class", {"imodule", "ifile"}},
    [R_METHOD] = {"jdk.types.Method", {"itype", "iname"}},
    [R_STACK] = {"jdk.types.StackTrace", {"itruncated", "aframes"}},
    [R_FRAME] = {"jdk.types.StackFrame", {"imethod", "ilineNumber", "itype"}},
};

/* ---- types ---- */

int dvt_dec_plans(struct dec *d)
{
    memset(d->record_of, R_OTHER, sizeof d->record_of);
    for (uint32_t i = 0; i < N_RECORDS; i++) {
        uint32_t n = 0, type = dvt_jfr_type(&d->meta, specs[i].type);
        while (specs[i].names[n])
            n++;
        if (!type)
            continue;
        int rc = dvt_jfr_plan(&d->meta, type, specs[i].names, n, &d->plans[i], d->err);
        if (rc)
            return rc;
        d->type_of[i] = type;
        d->record_of[type] = (uint8_t)i;
    }
    if (!d->type_of[R_TRACE])
        return dvt_fail(d->err, DVT_EFORMAT, 0, "chunk: a JFR chunk, but not of this program");
    return 0;
}
