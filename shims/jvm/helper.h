/*
 * helper: defines the shim's Java classes. Those of java.lang go to the boot loader, where every loader finds them;
 * those that read a tracer's classes go beside them, into their class loader, once for each copy of the tracer.
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
/* Whether their native methods are found yet. From then on classes may be patched. */
bool dvt_jvm_helper_link(JNIEnv *env);
/* Whether both have been so. Any thread. */
bool dvt_jvm_helper_is_ready(void);
/* Whether the class of this name is beside a tracer's, in its loader: defined now, or before. No exception is pending. */
bool dvt_jvm_helper_beside(jvmtiEnv *ti, JNIEnv *env, jobject loader, const char *name);
/* A new object of this class, defined by loader; NULL if that fails, as where it is defined already. api_is_shaded: as relocate.h says. */
jobject dvt_jvm_helper_object(JNIEnv *env, jobject loader, const char *name, bool api_is_shaded);

#endif
