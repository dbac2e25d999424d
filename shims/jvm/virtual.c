/*
 * virtual: see virtual.h. A struct dvt_jvm_virtual is made at a virtual thread's first scope, found through JVMTI's thread-local
 * storage and freed at the thread's end. Only code that runs on the virtual thread, or in its events, touches it.
 */
#include "virtual.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "natives.h"
#include "../core/slot.h"

/* Of jvmti.h from JDK 21 on, which need not be the one we are built with. */
enum { CAN_SUPPORT_VIRTUAL_THREADS = 44, EVENT_VIRTUAL_THREAD_END = 88, EVENT_FIRST = 50 };

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_java_lang_DovetailVirtual_##name

struct entry {
    struct dvt_rt_open open;
    struct dvt_jvm_labels *labels; /* or NULL */
    bool is_known;                 /* its ids are: it was opened while the shim recorded */
};

struct dvt_jvm_virtual {
    void *slot; /* read by DovetailVirtual, and the next three: of the present residency */
    uint64_t n; /* written by it too */
    uint64_t life; /* lives when slot and serials were set */
    uint64_t serial[DVT_JVM_VIRTUAL_MAX];
    struct entry entries[DVT_JVM_VIRTUAL_MAX];
};
_Static_assert(offsetof(struct dvt_jvm_virtual, n) == 8 && offsetof(struct dvt_jvm_virtual, life) == 16 &&
                   offsetof(struct dvt_jvm_virtual, serial) == 24,
               "DovetailVirtual reads them");

static jvmtiEnv *jvmti; /* of its own, since it has callbacks of a newer version; NULL: no virtual threads */
static jint mount_event = -1, unmount_event = -1;
static _Atomic bool is_on, was_on;
/* How often the events were turned off. Without them threads change carriers unseen: what was opened before is another's by
 * then, and is not touched any more; the library gives it up when it starts again. */
static _Atomic uint64_t lives;

/* ---- residencies ---- */

static struct dvt_jvm_virtual *current(jvmtiEnv *ti)
{
    void *v = NULL;
    if ((*ti)->GetThreadLocalStorage(ti, NULL, &v) != JVMTI_ERROR_NONE)
        return NULL;
    return v;
}

static void close_one(struct dvt_jvm_virtual *v, uint64_t i)
{
    struct dvt_scope scope = {v->slot, v->serial[i]};
    struct dvt_jvm_labels *labels = v->entries[i].labels;
    v->serial[i] = 0;
    if (!scope.serial || !dvt_rt_close(scope, v->entries[i].open.name))
        return;
    struct dvt_rt_late late = {.labels = labels ? labels->v : NULL, .n_labels = labels ? labels->n : 0};
    dvt_rt_commit(scope, &late);
}

static uint64_t life_now(void)
{
    return atomic_load_explicit(&lives, memory_order_acquire); /* pairs with dvt_jvm_virtual_stop */
}

static void leave(struct dvt_jvm_virtual *v)
{
    for (uint64_t i = v->n; v->life == life_now() && i-- > 0;)
        close_one(v, i);
}

static void arrive(struct dvt_jvm_virtual *v)
{
    v->slot = dvt_rt_slot();
    v->life = life_now();
    for (uint64_t i = 0; i < v->n; i++)
        v->serial[i] = v->entries[i].is_known ? dvt_rt_open(&v->entries[i].open).serial : 0;
}

/* ---- events ---- */

static void JNICALL on_unmount(jvmtiEnv *ti, ...)
{
    struct dvt_jvm_virtual *v = current(ti);
    if (v)
        leave(v);
}

static void JNICALL on_mount(jvmtiEnv *ti, ...)
{
    struct dvt_jvm_virtual *v = current(ti);
    if (v)
        arrive(v);
}

static void JNICALL on_end(jvmtiEnv *ti, JNIEnv *env, jthread thread)
{
    struct dvt_jvm_virtual *v = current(ti);
    (void)env, (void)thread;
    if (!v)
        return;
    (void)(*ti)->SetThreadLocalStorage(ti, NULL, NULL); /* it was set: it can be cleared */
    leave(v);
    for (size_t i = 0; i < DVT_JVM_VIRTUAL_MAX; i++)
        free(v->entries[i].labels);
    free(v);
}

static void find_event(const jvmtiExtensionEventInfo *e)
{
    if (strstr(e->id, "VirtualThreadMount"))
        mount_event = e->extension_event_index;
    else if (strstr(e->id, "VirtualThreadUnmount"))
        unmount_event = e->extension_event_index;
}

static void free_event(jvmtiEnv *ti, jvmtiExtensionEventInfo *e)
{
    for (jint k = 0; k < e->param_count; k++)
        (*ti)->Deallocate(ti, (unsigned char *)e->params[k].name);
    (*ti)->Deallocate(ti, (unsigned char *)e->params);
    (*ti)->Deallocate(ti, (unsigned char *)e->id);
    (*ti)->Deallocate(ti, (unsigned char *)e->short_description);
}

static bool find_events(jvmtiEnv *ti)
{
    jint n;
    jvmtiExtensionEventInfo *events;
    if ((*ti)->GetExtensionEvents(ti, &n, &events) != JVMTI_ERROR_NONE)
        return false;
    for (jint i = 0; i < n; i++) {
        find_event(&events[i]);
        free_event(ti, &events[i]);
    }
    (*ti)->Deallocate(ti, (unsigned char *)events);
    return mount_event >= 0 && unmount_event >= 0;
}

static bool prepare(jvmtiEnv *ti)
{
    jvmtiCapabilities wanted = {0};
    void (*callbacks[EVENT_VIRTUAL_THREAD_END - EVENT_FIRST + 1])(void) = {NULL};
    ((unsigned char *)&wanted)[CAN_SUPPORT_VIRTUAL_THREADS / 8] |= 1 << (CAN_SUPPORT_VIRTUAL_THREADS % 8);
    callbacks[EVENT_VIRTUAL_THREAD_END - EVENT_FIRST] = (void (*)(void))on_end;
    return find_events(ti) && (*ti)->AddCapabilities(ti, &wanted) == JVMTI_ERROR_NONE &&
           (*ti)->SetEventCallbacks(ti, (jvmtiEventCallbacks *)(void *)callbacks, sizeof callbacks) == JVMTI_ERROR_NONE &&
           (*ti)->SetExtensionEventCallback(ti, mount_event, on_mount) == JVMTI_ERROR_NONE &&
           (*ti)->SetExtensionEventCallback(ti, unmount_event, on_unmount) == JVMTI_ERROR_NONE;
}

void dvt_jvm_virtual_init(JavaVM *vm)
{
    enum { JVMTI_21 = 0x30150000 };
    if (jvmti || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_21) != JNI_OK || prepare(jvmti))
        return;
    (*jvmti)->DisposeEnvironment(jvmti);
    jvmti = NULL;
}

static bool set_events(jvmtiEventMode mode)
{
    const jint events[] = {mount_event, unmount_event, EVENT_VIRTUAL_THREAD_END};
    bool good = true;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        good &= (*jvmti)->SetEventNotificationMode(jvmti, mode, (jvmtiEvent)events[i], NULL) == JVMTI_ERROR_NONE;
    return good;
}

void dvt_jvm_virtual_start(void)
{
    if (jvmti && atomic_load_explicit(&was_on, memory_order_relaxed) && set_events(JVMTI_ENABLE))
        atomic_store_explicit(&is_on, true, memory_order_relaxed);
}

void dvt_jvm_virtual_stop(void)
{
    if (!jvmti || !atomic_exchange_explicit(&is_on, false, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&lives, 1, memory_order_acq_rel); /* before the first thread can move unseen */
    (void)set_events(JVMTI_DISABLE);
}

/* ---- natives ---- */

static bool turn_on(void)
{
    atomic_store_explicit(&was_on, true, memory_order_relaxed);
    return atomic_load_explicit(&is_on, memory_order_relaxed) ||
           (set_events(JVMTI_ENABLE) && !atomic_exchange_explicit(&is_on, true, memory_order_relaxed)) ||
           atomic_load_explicit(&is_on, memory_order_relaxed);
}

static struct dvt_jvm_virtual *of(jlong virtual)
{
    return (struct dvt_jvm_virtual *)(uintptr_t)virtual;
}

NATIVE(jlong, new0)(JNIEnv *env, jclass self);
NATIVE(jlong, new0)(JNIEnv *env, jclass self)
{
    (void)env, (void)self;
    struct dvt_jvm_virtual *v = jvmti && turn_on() ? calloc(1, sizeof *v) : NULL;
    if (v && (*jvmti)->SetThreadLocalStorage(jvmti, NULL, v) != JVMTI_ERROR_NONE) {
        free(v);
        v = NULL;
    }
    if (v)
        arrive(v);
    return (jlong)(uintptr_t)v;
}

NATIVE(jlong, lives0)(JNIEnv *env, jclass self);
NATIVE(jlong, lives0)(JNIEnv *env, jclass self)
{
    (void)env, (void)self;
    return (jlong)(uintptr_t)&lives;
}

static struct entry *push(struct dvt_jvm_virtual *v)
{
    struct entry *e = &v->entries[v->n];
    if (v->life != life_now())
        arrive(v);
    free(e->labels);
    *e = (struct entry){.labels = NULL};
    return e;
}

NATIVE(void, open0)(JNIEnv *env, jclass self, jlong virtual, jlong trace0, jlong trace1, jlong span, jlong parent, jint flags,
                    jlong name);
NATIVE(void, open0)(JNIEnv *env, jclass self, jlong virtual, jlong trace0, jlong trace1, jlong span, jlong parent, jint flags,
                    jlong name)
{
    struct dvt_jvm_virtual *v = of(virtual);
    struct entry *e = push(v);
    (void)env, (void)self;
    dvt_jvm_open_args(trace0, trace1, span, parent, flags, name, &e->open);
    e->is_known = true;
    v->serial[v->n++] = dvt_rt_open(&e->open).serial;
}

/* The ids that core gave a scope. */
static bool copy_ids(struct entry *e, const struct dvt_slot *s, uint64_t serial)
{
    for (uint32_t i = atomic_load_explicit(&s->depth, memory_order_relaxed); serial && i-- > 0;)
        if (s->frames[i].serial == serial) {
            const struct dvt_frame *f = &s->frames[i];
            e->open = (struct dvt_rt_open){f->trace, f->span, f->parent_span, f->flags & ~(uint32_t)DVT_F_INTERNAL, f->name};
            return true;
        }
    return false;
}

NATIVE(void, openOwn0)(JNIEnv *env, jclass self, jlong virtual, jlong name, jbyteArray traceparent);
NATIVE(void, openOwn0)(JNIEnv *env, jclass self, jlong virtual, jlong name, jbyteArray traceparent)
{
    struct dvt_jvm_virtual *v = of(virtual);
    struct entry *e = push(v);
    uint64_t serial = dvt_jvm_open_own(env, name, traceparent);
    (void)self;
    e->is_known = copy_ids(e, v->slot, serial);
    v->serial[v->n++] = serial;
}

NATIVE(void, remove0)(JNIEnv *env, jclass self, jlong virtual, jint i);
NATIVE(void, remove0)(JNIEnv *env, jclass self, jlong virtual, jint i)
{
    struct dvt_jvm_virtual *v = of(virtual);
    size_t rest = (size_t)(--v->n - (uint64_t)i);
    (void)env, (void)self;
    free(v->entries[i].labels);
    memmove(&v->serial[i], &v->serial[i + 1], rest * sizeof v->serial[0]);
    memmove(&v->entries[i], &v->entries[i + 1], rest * sizeof v->entries[0]);
    v->entries[v->n].labels = NULL; /* moved */
}

NATIVE(void, labels0)(JNIEnv *env, jclass self, jlong virtual, jint i, jobjectArray labels);
NATIVE(void, labels0)(JNIEnv *env, jclass self, jlong virtual, jint i, jobjectArray labels)
{
    struct entry *e = &of(virtual)->entries[i];
    (void)self;
    free(e->labels);
    e->labels = dvt_jvm_labels_copy(env, labels);
}
