/* natives: see natives.h. Runs on the application's threads; leaves no exception of its own pending. */
#include "natives.h"

#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "../core/names.h"
#include "../core/slot.h"

#define NATIVE(type, class, name) \
    JNIEXPORT type JNICALL Java_java_lang_Dovetail##class##_##name

enum { MAX_BAGGAGE = DVT_MAX_LABELS, BAGGAGE_BYTES = 4096, YOUNG_NS = 1000000 };

static struct {
    char text[BAGGAGE_BYTES];
    const char *keys[MAX_BAGGAGE];
    int n;
} baggage;

static jvmtiEnv *jvmti; /* set once, before the classes are defined */
static _Atomic bool wants_thread_starts;

static struct dvt_scope scope_of(jlong slot, jlong serial)
{
    return (struct dvt_scope){(void *)(uintptr_t)slot, (uint64_t)serial};
}

/* ---- settings ---- */

void dvt_jvm_natives_init(jvmtiEnv *ti, const char *keys)
{
    char *save = NULL;
    jvmti = ti;
    if (!keys || strlen(keys) >= sizeof baggage.text)
        return;
    memcpy(baggage.text, keys, strlen(keys) + 1);
    for (char *k = strtok_r(baggage.text, ", ", &save); k && baggage.n < MAX_BAGGAGE; k = strtok_r(NULL, ", ", &save))
        baggage.keys[baggage.n++] = k;
}

NATIVE(jobjectArray, Lane, baggage0)(JNIEnv *env, jclass self);
NATIVE(jobjectArray, Lane, baggage0)(JNIEnv *env, jclass self)
{
    (void)self;
    jclass string = (*env)->FindClass(env, "java/lang/String");
    jobjectArray keys = string ? (*env)->NewObjectArray(env, baggage.n, string, NULL) : NULL;
    for (int i = 0; keys && i < baggage.n; i++) {
        jstring key = (*env)->NewStringUTF(env, baggage.keys[i]);
        if (!key)
            return NULL; /* with the OutOfMemoryError, for the class's initialiser */
        (*env)->SetObjectArrayElement(env, keys, i, key);
    }
    return keys;
}

NATIVE(jboolean, Link, isThere0)(JNIEnv *env, jclass self);
NATIVE(jboolean, Link, isThere0)(JNIEnv *env, jclass self)
{
    (void)env, (void)self;
    return JNI_TRUE;
}

/* ---- the slot ---- */

#define AT(field) offsetof(struct dvt_slot, field)
#define FRAME(field) offsetof(struct dvt_frame, field)

NATIVE(jlongArray, Slot, layout0)(JNIEnv *env, jclass self);
NATIVE(jlongArray, Slot, layout0)(JNIEnv *env, jclass self)
{
    const jlong v[] = {AT(head_ptr), AT(epoch_word), AT(depth), AT(remote_pending), AT(overflow),
                       AT(arena_top), AT(root_head), AT(dropped_by), AT(frames), sizeof(struct dvt_frame),
                       FRAME(serial), FRAME(head_open), FRAME(drop_word), FRAME(flags), FRAME(arena_at),
                       FRAME(name), offsetof(struct dvt_name, id), (jlong)DVT_ROOT_NONE,
                       (jlong)(uintptr_t)dvt_rt_recording_word(), DVT_F_ANNOUNCED};
    jsize n = sizeof v / sizeof *v;
    jlongArray array = (*env)->NewLongArray(env, n);
    (void)self;
    if (array)
        (*env)->SetLongArrayRegion(env, array, 0, n, v);
    return array;
}

/* A thread that has its first scope when it is young: those to come are better armed at their start. */
static void look_at_age(void)
{
    uint64_t ns = dvt_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (ns >= YOUNG_NS || atomic_exchange_explicit(&wants_thread_starts, true, memory_order_relaxed))
        return;
    (void)(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_THREAD_START, NULL); /* only an aid */
}

void JNICALL dvt_jvm_natives_thread_start(jvmtiEnv *ti, JNIEnv *env, jthread thread)
{
    (void)ti, (void)env, (void)thread;
    if (dvt_rt_active())
        dvt_thread_start();
}

void dvt_jvm_natives_stop(void)
{
    if (atomic_exchange_explicit(&wants_thread_starts, false, memory_order_relaxed))
        (void)(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_DISABLE, JVMTI_EVENT_THREAD_START, NULL);
}

NATIVE(jlong, Slot, here0)(JNIEnv *env, jclass self);
NATIVE(jlong, Slot, here0)(JNIEnv *env, jclass self)
{
    (void)env, (void)self;
    look_at_age();
    return (jlong)(uintptr_t)dvt_rt_slot();
}

/* The trace is stored whole: core loads it whole, and a load that finds two stores in flight waits for both. */
void dvt_jvm_open_args(jlong trace0, jlong trace1, jlong span, jlong parent, jint flags, jlong name, struct dvt_rt_open *ret)
{
    typedef jlong pair __attribute__((vector_size(16)));
    const pair trace = {trace0, trace1};
    memcpy(ret->trace.b, &trace, sizeof trace);
    memcpy(ret->span.b, &span, sizeof span);
    memcpy(ret->parent_span.b, &parent, sizeof parent);
    ret->flags = (uint32_t)flags;
    ret->name = (const struct dvt_name *)(uintptr_t)name;
}

NATIVE(jlong, Slot, open0)(JNIEnv *env, jclass self, jlong trace0, jlong trace1, jlong span, jlong parent, jint flags,
                           jlong name);
NATIVE(jlong, Slot, open0)(JNIEnv *env, jclass self, jlong trace0, jlong trace1, jlong span, jlong parent, jint flags,
                           jlong name)
{
    struct dvt_rt_open a;
    (void)env, (void)self;
    dvt_jvm_open_args(trace0, trace1, span, parent, flags, name, &a);
    return (jlong)dvt_rt_open(&a).serial;
}

static uint64_t open_own(jlong name, const char *traceparent)
{
    struct dvt_scope_args a = {.interned = (const struct dvt_name *)(uintptr_t)name, .traceparent = traceparent};
    return dvt_scope_open(&a).serial;
}

static uint64_t open_remote(JNIEnv *env, jlong name, jbyteArray traceparent)
{
    char text[2 * DVT_TRACEPARENT_LEN + 1];
    size_t n = (size_t)(*env)->GetArrayLength(env, traceparent);
    n = n < sizeof text - 1 ? n : sizeof text - 1;
    (*env)->GetByteArrayRegion(env, traceparent, 0, (jsize)n, (jbyte *)text);
    text[n] = 0;
    return open_own(name, text);
}

uint64_t dvt_jvm_open_own(JNIEnv *env, jlong name, jbyteArray traceparent)
{
    return traceparent ? open_remote(env, name, traceparent) : open_own(name, NULL);
}

NATIVE(jlong, Slot, openOwn0)(JNIEnv *env, jclass self, jlong name);
NATIVE(jlong, Slot, openOwn0)(JNIEnv *env, jclass self, jlong name)
{
    (void)env, (void)self;
    return (jlong)open_own(name, NULL);
}

NATIVE(jlong, Slot, openRemote0)(JNIEnv *env, jclass self, jlong name, jbyteArray traceparent);
NATIVE(jlong, Slot, openRemote0)(JNIEnv *env, jclass self, jlong name, jbyteArray traceparent)
{
    (void)self;
    return (jlong)open_remote(env, name, traceparent);
}

NATIVE(jstring, Slot, traceparent0)(JNIEnv *env, jclass self);
NATIVE(jstring, Slot, traceparent0)(JNIEnv *env, jclass self)
{
    char text[DVT_TRACEPARENT_LEN + 1];
    (void)self;
    return dvt_traceparent(text) ? (*env)->NewStringUTF(env, text) : NULL;
}

NATIVE(jboolean, Slot, close0)(JNIEnv *env, jclass self, jlong slot, jlong serial, jlong name);
NATIVE(jboolean, Slot, close0)(JNIEnv *env, jclass self, jlong slot, jlong serial, jlong name)
{
    (void)env, (void)self;
    return dvt_rt_close(scope_of(slot, serial), (const struct dvt_name *)(uintptr_t)name);
}

/* ---- a kept scope ---- */

/* The text of a kept scope, copied out of Java's arrays; what does not fit is cut, as core would. */
struct texts {
    char p[16 << 10];
    size_t n;
};

static struct dvt_str take_bytes(JNIEnv *env, struct texts *t, jbyteArray bytes, size_t max)
{
    size_t n = bytes ? (size_t)(*env)->GetArrayLength(env, bytes) : 0;
    char *p = t->p + t->n;
    n = n < max ? n : max;
    n = n < sizeof t->p - t->n ? n : sizeof t->p - t->n;
    if (n)
        (*env)->GetByteArrayRegion(env, bytes, 0, (jsize)n, (jbyte *)p);
    t->n += n;
    return (struct dvt_str){p, n};
}

static struct dvt_str take_element(JNIEnv *env, struct texts *t, jobjectArray array, jsize i, size_t max)
{
    jbyteArray bytes = (*env)->GetObjectArrayElement(env, array, i);
    struct dvt_str s = take_bytes(env, t, bytes, max);
    if (bytes)
        (*env)->DeleteLocalRef(env, bytes);
    return s;
}

static size_t take_labels(JNIEnv *env, struct texts *t, jobjectArray array, struct dvt_label *labels)
{
    jsize n = array ? (*env)->GetArrayLength(env, array) : 0;
    size_t used = 0;
    for (jsize i = 0; i + 1 < n && used < DVT_MAX_LABELS; i += 2) {
        struct dvt_label *l = &labels[used];
        l->key = take_element(env, t, array, i, 2 * DVT_MAX_LABEL_KEY);
        l->value = take_element(env, t, array, i + 1, 2 * DVT_MAX_LABEL_VALUE);
        used += l->key.n > 0 && l->value.n > 0;
    }
    return used;
}

static size_t take_links(JNIEnv *env, struct texts *t, jobjectArray array, struct dvt_trace_id *links)
{
    jsize n = array ? (*env)->GetArrayLength(env, array) : 0;
    size_t used = 0;
    for (jsize i = 0; i < n && used < DVT_MAX_LINKS; i++) {
        size_t mark = t->n;
        struct dvt_str s = take_element(env, t, array, i, 2 * DVT_TRACEPARENT_LEN);
        struct dvt_span_id span;
        uint8_t flags;
        used += dvt_traceparent_parse(s.p, s.n, &links[used], &span, &flags) == 0;
        t->n = mark;
    }
    return used;
}

struct dvt_jvm_labels *dvt_jvm_labels_copy(JNIEnv *env, jobjectArray labels)
{
    struct texts t = {.n = 0};
    struct dvt_label v[DVT_MAX_LABELS];
    size_t n = take_labels(env, &t, labels, v);
    struct dvt_jvm_labels *copy = n ? malloc(sizeof *copy + t.n) : NULL;
    if (!copy)
        return NULL;
    copy->n = n;
    memcpy(copy->text, t.p, t.n);
    for (size_t i = 0; i < n; i++) {
        copy->v[i].key = (struct dvt_str){copy->text + (v[i].key.p - t.p), v[i].key.n};
        copy->v[i].value = (struct dvt_str){copy->text + (v[i].value.p - t.p), v[i].value.n};
    }
    return copy;
}

NATIVE(void, Slot, commit0)(JNIEnv *env, jclass self, jlong slot, jlong serial, jbyteArray name, jobjectArray labels, jobjectArray links);
NATIVE(void, Slot, commit0)(JNIEnv *env, jclass self, jlong slot, jlong serial, jbyteArray name, jobjectArray labels, jobjectArray links)
{
    struct texts t = {.n = 0};
    struct dvt_label l[DVT_MAX_LABELS];
    struct dvt_trace_id k[DVT_MAX_LINKS];
    struct dvt_rt_late late = {.name = take_bytes(env, &t, name, 2 * DVT_MAX_NAME), .labels = l, .links = k};
    (void)self;
    late.n_labels = take_labels(env, &t, labels, l);
    late.n_links = take_links(env, &t, links, k);
    dvt_rt_commit(scope_of(slot, serial), &late);
}

/* The frame of an open scope of this thread, by the same rules as core's: the owner alone writes it. */
NATIVE(void, Slot, always0)(JNIEnv *env, jclass self, jlong slot, jlong serial);
NATIVE(void, Slot, always0)(JNIEnv *env, jclass self, jlong slot, jlong serial)
{
    struct dvt_slot *s = (struct dvt_slot *)(uintptr_t)slot;
    (void)env, (void)self;
    for (uint32_t i = atomic_load_explicit(&s->depth, memory_order_relaxed); i-- > 0;)
        if (s->frames[i].serial == (uint64_t)serial) {
            s->frames[i].flags |= DVT_SCOPE_ALWAYS;
            s->frames[i].drop_word = 0;
        }
}

/* ---- names, readers ---- */

NATIVE(jlong, Names, intern0)(JNIEnv *env, jclass self, jbyteArray utf8);
NATIVE(jlong, Names, intern0)(JNIEnv *env, jclass self, jbyteArray utf8)
{
    char text[4 * DVT_MAX_NAME + 1];
    size_t n = (size_t)(*env)->GetArrayLength(env, utf8);
    (void)self;
    n = n < sizeof text - 1 ? n : sizeof text - 1;
    (*env)->GetByteArrayRegion(env, utf8, 0, (jsize)n, (jbyte *)text);
    text[n] = 0;
    return (jlong)(uintptr_t)dvt_name(text);
}

NATIVE(jobject, Span, make0)(JNIEnv *env, jclass self, jobject loader, jboolean api_is_shaded);
NATIVE(jobject, Span, make0)(JNIEnv *env, jclass self, jobject loader, jboolean api_is_shaded)
{
    (void)self;
    return dvt_jvm_helper_object(env, loader, "io/opentelemetry/sdk/trace/DovetailSdk", api_is_shaded);
}
