/*
 * status: see status.h. Appends go on after a failure and do nothing, so that it is looked at once.
 */
#include "status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct json {
    struct dvt_buf *out;
    int code; /* of the first append that failed */
};

static void put(struct json *j, const void *p, size_t n)
{
    if (j->code == 0)
        j->code = dvt_buf_append(j->out, p, n);
}

static void put_f(struct json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_f(struct json *j, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put(j, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static void put_str(struct json *j, const char *s)
{
    put(j, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            put_f(j, "\\%c", c);
        else if (c < 0x20)
            put_f(j, "\\u%04x", c);
        else
            put(j, s, 1);
    }
    put(j, "\"", 1);
}

static void put_member(struct json *j, const char *key, const char *value)
{
    put_f(j, ",\"%s\":", key);
    put_str(j, value);
}

static void put_source(struct json *j, const struct perf_source_info *s)
{
    put_f(j, ",\"event\":{\"kernel\":%s,\"opens\":%s,\"period\":%" PRIu64, s->kernel ? "true" : "false",
          s->opens ? "true" : "false", s->period);
    put_member(j, "asked", s->asked);
    put_member(j, "used", s->used);
    put_member(j, "why", s->why);
    put_f(j, "}");
}

static void put_process(struct json *j, const struct report_process *p, uint32_t n_threads)
{
    struct ledger l = report_ledger(p);
    put_f(j, "{\"pid\":%u,\"down\":%s,\"threads\":%u,\"armed\":%" PRIu64 ",\"failed\":%" PRIu64,
          p->proc->host_pid,
          p->down ? "true" : "false", n_threads, l.threads_armed, l.threads_failed);
    put_member(j, "service", p->proc->service);
    put_member(j, "runtime", p->proc->runtime);
    put_member(j, "runtime_version", p->proc->runtime_version);
    put_member(j, "program", p->proc->program);
    put_f(j, ",\"scopes_per_s\":%.1f,\"samples_per_s\":%.1f,\"ledger\":", p->scopes_per_s, p->samples_per_s);
    if (j->code == 0)
        j->code = ledger_json(&l, &p->shim, j->out);
    put_f(j, "}");
}

static void put_report(struct json *j, const struct status_in *in)
{
    struct ledger total = *in->edge;
    put_f(j, ",\"processes\":[");
    for (uint32_t i = 0; in->report && i < in->report->n; i++) {
        put(j, ",", i > 0);
        put_process(j, &in->report->v[i], in->n_threads ? in->n_threads[i] : 0);
    }
    put_f(j, "],\"totals\":");
    if (in->report)
        ledger_add(&total, &in->report->total);
    if (j->code == 0)
        j->code = ledger_json(&total, NULL, j->out);
    put_f(j, ",\"open_traces\":%" PRIu64, in->report ? in->report->open_traces : 0);
}

static void put_notes(struct json *j, const struct status_in *in)
{
    put_f(j, ",\"notes\":[");
    bool first = true;
    for (uint32_t i = 0; i < in->n_notes; i++) {
        if (!in->notes[i][0])
            continue;
        put(j, ",", !first);
        put_str(j, in->notes[i]);
        first = false;
    }
    put_f(j, "]");
}

int status_json(const struct status_in *in, struct dvt_buf *out)
{
    static const char *const native[] = {"dwarf", "fp", "leaf"}; /* enum perf_native */
    struct json j = {.out = out};
    put_f(&j, "{\"version\":\"%s\",\"pid\":%u,\"uptime_s\":%.1f,\"hz\":%u", DOVETAIL_VERSION, in->pid,
          (double)in->uptime_ns / 1e9, in->config->hz);
    put_member(&j, "native", native[in->config->native]);
    put_member(&j, "store", in->config->store);
    put_member(&j, "socket", in->config->socket);
    put_member(&j, "endpoint", in->endpoint);
    put_source(&j, in->source);
    put_report(&j, in);
    put_f(&j, ",\"sessions\":%u", in->n_sessions);
    const struct board_writer *w = in->writer;
    put_f(&j, ",\"writer\":{\"traces\":%" PRIu64 ",\"bytes\":%" PRIu64, w->traces, in->store_bytes);
    put_f(&j, ",\"errors\":%" PRIu64 ",\"deleted\":%" PRIu64, w->errors, w->deleted);
    put_member(&j, "last_error", w->last_error);
    put_f(&j, "}");
    put_notes(&j, in);
    put_f(&j, "}");
    return j.code;
}
