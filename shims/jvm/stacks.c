/*
 * stacks: see stacks.h. Joins the walker and the names to struct dvt_runtime.
 */
#include "stacks.h"

#include <stdatomic.h>
#include <string.h>

#include "../core/guard.h"
#include "names.h"
#include "walker.h"

static struct dvt_jvm_vm vm;
static jvmtiEnv *events; /* our own JVMTI environment */
static atomic_bool running;

/* ---- struct dvt_runtime ---- */

static int name_frames(struct dvt_rt_frame *frames, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t key = frames[i].key;
        frames[i].key = key & 1 ? key >> 1 : dvt_jvm_names_id((uintptr_t)key);
        if (frames[i].key == 0)
            return -DVT_STACK_CODE_GONE;
    }
    return n;
}

static int walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    *ret_truncated = false;
    if (cap < 1 || !atomic_load_explicit(&running, memory_order_acquire)) /* pairs with init */
        return -DVT_STACK_NO_THREAD_STATE;
    dvt_guard_check();
    int n = dvt_jvm_walk(ucontext, frames, cap, ret_truncated);
    return n < 0 ? n : name_frames(frames, n);
}

/* ---- events ---- */

static void JNICALL on_class(jvmtiEnv *env, JNIEnv *jni, jthread thread, jclass klass)
{
    (void)env;
    (void)jni;
    (void)thread;
    (void)klass;
    dvt_jvm_names_changed();
}

static void JNICALL on_stub(jvmtiEnv *env, const char *name, const void *at, jint bytes)
{
    (void)env;
    if (name && bytes > 0)
        dvt_jvm_names_add_stub((uintptr_t)at, (size_t)bytes, name);
}

static int mode(jvmtiEventMode on, jvmtiEvent event)
{
    return (*events)->SetEventNotificationMode(events, on, event, NULL) == JVMTI_ERROR_NONE ? 0 : -1;
}

/* The names of all stubs, told now; later ones are few and called by their blob's name. */
static void learn_stubs(void)
{
    if (mode(JVMTI_ENABLE, JVMTI_EVENT_DYNAMIC_CODE_GENERATED) == 0)
        (void)(*events)->GenerateEvents(events, JVMTI_EVENT_DYNAMIC_CODE_GENERATED); /* without it: blobs' names */
    (void)mode(JVMTI_DISABLE, JVMTI_EVENT_DYNAMIC_CODE_GENERATED);
    dvt_jvm_names_stubs_done();
}

static int open_events(JavaVM *jvm)
{
    jvmtiEventCallbacks to = {.ClassLoad = on_class, .ClassPrepare = on_class, .DynamicCodeGenerated = on_stub};
    if (!events && (*jvm)->GetEnv(jvm, (void **)&events, JVMTI_VERSION_11) != JNI_OK) {
        events = NULL;
        return -1;
    }
    if ((*events)->SetEventCallbacks(events, &to, sizeof to) != JVMTI_ERROR_NONE)
        return -1;
    return mode(JVMTI_ENABLE, JVMTI_EVENT_CLASS_LOAD) || mode(JVMTI_ENABLE, JVMTI_EVENT_CLASS_PREPARE) ? -1 : 0;
}

/* ---- beginning and end ---- */

/* java.lang.Thread keeps its JavaThread's address for the JVM. */
static uintptr_t java_thread(JNIEnv *jni)
{
    jclass c = (*jni)->FindClass(jni, "java/lang/Thread");
    jmethodID now = c ? (*jni)->GetStaticMethodID(jni, c, "currentThread", "()Ljava/lang/Thread;") : NULL;
    jfieldID at = now ? (*jni)->GetFieldID(jni, c, "eetop", "J") : NULL;
    jobject thread = at ? (*jni)->CallStaticObjectMethod(jni, c, now) : NULL;
    if ((*jni)->ExceptionCheck(jni))
        (*jni)->ExceptionClear(jni);
    uintptr_t v = thread ? (uintptr_t)(*jni)->GetLongField(jni, thread, at) : 0;
    if (thread)
        (*jni)->DeleteLocalRef(jni, thread);
    if (c)
        (*jni)->DeleteLocalRef(jni, c);
    return v;
}

int dvt_jvm_stacks_init(JavaVM *jvm, JNIEnv *env, struct dvt_runtime *rt, const char **ret_why)
{
    *ret_why = dvt_jvm_vm_read(&vm);
    uintptr_t thread = *ret_why ? 0 : java_thread(env);
    if (*ret_why)
        return -1;
    *ret_why = !thread ? "java.lang.Thread.eetop" : dvt_guard_init() ? "guarded loads" : NULL;
    if (*ret_why || dvt_jvm_walker_init(&vm, thread, ret_why))
        return -1;
    *ret_why = dvt_jvm_names_init(&vm) ? "memory" : open_events(jvm) ? "JVMTI's class events" : NULL;
    if (*ret_why)
        return -1;
    learn_stubs();
    (void)dvt_jvm_vm_set_flag(&vm, "DebugNonSafepoints"); /* without it lines are those of the nearest safepoint */
    rt->walk = walk;
    rt->resolve = dvt_jvm_names_resolve;
    rt->eval_lo = *vm.code_low;
    rt->eval_hi = *vm.code_high;
    atomic_store_explicit(&running, true, memory_order_release); /* pairs with walk */
    return 0;
}

void dvt_jvm_stacks_classes_changed(void)
{
    dvt_jvm_names_changed();
}

void dvt_jvm_stacks_stop(void)
{
    atomic_store_explicit(&running, false, memory_order_relaxed);
    if (!events)
        return;
    (void)mode(JVMTI_DISABLE, JVMTI_EVENT_CLASS_LOAD);
    (void)mode(JVMTI_DISABLE, JVMTI_EVENT_CLASS_PREPARE);
}
