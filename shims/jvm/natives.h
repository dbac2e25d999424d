/*
 * natives: the native methods of the classes in java.lang; the JVM finds them by their names in the agent's library.
 */
#ifndef DVT_JVM_NATIVES_H
#define DVT_JVM_NATIVES_H

#include <jni.h>
#include <jvmti.h>

void dvt_jvm_natives_init(jvmtiEnv *ti);

#endif
