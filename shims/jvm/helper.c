/* helper: see helper.h. */
#include "helper.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "relocate.h"
#include "../../proto/err.h"

enum { MANY_CLASSES = 65536 };

static _Atomic bool is_ready;
static jclass link_class; /* global; set once they are defined, under the agent's lock */

bool dvt_jvm_helper_is_ready(void)
{
    return atomic_load_explicit(&is_ready, memory_order_acquire);
}

static jclass define_bytes(JNIEnv *env, jobject loader, const char *name, const uint8_t *bytes, size_t n)
{
    jclass class = (*env)->DefineClass(env, name, loader, (const jbyte *)bytes, (jsize)n);
    if (!class)
        (*env)->ExceptionClear(env);
    return class;
}

static jclass define(JNIEnv *env, jobject loader, const struct dvt_jvm_class *c)
{
    return define_bytes(env, loader, c->name, c->bytes, c->n);
}

int dvt_jvm_helper_define(JNIEnv *env)
{
    jclass link = NULL;
    for (size_t i = 0; i < dvt_jvm_n_classes && !link_class; i++) {
        const struct dvt_jvm_class *c = &dvt_jvm_classes[i];
        if (strncmp(c->name, "java/lang/", strlen("java/lang/")) != 0)
            continue;
        jclass class = define(env, NULL, c);
        if (!class)
            return DVT_ESTATE;
        if (strcmp(c->name, "java/lang/DovetailLink") == 0)
            link = (*env)->NewGlobalRef(env, class);
        (*env)->DeleteLocalRef(env, class);
    }
    link_class = link ? link : link_class;
    return link_class ? 0 : DVT_ESTATE;
}

bool dvt_jvm_helper_link(JNIEnv *env)
{
    jmethodID is_there = (*env)->GetStaticMethodID(env, link_class, "isThere0", "()Z");
    bool linked = is_there && (*env)->CallStaticBooleanMethod(env, link_class, is_there);
    if ((*env)->ExceptionCheck(env)) {
        (*env)->ExceptionClear(env); /* UnsatisfiedLinkError; it is looked for anew each time */
        linked = false;
    }
    if (linked)
        atomic_store_explicit(&is_ready, true, memory_order_release); /* pairs with dvt_jvm_helper_is_ready */
    return linked;
}

static const struct dvt_jvm_class *embedded(const char *name)
{
    for (size_t i = 0; i < dvt_jvm_n_classes; i++)
        if (strcmp(dvt_jvm_classes[i].name, name) == 0)
            return &dvt_jvm_classes[i];
    return NULL;
}

static jclass define_relocated(JNIEnv *env, jobject loader, const char *name, const struct dvt_jvm_class *c)
{
    uint8_t *bytes;
    size_t n;
    if (dvt_jvm_relocate(c->bytes, c->n, &bytes, &n) != 0)
        return NULL;
    jclass class = define_bytes(env, loader, name, bytes, n);
    free(bytes);
    return class;
}

/* By the name it is to have: one under DVT_JVM_SHADED is a relocated copy. */
static jclass define_named(JNIEnv *env, jobject loader, const char *name)
{
    size_t prefix = strlen(DVT_JVM_SHADED);
    bool shaded = strncmp(name, DVT_JVM_SHADED, prefix) == 0;
    const struct dvt_jvm_class *c = embedded(shaded ? name + prefix : name);
    if (!c)
        return NULL;
    return shaded ? define_relocated(env, loader, name, c) : define(env, loader, c);
}

static jobject new_object(JNIEnv *env, jclass class)
{
    jmethodID init = (*env)->GetMethodID(env, class, "<init>", "()V");
    jobject object = init ? (*env)->NewObject(env, class, init) : NULL;
    if (!object)
        (*env)->ExceptionClear(env);
    return object;
}

/* A class that the loader has defined, by its signature. */
static bool is_defined(jvmtiEnv *ti, JNIEnv *env, jobject loader, const char *name)
{
    jclass *classes;
    jint n;
    bool found = false;
    if ((*env)->PushLocalFrame(env, MANY_CLASSES) != 0) { /* for -Xcheck:jni: they come as local references */
        (*env)->ExceptionClear(env);
        return false;
    }
    if ((*ti)->GetClassLoaderClasses(ti, loader, &n, &classes) != JVMTI_ERROR_NONE)
        n = 0;
    for (jint i = 0; i < n; i++) {
        char *signature = NULL;
        if (!found && (*ti)->GetClassSignature(ti, classes[i], &signature, NULL) == JVMTI_ERROR_NONE) {
            found = strncmp(signature + 1, name, strlen(name)) == 0 && signature[1 + strlen(name)] == ';';
            (*ti)->Deallocate(ti, (unsigned char *)signature);
        }
    }
    if (n > 0)
        (*ti)->Deallocate(ti, (unsigned char *)classes);
    (*env)->PopLocalFrame(env, NULL);
    return found;
}

bool dvt_jvm_helper_beside(jvmtiEnv *ti, JNIEnv *env, jobject loader, const char *name)
{
    jclass class = define_named(env, loader, name);
    if (!class)
        return is_defined(ti, env, loader, name);
    (*env)->DeleteLocalRef(env, class);
    return true;
}

jobject dvt_jvm_helper_object(JNIEnv *env, jobject loader, const char *name, bool api_is_shaded)
{
    const struct dvt_jvm_class *c = embedded(name);
    jclass class = !c ? NULL : api_is_shaded ? define_relocated(env, loader, name, c) : define(env, loader, c);
    jobject object = class ? new_object(env, class) : NULL;
    if (class)
        (*env)->DeleteLocalRef(env, class);
    return object;
}
