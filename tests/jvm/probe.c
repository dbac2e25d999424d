/*
 * probe: a JVMTI agent for the tests of the walker: each thread that starts is walked from a signal by its own CPU time, and at
 * the JVM's end it prints, for each thread name, how many walks reached the thread's entry and why others did not:
 *
 *     walk NAME total=N full=N truncated=N none=N window=N fault=N gone=N rootless=N mean_us=N
 *
 * rootless: full by its own account, but not ending where a Java thread begins. Options: interval in us. With
 * PROBE_FOREIGN set, another's fault handler comes before the guard's.
 * Class Probe's native method `here` gives the walk of its own caller as "name file:line" strings.
 */
#include <jvmti.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../../shims/jvm/names.h"
#include "../../shims/jvm/stacks.h"
#include "../../shims/jvm/walker.h"

enum { MAX_THREADS = 4096, MAX_SHOWN = 40, DEFAULT_US = 1000 };

struct counts {
    char name[64];
    _Atomic uint64_t total, by[16], truncated, rootless, ns;
};

static struct dvt_runtime runtime;
static struct counts threads[MAX_THREADS];
static _Atomic uint32_t n_threads;
static __thread struct counts *mine __attribute__((tls_model("initial-exec")));
static __thread timer_t timer;
static long interval_us = DEFAULT_US;
static const char *why;
static _Atomic uint32_t n_shown;
static struct lost {
    uintptr_t pc, words[6];
    int reason;
    const char *thread;
} shown[MAX_SHOWN];

/* The last walk of `here`, which one thread at a time may ask for. */
static struct dvt_rt_frame here[DVT_MAX_FRAMES];
static int n_here;

static bool is_root(uint32_t id)
{
    static const char *const roots[] = {"java.lang.Thread.run", "java.lang.Thread.exit", "java.lang.VirtualThread.run",
                                        "jdk.internal.vm.Continuation.enter", "jdk.internal.vm.Continuation.enterSpecial"};
    struct dvt_jvm_code c = dvt_jvm_names_get(id);
    char name[DVT_MAX_FRAME_NAME];
    size_t n = dvt_jvm_full_name(c.class_name, c.method, name, sizeof name);
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (n == strlen(roots[i]) && memcmp(name, roots[i], n) == 0)
            return true;
    return false;
}

static void show(const struct counts *c, const ucontext_t *uc, int reason)
{
    uint32_t i = atomic_fetch_add(&n_shown, 1);
    if (i >= MAX_SHOWN)
        return;
    shown[i].pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    shown[i].reason = reason;
    shown[i].thread = c->name;
    memcpy(shown[i].words, (void *)uc->uc_mcontext.gregs[REG_RSP], sizeof shown[i].words);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void on_sample(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    struct dvt_rt_frame frames[DVT_MAX_FRAMES];
    bool truncated;
    struct counts *c = mine;
    if (!c)
        return;
    uint64_t begin_ns = cpu_ns();
    int n = runtime.walk(context, frames, DVT_MAX_FRAMES, &truncated);
    atomic_fetch_add(&c->ns, cpu_ns() - begin_ns);
    atomic_fetch_add(&c->total, 1);
    atomic_fetch_add(&c->by[n < 0 ? -n & 15 : 0], 1);
    c->truncated += n > 0 && truncated;
    bool rootless = n >= 0 && !truncated && (n == 0 || !is_root((uint32_t)frames[n - 1].key));
    c->rootless += rootless;
    if (n < 0 || rootless)
        show(c, context, n < 0 ? -n : 0);
}

static void on_here(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    bool truncated;
    n_here = runtime.walk(context, here, DVT_MAX_FRAMES, &truncated);
}

static void begin_thread(jvmtiEnv *ti, jthread t)
{
    jvmtiThreadInfo info;
    uint32_t i = atomic_fetch_add(&n_threads, 1);
    if (i >= MAX_THREADS || (*ti)->GetThreadInfo(ti, t, &info) != JVMTI_ERROR_NONE)
        return;
    strncpy(threads[i].name, info.name ? info.name : "", sizeof threads[i].name - 1);
    mine = &threads[i];
    struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    how._sigev_un._tid = gettid();
    struct itimerspec every = {{0, interval_us * 1000}, {0, interval_us * 1000}};
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &how, &timer) == 0)
        timer_settime(timer, 0, &every, NULL);
}

static void JNICALL thread_start(jvmtiEnv *ti, JNIEnv *env, jthread t)
{
    (void)env;
    if (runtime.walk)
        begin_thread(ti, t);
}

static void JNICALL thread_end(jvmtiEnv *ti, JNIEnv *env, jthread t)
{
    (void)ti;
    (void)env;
    (void)t;
    if (mine)
        timer_delete(timer);
    mine = NULL;
}

static JavaVM *jvm;
static struct sigaction before_foreign;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    before_foreign.sa_sigaction(sig, info, context);
}

static void JNICALL vm_init(jvmtiEnv *ti, JNIEnv *env, jthread t)
{
    struct sigaction on = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigaction(SIGPROF, &on, NULL);
    on.sa_sigaction = on_here;
    sigaction(SIGUSR2, &on, NULL);
    if (dvt_jvm_stacks_init(jvm, env, &runtime, &why))
        fprintf(stderr, "probe: no walker: %s\n", why);
    on.sa_sigaction = on_fault;
    on.sa_flags |= SA_NODEFER;
    if (getenv("PROBE_FOREIGN"))
        sigaction(SIGSEGV, &on, &before_foreign);
    (void)ti;
    (void)t;
}

static void print_lost(const struct lost *l)
{
    Dl_info d = {0};
    dladdr((void *)l->pc, &d);
    fprintf(stderr, "lost %s reason=%d pc=%#lx %s+%#lx %s+%#lx", l->thread, l->reason, l->pc, d.dli_fname ? d.dli_fname : "", d.dli_fname ? l->pc - (uintptr_t)d.dli_fbase : 0,
            d.dli_sname ? d.dli_sname : "", d.dli_saddr ? l->pc - (uintptr_t)d.dli_saddr : 0);
    struct dvt_jvm_vm vm;
    struct dvt_jvm_blob b;
    if (!dvt_jvm_vm_read(&vm) && dvt_jvm_blob_find(&vm, l->pc, &b))
        fprintf(stderr, " blob %#lx +%ld frame %ld complete %ld", b.at, l->pc - b.code, b.frame_bytes, b.frame_complete);
    uint8_t code[8] = {0};
    if (!dvt_jvm_vm_read(&vm) && dvt_jvm_is_code(&vm, l->pc))
        memcpy(code, (void *)l->pc, sizeof code);
    fprintf(stderr, " code");
    for (int i = 0; i < 8; i++)
        fprintf(stderr, " %02x", code[i]);
    for (int i = 0; i < 6; i++)
        fprintf(stderr, " %#lx", l->words[i]);
    fprintf(stderr, "\n");
}

static void JNICALL vm_death(jvmtiEnv *ti, JNIEnv *env)
{
    (void)ti;
    (void)env;
    dvt_jvm_stacks_stop();
    for (uint32_t i = 0; i < n_threads && i < MAX_THREADS; i++) {
        struct counts *c = &threads[i];
        if (c->total)
            printf("walk %s total=%lu full=%lu truncated=%lu none=%lu window=%lu fault=%lu gone=%lu rootless=%lu mean_us=%.1f\n", c->name,
                   c->total, c->by[0], c->truncated, c->by[DVT_STACK_NO_THREAD_STATE], c->by[DVT_STACK_WINDOW],
                   c->by[DVT_STACK_FAULT], c->by[DVT_STACK_CODE_GONE], c->rootless,
                   (double)c->ns / (double)c->total / 1000);
    }
    fflush(stdout);
    for (uint32_t i = 0; getenv("PROBE_LOST") && i < n_shown && i < MAX_SHOWN; i++)
        print_lost(&shown[i]);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
    (void)reserved;
    jvm = vm;
    jvmtiEnv *ti;
    jvmtiEventCallbacks to = {.VMInit = vm_init, .VMDeath = vm_death, .ThreadStart = thread_start, .ThreadEnd = thread_end};
    static const jvmtiEvent on[] = {JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH, JVMTI_EVENT_THREAD_START,
                                    JVMTI_EVENT_THREAD_END};
    if (options && atol(options) > 0)
        interval_us = atol(options);
    if ((*vm)->GetEnv(vm, (void **)&ti, JVMTI_VERSION_11) != JNI_OK)
        return -1;
    (*ti)->SetEventCallbacks(ti, &to, sizeof to);
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        (*ti)->SetEventNotificationMode(ti, JVMTI_ENABLE, on[i], NULL);
    return 0;
}

/* ---- Probe.here ---- */

static size_t text_of(const struct dvt_rt_frame *f, char *out, size_t cap)
{
    uint32_t code, line;
    struct dvt_rt_frame copy = *f;
    dvt_jvm_names_resolve(&copy, 1, &code, &line);
    struct dvt_jvm_code c = dvt_jvm_names_get(code);
    char name[DVT_MAX_FRAME_NAME];
    size_t n = dvt_jvm_full_name(c.class_name, c.method, name, sizeof name);
    return (size_t)snprintf(out, cap, "%.*s %.*s:%u", (int)n, name, (int)c.file.n, c.file.p, line);
}

/* Bytes, since names are UTF-8 and not what NewStringUTF takes. */
JNIEXPORT jbyteArray JNICALL Java_Probe_here(JNIEnv *env, jclass class)
{
    (void)class;
    static char text[1 << 16];
    size_t n = 0;
    raise(SIGUSR2);
    for (int i = 0; i < n_here && n < sizeof text - DVT_MAX_FRAME_NAME * 2; i++) {
        n += text_of(&here[i], text + n, sizeof text - n);
        text[n++] = '\n';
    }
    if (n_here < 0)
        n = (size_t)snprintf(text, sizeof text, "reason %d", -n_here);
    jbyteArray a = (*env)->NewByteArray(env, (jsize)n);
    if (a)
        (*env)->SetByteArrayRegion(env, a, 0, (jsize)n, (const jbyte *)text);
    return a;
}
