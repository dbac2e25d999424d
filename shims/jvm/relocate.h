/*
 * relocate: a copy of one of our classes for a tracer whose packages were moved: OpenTelemetry's Java agent has the API's under
 * io.opentelemetry.javaagent.shaded, and the SDK's where they always are. Only the texts among the constants change.
 */
#ifndef DVT_JVM_RELOCATE_H
#define DVT_JVM_RELOCATE_H

#include <stddef.h>
#include <stdint.h>

#define DVT_JVM_SHADED "io/opentelemetry/javaagent/shaded/"

/* Puts DVT_JVM_SHADED in front of io/opentelemetry/api/ and io/opentelemetry/context/ wherever they are in the class's texts. Allocates
 * *ret_class (free). 0; DVT_EFORMAT for what is no class file; DVT_ENOMEM. */
int dvt_jvm_relocate(const uint8_t *class, size_t n, uint8_t **ret_class, size_t *ret_n);

#endif
