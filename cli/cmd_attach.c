/*
 * cmd_attach: turns profiling on in running processes, and (detach) off again. One line a process on standard
 * output: what was hooked, or why it was refused and what would help. Where no daemon runs it starts a
 * private one, profiles for a while and ends with a summary, as `dovetail run` does.
 */
#include "alloc.h"
#include "attacher.h"
#include "cli.h"
#include "filter.h"
#include "processes.h"
#include "session.h"
#include "text.h"

#include "../proto/limits.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPT_STORE = 1, OPT_HZ, OPT_EVENT, OPT_DURATION, OPT_SERVICE, OPT_DRY_RUN, OPT_NAME, OPT_TREE, OPT_CGROUP };
enum { MAX_TARGETS = 256, REACH_TIMEOUT_MS = 5000, STEP_MS = 50, MAX_PID = 4194304, MAX_WHAT = 160 };

static const struct args_option attach_options[] = {
    {OPT_NAME, 0, "--name", "PATTERN", "those whose program or command line matches, as \"*orders.jar*\""},
    {OPT_TREE, 0, "--tree", "PID", "a process and all below it"},
    {OPT_CGROUP, 0, "--cgroup", "PATH", "those of a control group and of the groups in it"},
    {OPT_DURATION, 'd', "--duration", "D",
     "detach after D: 60s, 10m; without it, and with a daemon's own run, at Ctrl-C"},
    {OPT_DRY_RUN, 'n', "--dry-run", NULL, "only tell what would be done"},
    {OPT_SERVICE, 0, "--service", "NAME",
     "the service's name (else its own settings, else its main class or jar)"},
    {OPT_STORE, 'o', "--store", "DIR", "write this store, by a private daemon"},
    {OPT_HZ, 0, "--hz", "N", "samples a second of CPU time (99), by a private daemon"},
    {OPT_EVENT, 'e', "--event", "EVENT", "what to sample by, a libpfm4 name (cpu-clock); likewise"},
    {0},
};
static const struct args_option detach_options[] = {
    {OPT_NAME, 0, "--name", "PATTERN", "those whose program or command line matches"},
    {OPT_TREE, 0, "--tree", "PID", "a process and all below it"},
    {OPT_CGROUP, 0, "--cgroup", "PATH", "those of a control group and of the groups in it"},
    {0},
};

/* One process that was named. */
struct one {
    pid_t pid;
    struct target target;
    const struct attacher *attacher; /* NULL: there is no such process */
    bool is_found;                   /* not named, but found by what it is called or belongs to */
    bool is_attached;
};

struct request {
    struct private_daemon_options daemon;
    struct attach_options how;
    uint64_t duration_ns; /* 0: no end was given */
    bool is_dry;
    struct one *list; /* [n] */
    size_t n;
};

/* ---- the processes ---- */

static int add_pid(struct request *r, pid_t pid, bool is_found, struct dvt_err *err)
{
    if (r->n == MAX_TARGETS) {
        return dvt_fail(err, DVT_ELIMIT, 0, "at most %d processes at once", MAX_TARGETS);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->list[i].pid == pid) {
            return 0;
        }
    }
    r->list[r->n].is_found = is_found;
    r->list[r->n++].pid = pid;
    return 0;
}

static int add_target(struct request *r, const char *text, struct dvt_err *err)
{
    unsigned long pid;
    int rc = args_number(text, 1, MAX_PID, "PID", &pid, err);
    return rc ? rc : add_pid(r, (pid_t)pid, false, err);
}

static int add_found(struct request *r, int how, const char *value, struct dvt_err *err)
{
    struct processes found = {0};
    unsigned long root = 0;
    int rc = how == OPT_TREE ? args_number(value, 1, MAX_PID, "PID", &root, err) : 0;
    if (rc == 0) {
        rc = how == OPT_TREE   ? processes_by_tree(&found, (pid_t)root, err)
             : how == OPT_NAME ? processes_by_name(&found, value, err)
                               : processes_by_cgroup(&found, value, err);
    }
    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        rc = add_pid(r, found.v[i], true, err);
    }
    processes_fini(&found);
    return rc;
}

static void request_fini(struct request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        target_fini(&r->list[i].target);
    }
    free(r->list);
}

/* "pid 4711 (java 25.0.1, shop.jar): ..." */
static void say(const struct one *o, const char *what, const char *text)
{
    char name[MAX_WHAT] = "";
    if (o->attacher) {
        o->attacher->describe(&o->target, name, sizeof name);
    }
    char *line = alloc_printf("pid %d%s%s%s: %s%s%s", (int)o->pid, name[0] ? " (" : "", name,
                              name[0] ? ")" : "", what, text[0] ? ": " : "", text);
    text_put(stdout, dvt_str(line), 0);
    putchar('\n');
    fflush(stdout);
    free(line);
}

static int read_one(struct one *o, struct dvt_err *err)
{
    target_fini(&o->target);
    o->attacher = NULL;
    int rc = target_read(o->pid, &o->target, err);
    if (rc == 0) {
        o->attacher = attacher_of(&o->target);
        rc = target_is_there(&o->target) ? 0 : dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
    }
    return rc;
}

/* Several processes, one exit code: a refusal outweighs what is not there. */
static int worse(int a, int b)
{
    return a > b ? a : b;
}

static int refused(const struct one *o, const char *what, const struct dvt_err *err)
{
    say(o, what, err->text);
    return err->code == DVT_ENOENT ? CLI_NOTHING : CLI_ENVIRONMENT;
}

/* ---- attach ---- */

/* Those that would be refused are told of before any daemon is started. *ret_n: those that are left;
 * *ret_n_others: those found that are of no runtime that is known. */
static int check_all(const struct request *r, size_t *ret_n, size_t *ret_n_others)
{
    int code = CLI_DONE;
    *ret_n = *ret_n_others = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct one *o = &r->list[i];
        struct dvt_err err = {0};
        int rc = read_one(o, &err);
        if (o->is_found && (rc == DVT_ENOENT || !o->attacher || attacher_is_unknown(o->attacher))) {
            o->attacher = NULL; /* shells and the like */
            (*ret_n_others)++;
            continue;
        }
        rc = rc ? rc : o->attacher->check(&o->target, &err);
        if (rc) {
            code = worse(code, refused(o, "refused", &err));
            o->attacher = NULL;
            continue;
        }
        (*ret_n)++;
        if (r->is_dry) {
            say(o, "would be attached", "");
        }
    }
    return code;
}

static bool is_reporting(struct state *s, pid_t pid)
{
    struct state **items;
    size_t n = state_items(s, "$.processes", &items);
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found |= state_u64(items[i], "$.pid") == (uint64_t)pid && !state_bool(items[i], "$.down");
    }
    state_free_items(items, n);
    return found;
}

/* Until the daemon knows it: its user may not be allowed to connect. */
static int await_report(const struct session *s, pid_t pid, struct dvt_err *err)
{
    bool found = false;
    for (int waited = 0; !found && waited < REACH_TIMEOUT_MS; waited += STEP_MS) {
        struct timespec t = {0, STEP_MS * 1000000};
        struct state *state;
        int rc = session_state(s, &state, err);
        if (rc) {
            return rc;
        }
        found = is_reporting(state, pid);
        state_free(state);
        if (!found) {
            nanosleep(&t, NULL);
        }
    }
    return found ? 0
                 : dvt_fail(err, DVT_EPERM, 0,
                            "it does not reach the daemon at %.90s (it goes on trying): its user must be of "
                            "the group that owns the socket",
                            s->socket);
}

static int attach_one(struct request *r, struct session *s, struct one *o)
{
    struct attach_note note = {""};
    struct dvt_err err = {0};
    int rc = s->is_private ? private_daemon_admit(&s->own, o->target.euid, o->target.egid, &err) : 0;
    r->how.socket = s->socket;
    rc = rc ? rc : o->attacher->attach(&o->target, &r->how, &note, &err);
    if (rc) {
        return refused(o, "refused", &err);
    }
    o->is_attached = true;
    say(o, "attached", note.text);
    rc = await_report(s, o->pid, &err);
    return rc ? refused(o, "attached, but", &err) : CLI_DONE;
}

static int attach_all(struct request *r, struct session *s, size_t *ret_n)
{
    int code = CLI_DONE;
    *ret_n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->list[i].attacher) {
            code = worse(code, attach_one(r, s, &r->list[i]));
            *ret_n += r->list[i].is_attached;
        }
    }
    return code;
}

static int detach_one(struct one *o)
{
    struct attach_note note = {""};
    struct dvt_err err = {0};
    int rc = read_one(o, &err);
    rc = rc ? rc : o->attacher->detach(&o->target, &note, &err);
    if (rc == DVT_ENOENT && o->is_found) { /* nobody said that it was profiled */
        return CLI_DONE;
    }
    if (rc) {
        return refused(o, "not detached", &err);
    }
    say(o, "detached", note.text);
    return CLI_DONE;
}

/* What has ended in the meantime needs no detaching. */
static int detach_all(struct request *r)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < r->n; i++) {
        struct one *o = &r->list[i];
        if (o->is_attached && target_is_there(&o->target)) {
            code = worse(code, detach_one(o));
        }
    }
    return code;
}

/* ---- the time in between ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool any_is_there(const struct request *r)
{
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        any |= r->list[i].is_attached && target_is_there(&r->list[i].target);
    }
    return any;
}

static void block_ends(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigprocmask(SIG_BLOCK, set, NULL);
}

/* Until the time is over, a signal asks for the end, or all have ended. */
static void wait_for_end(const struct request *r, const sigset_t *ends)
{
    uint64_t until = r->duration_ns ? now_ns() + r->duration_ns : UINT64_MAX;
    struct timespec step = {0, STEP_MS * 1000000};
    while (now_ns() < until && any_is_there(r) && sigtimedwait(ends, NULL, &step) < 0) {
    }
}

static int profile(struct request *r)
{
    struct session s;
    struct dvt_err err = {0};
    sigset_t ends;
    size_t n;
    block_ends(&ends); /* from the first attached process on they mean: detach */
    int rc = session_start(&s, &r->daemon, &err);
    if (rc) {
        return cli_report(&err);
    }
    int code = attach_all(r, &s, &n);
    bool stays = !s.is_private && !r->duration_ns;
    if (n && !stays) {
        cli_note(r->duration_ns ? "profiling; Ctrl-C ends it early"
                                : "profiling by a private daemon until Ctrl-C");
        wait_for_end(r, &ends);
        code = worse(code, detach_all(r));
        session_end(&s);
        return code;
    }
    if (n) {
        cli_note("profiled from now on by the daemon at %s; dovetail detach PID ends it", s.socket);
    }
    session_abandon(&s);
    return code;
}

/* ---- command lines ---- */

static int take_option(struct request *r, int id, const char *value, struct dvt_err *err)
{
    switch (id) {
    case ARGS_OTHER:
        return add_target(r, value, err);
    case OPT_NAME:
    case OPT_TREE:
    case OPT_CGROUP:
        return add_found(r, id, value, err);
    case OPT_STORE:
        r->daemon.store = value;
        return 0;
    case OPT_HZ:
        r->daemon.hz = value; /* the daemon checks it */
        return 0;
    case OPT_EVENT:
        r->daemon.event = value;
        return 0;
    case OPT_DRY_RUN:
        r->is_dry = true;
        return 0;
    case OPT_SERVICE:
        r->how.service = value;
        return strchr(value, ',') || strlen(value) > DVT_MAX_SERVICE
                   ? dvt_fail(err, DVT_EINVAL, 0,
                              "--service takes a name of at most %d bytes without a comma", DVT_MAX_SERVICE)
                   : 0;
    case OPT_DURATION:
        return filter_duration(value, &r->duration_ns) || !r->duration_ns
                   ? dvt_fail(err, DVT_EINVAL, 0, "--duration takes a time such as 60s or 10m, not \"%.40s\"",
                              value)
                   : 0;
    default:
        return id;
    }
}

static int read_request(const struct command *c, struct args *a, struct request *r)
{
    struct dvt_err err = {0};
    const char *value;
    int id, rc = 0;
    *r = (struct request){.list = alloc_array(MAX_TARGETS, sizeof *r->list)};
    while (rc == 0 && (id = cli_next(c, a, &value, &err)) != ARGS_END) {
        rc = take_option(r, id, value, &err);
    }
    if (rc == 0 && r->n == 0) {
        rc = dvt_fail(&err, DVT_EINVAL, 0, "which process? dovetail %s PID...", c->name);
    }
    return rc ? cli_report(&err) : CLI_DONE;
}

static int run_attach(struct args *a)
{
    struct request r;
    size_t n = 0, n_others;
    int code = read_request(&cmd_attach, a, &r);
    if (code == CLI_DONE) {
        code = check_all(&r, &n, &n_others);
        if (n_others) {
            cli_note("%zu more %s of no runtime that is known", n_others, n_others == 1 ? "process is" : "processes are");
        }
        code = n || code ? code : CLI_NOTHING;
        code = n && !r.is_dry ? worse(code, profile(&r)) : code;
    }
    request_fini(&r);
    return code;
}

static int run_detach(struct args *a)
{
    struct request r;
    int code = read_request(&cmd_detach, a, &r);
    for (size_t i = 0; code != CLI_USAGE && i < r.n; i++) {
        code = worse(code, detach_one(&r.list[i]));
    }
    request_fini(&r);
    return code;
}

const struct command cmd_attach = {
    .name = "attach",
    .synopsis = "[--name PATTERN] [--tree PID] [--cgroup PATH] [--duration D] [--service NAME] [--dry-run] [PID...]",
    .summary = "profile processes that are running",
    .details = "Java (JDK 17 to 25), Node.js (18 to 24) and Python (3.9 to 3.13) load the shim, C programs that have called\n"
               "dvt_start are woken: nothing is restarted. One line a process says what was hooked, or why it was refused\n"
               "and what would help.\n"
               "A request that was under way is seen from its next span on. The daemon that runs here goes "
               "on until\n"
               "dovetail detach, or for --duration; without one, or with -o, --hz or --event, a private one "
               "profiles until\n"
               "the end of --duration or Ctrl-C, then a summary follows.\n"
               "It must run as the processes' user, or as root. SIGQUIT, by which a JVM is asked to listen, "
               "is sent only to\n"
               "those that will. JDK 21 and later warn on standard error that an agent was loaded.\n"
               "Exit codes: 0 all attached, 1 no such process, 3 at least one was refused.",
    .examples =
        "  dovetail attach --dry-run 4711          what would be done, or what is in the way\n"
        "  dovetail attach --duration 60s 4711     a minute, then what was caught\n"
        "  dovetail attach --tree 4700             a service's process and its workers\n"
        "  dovetail attach 4711 4712               with a daemon running: until dovetail detach 4711 4712",
    .options = attach_options,
    .run = run_attach,
};

const struct command cmd_detach = {
    .name = "detach",
    .synopsis = "[--name PATTERN] [--tree PID] [--cgroup PATH] [PID...]",
    .summary = "end the profiling of running processes",
    .details = "Closes the events, ends the threads that Dovetail has in them; what was patched stays and "
               "does nothing, and\n"
               "dovetail attach wakes it again. Processes started by dovetail run can be detached as well.\n"
               "Exit codes: 0 all detached, 1 it was not profiled or is no more, 3 it cannot be reached.",
    .examples = "  dovetail detach 4711",
    .options = detach_options,
    .run = run_detach,
};
