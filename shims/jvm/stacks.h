/*
 * stacks: the Java stack of a sampled thread, for struct dvt_runtime: walk in the SIGURG handler, resolve in the sender.
 *
 * The walker reads HotSpot's own description of its structures (gHotSpotVMStructs), never calls into the JVM, and loads
 * through the guard what a wrong frame could make it follow. Names are copied while the frame is on the thread's stack,
 * which keeps its class alive: a class may be unloaded a microsecond later. It has a JVMTI environment of its own, so
 * the agent forwards it no event and asks for no capability on its behalf.
 *
 * Frames in the record are (code id, bci), so that another walker may make the same records.
 */
#ifndef DVT_JVM_STACKS_H
#define DVT_JVM_STACKS_H

#include <jvmti.h>

#include "../core/runtime.h"

/*
 * On a thread attached to the JVM, in the live phase (VMInit, or Agent_OnAttach), before dvt_rt_start. Fills rt's walk,
 * resolve, eval_lo and eval_hi. 0, or -1 if this JVM cannot be walked: rt then has no walker, and *ret_why says what is
 * missing (static text). Also has later compilations record lines everywhere, as -XX:+DebugNonSafepoints does.
 */
int dvt_jvm_stacks_init(JavaVM *vm, JNIEnv *env, struct dvt_runtime *rt, const char **ret_why);

/* A method's place in memory may now hold another: class bytes were seen (ClassFileLoadHook). Cheap. Any thread. */
void dvt_jvm_stacks_classes_changed(void);

/* From VMDeath or detach on: walks find nothing, events are off. A later init begins again. Any thread. */
void dvt_jvm_stacks_stop(void);

#endif
