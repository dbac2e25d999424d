/* natives: see natives.h. */
#include "natives.h"

#include <string.h>

#include "helper.h"
#include "hooks.h"
#include "../core/runtime.h"

static jvmtiEnv *jvmti;

void dvt_jvm_natives_init(jvmtiEnv *ti)
{
    jvmti = ti;
}

/* The tracer of this class, and its loader. */
static const struct dvt_jvm_tracer *tracer_of(jclass class, jobject *ret_loader)
{
    char *signature = NULL;
    const struct dvt_jvm_tracer *t = NULL;
    if ((*jvmti)->GetClassSignature(jvmti, class, &signature, NULL) != JVMTI_ERROR_NONE)
        return NULL;
    char *end = strchr(signature, ';');
    if (signature[0] == 'L' && end) {
        *end = 0;
        t = dvt_jvm_hooks_tracer(signature + 1);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
    if (t && (*jvmti)->GetClassLoader(jvmti, class, ret_loader) != JVMTI_ERROR_NONE)
        return NULL;
    return t;
}

JNIEXPORT jobject JNICALL Java_java_lang_DovetailLane_reader0(JNIEnv *env, jclass self, jobject local);
JNIEXPORT jobject JNICALL Java_java_lang_DovetailLane_reader0(JNIEnv *env, jclass self, jobject local)
{
    enum { DEEPEST = 8 };
    jvmtiFrameInfo frames[DEEPEST];
    jint n = 0;
    (void)self, (void)local;
    if ((*jvmti)->GetStackTrace(jvmti, NULL, 0, DEEPEST, frames, &n) != JVMTI_ERROR_NONE)
        return NULL;
    for (jint i = 0; i < n; i++) {
        jclass class;
        jobject loader;
        if ((*jvmti)->GetMethodDeclaringClass(jvmti, frames[i].method, &class) != JVMTI_ERROR_NONE)
            continue;
        const struct dvt_jvm_tracer *t = tracer_of(class, &loader);
        if (t)
            return dvt_jvm_helper_reader(env, loader, t->reader);
    }
    return NULL;
}

JNIEXPORT jlong JNICALL Java_java_lang_DovetailLane_open0(JNIEnv *env, jclass self, jlong trace0, jlong trace1, jlong span,
                                                          jlong parent, jint flags);
JNIEXPORT jlong JNICALL Java_java_lang_DovetailLane_open0(JNIEnv *env, jclass self, jlong trace0, jlong trace1, jlong span,
                                                          jlong parent, jint flags)
{
    struct dvt_rt_open a = {.flags = (uint32_t)flags};
    (void)env, (void)self;
    memcpy(a.trace.b, &trace0, 8);
    memcpy(a.trace.b + 8, &trace1, 8);
    memcpy(a.span.b, &span, 8);
    memcpy(a.parent_span.b, &parent, 8);
    return (jlong)dvt_rt_open(&a).serial;
}

JNIEXPORT jboolean JNICALL Java_java_lang_DovetailLane_close0(JNIEnv *env, jclass self, jlong serial);
JNIEXPORT jboolean JNICALL Java_java_lang_DovetailLane_close0(JNIEnv *env, jclass self, jlong serial)
{
    (void)env, (void)self;
    return dvt_rt_close((struct dvt_scope){dvt_rt_slot(), (uint64_t)serial}, NULL);
}

JNIEXPORT void JNICALL Java_java_lang_DovetailLane_commit0(JNIEnv *env, jclass self, jlong serial, jbyteArray name);
JNIEXPORT void JNICALL Java_java_lang_DovetailLane_commit0(JNIEnv *env, jclass self, jlong serial, jbyteArray name)
{
    char text[4 * DVT_MAX_NAME];
    struct dvt_rt_late late = {.name = {text, 0}};
    jsize n = name ? (*env)->GetArrayLength(env, name) : 0;
    (void)self;
    late.name.n = (size_t)n < sizeof text ? (size_t)n : sizeof text;
    if (n)
        (*env)->GetByteArrayRegion(env, name, 0, (jsize)late.name.n, (jbyte *)text);
    dvt_rt_commit((struct dvt_scope){dvt_rt_slot(), (uint64_t)serial}, &late);
}

JNIEXPORT jobject JNICALL Java_java_lang_DovetailSpan_make0(JNIEnv *env, jclass self, jobject loader);
JNIEXPORT jobject JNICALL Java_java_lang_DovetailSpan_make0(JNIEnv *env, jclass self, jobject loader)
{
    (void)self;
    return dvt_jvm_helper_reader(env, loader, "io/opentelemetry/sdk/trace/DovetailSdk");
}
