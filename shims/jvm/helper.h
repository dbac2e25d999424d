/*
 * helper: defines the shim's Java classes. Those of java.lang go to the boot loader; a DovetailReader goes to the class loader of
 * the tracer it reads, once for each copy of the tracer's classes.
 */
#ifndef DVT_JVM_HELPER_H
#define DVT_JVM_HELPER_H

#include <jni.h>
#include <jvmti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_jvm_class { /* embedded at the build */
    const char *name; /* a/b/C */
    const uint8_t *bytes;
    size_t n;
};
extern const struct dvt_jvm_class dvt_jvm_classes[];
extern const size_t dvt_jvm_n_classes;

/* Defines the classes of java.lang. 0, or DVT_ESTATE with no exception pending: then nothing may be patched. */
int dvt_jvm_helper_define(JNIEnv *env);
/* Whether the classes of java.lang are there. Any thread. */
bool dvt_jvm_helper_is_ready(void);
/* A new reader of this name, defined by `loader` unless it has done so already. NULL if it cannot; no exception is pending. */
jobject dvt_jvm_helper_reader(JNIEnv *env, jobject loader, const char *name);

#endif
