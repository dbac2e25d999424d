/*
 * natives: the native methods of the classes in java.lang; the JVM finds them by their names in the agent's
 * library, for which nothing need be registered.
 */
#ifndef DVT_JVM_NATIVES_H
#define DVT_JVM_NATIVES_H

#include <jvmti.h>

#include "virtual.h"

/* Reads the settings that the classes ask for. Before they are defined. */
void dvt_jvm_natives_init(jvmtiEnv *ti, const char *baggage_keys);
void dvt_jvm_natives_stop(void);
/* JVMTI's event: in a process whose scopes come on young threads a thread is sampled from its start. On from the first
 * such scope on. */
void JNICALL dvt_jvm_natives_thread_start(jvmtiEnv *ti, JNIEnv *env, jthread thread);

/* What natives of several classes share. */
void dvt_jvm_open_args(jlong trace0, jlong trace1, jlong span, jlong parent, jint flags, jlong name, struct dvt_rt_open *ret);
/* A scope of the application's own; its serial. */
uint64_t dvt_jvm_open_own(JNIEnv *env, jlong name, jbyteArray traceparent);
/* Labels out of a byte[][] of keys and values, on the heap; NULL if there are none. */
struct dvt_jvm_labels *dvt_jvm_labels_copy(JNIEnv *env, jobjectArray labels);

#endif
