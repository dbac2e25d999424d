/*
 * agent: the life of the JVMTI agent libdovetail_jvm.so. Loaded with the JVM (-agentpath) or into a running one, it defines the
 * shim's classes, has tracers' classes patched and starts libdovetail. An agent that cannot start leaves the JVM as it is:
 * Agent_OnLoad always succeeds.
 */
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "hooks.h"
#include "natives.h"
#include "stacks.h"
#include "../core/runtime.h"

static struct dvt_runtime runtime = {.runtime = "jvm"};
static char version[64];
static jvmtiEnv *jvmti;

static void set_version(jvmtiEnv *ti)
{
    char *text = NULL;
    if ((*ti)->GetSystemProperty(ti, "java.vm.version", &text) != JVMTI_ERROR_NONE)
        return;
    strncpy(version, text, sizeof version - 1);
    (*ti)->Deallocate(ti, (unsigned char *)text);
    runtime.runtime_version = version;
}

/* In a JVM whose frames are not known, stacks are those of native code. */
static void set_walker(JNIEnv *env)
{
    JavaVM *vm;
    const char *why;
    if ((*env)->GetJavaVM(env, &vm) == JNI_OK)
        (void)dvt_jvm_stacks_init(vm, env, &runtime, &why);
}

static void start(jvmtiEnv *ti, JNIEnv *env)
{
    set_version(ti);
    set_walker(env);
    dvt_jvm_natives_init(getenv("DOVETAIL_BAGGAGE"));
    if (dvt_jvm_helper_define(env) != 0 || dvt_rt_start(NULL, &runtime) != 0)
        return;
    dvt_jvm_hooks_retransform(ti, env);
}

static void JNICALL vm_init(jvmtiEnv *ti, JNIEnv *env, jthread thread)
{
    (void)thread;
    start(ti, env);
}

static void JNICALL vm_death(jvmtiEnv *ti, JNIEnv *env)
{
    (void)env;
    (void)(*ti)->SetEventNotificationMode(ti, JVMTI_DISABLE, JVMTI_EVENT_CLASS_FILE_LOAD_HOOK, NULL);
    dvt_jvm_stacks_stop();
    dvt_stop(500);
}

static int init(JavaVM *vm)
{
    jvmtiCapabilities wanted = {.can_retransform_classes = 1};
    jvmtiEventCallbacks callbacks = {
        .VMInit = vm_init, .VMDeath = vm_death, .ClassFileLoadHook = dvt_jvm_hooks_class_file};
    if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK)
        return -1;
    if ((*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE ||
        (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks) != JVMTI_ERROR_NONE)
        return -1;
    jvmtiEvent events[] = {JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH, JVMTI_EVENT_CLASS_FILE_LOAD_HOOK};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if ((*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, events[i], NULL) != JVMTI_ERROR_NONE)
            return -1;
    return 0;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
    const char *dovetail = getenv("DOVETAIL");
    (void)options, (void)reserved;
    if (!dovetail || strcmp(dovetail, "off") != 0)
        (void)init(vm); /* a JVM without what we need runs unprofiled */
    return 0;
}
