/*
 * cmd_traces: lists the traces that match, slowest first, as a table or one JSON object a line.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "json.h"
#include "listing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPT_SLOWEST = 1, OPT_JSON };
enum { SLOWEST_DEFAULT = 20, SLOWEST_MAX = 10000000 };

static const struct args_option options[] = {
    {OPT_SLOWEST, 'n', "--slowest", "N", "how many (default 20)"},
    {OPT_JSON, 0, "--json", NULL, "one JSON object a line, all that match; times in ns"},
    {0},
};

static void service_item(void *ctx, struct dvt_str s)
{
    json_text(ctx, NULL, s);
}

static void label_item(void *ctx, struct dvt_str s)
{
    const char *equals = memchr(s.p, '=', s.n);
    size_t n = equals ? (size_t)(equals - s.p) : s.n;
    char *key = alloc_text(s.p, n); /* a key with a NUL ends there: JSON keys stay valid */
    json_text(ctx, key, equals ? (struct dvt_str){equals + 1, s.n - n - 1} : dvt_str(""));
    free(key);
}

static void print_json(struct catalog *c, const struct catalog_trace *t)
{
    char id[DVT_TRACE_HEX + 1];
    struct json j = {.out = stdout};
    dvt_trace_id_format(&t->id, id);
    json_open(&j, NULL, '{');
    json_text(&j, "trace_id", dvt_str(id));
    json_i64(&j, "start_unix_ns", t->start_ns);
    json_u64(&j, "duration_ns", t->duration_ns);
    json_u64(&j, "on_cpu_ns", t->on_cpu_ns);
    if (t->has_waits) {
        json_u64(&j, "blocked_ns", t->blocked_ns);
        json_u64(&j, "runnable_ns", t->runnable_ns);
    } else {
        json_null(&j, "blocked_ns");
        json_null(&j, "runnable_ns");
    }
    json_u64(&j, "samples", t->samples);
    json_u64(&j, "no_stack", t->no_stack);
    json_u64(&j, "scopes", t->scopes);
    json_open(&j, "services", '[');
    catalog_services(c, t, service_item, &j);
    json_close(&j, ']');
    json_text(&j, "root_name", dvt_str(t->root_name));
    json_text(&j, "root_service", dvt_str(t->root_service));
    json_open(&j, "labels", '{');
    catalog_labels(c, t, label_item, &j);
    json_close(&j, '}');
    json_bool(&j, "cut", t->is_cut);
    json_bool(&j, "failed", t->is_failed);
    json_close(&j, '}');
    putchar('\n');
}

static int list(const struct filter *f, size_t limit, bool json)
{
    struct catalog *c = NULL;
    struct catalog_list found = {0};
    struct dvt_err err = {0};
    int rc = catalog_open(f->stores, f->n_stores, &c, &err);
    if (rc == 0) {
        rc = catalog_traces(c, f, limit, &found, &err);
    }
    if (rc == 0 && found.n == 0) {
        rc = dvt_fail(&err, DVT_ENOENT, 0, "no trace matches in %s", catalog_dir(c, 0));
    }
    if (rc == 0 && !json) {
        struct term term = term_of(STDOUT_FILENO);
        if (listing_print(c, &found, &term, stdout)) {
            cli_note("\"+\": a scope was still open when its process ended");
        }
    }
    for (size_t i = 0; rc == 0 && json && i < found.n; i++) {
        print_json(c, &found.traces[i]);
    }
    catalog_list_fini(&found);
    catalog_close(c);
    return rc ? cli_report(&err) : CLI_DONE;
}

static int run(struct args *a)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    unsigned long slowest = 0;
    bool json = false;
    const char *value;
    int id, rc = 0;
    int64_t now_ns = (int64_t)time(NULL) * 1000000000;
    while (rc == 0 && (id = cli_next(&cmd_traces, a, &value, &err)) != ARGS_END) {
        if (id == OPT_SLOWEST) {
            rc = args_number(value, 1, SLOWEST_MAX, "--slowest", &slowest, &err);
        } else if (id == OPT_JSON) {
            json = true;
        } else if (id == ARGS_OTHER) {
            rc = filter_take(&f, FILTER_OPTION_FIRST, value, now_ns, &err); /* as --trace */
        } else {
            rc = id < 0 ? id : filter_take(&f, id, value, now_ns, &err);
        }
    }
    if (rc) {
        return cli_report(&err);
    }
    return list(&f, slowest ? slowest : json ? 0 : SLOWEST_DEFAULT, json);
}

const struct command cmd_traces = {
    .name = "traces",
    .synopsis = "[ID] [FILTER] [--slowest N] [--json]",
    .summary = "list traces, slowest first",
    .details = "Trace ids are cut to the digits that tell them from all others in the store; every command "
               "takes them so.",
    .examples = "  dovetail traces --slowest 5\n"
                "  dovetail traces --label tenant=acme --since \"10m ago\" --min-duration 200ms\n"
                "  dovetail traces --tag '*checkout*' --json",
    .options = options,
    .takes_filter = true,
    .run = run,
};
