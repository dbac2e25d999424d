/*
 * fake: a libdovetail that does nothing but write down what it was asked, so that a test can assert the exact
 * sequence of scopes. It has the real one's SONAME: found first (LD_LIBRARY_PATH), it is what the shim gets.
 *
 * The log's lines (fake_log):  open TID SERIAL TRACE SPAN PARENT FLAGS NAME
 *                              close TID SERIAL kept|dropped NAME
 *                              commit TID SERIAL NAME k=v,...
 * tid is a small number, by order of appearance. A scope is kept if fake_keep(1) is on or it has the ALWAYS
 * flag. It keeps each thread's stack of open scopes and counts closes that are not of the top, as core would
 * refuse them.
 */
#include "../../../shims/core/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_OPEN = 4096 };

struct dvt_name {
    char text[DVT_MAX_NAME + 1];
};

struct open_scope {
    uint64_t serial;
    struct dvt_trace_id trace;
    struct dvt_span_id span;
    uint32_t flags;
};

struct thread {
    int tid;
    uint64_t serial;
    size_t n;
    struct open_scope open[MAX_OPEN];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dvt_name names[DVT_MAX_NAMES];
static size_t n_names;
static char *text;
static size_t text_n, text_cap;
static int n_threads, n_misuse;
static _Atomic int n_started;
static bool active = true, keep, logging = true;
static const struct dvt_runtime *runtime;
static __thread struct thread *tl;

/* ---- for tests ---- */

DVT_API void fake_active(int on)
{
    active = on;
}

DVT_API void fake_keep(int on)
{
    keep = on;
}

DVT_API void fake_logging(int on)
{
    logging = on;
}

DVT_API int fake_misuse(void)
{
    return n_misuse;
}

DVT_API int fake_thread_starts(void)
{
    return n_started;
}

/* The log since the last call; good until the next. */
DVT_API const char *fake_take(void)
{
    static char *taken;
    pthread_mutex_lock(&lock);
    free(taken);
    taken = text ? text : calloc(1, 1);
    text = NULL;
    text_n = text_cap = 0;
    pthread_mutex_unlock(&lock);
    return taken;
}

DVT_API int fake_open_scopes(void)
{
    return tl ? (int)tl->n : 0;
}

/* ---- the walker under a storm of signals ---- */

enum { MAX_PAIRS = 1 << 16, MAX_REASONS = 16 };

static _Atomic uint64_t pairs[MAX_PAIRS]; /* (caller id << 32 | callee id) as it was seen in a stack */
static _Atomic uint64_t walks[MAX_REASONS]; /* by reason; 0: good */
static _Atomic uint64_t walk_frames;
static atomic_bool storm_on;
static pthread_t storm_thread;
static int storm_gap_us;

static void add_pair(uint64_t pair)
{
    for (uint64_t k = 0; k < MAX_PAIRS; k++) {
        _Atomic uint64_t *p = &pairs[((pair * 0x9E3779B97F4A7C15u >> 48) + k) & (MAX_PAIRS - 1)];
        uint64_t none = 0;
        if (atomic_load(p) == pair || atomic_compare_exchange_strong(p, &none, pair) || none == pair)
            return;
    }
}

static void on_urg(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    int saved = errno;
    bool truncated;
    struct dvt_rt_frame frames[DVT_MAX_FRAMES];
    int n = runtime->walk(context, frames, DVT_MAX_FRAMES, &truncated);
    atomic_fetch_add(&walks[n < 0 ? -n : 0], 1);
    for (int i = 0; !truncated && i + 1 < n; i++)
        add_pair(frames[i + 1].key << 32 | frames[i].key);
    atomic_fetch_add(&walk_frames, n > 0 ? (uint64_t)n : 0);
    errno = saved;
}

/* Signals every thread of the process, round and round. */
static void *storm(void *unused)
{
    pid_t pid = getpid(), self = (pid_t)syscall(SYS_gettid);
    while (atomic_load(&storm_on)) {
        DIR *d = opendir("/proc/self/task");
        for (struct dirent *e; d && (e = readdir(d));) {
            pid_t tid = (pid_t)atoi(e->d_name);
            if (tid > 0 && tid != self)
                syscall(SYS_tgkill, pid, tid, SIGURG);
        }
        if (d)
            closedir(d);
        usleep((useconds_t)storm_gap_us);
    }
    return unused;
}

DVT_API int fake_storm_start(int gap_us)
{
    struct sigaction sa = {.sa_sigaction = on_urg, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (!runtime || !runtime->walk || sigaction(SIGURG, &sa, NULL))
        return -1;
    storm_gap_us = gap_us;
    atomic_store(&storm_on, true);
    return pthread_create(&storm_thread, NULL, storm, NULL);
}

DVT_API void fake_storm_stop(void)
{
    atomic_store(&storm_on, false);
    pthread_join(storm_thread, NULL);
}

DVT_API uint64_t fake_walks(int reason)
{
    return atomic_load(&walks[reason]);
}

DVT_API uint64_t fake_walk_frames(void)
{
    return atomic_load(&walk_frames);
}

/* The i-th pair of functions seen calling each other, as ids announced to dvt_rt_code; false at the end. */
DVT_API bool fake_pair(size_t i, uint32_t *ret_caller, uint32_t *ret_callee)
{
    if (i >= MAX_PAIRS)
        return false;
    uint64_t p = atomic_load(&pairs[i]);
    struct dvt_rt_frame f[2] = {{.key = p >> 32}, {.key = p & UINT32_MAX}};
    uint32_t code[2] = {0}, line[2];
    if (p)
        runtime->resolve(f, 2, code, line);
    *ret_caller = code[0];
    *ret_callee = code[1];
    return true;
}

/* ---- the API ---- */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    char line[2048];
    va_list ap;
    if (!logging)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    size_t len = n < (int)sizeof line ? (size_t)n : sizeof line - 1;
    pthread_mutex_lock(&lock);
    if (text_n + len + 1 > text_cap) {
        size_t cap = (text_n + len + 1) * 2;
        char *grown = realloc(text, cap);
        if (!grown)
            abort();
        text = grown;
        text_cap = cap;
    }
    memcpy(text + text_n, line, len + 1);
    text_n += len;
    pthread_mutex_unlock(&lock);
}

static struct thread *me(void)
{
    if (!tl) {
        tl = calloc(1, sizeof *tl);
        if (!tl)
            abort();
        tl->tid = __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED);
    }
    return tl;
}

DVT_API int dvt_rt_start(const struct dvt_options *options, const struct dvt_runtime *rt)
{
    (void)options;
    runtime = rt;
    const char *env = getenv("DOVETAIL");
    return env && strcmp(env, "off") == 0 ? -1 : 0;
}

DVT_API void dvt_stop(int timeout_ms)
{
    (void)timeout_ms;
    if (getenv("FAKE_PRINT_STOP")) {
        static const char said[] = "dvt_stop called\n";
        if (write(2, said, sizeof said - 1) < 0)
            abort();
    }
}

DVT_API const char *dvt_last_error(void)
{
    const char *env = getenv("DOVETAIL");
    return env && strcmp(env, "off") == 0 ? "switched off by DOVETAIL=off" : NULL;
}

DVT_API bool dvt_rt_active(void)
{
    return active;
}

DVT_API void dvt_thread_start(void)
{
    n_started++;
}

DVT_API const struct dvt_name *dvt_name(const char *name)
{
    const struct dvt_name *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_names && !found; i++)
        if (strcmp(names[i].text, name) == 0)
            found = &names[i];
    if (!found && n_names < DVT_MAX_NAMES) {
        snprintf(names[n_names].text, sizeof names[0].text, "%s", name);
        found = &names[n_names++];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

DVT_API struct dvt_scope dvt_rt_open(const struct dvt_rt_open *a)
{
    struct thread *t = me();
    char trace[DVT_TRACE_HEX + 1], span[DVT_SPAN_HEX + 1], parent[DVT_SPAN_HEX + 1];
    if (t->n == MAX_OPEN)
        abort();
    t->open[t->n++] = (struct open_scope){++t->serial, a->trace, a->span, a->flags};
    if (logging) {
        dvt_trace_id_format(&a->trace, trace);
        dvt_span_id_format(&a->span, span);
        dvt_span_id_format(&a->parent_span, parent);
        say("open %d %" PRIu64 " %s %s %s %u %s\n", t->tid, t->serial, trace, span, parent, a->flags,
            a->name ? a->name->text : "(none)");
    }
    return (struct dvt_scope){t, t->serial};
}

DVT_API bool dvt_rt_close(struct dvt_scope scope, const struct dvt_name *name)
{
    struct thread *t = me();
    bool is_top = scope.thread == t && t->n > 0 && t->open[t->n - 1].serial == scope.serial;
    if (!is_top) {
        n_misuse++;
        say("misuse %d %" PRIu64 "\n", t->tid, scope.serial);
        return false;
    }
    bool kept = keep || t->open[t->n - 1].flags & DVT_SCOPE_ALWAYS;
    t->n--;
    say("close %d %" PRIu64 " %s %s\n", t->tid, scope.serial, kept ? "kept" : "dropped", name ? name->text : "(other)");
    return kept;
}

DVT_API void dvt_rt_commit(struct dvt_scope scope, const struct dvt_rt_late *late)
{
    char labels[1024] = "";
    size_t n = 0;
    for (size_t i = 0; i < late->n_labels && n < sizeof labels - 64; i++)
        n += (size_t)snprintf(labels + n, sizeof labels - n, "%s%.*s=%.*s", i ? "," : "", (int)late->labels[i].key.n,
                              late->labels[i].key.p, (int)late->labels[i].value.n, late->labels[i].value.p);
    say("commit %d %" PRIu64 " %.*s %s links=%zu\n", me()->tid, scope.serial, (int)late->name.n, late->name.p, labels,
        late->n_links);
}

DVT_API bool dvt_rt_current(struct dvt_trace_id *ret_trace, struct dvt_span_id *ret_span)
{
    struct thread *t = me();
    if (t->n == 0)
        return false;
    *ret_trace = t->open[t->n - 1].trace;
    *ret_span = t->open[t->n - 1].span;
    return true;
}

DVT_API void dvt_rt_code(uint32_t id, struct dvt_str name, struct dvt_str file, uint32_t first_line)
{
    say("code %u %.*s %.*s %u\n", id, (int)name.n, name.p, (int)file.n, file.p, first_line);
}

DVT_API void dvt_rt_drain_stacks(void)
{
    say("drain\n");
}

DVT_API struct dvt_scope dvt_scope_open(const struct dvt_scope_args *args)
{
    (void)args;
    return (struct dvt_scope){NULL, 0};
}
