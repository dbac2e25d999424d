/*
 * agent: the life of the JVMTI agent libdovetail_jvm.so. Loaded with the JVM (-agentpath) or into a running one, it
 * defines the shim's classes, has tracers' classes patched and starts libdovetail. Options, separated by commas:
 *
 *     socket=PATH  service=NAME    as of struct dvt_options
 *     stop                         to one that runs: says goodbye; what is patched stays and does nothing
 *     report                       changes nothing: Agent_OnAttach returns enum dvt_agent_report
 *
 * An agent that cannot start leaves the JVM as it is: Agent_OnLoad always succeeds.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"
#include "hooks.h"
#include "natives.h"
#include "service.h"
#include "stacks.h"
#include "virtual.h"
#include "../core/runtime.h"
#include "../../proto/agent_report.h"

enum { STOP_MS = 500, MAX_OPTIONS = 1024, LINK_TRIES = 400, LINK_WAIT_US = 5000 };

static struct dvt_runtime runtime = {.runtime = "jvm"};
static char version[64];
static struct dvt_jvm_service service;
static jvmtiEnv *jvmti;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static char text[MAX_OPTIONS];                           /* what options points into */
static struct dvt_options options;
static bool is_stop_asked, is_live, is_hooked;

static const jvmtiEvent load_events[] = {JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH};
static const jvmtiEvent live_events[] = {JVMTI_EVENT_CLASS_FILE_LOAD_HOOK};

/* ---- options ---- */

static void take_option(char *option)
{
    if (strncmp(option, "socket=", 7) == 0)
        options.socket = option + 7;
    else if (strncmp(option, "service=", 8) == 0)
        options.service = option + 8;
    else if (strcmp(option, "stop") == 0)
        is_stop_asked = true;
}

static void read_options(const char *given)
{
    char *save = NULL;
    options = (struct dvt_options){0};
    is_stop_asked = false;
    if (!given || strlen(given) >= sizeof text)
        return;
    memcpy(text, given, strlen(given) + 1);
    for (char *o = strtok_r(text, ",", &save); o; o = strtok_r(NULL, ",", &save))
        take_option(o);
}

/* ---- start and stop; with the lock ---- */

static int set_events(jvmtiEnv *ti, jvmtiEventMode mode, const jvmtiEvent *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((*ti)->SetEventNotificationMode(ti, mode, events[i], NULL) != JVMTI_ERROR_NONE)
            return -1;
    return 0;
}

static void set_version(jvmtiEnv *ti)
{
    char *property = NULL;
    if ((*ti)->GetSystemProperty(ti, "java.vm.version", &property) != JVMTI_ERROR_NONE)
        return;
    strncpy(version, property, sizeof version - 1);
    (*ti)->Deallocate(ti, (unsigned char *)property);
    runtime.runtime_version = version;
}

static void set_service(void)
{
    dvt_jvm_service_read(jvmti, &service);
    runtime.program = service.program[0] ? service.program : NULL;
    if (!options.service && service.name[0])
        options.service = service.name;
}

/* In a JVM whose frames are not known, stacks are those of native code. */
static void set_up(JNIEnv *env)
{
    JavaVM *vm;
    const char *why;
    if ((*env)->GetJavaVM(env, &vm) != JNI_OK)
        return;
    (void)dvt_jvm_stacks_init(vm, env, &runtime, &why);
    dvt_jvm_virtual_init(vm);
}

static int define_classes(JNIEnv *env)
{
    if (dvt_jvm_helper_is_ready())
        return 0;
    dvt_jvm_natives_init(jvmti, getenv("DOVETAIL_BAGGAGE"));
    return dvt_jvm_helper_define(env);
}

/* Everything but the patching, for which native methods must be found, and what must wait for it. */
static int start(JNIEnv *env)
{
    if (is_live)
        return 0;
    set_version(jvmti);
    set_up(env);
    set_service();
    if (define_classes(env) != 0) {
        dvt_jvm_stacks_stop();
        return -1;
    }
    dvt_jvm_virtual_start();
    is_live = true;
    return 0;
}

static void stop(void)
{
    if (!is_live)
        return;
    is_live = is_hooked = false;
    dvt_stop(STOP_MS); /* first: a scope that is not told, or does not follow its thread, leaves its samples to another */
    dvt_jvm_natives_stop();
    (void)set_events(jvmti, JVMTI_DISABLE, live_events, sizeof live_events / sizeof *live_events); /* no harm if on */
    dvt_jvm_virtual_stop();
    dvt_jvm_stacks_stop();
}

/* Records only once all classes are patched: before, of one that was loaded while nothing was hooked, contexts would be seen to be
 * entered and not to be left. False: not yet. */
static bool hook(JNIEnv *env)
{
    if (!is_live)
        return true;
    if (!dvt_jvm_helper_link(env))
        return false;
    if (set_events(jvmti, JVMTI_ENABLE, live_events, sizeof live_events / sizeof *live_events) == 0)
        dvt_jvm_hooks_retransform(jvmti, env);
    if (dvt_rt_start(&options, &runtime) == 0)
        is_hooked = true;
    else
        stop(); /* a bad setting: dvt_last_error says which */
    return true;
}

static jint report(void)
{
    return DVT_REPORT | dvt_jvm_hooks_found() | (is_live ? DVT_REPORT_LIVE : 0) | (is_hooked ? DVT_REPORT_HOOKED : 0) |
           (runtime.walk ? DVT_REPORT_STACKS : 0);
}

/* ---- events ---- */

static void JNICALL vm_init(jvmtiEnv *ti, JNIEnv *env, jthread thread)
{
    (void)ti, (void)thread;
    pthread_mutex_lock(&lock);
    if (start(env) == 0) /* a JVM in which we cannot start runs on unprofiled */
        (void)hook(env); /* here the library is known */
    pthread_mutex_unlock(&lock);
}

static void JNICALL vm_death(jvmtiEnv *ti, JNIEnv *env)
{
    (void)ti, (void)env;
    pthread_mutex_lock(&lock);
    stop();
    pthread_mutex_unlock(&lock);
}

static int open_jvmti(JavaVM *vm)
{
    jvmtiCapabilities wanted = {.can_retransform_classes = 1};
    jvmtiEventCallbacks callbacks = {.VMInit = vm_init,
                                     .VMDeath = vm_death,
                                     .ThreadStart = dvt_jvm_natives_thread_start,
                                     .ClassFileLoadHook = dvt_jvm_hooks_class_file};
    if (jvmti)
        return 0;
    if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK)
        return -1;
    if ((*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE ||
        (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks) != JVMTI_ERROR_NONE ||
        set_events(jvmti, JVMTI_ENABLE, load_events, sizeof load_events / sizeof *load_events) != 0) {
        (*jvmti)->DisposeEnvironment(jvmti);
        jvmti = NULL;
        return -1;
    }
    return 0;
}

static bool is_off(void)
{
    const char *dovetail = getenv("DOVETAIL");
    return dovetail && strcmp(dovetail, "off") == 0;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *given, void *reserved)
{
    (void)reserved;
    pthread_mutex_lock(&lock);
    read_options(given);
    if (!is_off())
        (void)open_jvmti(vm); /* without what we need the JVM runs unprofiled */
    pthread_mutex_unlock(&lock);
    return 0;
}

/* An agent's thread, after Agent_OnAttach. */
static void JNICALL hook_later(jvmtiEnv *ti, JNIEnv *env, void *unused)
{
    (void)ti, (void)unused;
    for (int i = 0; i < LINK_TRIES; i++) {
        pthread_mutex_lock(&lock);
        bool done = hook(env);
        pthread_mutex_unlock(&lock);
        if (done)
            return;
        usleep(LINK_WAIT_US);
    }
}

/* A new java.lang.Thread for it, or NULL. */
static jthread new_thread(JNIEnv *env)
{
    jclass class = (*env)->FindClass(env, "java/lang/Thread");
    jmethodID init = class ? (*env)->GetMethodID(env, class, "<init>", "(Ljava/lang/String;)V") : NULL;
    jstring name = init ? (*env)->NewStringUTF(env, "dovetail-attach") : NULL;
    jthread thread = name ? (*env)->NewObject(env, class, init, name) : NULL;
    if ((*env)->ExceptionCheck(env))
        (*env)->ExceptionClear(env);
    return thread;
}

static int start_hooking(JNIEnv *env)
{
    jthread thread = new_thread(env);
    bool runs = thread &&
                (*jvmti)->RunAgentThread(jvmti, thread, hook_later, NULL, JVMTI_THREAD_NORM_PRIORITY) == JVMTI_ERROR_NONE;
    return runs ? 0 : -1;
}

/* JDK 17 loads agents before that too. */
static bool is_initialised(void)
{
    jvmtiPhase phase;
    return (*jvmti)->GetPhase(jvmti, &phase) == JVMTI_ERROR_NONE && phase == JVMTI_PHASE_LIVE;
}

/* Also the second time and later, of an agent that is there. */
static jint attach(JavaVM *vm, const char *given)
{
    JNIEnv *env;
    if (given && strcmp(given, "report") == 0)
        return report();
    read_options(given);
    if (is_stop_asked) {
        stop();
        return JNI_OK;
    }
    if (is_off() || (*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK || open_jvmti(vm) != 0)
        return JNI_ERR;
    if (!is_initialised() || start(env) != 0)
        return JNI_ERR;
    if (start_hooking(env) == 0)
        return JNI_OK;
    stop();
    return JNI_ERR;
}

JNIEXPORT jint JNICALL Agent_OnAttach(JavaVM *vm, char *given, void *reserved)
{
    (void)reserved;
    pthread_mutex_lock(&lock);
    jint rc = attach(vm, given);
    pthread_mutex_unlock(&lock);
    return rc;
}
