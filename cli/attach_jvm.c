/*
 * attach_jvm: attacher of HotSpot JVMs: has the JVM load the agent libdovetail_jvm.so. An agent that is there
 * already is called by the path it was loaded from, whatever version this program has beside it: two of them
 * would patch the same classes.
 */
#include "alloc.h"
#include "attacher.h"
#include "hotspot.h"
#include "places.h"

#include "../proto/agent_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOOK_TIMEOUT_MS = 10000, STEP_MS = 20, MAX_COMMAND = 60 };
static const char agent_name[] = "libdovetail_jvm.so";

struct jvm {
    struct hotspot hotspot;
    struct hotspot_facts facts;
    char *library; /* owned: the agent's */
    bool is_loaded;
};

static bool is_it(const struct target *t)
{
    char *path = target_mapped(t, "libjvm.so");
    free(path);
    return path != NULL;
}

/* ---- what it is ---- */

static void describe(const struct target *t, char *out, size_t cap)
{
    struct hotspot h;
    struct hotspot_facts f;
    struct dvt_err err;
    if (hotspot_open(t, &h, &f, &err)) {
        snprintf(out, cap, "java");
        return;
    }
    const char *command = h.command ? h.command : "";
    const char *slash = strrchr(command, '/'), *blank = strchr(command, ' ');
    if (slash && (!blank || slash < blank)) {
        command = slash + 1;
    }
    snprintf(out, cap, "java%s%s%s%.*s", h.version[0] ? " " : "", h.version, command[0] ? ", " : "",
             (int)(strcspn(command, " ") < MAX_COMMAND ? strcspn(command, " ") : MAX_COMMAND), command);
    hotspot_close(&h);
}

/* ---- may it be ---- */

static int find_library(const struct target *t, struct jvm *j, struct dvt_err *err)
{
    j->library = target_mapped(t, agent_name);
    j->is_loaded = j->library != NULL;
    if (!j->library) {
        j->library = places_jvm_agent();
    }
    if (!j->library) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "the agent %s is not beside this program: it was built without a JDK", agent_name);
    }
    if (!j->is_loaded && !target_sees(t, j->library)) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "%.120s is not there in its file system: mount it into its container, at that path",
                        j->library);
    }
    return 0;
}

static void jvm_close(struct jvm *j)
{
    hotspot_close(&j->hotspot);
    free(j->library);
}

static int jvm_open(const struct target *t, struct jvm *ret, struct dvt_err *err)
{
    struct jvm j = {.hotspot = {.tmp = -1}};
    const char *dovetail = target_variable(t, "DOVETAIL");
    int rc = hotspot_open(t, &j.hotspot, &j.facts, err);
    if (rc) {
        return rc;
    }
    rc = hotspot_judge(&j.facts, err);
    if (rc == 0 && dovetail && strcmp(dovetail, "off") == 0) {
        rc = dvt_fail(err, DVT_ESTATE, 0, "it runs with DOVETAIL=off in its environment: start it without");
    }
    if (rc == 0) {
        rc = find_library(t, &j, err);
    }
    if (rc) {
        jvm_close(&j);
        return rc;
    }
    *ret = j;
    return 0;
}

static int check(const struct target *t, struct dvt_err *err)
{
    struct jvm j;
    int rc = jvm_open(t, &j, err);
    if (rc == 0) {
        jvm_close(&j);
    }
    return rc;
}

/* ---- asking the agent ---- */

/* enum dvt_agent_report. */
static int report(const struct jvm *j, int *ret, struct dvt_err *err)
{
    struct hotspot_answer a;
    int rc = hotspot_load(&j->hotspot, j->library, "report", &a, err);
    if (rc) {
        return rc;
    }
    if (a.agent < 0 || !(a.agent & DVT_REPORT)) {
        return dvt_fail(err, DVT_EVERSION, 0, "the agent in it, %.120s, is of another version", j->library);
    }
    *ret = a.agent & ~DVT_REPORT;
    return 0;
}

/* Classes are patched by a thread of the JVM's, some milliseconds after the agent has started. */
static int await_hooks(const struct jvm *j, int *ret, struct dvt_err *err)
{
    int rc = 0;
    for (int waited = 0; waited < HOOK_TIMEOUT_MS; waited += STEP_MS) {
        struct timespec t = {0, STEP_MS * 1000000};
        rc = report(j, ret, err);
        if (rc || (*ret & DVT_REPORT_HOOKED)) {
            return rc;
        }
        if (!(*ret & DVT_REPORT_LIVE)) {
            return dvt_fail(err, DVT_ESTATE, 0, "the agent cannot start in it: a setting in its environment is refused, such as DOVETAIL_TAG");
        }
        nanosleep(&t, NULL);
    }
    return dvt_fail(err, DVT_EIO, 0,
                    "the agent started, but could not look for classes within %d s: dovetail detach %d",
                    HOOK_TIMEOUT_MS / 1000, (int)j->hotspot.target->pid);
}

static void name_hooks(int found, struct attach_note *ret)
{
    static const struct {
        int bit;
        const char *name;
    } hooks[] = {{DVT_REPORT_OTEL, "OpenTelemetry"},
                 {DVT_REPORT_OTEL_AGENT, "OpenTelemetry's Java agent"},
                 {DVT_REPORT_BRAVE, "Brave"},
                 {DVT_REPORT_API, "io.dovetail.Scope"}};
    size_t n = 0;
    ret->text[0] = 0;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        if (found & hooks[i].bit) {
            n += (size_t)snprintf(ret->text + n, sizeof ret->text - n, "%s%s", n ? ", " : "scopes of ",
                                  hooks[i].name);
        }
    }
    if (n == 0) {
        n = (size_t)snprintf(ret->text, sizeof ret->text,
                             "no tracer is loaded in it yet: scopes begin when one is");
    }
    if (!(found & DVT_REPORT_STACKS)) {
        snprintf(ret->text + n, sizeof ret->text - n,
                 "; this JVM's frames are not known: native stacks only");
    }
}

/* ---- attach and detach ---- */

static int load_agent(const struct jvm *j, const struct attach_options *o, struct dvt_err *err)
{
    struct hotspot_answer a;
    char *options = o->service ? alloc_printf("socket=%s,service=%s", o->socket, o->service)
                               : alloc_printf("socket=%s", o->socket);
    struct timespec step = {0, STEP_MS * 1000000};
    int rc = hotspot_load(&j->hotspot, j->library, options, &a, err);
    /* JDK 21 and later, for some milliseconds more. */
    for (int waited = 0; waited < HOOK_TIMEOUT_MS && rc && strstr(err->text, "live phase");
         waited += STEP_MS) {
        nanosleep(&step, NULL);
        rc = hotspot_load(&j->hotspot, j->library, options, &a, err);
    }
    free(options);
    if (rc == 0 && a.agent != 0) {
        rc =
            dvt_fail(err, DVT_ESTATE, 0,
                     "the agent cannot start in it (%d): its classes are refused, or another agent is in the "
                     "way",
                     a.agent);
    }
    return rc;
}

static int attach_open(const struct target *t, const struct jvm *j, const struct attach_options *o,
                       struct attach_note *ret, struct dvt_err *err)
{
    int found = 0, rc = 0;
    if (!target_sees(t, o->socket)) {
        return dvt_fail(
            err, DVT_ESTATE, 0,
            "the daemon's socket %.90s is not there in its file system: mount its folder into its "
            "container, at that path",
            o->socket);
    }
    rc = j->is_loaded ? report(j, &found, err) : 0;
    if (rc == 0 && (found & DVT_REPORT_LIVE)) {
        rc = dvt_fail(err, DVT_EBUSY, 0, "it is profiled already");
    }
    if (rc == 0) {
        rc = load_agent(j, o, err);
    }
    if (rc == 0) {
        rc = await_hooks(j, &found, err);
    }
    if (rc == 0) {
        name_hooks(found, ret);
    }
    return rc;
}

static int attach(const struct target *t, const struct attach_options *o, struct attach_note *ret,
                  struct dvt_err *err)
{
    struct jvm j;
    int rc = jvm_open(t, &j, err);
    if (rc) {
        return rc;
    }
    rc = attach_open(t, &j, o, ret, err);
    jvm_close(&j);
    return rc;
}

static int stop_agent(const struct jvm *j, struct attach_note *ret, struct dvt_err *err)
{
    struct hotspot_answer a;
    int found = 0;
    int rc = report(j, &found, err);
    if (rc == 0 && !(found & DVT_REPORT_LIVE)) {
        return dvt_fail(err, DVT_ENOENT, 0, "it is not profiled: the agent in it sleeps");
    }
    if (rc == 0) {
        rc = hotspot_load(&j->hotspot, j->library, "stop", &a, err);
    }
    if (rc == 0) {
        rc = report(j, &found, err);
    }
    if (rc == 0 && (found & DVT_REPORT_LIVE)) {
        rc = dvt_fail(err, DVT_EIO, 0, "the agent goes on");
    }
    snprintf(ret->text, sizeof ret->text, "its events are closed, what was patched does nothing");
    return rc;
}

static int detach(const struct target *t, struct attach_note *ret, struct dvt_err *err)
{
    struct jvm j;
    char *path = target_mapped(t, agent_name);
    free(path);
    if (!path && t->maps) {
        return dvt_fail(err, DVT_ENOENT, 0, "it is not profiled");
    }
    int rc = jvm_open(t, &j, err);
    if (rc) {
        return rc;
    }
    rc = stop_agent(&j, ret, err);
    jvm_close(&j);
    return rc;
}

const struct attacher attacher_jvm = {"java", is_it, describe, check, attach, detach};
