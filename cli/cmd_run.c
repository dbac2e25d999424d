/*
 * cmd_run: profiles one program and its children: by the daemon that runs here, or by one of its own; then
 * says what was caught. The program's output and exit code stay its own; all that is ours goes to standard
 * error.
 */
#include "alloc.h"
#include "child.h"
#include "cli.h"
#include "control.h"
#include "listing.h"
#include "places.h"
#include "private_daemon.h"
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPT_STORE = 1, OPT_HZ, OPT_EVENT, OPT_WALL, OPT_CPU, OPT_SERVICE };
enum { FLUSH_TIMEOUT_MS = 20000, SUMMARY_TRACES = 5, STATE_MAX = 32 << 20 };

static const struct args_option options[] = {
    {OPT_STORE, 'o', "--store", "DIR", "write this store, by a daemon of the run's own"},
    {OPT_HZ, 0, "--hz", "N", "samples a second of CPU time (99), by a daemon of the run's own"},
    {OPT_EVENT, 'e', "--event", "EVENT", "what to sample by, a libpfm4 name (cpu-clock); likewise"},
    {OPT_SERVICE, 0, "--service", "NAME", "the service's name (DOVETAIL_SERVICE)"},
    {OPT_CPU, 0, "--cpu", NULL, "time on a CPU (the default)"},
    {OPT_WALL, 0, "--wall", NULL, "not in this version"},
    {0},
};

struct request {
    struct private_daemon_options daemon;
    const char *service;
    char **command;
};

/* Who samples: a daemon that was there, or our own. */
struct session {
    bool is_private;
    struct private_daemon own;
    char socket[108];
    char *store;
    int64_t began_ns; /* UNIX */
    uint64_t samples_before, outside_before, lost_before;
};

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

static int session_start(struct session *s, const struct request *r, struct dvt_err *err)
{
    struct control c;
    struct timespec now;
    bool wants_own = r->daemon.store || r->daemon.hz || r->daemon.event;
    clock_gettime(CLOCK_REALTIME, &now);
    *s = (struct session){.began_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
    if (!wants_own && control_open(&c, NULL, err) == 0) {
        memcpy(s->socket, c.path, sizeof s->socket);
        control_close(&c);
        return learn(s, err);
    }
    int rc = private_daemon_start(&s->own, &r->daemon, err);
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

static void session_end(struct session *s)
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

/* ---- the program ---- */

/* Puts `value` in front of what the variable holds. */
static void prepend(const char *variable, const char *value, const char *separator)
{
    const char *old = getenv(variable);
    bool has = old && *old;
    char *joined = alloc_printf("%s%s%s", value, has ? separator : "", has ? old : "");
    setenv(variable, joined, 1);
    free(joined);
}

/* Every JVM of any launcher reads JAVA_TOOL_OPTIONS, and says on its standard error that it did; JDK_JAVA_OPTIONS
 * would say so too, and is read by the java command alone. A path with a space cannot be written there. */
static void set_java(void)
{
    char *agent = places_jvm_agent();
    if (agent && !strpbrk(agent, " \t")) {
        char *option = alloc_printf("-agentpath:%s", agent);
        prepend("JAVA_TOOL_OPTIONS", option, " ");
        free(option);
    }
    free(agent);
}

/* For NODE_OPTIONS: what is between double quotes is one word, with backslashes before quotes and backslashes. */
static char *quoted(const char *path)
{
    char *text = alloc_bytes(2 * strlen(path) + 3), *p = text;
    *p++ = '"';
    for (; *path; path++) {
        if (*path == '"' || *path == '\\') {
            *p++ = '\\';
        }
        *p++ = *path;
    }
    *p = '"';
    return text;
}

/* NODE_PATH, which is searched last, is for programs that call require("dovetail"). */
static void set_node(void)
{
    char *package = places_node_package();
    if (package) {
        char *path = quoted(package), *option = alloc_printf("--require %s", path);
        prepend("NODE_OPTIONS", option, " ");
        *strrchr(package, '/') = 0;
        prepend("NODE_PATH", package, ":");
        free(option);
        free(path);
    }
    free(package);
}

static void set_environment(const struct request *r, const struct session *s)
{
    char *python = places_python_auto();
    setenv("DOVETAIL_SOCKET", s->socket, 1);
    if (r->service) {
        setenv("DOVETAIL_SERVICE", r->service, 1);
    }
    if (python) {
        prepend("PYTHONPATH", python, ":");
    }
    free(python);
    set_java();
    set_node();
}

static int profile(const struct request *r)
{
    struct session s;
    struct dvt_err err = {0};
    int code = CLI_ENVIRONMENT;
    int rc = session_start(&s, r, &err);
    if (rc) {
        return cli_report(&err);
    }
    set_environment(r, &s);
    rc = child_run(r->command, &code, &err);
    if (rc) {
        cli_note("%s", err.text);
        if (s.is_private) {
            private_daemon_stop(&s.own);
        }
        free(s.store);
        return code;
    }
    session_end(&s);
    return code;
}

static int take_option(struct request *r, int id, const char *value, struct dvt_err *err)
{
    switch (id) {
    case OPT_STORE:
        r->daemon.store = value;
        return 0;
    case OPT_HZ:
        r->daemon.hz = value; /* the daemon checks it */
        return 0;
    case OPT_EVENT:
        r->daemon.event = value;
        return 0;
    case OPT_SERVICE:
        r->service = value;
        return 0;
    case OPT_CPU:
        return 0;
    case OPT_WALL:
        return dvt_fail(err, DVT_EINVAL, 0, "wall-clock mode is not in this version: --cpu is what there is");
    default:
        return id;
    }
}

static int run(struct args *a)
{
    struct request r = {0};
    struct dvt_err err = {0};
    const char *value;
    int id, rc = 0;
    a->stop_at_other = true;
    while (rc == 0 && !r.command && (id = cli_next(&cmd_run, a, &value, &err)) != ARGS_END) {
        if (id == ARGS_OTHER) {
            r.command = a->argv + a->at - 1; /* argv ends with NULL */
        } else {
            rc = take_option(&r, id, value, &err);
        }
    }
    if (rc == 0 && !r.command) {
        rc = dvt_fail(&err, DVT_EINVAL, 0, "which program? dovetail run [OPTIONS] -- CMD [ARG...]");
    }
    return rc ? cli_report(&err) : profile(&r);
}

const struct command cmd_run = {
    .name = "run",
    .synopsis = "[-o STORE] [--hz N] [--event E] [--service NAME] -- CMD [ARG...]",
    .summary = "profile a program and its children, then a summary",
    .details = "Uses the daemon that runs here (DOVETAIL_SOCKET, or the usual places); without one, or with "
               "-o, --hz or\n"
               "--event, a private one. Python, Java and Node.js programs need no change (a JVM tells on "
               "standard error\n"
               "that it picked up JAVA_TOOL_OPTIONS). The exit code is the program's (128 + signal;\n"
               "127: not found); the summary goes to standard error.",
    .examples = "  dovetail run -- python app.py\n"
                "  dovetail run -o ./store --hz 999 --service shop -- gunicorn app:app\n"
                "  dovetail run -- java -jar app.jar\n"
                "  dovetail run -- node server.js",
    .options = options,
    .run = run,
};
