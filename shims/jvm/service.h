/*
 * service: what a JVM's service is called where Dovetail's own settings do not say: -Dotel.service.name, which outranks
 * OTEL_SERVICE_NAME as it does for OpenTelemetry; service.name among -Dotel.resource.attributes; and for want of all names the
 * main class or jar in place of "java".
 */
#ifndef DVT_JVM_SERVICE_H
#define DVT_JVM_SERVICE_H

#include <jvmti.h>

#include "../../proto/limits.h"

struct dvt_jvm_service {
    char name[DVT_MAX_SERVICE + 1];    /* "": as core says */
    char program[DVT_MAX_SERVICE + 1]; /* "": not known */
};

/* In the live phase. */
void dvt_jvm_service_read(jvmtiEnv *ti, struct dvt_jvm_service *ret);

#endif
