/*
 * cmd_status: what the daemon is doing: processes, rates, and its ledger, whose counts must add up.
 */
#include "alloc.h"
#include "cli.h"
#include "control.h"
#include "state.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_SOCKET };
enum { STATE_MAX = 32 << 20 };

static const struct args_option options[] = {
    {OPT_JSON, 0, "--json", NULL, "the daemon's own JSON"},
    {OPT_SOCKET, 0, "--socket", "PATH",
     "its control socket (default: $DOVETAIL_SOCKET, else the usual places)"},
    {0},
};

static void put_count(struct table *t, uint64_t v)
{
    char text[TEXT_NUMBER_MAX];
    text_count(v, text);
    table_cellf(t, "%s", text);
}

static void put_process(struct table *t, struct state *p)
{
    table_cellf(t, "%" PRIu64, state_u64(p, "$.pid"));
    table_cell(t, state_text(p, "$.service"));
    char *runtime = alloc_text(state_text(p, "$.runtime").p, state_text(p, "$.runtime").n);
    struct dvt_str version = state_text(p, "$.runtime_version");
    table_cellf(t, "%s%s%.*s", runtime, version.n ? " " : "", (int)version.n, version.p);
    free(runtime);
    put_count(t, state_u64(p, "$.threads"));
    put_count(t, state_u64(p, "$.failed"));
    table_cellf(t, "%.0f", state_number(p, "$.scopes_per_s"));
    table_cellf(t, "%.0f", state_number(p, "$.samples_per_s"));
    put_count(t, state_u64(p, "$.ledger.samples"));
    put_count(t, state_u64(p, "$.ledger.joined"));
    put_count(t, state_u64(p, "$.ledger.outside"));
    put_count(t, state_u64(p, "$.ledger.no_stack"));
    put_count(t, state_u64(p, "$.ledger.lost_kernel") + state_u64(p, "$.ledger.lost_queue") +
                     state_u64(p, "$.ledger.lost_end"));
    table_cellf(t, "%s", state_bool(p, "$.down") ? "ended" : "");
}

static void print_processes(struct state *s, const struct term *term)
{
    static const struct {
        const char *name;
        enum table_align align;
    } columns[] = {{"PID", TABLE_RIGHT},
                   {"SERVICE", TABLE_LEFT},
                   {"RUNTIME", TABLE_LEFT},
                   {"THREADS", TABLE_RIGHT},
                   {"FAILED", TABLE_RIGHT},
                   {"SCOPES/S", TABLE_RIGHT},
                   {"SAMPLES/S", TABLE_RIGHT},
                   {"SAMPLES", TABLE_RIGHT},
                   {"IN SCOPES", TABLE_RIGHT},
                   {"OUTSIDE", TABLE_RIGHT},
                   {"NO STACK", TABLE_RIGHT},
                   {"LOST", TABLE_RIGHT},
                   {"", TABLE_LEFT}};
    enum { N = sizeof columns / sizeof *columns };
    struct state **processes;
    size_t n = state_items(s, "$.processes", &processes);
    struct table *t = table_new(N);
    for (size_t i = 0; i < N; i++) {
        table_heading(t, columns[i].name, columns[i].align);
    }
    for (size_t i = 0; i < n; i++) {
        put_process(t, processes[i]);
    }
    if (n) {
        table_print(t, term, stdout);
    } else {
        puts("no process reports: start one with dovetail run -- CMD, or load a shim in it");
    }
    table_free(t);
    state_free_items(processes, n);
}

static void print_text(struct state *s, const char *path)
{
    struct dvt_str text = state_text(s, path);
    text_put(stdout, text, 200);
}

static void print_head(struct state *s)
{
    char uptime[TEXT_NUMBER_MAX], bytes[TEXT_NUMBER_MAX];
    text_duration((uint64_t)(state_number(s, "$.uptime_s") * 1e9), uptime);
    text_bytes(state_u64(s, "$.writer.bytes"), bytes);
    printf("dovetaild ");
    print_text(s, "$.version");
    printf(" (pid %" PRIu64 "), up %s\nstore   ", state_u64(s, "$.pid"), uptime);
    print_text(s, "$.store");
    printf(", %" PRIu64 " traces and %s written", state_u64(s, "$.writer.traces"), bytes);
    printf("\nevent   ");
    print_text(s, "$.event.used");
    printf(" at %" PRIu64 " Hz, %s kernel code, native stacks by ", state_u64(s, "$.hz"),
           state_bool(s, "$.event.kernel") ? "with" : "without");
    print_text(s, "$.native");
    printf("\ntraces  %" PRIu64 " open\n\n", state_u64(s, "$.open_traces"));
}

static void print_count(struct state *s, const char *field, const char *what, bool always)
{
    char path[64], text[TEXT_NUMBER_MAX];
    snprintf(path, sizeof path, "$.totals.%s", field);
    uint64_t v = state_u64(s, path);
    text_count(v, text);
    if (v || always) {
        printf("%14s  %s\n", text, what);
    }
}

static void print_ledger(struct state *s, const struct term *term)
{
    int64_t gap = state_ledger_gap(s, "$.totals");
    enum term_style style = gap ? TERM_BAD : TERM_GOOD;
    puts("\nledger");
    print_count(s, "samples", "samples taken", true);
    print_count(s, "joined", "  given to a scope", true);
    print_count(s, "outside", "  in no scope", true);
    print_count(s, "ambiguous", "  fit two contexts: given to none", false);
    print_count(s, "repeated", "  repeats of a thread's short first period: dropped", false);
    print_count(s, "pending", "  wait for their scopes", false);
    print_count(s, "lost_queue", "  dropped: the daemon did not keep up", false);
    print_count(s, "lost_end", "  their thread ended before its scopes were told", false);
    fputs(term_on(term, style), stdout);
    if (gap == 0) {
        fputs("                adds up", stdout);
    } else {
        printf("                does not add up: %" PRId64 " samples %s", gap > 0 ? gap : -gap,
               gap > 0 ? "are not accounted for" : "are counted twice");
    }
    printf("%s\n", term_off(term, style));
    print_count(s, "lost_kernel", "samples lost by the kernel", true);
    print_count(s, "no_stack", "samples in scopes without a managed stack", true);
    print_count(s, "scopes", "scopes kept", true);
    print_count(s, "scopes_empty", "  without a sample: closed while the thread's sampling began", false);
    print_count(s, "scopes_cut", "scopes cut short by their process's end", false);
    print_count(s, "scopes_lost", "scopes lost: the daemon could not keep them", false);
    print_count(s, "scopes_bad", "scopes refused: impossible", false);
    print_count(s, "traces_written", "traces written", true);
    print_count(s, "traces_lost", "traces that could not be written", false);
    print_count(s, "threads_failed", "threads that could not be sampled", false);
    print_count(s, "messages_forged", "messages forged or replayed, dropped", false);
    print_count(s, "messages_bad", "messages malformed, dropped", false);
    print_count(s, "messages_version", "messages of a newer version, dropped", false);
    print_count(s, "messages_lost", "messages dropped: the daemon did not keep up", false);
}

static void print_note(void *ctx, struct dvt_str text)
{
    (void)ctx;
    fputs("note: ", stdout);
    text_put(stdout, text, 0);
    putchar('\n');
}

static int print_state(struct dvt_str json, struct dvt_err *err)
{
    struct state *s = NULL;
    struct term term = term_of(STDOUT_FILENO);
    int rc = state_new(json, &s, err);
    if (rc) {
        return rc;
    }
    print_head(s);
    print_processes(s, &term);
    print_ledger(s, &term);
    state_texts(s, "$.notes", print_note, NULL);
    if (state_u64(s, "$.writer.errors")) {
        print_note(NULL, state_text(s, "$.writer.last_error"));
    }
    state_free(s);
    return 0;
}

static int status(const char *socket, bool json)
{
    struct dvt_err err = {0};
    struct control c;
    struct dvt_buf b;
    dvt_buf_init(&b, STATE_MAX);
    int rc = control_open(&c, socket, &err);
    if (rc == 0) {
        rc = control_status(&c, &b, &err);
        control_close(&c);
    }
    if (rc == 0 && json) {
        fwrite(b.p, 1, b.n, stdout);
        putchar('\n');
    } else if (rc == 0) {
        rc = print_state((struct dvt_str){(const char *)b.p, b.n}, &err);
    }
    dvt_buf_fini(&b);
    return rc ? cli_report(&err) : CLI_DONE;
}

static int run(struct args *a)
{
    struct dvt_err err = {0};
    const char *value, *socket = NULL;
    bool json = false;
    int id, rc = 0;
    while (rc == 0 && (id = cli_next(&cmd_status, a, &value, &err)) != ARGS_END) {
        if (id == OPT_JSON) {
            json = true;
        } else if (id == OPT_SOCKET) {
            socket = value;
        } else {
            rc = id == ARGS_OTHER ? dvt_fail(&err, DVT_EINVAL, 0, "status takes no \"%.40s\"", value) : id;
        }
    }
    return rc ? cli_report(&err) : status(socket, json);
}

const struct command cmd_status = {
    .name = "status",
    .synopsis = "[--json] [--socket PATH]",
    .summary = "the daemon's processes, rates and ledger",
    .details = "Every sample is given to a scope, outside all scopes, or counted as lost or ambiguous: the "
               "ledger says\n"
               "whether that adds up.",
    .examples = "  dovetail status\n  dovetail status --json | jq .totals",
    .options = options,
    .run = run,
};
