/* attacher: see attacher.h. Of runtimes that cannot be attached to it says what to do instead. */
#include "attacher.h"
#include "alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has(const struct target *t, const char *library)
{
    char *path = target_mapped(t, library);
    free(path);
    return path != NULL;
}

static bool is_openj9(const struct target *t)
{
    return has(t, "libj9vm");
}

static bool is_any(const struct target *t)
{
    (void)t;
    return true;
}

static void describe_openj9(const struct target *t, char *out, size_t cap)
{
    char *program = target_program(t);
    snprintf(out, cap, "java (OpenJ9) %s", program);
    free(program);
}

static void describe_any(const struct target *t, char *out, size_t cap)
{
    char *program = target_program(t);
    snprintf(out, cap, "%s", program);
    free(program);
}

/* ---- those that are not attached to ---- */

static int refuse_openj9(const struct target *t, struct dvt_err *err)
{
    (void)t;
    return dvt_fail(err, DVT_ESTATE, 0, "OpenJ9 is not known, only HotSpot JVMs are");
}

static int refuse_any(const struct target *t, struct dvt_err *err)
{
    if (!t->maps) {
        return dvt_fail(err, DVT_EPERM, 0,
                        "its memory map cannot be read: run dovetail as its user, or as root");
    }
    return dvt_fail(err, DVT_ESTATE, 0, "it is no Java program, nor another runtime that is known");
}

static int no_attach(const struct target *t, const struct attach_options *o, struct attach_note *ret,
                     struct dvt_err *err)
{
    (void)o, (void)ret;
    return attacher_of(t)->check(t, err);
}

static int no_detach(const struct target *t, struct attach_note *ret, struct dvt_err *err)
{
    (void)t, (void)ret;
    return dvt_fail(err, DVT_ENOENT, 0, "nothing was attached to it");
}

static const struct attacher openj9 = {"java (OpenJ9)", is_openj9, describe_openj9, refuse_openj9, no_attach, no_detach};
static const struct attacher unknown = {"unknown", is_any, describe_any, refuse_any, no_attach, no_detach};

/* In this order: a JVM may have Python in it, and each may have libdovetail. */
static const struct attacher *const table[] = {&attacher_jvm, &openj9, &attacher_python, &attacher_node, &attacher_c, &unknown};

const struct attacher *attacher_of(const struct target *t)
{
    size_t i = 0;
    while (!table[i]->is_it(t)) {
        i++;
    }
    return table[i];
}

bool attacher_is_unknown(const struct attacher *a)
{
    return a == &unknown;
}
