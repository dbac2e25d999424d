/*
 * attach_node: attacher of Node.js: has its main thread load the npm package "dovetail" by the inspector, which
 * is open for about a tenth of a second then. Node says so on its standard error; nothing else is seen of it.
 *
 * Never is SIGUSR1 sent where it would kill or where the application has its own use for it.
 */
#include "alloc.h"
#include "attacher.h"
#include "inspector.h"
#include "json.h"
#include "node_signal.h"
#include "places.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_it(const struct target *t)
{
    char *library = target_mapped(t, "libnode.so"), *program = target_program(t);
    bool is_node = library || strcmp(program, "node") == 0 || strcmp(program, "nodejs") == 0;
    free(library);
    free(program);
    return is_node;
}

/* The script: the first word after the program that is no option. */
static void describe(const struct target *t, char *out, size_t cap)
{
    const char *p = t->command, *end = p ? p + t->n_command : NULL, *script = "";
    for (p = p ? p + strnlen(p, (size_t)(end - p)) + 1 : end; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
        if (*p && *p != '-') {
            const char *slash = strrchr(p, '/');
            script = slash ? slash + 1 : p;
            break;
        }
    }
    snprintf(out, cap, "node%s%.80s", *script ? ", " : "", script);
}

/* ---- may it be ---- */

static int check_signal(const struct target *t, struct dvt_err *err)
{
    bool taken = false;
    if (!target_catches(t, SIGUSR1)) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "SIGUSR1 would kill it: its inspector is switched off (--disable-sigusr1, or built without)");
    }
    int rc = node_signal_is_taken(t, SIGUSR1, &taken, err);
    if (rc == 0 && taken) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "it uses SIGUSR1 for itself, which else opens its inspector: start it with dovetail run -- "
                      "COMMAND");
    }
    return rc;
}

static int check(const struct target *t, struct dvt_err *err)
{
    const char *dovetail = target_variable(t, "DOVETAIL");
    if (dovetail && strcmp(dovetail, "off") == 0) {
        return dvt_fail(err, DVT_ESTATE, 0, "it runs with DOVETAIL=off in its environment: start it without");
    }
    if (!t->maps) {
        return dvt_fail(err, DVT_EPERM, 0,
                        "its memory map cannot be read: run dovetail as its user, or as root");
    }
    if (t->state == 'T' || t->state == 't' || t->state == 'Z') {
        return dvt_fail(err, DVT_ESTATE, 0, "it is stopped, and would not answer");
    }
    int fd = target_socket(t, AF_INET, SOCK_STREAM);
    if (fd < 0) {
        return dvt_fail(err, DVT_EPERM, errno, "its network namespace cannot be entered (%s): run dovetail as root", strerror(errno));
    }
    close(fd);
    return check_signal(t, err);
}

/* ---- asking ---- */

/* Calls a function of the package's lib/attach.js with two texts or undefined; it answers "good: ..." or why not. The
 * inspector closes once the answer is sent, whatever comes. */
static char *expression_of(const char *package, const char *function, const char *socket, const char *service)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) {
        alloc_fail();
    }
    fputs("(() => { const load = typeof require === 'function' ? require : process.mainModule ? "
          "process.mainModule.require.bind(process.mainModule) : "
          "process.getBuiltinModule('module').createRequire('/'); "
          "setTimeout(() => load('inspector').close(), 10); return String(load(",
          out);
    char *file = alloc_printf("%s/lib/attach.js", package);
    json_string(out, dvt_str(file));
    fprintf(out, ").%s(", function);
    json_string(out, dvt_str(socket ? socket : ""));
    fputc(',', out);
    json_string(out, dvt_str(service ? service : ""));
    fputs(")); })()", out);
    free(file);
    if (fclose(out) != 0) {
        alloc_fail();
    }
    return text;
}

static int ask(const struct target *t, const char *package, const char *function, const struct attach_options *o,
               struct attach_note *ret, struct dvt_err *err)
{
    static const char good[] = "good: ", gone[] = "none: ";
    char answer[INSPECTOR_MAX_ANSWER];
    char *expression = expression_of(package, function, o ? o->socket : NULL, o ? o->service : NULL);
    int rc = inspector_evaluate(t, expression, answer, err);
    free(expression);
    if (rc) {
        return rc;
    }
    if (strncmp(answer, good, sizeof good - 1) != 0) {
        bool is_gone = strncmp(answer, gone, sizeof gone - 1) == 0;
        return dvt_fail(err, is_gone ? DVT_ENOENT : DVT_ESTATE, 0, "%.150s",
                        is_gone ? answer + sizeof gone - 1 : answer);
    }
    snprintf(ret->text, sizeof ret->text, "%.200s", answer + sizeof good - 1);
    return 0;
}

/* The package that it has loaded already, else ours. */
static char *package_of(const struct target *t)
{
    char *addon = target_mapped(t, "dovetail.node");
    if (!addon) {
        return places_node_package();
    }
    *strrchr(addon, '/') = 0;
    return addon;
}

static int attach(const struct target *t, const struct attach_options *o, struct attach_note *ret,
                  struct dvt_err *err)
{
    int rc = check(t, err);
    char *package = rc ? NULL : package_of(t);
    if (rc == 0 && !package) {
        rc = dvt_fail(err, DVT_ESTATE, 0, "the package for Node.js is not beside this program: it was built without");
    }
    if (rc == 0 && (!target_sees(t, package) || !target_sees(t, o->socket))) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "%.100s or the daemon's socket is not there in its file system: mount it into its container, at "
                      "that path",
                      package);
    }
    if (rc == 0) {
        rc = ask(t, package, "attach", o, ret, err);
    }
    free(package);
    return rc;
}

static int detach(const struct target *t, struct attach_note *ret, struct dvt_err *err)
{
    char *addon = target_mapped(t, "dovetail.node");
    if (!addon) {
        return dvt_fail(err, DVT_ENOENT, 0, "it is not profiled");
    }
    *strrchr(addon, '/') = 0;
    int rc = check(t, err);
    if (rc == 0) {
        rc = ask(t, addon, "detach", NULL, ret, err);
    }
    free(addon);
    return rc;
}

const struct attacher attacher_node = {"node", is_it, describe, check, attach, detach};
