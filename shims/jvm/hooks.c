/* hooks: see hooks.h. A class that cannot be patched stays as it is: then its tracer's scopes are not seen. */
#include "hooks.h"

#include <stdatomic.h>
#include <string.h>

#include "helper.h"
#include "patch.h"
#include "relocate.h"
#include "stacks.h"
#include "../../proto/agent_report.h"

enum { MANY_CLASSES = 65536, MANY_PASSES = 4 };

static const struct dvt_jvm_tracer tracers[] = {
    {"io/opentelemetry/context/ThreadLocalContextStorage", "attach", "io/opentelemetry/context/DovetailOtel",
     DVT_REPORT_OTEL},
    {DVT_JVM_SHADED "io/opentelemetry/context/ThreadLocalContextStorage", "attach",
     DVT_JVM_SHADED "io/opentelemetry/context/DovetailOtel", DVT_REPORT_OTEL_AGENT},
    {"brave/propagation/ThreadLocalCurrentTraceContext", "newScope", "brave/propagation/DovetailBrave", DVT_REPORT_BRAVE},
};

static _Atomic int found; /* enum dvt_agent_report */

int dvt_jvm_hooks_found(void)
{
    return atomic_load_explicit(&found, memory_order_relaxed);
}

static void note(int what)
{
    atomic_fetch_or_explicit(&found, what, memory_order_relaxed);
}

const struct dvt_jvm_tracer *dvt_jvm_hooks_tracer(const char *class)
{
    for (size_t i = 0; i < sizeof tracers / sizeof *tracers; i++) {
        size_t n = strlen(tracers[i].class);
        if (strncmp(class, tracers[i].class, n) == 0 && (class[n] == 0 || class[n] == '$'))
            return &tracers[i];
    }
    return NULL;
}

void JNICALL dvt_jvm_hooks_class_file(jvmtiEnv *ti, JNIEnv *env, jclass redefined, jobject loader, const char *name,
                                      jobject domain, jint n, const unsigned char *bytes, jint *ret_n,
                                      unsigned char **ret_bytes)
{
    const struct dvt_jvm_tracer *t = name ? dvt_jvm_hooks_tracer(name) : NULL;
    unsigned char *out;
    size_t out_n;
    (void)domain;
    if (redefined) /* its methods' line tables may change, at addresses that stay */
        dvt_jvm_stacks_classes_changed();
    if (!t || n < 0 || !dvt_jvm_helper_is_ready() || !dvt_jvm_helper_beside(ti, env, loader, t->source) ||
        (*ti)->Allocate(ti, (jlong)n + DVT_JVM_PATCH_EXTRA, &out) != JVMTI_ERROR_NONE)
        return;
    struct dvt_jvm_patch how = {t->enters, t->source};
    if (dvt_jvm_patch(bytes, (size_t)n, &how, out, &out_n) > 0) {
        *ret_n = (jint)out_n;
        *ret_bytes = out;
        note(t->report);
    } else {
        (*ti)->Deallocate(ti, out);
    }
}

/* An application that loaded the API before the agent came: from now on it is more than empty calls. */
static void tell_api(JNIEnv *env, jclass class)
{
    jfieldID live = (*env)->GetStaticFieldID(env, class, "live", "Z");
    if (live) {
        (*env)->SetStaticBooleanField(env, class, live, JNI_TRUE);
        note(DVT_REPORT_API);
    } else {
        (*env)->ExceptionClear(env); /* another class of that name */
    }
}

/* "La/b/C;" */
static const struct dvt_jvm_tracer *tracer_of_signature(char *signature)
{
    char *end = signature[0] == 'L' ? strchr(signature, ';') : NULL;
    if (!end)
        return NULL;
    *end = 0;
    return dvt_jvm_hooks_tracer(signature + 1);
}

/* The tracer that it is of, if it can be patched; else NULL. */
static const struct dvt_jvm_tracer *tracer_of(jvmtiEnv *ti, JNIEnv *env, jclass class)
{
    char *signature = NULL;
    jboolean modifiable = JNI_FALSE;
    if ((*ti)->GetClassSignature(ti, class, &signature, NULL) != JVMTI_ERROR_NONE)
        return NULL;
    if (strcmp(signature, "Lio/dovetail/Dovetail;") == 0)
        tell_api(env, class);
    bool is_hidden = strchr(signature, '.') != NULL; /* such a one would fail all that it is patched with */
    const struct dvt_jvm_tracer *t = is_hidden ? NULL : tracer_of_signature(signature);
    (*ti)->Deallocate(ti, (unsigned char *)signature);
    bool can_be = t && (*ti)->IsModifiableClass(ti, class, &modifiable) == JVMTI_ERROR_NONE && modifiable;
    return can_be ? t : NULL;
}

/* All classes of a tracer in one safepoint: while its contexts are seen to be entered and not yet to be left, samples would go to
 * those that have been left. If one of them refuses, none is hooked. Returns how many there were, now the first of classes[n]. */
static jint retransform(jvmtiEnv *ti, JNIEnv *env, const struct dvt_jvm_tracer *tracer, jclass *classes, jint n)
{
    jint n_its = 0;
    for (jint i = 0; i < n; i++) {
        if (tracer_of(ti, env, classes[i]) != tracer)
            continue;
        jclass other = classes[n_its];
        classes[n_its++] = classes[i];
        classes[i] = other;
    }
    if (n_its > 0)
        (void)(*ti)->RetransformClasses(ti, n_its, classes);
    return n_its;
}

/* Returns how many classes tracers have now. */
static jint retransform_all(jvmtiEnv *ti, JNIEnv *env, jint n_before)
{
    jclass *classes;
    jint n, n_tracers = 0, done = 0;
    if ((*ti)->GetLoadedClasses(ti, &n, &classes) != JVMTI_ERROR_NONE)
        return n_before;
    for (jint i = 0; i < n; i++) {
        if (tracer_of(ti, env, classes[i]))
            classes[n_tracers++] = classes[i];
        else
            (*env)->DeleteLocalRef(env, classes[i]);
    }
    for (size_t i = 0; n_tracers != n_before && i < sizeof tracers / sizeof *tracers; i++)
        done += retransform(ti, env, &tracers[i], classes + done, n_tracers - done);
    for (jint i = 0; i < n_tracers; i++)
        (*env)->DeleteLocalRef(env, classes[i]);
    (*ti)->Deallocate(ti, (unsigned char *)classes);
    return n_tracers;
}

void dvt_jvm_hooks_retransform(jvmtiEnv *ti, JNIEnv *env)
{
    jint before = 0, now = 0;
    if ((*env)->EnsureLocalCapacity(env, MANY_CLASSES) != 0) /* for -Xcheck:jni: they come as local references */
        (*env)->ExceptionClear(env);
    for (int i = 0; i < MANY_PASSES && (i == 0 || now != before); i++) { /* one may have been on its way in when the events came on */
        before = now;
        now = retransform_all(ti, env, before);
    }
}
