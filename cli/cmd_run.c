/*
 * cmd_run: profiles one program and its children: by the daemon that runs here, or by one of its own; then
 * says what was caught. The program's output and exit code stay its own; all that is ours goes to standard
 * error.
 */
#include "alloc.h"
#include "child.h"
#include "cli.h"
#include "places.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

enum { OPT_STORE = 1, OPT_HZ, OPT_EVENT, OPT_WALL, OPT_CPU, OPT_SERVICE };

static const struct args_option options[] = {
    {OPT_STORE, 'o', "--store", "DIR", "write this store, by a daemon of the run's own"},
    {OPT_HZ, 0, "--hz", "N", "samples a second of CPU time (99), by a daemon of the run's own"},
    {OPT_EVENT, 'e', "--event", "EVENT", "what to sample by, a libpfm4 name (cpu-clock); likewise"},
    {OPT_SERVICE, 0, "--service", "NAME", "the service's name (DOVETAIL_SERVICE)"},
    {OPT_CPU, 0, "--cpu", NULL, "time on a CPU (the default)"},
    {OPT_WALL, 0, "--wall", NULL, "also when threads wait: on-CPU + blocked + runnable of each scope; likewise"},
    {0},
};

struct request {
    struct private_daemon_options daemon;
    const char *service;
    char **command;
};

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
    int rc = session_start(&s, &r->daemon, &err);
    if (rc) {
        return cli_report(&err);
    }
    set_environment(r, &s);
    rc = child_run(r->command, &code, &err);
    if (rc) {
        cli_note("%s", err.text);
        session_abandon(&s);
        return code;
    }
    session_end(&s);
    return code;
}

static int take_option(struct request *r, int id, const char *value)
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
        r->daemon.wall = true;
        return 0;
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
            rc = take_option(&r, id, value);
        }
    }
    if (rc == 0 && !r.command) {
        rc = dvt_fail(&err, DVT_EINVAL, 0, "which program? dovetail run [OPTIONS] -- CMD [ARG...]");
    }
    return rc ? cli_report(&err) : profile(&r);
}

const struct command cmd_run = {
    .name = "run",
    .synopsis = "[-o STORE] [--hz N] [--event E] [--wall] [--service NAME] -- CMD [ARG...]",
    .summary = "profile a program and its children, then a summary",
    .details = "Uses the daemon that runs here (DOVETAIL_SOCKET, or the usual places); without one, or with "
               "-o, --hz,\n"
               "--event or --wall, a private one. Python, Java and Node.js programs need no change (a JVM tells on "
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
