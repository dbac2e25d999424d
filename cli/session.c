/* session: see session.h. */
#include "session.h"
#include "alloc.h"
#include "cli.h"
#include "control.h"
#include "listing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLUSH_TIMEOUT_MS = 20000, SUMMARY_TRACES = 5, STATE_MAX = 32 << 20 };

/* ---- the daemon's state ---- */

static int read_state(const char *socket, bool flush, struct state **ret, struct dvt_err *err)
{
    struct control c;
    struct dvt_buf b;
    dvt_buf_init(&b, STATE_MAX);
    int rc = control_open(&c, socket, err);
    if (rc) {
        return rc;
    }
    rc = flush ? control_flush(&c, FLUSH_TIMEOUT_MS, err) : 0;
    if (rc == 0) {
        rc = control_status(&c, &b, err);
    }
    if (rc == 0) {
        rc = state_new((struct dvt_str){(const char *)b.p, b.n}, ret, err);
    }
    control_close(&c);
    dvt_buf_fini(&b);
    return rc;
}

int session_state(const struct session *s, struct state **ret, struct dvt_err *err)
{
    return read_state(s->socket, false, ret, err);
}

static void warn_of_event(struct state *s)
{
    struct dvt_str why = state_text(s, "$.event.why");
    if (why.n) {
        cli_note("%.*s", (int)why.n, why.p);
    }
}

static uint64_t lost_of(struct state *s)
{
    return state_u64(s, "$.totals.lost_kernel") + state_u64(s, "$.totals.lost_queue") +
           state_u64(s, "$.totals.lost_end");
}

static int learn(struct session *s, struct dvt_err *err)
{
    struct state *state = NULL;
    int rc = read_state(s->socket, false, &state, err);
    if (rc) {
        return rc;
    }
    struct dvt_str store = state_text(state, "$.store");
    s->store = alloc_text(store.p, store.n);
    s->samples_before = state_u64(state, "$.totals.samples");
    s->outside_before = state_u64(state, "$.totals.outside");
    s->lost_before = lost_of(state);
    warn_of_event(state);
    state_free(state);
    return 0;
}

int session_start(struct session *s, const struct private_daemon_options *o, struct dvt_err *err)
{
    struct control c;
    struct timespec now;
    bool wants_own = o->store || o->hz || o->event || o->wall;
    clock_gettime(CLOCK_REALTIME, &now);
    *s = (struct session){.began_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
    if (!wants_own && control_open(&c, NULL, err) == 0) {
        memcpy(s->socket, c.path, sizeof s->socket);
        control_close(&c);
        return learn(s, err);
    }
    int rc = private_daemon_start(&s->own, o, err);
    if (rc) {
        return rc;
    }
    s->is_private = true;
    snprintf(s->socket, sizeof s->socket, "%s", s->own.socket);
    rc = learn(s, err);
    if (rc) {
        private_daemon_stop(&s->own);
    }
    return rc;
}

/* ---- the summary ---- */

static void print_ledger(struct state *state, const struct session *s)
{
    char samples[TEXT_NUMBER_MAX], outside[TEXT_NUMBER_MAX], lost[TEXT_NUMBER_MAX];
    int64_t gap = state_ledger_gap(state, "$.totals");
    text_count(state_u64(state, "$.totals.samples") - s->samples_before, samples);
    text_count(state_u64(state, "$.totals.outside") - s->outside_before, outside);
    text_count(lost_of(state) - s->lost_before, lost);
    cli_note("ledger: %s samples, %s of them outside all scopes, %s lost; %s", samples, outside, lost,
             gap ? "it does not add up, dovetail status says more" : "adds up");
}

static void print_empty(struct state *state)
{
    bool any = state && state_u64(state, "$.totals.scopes") > 0;
    cli_note("no trace was written: %s",
             any ? "no sample fell into a scope"
                 : "no scope was seen. A program marks its requests by OpenTelemetry, or by "
                   "dovetail.scope(...); dovetail doctor looks for what is missing");
}

static void print_traces(struct catalog *c, const struct catalog_list *list, const struct session *s)
{
    char id[DVT_TRACE_HEX + 1], n[TEXT_NUMBER_MAX], samples[TEXT_NUMBER_MAX];
    struct term term = term_of(STDERR_FILENO);
    struct catalog_list top = *list;
    uint64_t sum = 0;
    for (size_t i = 0; i < list->n; i++) {
        sum += list->traces[i].samples;
    }
    text_count(list->n, n);
    text_count(sum, samples);
    cli_note("%s trace%s, %s samples; the slowest:", n, list->n == 1 ? "" : "s", samples);
    top.n = list->n < SUMMARY_TRACES ? list->n : SUMMARY_TRACES;
    listing_print(c, &top, &term, stderr);
    dvt_trace_id_format(&list->traces[0].id, id);
    id[catalog_unique_digits(c, &list->traces[0].id)] = 0;
    cli_note("look further: dovetail flame %s --store %s", id, s->store);
    cli_note("              dovetail traces --store %s", s->store);
}

static void summarise(const struct session *s, struct state *state)
{
    struct filter f = {.since_ns = s->began_ns};
    struct catalog *c = NULL;
    struct catalog_list list = {0};
    struct dvt_err err = {0};
    const char *stores[] = {s->store};
    int rc = catalog_open(stores, 1, &c, &err);
    if (rc == 0) {
        rc = catalog_traces(c, &f, 0, &list, &err);
    }
    if (rc) {
        cli_note("%s", err.text);
    } else if (list.n == 0) {
        print_empty(state);
    } else {
        print_traces(c, &list, s);
    }
    if (state) {
        print_ledger(state, s);
    }
    catalog_list_fini(&list);
    catalog_close(c);
}

void session_end(struct session *s)
{
    struct state *state = NULL;
    struct dvt_err err = {0};
    if (read_state(s->socket, true, &state, &err)) {
        cli_note("%s", err.text);
    }
    if (s->is_private) {
        private_daemon_stop(&s->own);
    }
    summarise(s, state);
    state_free(state);
    free(s->store);
}

void session_abandon(struct session *s)
{
    if (s->is_private) {
        private_daemon_stop(&s->own);
    }
    free(s->store);
}
