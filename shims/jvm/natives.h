/*
 * natives: the native methods of the classes in java.lang; the JVM finds them by their names in the agent's
 * library, for which nothing need be registered.
 */
#ifndef DVT_JVM_NATIVES_H
#define DVT_JVM_NATIVES_H

#include <jvmti.h>

/* Reads the settings that the classes ask for. Before they are defined. */
void dvt_jvm_natives_init(jvmtiEnv *ti, const char *baggage_keys);
void dvt_jvm_natives_stop(void);
/* JVMTI's event: in a process whose scopes come on young threads a thread is sampled from its start. On from the first
 * such scope on. */
void JNICALL dvt_jvm_natives_thread_start(jvmtiEnv *ti, JNIEnv *env, jthread thread);

#endif
