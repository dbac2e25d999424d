/*
 * config: see config.h. The environment is read once, in dvt_start, on the caller's thread.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resource.h"
#include "../../proto/str.h"
#include "../../proto/tag.h"

static const char *first_set(const char *option, const char *env_a, const char *env_b, const char *fallback)
{
    const char *v = option;
    if (!v || !*v)
        v = getenv(env_a);
    if ((!v || !*v) && env_b)
        v = getenv(env_b);
    return v && *v ? v : fallback;
}

static void copy_cut(char *out, size_t cap, const char *v)
{
    size_t n = dvt_utf8_cut(v, strlen(v), cap - 1);
    memcpy(out, v, n);
    out[n] = 0;
}

static int add_socket(struct dvt_config *c, const char *dir, const char *name)
{
    int n = snprintf(c->socket[c->n_sockets], DVT_SOCKET_PATH, "%s%s", dir, name);
    if (n < 0 || n >= DVT_SOCKET_PATH)
        return DVT_ELIMIT;
    c->n_sockets++;
    return 0;
}

static int find_sockets(struct dvt_config *c, const char *option, struct dvt_err *err)
{
    const char *given = first_set(option, "DOVETAIL_SOCKET", NULL, NULL);
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char own[64];
    if (given) {
        if (add_socket(c, given, "") != 0)
            return dvt_fail(err, DVT_EINVAL, 0, "socket path is longer than %d bytes: %.60s...",
                            DVT_SOCKET_PATH - 1, given);
        return 0;
    }
    add_socket(c, "/run/dovetail/control.sock", "");
    if (runtime && *runtime) /* too long for a socket: there can be none */
        (void)add_socket(c, runtime, "/dovetail/control.sock");
    snprintf(own, sizeof own, "/tmp/dovetail-%u", (unsigned)geteuid());
    return add_socket(c, own, "/control.sock");
}

int dvt_config_read(struct dvt_config *c, const struct dvt_options *options, const char *program,
                    struct dvt_err *err)
{
    static const struct dvt_options none;
    const struct dvt_options *o = options ? options : &none;
    const char *off = getenv("DOVETAIL"), *ticks = getenv("DOVETAIL_TICKS");
    char resource[sizeof c->service];
    dvt_resource_service(getenv("OTEL_RESOURCE_ATTRIBUTES"), resource, sizeof resource);
    *c = (struct dvt_config){.dormant = o->dormant};
    c->off = off && strcmp(off, "off") == 0;
    c->no_ticks = ticks && strcmp(ticks, "off") == 0;
    copy_cut(c->program, sizeof c->program, program ? program : program_invocation_short_name);
    const char *unnamed = resource[0] ? resource : c->program;
    copy_cut(c->service, sizeof c->service,
             first_set(o->service, "DOVETAIL_SERVICE", "OTEL_SERVICE_NAME", unnamed));
    copy_cut(c->tag_template, sizeof c->tag_template,
             first_set(o->tag_template, "DOVETAIL_TAG", NULL, DVT_TAG_DEFAULT));
    int rc = dvt_tag_check(dvt_str(c->tag_template), err);
    return rc != 0 ? rc : find_sockets(c, o->socket, err);
}
