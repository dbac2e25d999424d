/*
 * hooks: which classes are patched, as they are loaded or, for those that are there already, by retransforming them. Tracers keep
 * what is current in a ThreadLocal; each has one or a few classes that set it.
 */
#ifndef DVT_JVM_HOOKS_H
#define DVT_JVM_HOOKS_H

#include <jni.h>
#include <jvmti.h>

struct dvt_jvm_tracer {
    const char *class;  /* that has the ThreadLocal; its inner classes are patched as well */
    const char *enters; /* the method that enters a context */
    const char *source; /* the DovetailSource for its contexts, whose static methods it then calls */
    int report;         /* enum dvt_agent_report */
};

/* The tracer that this class (a/b/C) belongs to, or NULL. */
const struct dvt_jvm_tracer *dvt_jvm_hooks_tracer(const char *class);

/* What has been patched so far, of enum dvt_agent_report. */
int dvt_jvm_hooks_found(void);

/* JVMTI's event. Any thread. */
void JNICALL dvt_jvm_hooks_class_file(jvmtiEnv *ti, JNIEnv *env, jclass redefined, jobject loader, const char *name,
                                      jobject domain, jint n, const unsigned char *bytes, jint *ret_n,
                                      unsigned char **ret_bytes);
/* Patches the tracers' classes that are loaded; those of one tracer at once. */
void dvt_jvm_hooks_retransform(jvmtiEnv *ti, JNIEnv *env);

#endif
