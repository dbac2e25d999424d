/*
 * cmd_doctor: what this machine allows, and how to mend what it does not.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "doctor.h"
#include "json.h"
#include "text.h"

#include <stdlib.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_STORE, OPT_SOCKET };

static const struct args_option options[] = {
    {OPT_JSON, 0, "--json", NULL, "one JSON object a line"},
    {OPT_STORE, 0, "--store", "DIR", "the store to look at"},
    {OPT_SOCKET, 0, "--socket", "PATH", "the daemon's control socket"},
    {0},
};

static const char *const verdicts[] = {[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_BAD] = "bad"};

static void print_text(const struct doctor_finding *f, const struct term *term)
{
    static const enum term_style styles[] = {
        [DOCTOR_OK] = TERM_GOOD, [DOCTOR_WARN] = TERM_WARM, [DOCTOR_BAD] = TERM_BAD};
    printf("%s%-4s%s  %-20s ", term_on(term, styles[f->verdict]), verdicts[f->verdict],
           term_off(term, styles[f->verdict]), f->name);
    text_put(stdout, dvt_str(f->text), 0);
    if (f->remedy) {
        printf("\n      %-20s -> %s", "", f->remedy);
    }
    putchar('\n');
}

static void print_json(const struct doctor_finding *f)
{
    struct json j = {.out = stdout};
    json_open(&j, NULL, '{');
    json_text(&j, "check", dvt_str(f->name));
    json_text(&j, "verdict", dvt_str(verdicts[f->verdict]));
    json_text(&j, "text", dvt_str(f->text));
    if (f->remedy) {
        json_text(&j, "remedy", dvt_str(f->remedy));
    }
    json_close(&j, '}');
    putchar('\n');
}

static int examine(const char *store, const char *socket, bool json)
{
    struct doctor_report r = {0};
    struct term term = term_of(STDOUT_FILENO);
    char *standard = catalog_default_dir();
    bool possible = true;
    doctor_check_kernel(&r);
    doctor_check_limits(&r);
    doctor_check_daemon(&r, socket);
    doctor_check_store(&r, store ? store : standard);
    doctor_check_python(&r);
    for (size_t i = 0; i < r.n; i++) {
        possible = possible && r.findings[i].verdict != DOCTOR_BAD;
        if (json) {
            print_json(&r.findings[i]);
        } else {
            print_text(&r.findings[i], &term);
        }
    }
    if (!json) {
        puts(possible ? "\nsampling works here"
                      : "\nsampling is impossible here until what is bad is mended");
    }
    doctor_fini(&r);
    free(standard);
    return possible ? CLI_DONE : CLI_ENVIRONMENT;
}

static int run(struct args *a)
{
    struct dvt_err err = {0};
    const char *value, *store = NULL, *socket = NULL;
    bool json = false;
    int id, rc = 0;
    while (rc == 0 && (id = cli_next(&cmd_doctor, a, &value, &err)) != ARGS_END) {
        if (id == OPT_JSON) {
            json = true;
        } else if (id == OPT_STORE) {
            store = value;
        } else if (id == OPT_SOCKET) {
            socket = value;
        } else {
            rc = id == ARGS_OTHER ? dvt_fail(&err, DVT_EINVAL, 0, "doctor takes no \"%.40s\"", value) : id;
        }
    }
    return rc ? cli_report(&err) : examine(store, socket, json);
}

const struct command cmd_doctor = {
    .name = "doctor",
    .synopsis = "[--json] [--store DIR] [--socket PATH]",
    .summary = "what this machine allows, and how to mend it",
    .details = "Run it as the account that runs the daemon. Exit code 3 if sampling is impossible.",
    .examples = "  dovetail doctor\n  sudo dovetail doctor --store /var/lib/dovetail",
    .options = options,
    .run = run,
};
