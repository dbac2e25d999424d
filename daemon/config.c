/*
 * config: see config.h. One table gives the flags, the file's keys, the help and the errors.
 */
#include "config.h"
#include "perf_open.h"

#include "../proto/limits.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct option {
    const char *name, *value; /* value: its name in the help, NULL for a switch */
    int (*set)(struct config *c, const char *text, struct dvt_err *err);
    const char *help;
    bool flag_only;
};

static int set_text(char *out, size_t cap, const char *name, const char *text, struct dvt_err *err)
{
    size_t n = strlen(text);
    if (n == 0 || n >= cap)
        return dvt_fail(err, DVT_EINVAL, 0, "%s: must have 1 to %zu bytes", name, cap - 1);
    memcpy(out, text, n + 1);
    return 0;
}

static int set_number(uint32_t *out, const char *name, const char *text, uint32_t min, uint32_t max,
                      struct dvt_err *err)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || v < min || v > max)
        return dvt_fail(err, DVT_EINVAL, 0, "%s: '%.64s' is not a number from %u to %u", name, text, min,
                        max);
    *out = (uint32_t)v;
    return 0;
}

static int set_bool(bool *out, const char *name, const char *text, struct dvt_err *err)
{
    bool yes = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    bool no = strcmp(text, "no") == 0 || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
    if (!yes && !no)
        return dvt_fail(err, DVT_EINVAL, 0, "%s: '%.64s' is not yes or no", name, text);
    *out = yes;
    return 0;
}

int config_parse_size(const char *text, uint64_t *ret_bytes)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || errno)
        return DVT_EINVAL;
    static const char units[] = "kmgt";
    uint32_t shift = 0;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));
        if (!unit || (end[1] && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0))
            return DVT_EINVAL;
        shift = 10 * (uint32_t)(unit - units + 1);
    }
    if (v > UINT64_MAX >> shift)
        return DVT_EINVAL;
    *ret_bytes = v << shift;
    return 0;
}

static int set_store(struct config *c, const char *t, struct dvt_err *err)
{
    return set_text(c->store, sizeof c->store, "store", t, err);
}

static int set_socket(struct config *c, const char *t, struct dvt_err *err)
{
    return set_text(c->socket, CONFIG_SOCKET, "socket", t, err);
}

static int set_file(struct config *c, const char *t, struct dvt_err *err)
{
    return set_text(c->file, sizeof c->file, "config", t, err);
}

static int set_event(struct config *c, const char *t, struct dvt_err *err)
{
    return set_text(c->event, sizeof c->event, "event", t, err);
}

static int set_group(struct config *c, const char *t, struct dvt_err *err)
{
    return set_text(c->socket_group, sizeof c->socket_group, "socket-group", t, err);
}

static int set_hz(struct config *c, const char *t, struct dvt_err *err)
{
    return set_number(&c->hz, "hz", t, 1, 1000000, err);
}

static int set_budget(struct config *c, const char *t, struct dvt_err *err)
{
    if (config_parse_size(t, &c->budget_bytes))
        return dvt_fail(err, DVT_EINVAL, 0, "budget: '%.64s' is not a size such as 512M or 2G (0: no limit)",
                        t);
    return 0;
}

static int set_native(struct config *c, const char *t, struct dvt_err *err)
{
    static const char *const names[] = {"dwarf", "fp", "leaf"}; /* enum perf_native */
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(t, names[i]) == 0) {
            c->native = i;
            return 0;
        }
    }
    return dvt_fail(err, DVT_EINVAL, 0, "native: '%.64s' is not dwarf, fp or leaf", t);
}

static int set_stack_bytes(struct config *c, const char *t, struct dvt_err *err)
{
    uint32_t v = 0;
    int r = set_number(&v, "stack-bytes", t, 512, 32768, err);
    if (r == 0 && v % 8)
        r = dvt_fail(err, DVT_EINVAL, 0, "stack-bytes: %u is not a multiple of 8", v);
    if (r == 0)
        c->stack_bytes = v;
    return r;
}

static int set_max_threads(struct config *c, const char *t, struct dvt_err *err)
{
    return set_number(&c->max_threads, "max-threads", t, 1, 1000000, err);
}

static int set_exit_with(struct config *c, const char *t, struct dvt_err *err)
{
    return set_number(&c->exit_with, "exit-with", t, 1, INT32_MAX, err);
}

static int set_force(struct config *c, const char *t, struct dvt_err *err)
{
    return set_bool(&c->force, "force", t, err);
}

static int set_wall(struct config *c, const char *t, struct dvt_err *err)
{
    return set_bool(&c->wall, "wall", t, err);
}

static int set_verbose(struct config *c, const char *t, struct dvt_err *err)
{
    bool on = false;
    int r = set_bool(&on, "verbose", t, err);
    c->verbose += on;
    return r;
}

static int set_foreground(struct config *c, const char *t, struct dvt_err *err)
{
    bool on = false;
    (void)c; /* there is no other way to run */
    return set_bool(&on, "foreground", t, err);
}

static int set_version(struct config *c, const char *t, struct dvt_err *err)
{
    return set_bool(&c->version, "version", t, err);
}

static int set_help(struct config *c, const char *t, struct dvt_err *err)
{
    return set_bool(&c->help, "help", t, err);
}

static const struct option options[] = {
    {"store", "DIR", set_store, "where traces are kept ($XDG_STATE_HOME/dovetail; root: /var/lib/dovetail)",
     false},
    {"socket", "PATH", set_socket,
     "control socket ($DOVETAIL_SOCKET, else $XDG_RUNTIME_DIR or /run /dovetail/control.sock)", false},
    {"config", "FILE", set_file, "file of `name = value` lines, with the names of these options", true},
    {"hz", "N", set_hz, "samples per second of CPU time of each thread (99)", false},
    {"event", "NAME", set_event, "libpfm4 name of what to sample by, NAME@COUNT for a period (cpu-clock)",
     false},
    {"budget", "SIZE", set_budget, "bytes the store may take, such as 512M (2G; 0: no limit)", false},
    {"socket-group", "GROUP", set_group, "group that may connect (the daemon's own)", false},
    {"wall", NULL, set_wall, "also record when threads wait: every millisecond of a scope", false},
    {"native", "HOW", set_native, "native stacks by dwarf, fp (frame pointers) or leaf (dwarf)", false},
    {"stack-bytes", "N", set_stack_bytes, "stack copied with a dwarf sample (8192)", false},
    {"max-threads", "N", set_max_threads, "threads sampled at once (10000)", false},
    {"force", NULL, set_force, "allow more than 10,000 Hz", false},
    {"exit-with", "PID", set_exit_with, "stop when this process has ended", true},
    {"foreground", NULL, set_foreground, "stay in the foreground (always so)", true},
    {"verbose", NULL, set_verbose, "log more; also -v", false},
    {"version", NULL, set_version, "print the version", true},
    {"help", NULL, set_help, "print this; also -h", true},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const struct option *find_option(const char *name, size_t n)
{
    for (int i = 0; i < N_OPTIONS; i++) {
        if (strlen(options[i].name) == n && memcmp(options[i].name, name, n) == 0)
            return &options[i];
    }
    return NULL;
}

static void list_names(char *out, size_t cap, bool file)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < N_OPTIONS && n < cap; i++) {
        if (!file || !options[i].flag_only)
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? " " : "", options[i].name);
    }
}

void config_print_help(FILE *out)
{
    fputs("usage: dovetaild [OPTION]...\n\n"
          "Samples the threads that work for traces, and writes one profile for each trace.\n\n",
          out);
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", options[i].name, options[i].value ? options[i].value : "");
        fprintf(out, "  %-22s %s\n", left, options[i].help);
    }
    fputs("\nexample: dovetaild --store ./store --socket ./run/control.sock --hz 99\n"
          "exit codes: 0 stopped cleanly, 2 wrong use, 3 the environment does not allow it, 4 data damaged\n",
          out);
}

/* ---- the file ---- */

static char *trim(char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    char *end = p + strlen(p);
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    return p;
}

static int parse_line(struct config *c, char *line, struct dvt_err *err)
{
    char *hash = strchr(line, '#');
    if (hash)
        *hash = 0;
    char *key = trim(line);
    if (*key == 0)
        return 0;
    char *equals = strchr(key, '=');
    if (!equals)
        return dvt_fail(err, DVT_EINVAL, 0, "not of the form `name = value`");
    *equals = 0;
    key = trim(key);
    const struct option *o = find_option(key, strlen(key));
    if (!o || o->flag_only) {
        char names[160];
        list_names(names, sizeof names, true);
        return dvt_fail(err, DVT_EINVAL, 0, "unknown name '%.32s'; valid: %s", key, names);
    }
    return o->set(c, trim(equals + 1), err);
}

static int read_file(struct config *c, const char *path, struct dvt_err *err)
{
    char line[1024];
    FILE *f = fopen(path, "re");
    if (!f)
        return dvt_fail(err, DVT_EIO, errno, "cannot read %s: %s", path, strerror(errno));
    int r = 0;
    for (unsigned n = 1; r == 0 && fgets(line, sizeof line, f); n++) {
        struct dvt_err inner = {0};
        bool whole = strchr(line, '\n') || strlen(line) < sizeof line - 1;
        r = whole ? parse_line(c, line, &inner) : dvt_fail(&inner, DVT_EINVAL, 0, "line is too long");
        if (r)
            dvt_fail(err, r, 0, "%s:%u: %s", path, n, inner.text);
    }
    fclose(f);
    return r;
}

/* ---- flags ---- */

/* Handles argv[*i] (and its value); config_only: the first pass, which looks for --config alone. */
static int parse_flag(struct config *c, int argc, char *const argv[], int *i, bool config_only,
                      struct dvt_err *err)
{
    const char *arg = argv[*i];
    if (strcmp(arg, "-v") == 0 || strcmp(arg, "-h") == 0)
        arg = arg[1] == 'v' ? "--verbose" : "--help";
    const char *name = arg + 2, *equals = strchr(arg, '=');
    const struct option *o = NULL;
    if (strncmp(arg, "--", 2) == 0)
        o = find_option(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!o)
        return dvt_fail(err, DVT_EINVAL, 0, "unknown option '%.64s'; `dovetaild --help` lists them", arg);
    const char *value = equals ? equals + 1 : "yes";
    if (o->value && !equals) {
        if (*i + 1 >= argc)
            return dvt_fail(err, DVT_EINVAL, 0, "--%s needs %s", o->name, o->value);
        value = argv[++*i];
    }
    return config_only && o->set != set_file ? 0 : o->set(c, value, err);
}

static int parse_flags(struct config *c, int argc, char *const argv[], bool config_only, struct dvt_err *err)
{
    int r = 0;
    for (int i = 1; r == 0 && i < argc; i++)
        r = parse_flag(c, argc, argv, &i, config_only, err);
    return r;
}

/* ---- defaults ---- */

struct config_env config_env_here(char cwd[CONFIG_PATH])
{
    if (!getcwd(cwd, CONFIG_PATH))
        snprintf(cwd, CONFIG_PATH, ".");
    return (struct config_env){.home = getenv("HOME"),
                               .xdg_state = getenv("XDG_STATE_HOME"),
                               .xdg_runtime = getenv("XDG_RUNTIME_DIR"),
                               .socket = getenv("DOVETAIL_SOCKET"),
                               .cwd = cwd,
                               .uid = (uint32_t)getuid()};
}

static bool is_set(const char *s)
{
    return s && *s;
}

/* The paths that the user left open. */
static int fill_paths(struct config *c, const struct config_env *env, struct dvt_err *err)
{
    int n = 0, m = 0;
    if (!c->store[0]) {
        if (env->uid == 0)
            n = snprintf(c->store, sizeof c->store, "/var/lib/dovetail");
        else if (is_set(env->xdg_state))
            n = snprintf(c->store, sizeof c->store, "%s/dovetail", env->xdg_state);
        else if (is_set(env->home))
            n = snprintf(c->store, sizeof c->store, "%s/.local/state/dovetail", env->home);
        else
            return dvt_fail(err, DVT_EINVAL, 0, "no place for the store: set HOME or give --store DIR");
    }
    if (!c->socket[0]) {
        if (is_set(env->socket))
            m = snprintf(c->socket, sizeof c->socket, "%s", env->socket);
        else if (env->uid == 0)
            m = snprintf(c->socket, sizeof c->socket, "/run/dovetail/control.sock");
        else if (is_set(env->xdg_runtime))
            m = snprintf(c->socket, sizeof c->socket, "%s/dovetail/control.sock", env->xdg_runtime);
        else
            m = snprintf(c->socket, sizeof c->socket, "/tmp/dovetail-%u/control.sock", env->uid);
    }
    if (n >= CONFIG_PATH || m >= CONFIG_SOCKET)
        return dvt_fail(err, DVT_EINVAL, 0,
                        "the default path is too long: give --store and a short --socket");
    return 0;
}

/* Shims and the CLI are told these paths, and run elsewhere. */
static int make_absolute(char *path, size_t cap, const char *cwd, const char *name, struct dvt_err *err)
{
    char absolute[2 * CONFIG_PATH];
    if (path[0] == '/' || !cwd)
        return 0;
    int n = snprintf(absolute, sizeof absolute, "%s/%s", cwd, path);
    if ((size_t)n >= cap)
        return dvt_fail(err, DVT_EINVAL, 0, "%s: %s is longer than %zu bytes", name, absolute, cap - 1);
    memcpy(path, absolute, (size_t)n + 1);
    return 0;
}

int config_parse(int argc, char *const argv[], const struct config_env *env, struct config *ret,
                 struct dvt_err *err)
{
    struct config c = {.hz = 99,
                       .event = "cpu-clock",
                       .native = PERF_NATIVE_DWARF,
                       .stack_bytes = 8192,
                       .max_threads = 10000,
                       .budget_bytes = 2ull << 30};
    int r = parse_flags(&c, argc, argv, true, err);
    if (r == 0 && c.file[0])
        r = read_file(&c, c.file, err);
    if (r == 0)
        r = parse_flags(&c, argc, argv, false, err);
    if (r == 0 && c.hz > DVT_MAX_HZ && !c.force)
        r = dvt_fail(err, DVT_EINVAL, 0,
                     "hz: %u is above %d, where sampling itself takes the machine (short periods can hang a "
                     "small one); --force overrides",
                     c.hz, DVT_MAX_HZ);
    if (r == 0 && !c.help && !c.version)
        r = fill_paths(&c, env, err);
    if (r == 0)
        r = make_absolute(c.store, sizeof c.store, env->cwd, "store", err);
    if (r == 0)
        r = make_absolute(c.socket, CONFIG_SOCKET, env->cwd, "socket", err);
    if (r == 0)
        *ret = c;
    return r;
}
