/* service: see service.h. */
#include "service.h"

#include <stdlib.h>

#include "program.h"
#include "../core/resource.h"

/* The property into out[cap], cut if it is longer; "": it is not set. */
static void read_property(jvmtiEnv *ti, const char *key, char *out, size_t cap)
{
    char *value = NULL;
    out[0] = 0;
    if ((*ti)->GetSystemProperty(ti, key, &value) != JVMTI_ERROR_NONE || !value)
        return;
    size_t n = strnlen(value, cap - 1);
    memcpy(out, value, n);
    out[n] = 0;
    (*ti)->Deallocate(ti, (unsigned char *)value);
}

static int is_set(const char *variable)
{
    const char *v = getenv(variable);
    return v && *v;
}

void dvt_jvm_service_read(jvmtiEnv *ti, struct dvt_jvm_service *ret)
{
    char text[4096];
    read_property(ti, "sun.java.command", text, sizeof text);
    dvt_jvm_program_of(text, ret->program, sizeof ret->program);
    ret->name[0] = 0;
    if (is_set("DOVETAIL_SERVICE"))
        return;
    read_property(ti, "otel.service.name", ret->name, sizeof ret->name);
    if (ret->name[0] || is_set("OTEL_SERVICE_NAME"))
        return;
    read_property(ti, "otel.resource.attributes", text, sizeof text);
    dvt_resource_service(text, ret->name, sizeof ret->name);
}
