/*
 * fake_daemon: the daemon's half of the protocol on a thread of the test, so that tests decide when a sample falls: it answers
 * ARM with a memfd laid out like a perf ring (data_head at offset 1024), and the test moves data_head. It keeps what the
 * shim sends for the test to look at.
 *
 * Everything is under one lock; fake_wait waits for a condition, for a minute at most (a hang is a failure).
 */
#ifndef FAKE_DAEMON_H
#define FAKE_DAEMON_H

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "../../proto/wire.h"

enum fake_arm { FAKE_MEMFD, FAKE_PERF, FAKE_REFUSE, FAKE_HOLD /* answers when fake_release is called */ };

struct fake_scope {
    uint64_t session, serial, parent_serial, start_ns, end_ns, head_open, head_close, settled_head;
    uint32_t tid, epoch, flags, n_links;
    struct dvt_trace_id trace, link;
    struct dvt_span_id span, parent_span;
    char name[DVT_MAX_NAME + 1];
    char labels[512]; /* "k=v;" for each */
};
struct fake_stack {
    uint64_t head;
    uint32_t tid, epoch, n_frames, reason, truncated, code[8], line[8];
    size_t scopes_before; /* scopes received before it */
};
struct fake_thread {
    uint64_t session, uncovered_ns;
    uint32_t tid, epoch;
    bool ended;
    char name[32];
};
struct fake_dropped {
    char name[DVT_MAX_NAME + 1];
    uint64_t count;
};
struct fake_armed {
    uint32_t tid, epoch;
    int conn, fd;
    void *map;
};

enum { FAKE_CONNS = 16, FAKE_MAP_BYTES = 2 * 4096, FAKE_PERF_BYTES = 9 * 4096 };

struct fake {
    /* Set before fake_start. */
    char path[108];
    enum fake_arm arm;
    uint64_t period_ns;
    bool use_signal, refuse_hello, discard; /* discard: scopes are not looked at */
    uint32_t flush_ms;
    uint64_t first_head; /* data_head of a memfd ring when it is handed out */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int listen_fd, stop_pipe[2];
    int conns[FAKE_CONNS];
    uint32_t pids[FAKE_CONNS];
    uint32_t n_hellos;
    void *ctx, *pull;
    char endpoint[128];

    struct fake_scope *scopes;
    struct fake_stack *stacks;
    struct fake_thread *threads;
    struct fake_dropped *dropped;
    struct fake_armed *armed;
    struct dvt_code_info *codes;
    size_t n_scopes, n_stacks, n_threads, n_dropped, n_armed, n_codes, n_disarmed, n_batches;
    uint64_t settled_head; /* the last one told */
    struct dvt_shim_counts counts;
    size_t n_heartbeats, n_byes, n_bad;
};

#define FAKE_PUSH(array, n) \
    (((n) & ((n) - 1)) == 0 ? (array) = fake_grow(array, sizeof *(array), (n)) : (array), &(array)[(n)++])

static inline void *fake_grow(void *p, size_t item, size_t n)
{
    p = realloc(p, item * (n ? 2 * n : 1));
    if (!p)
        abort();
    return p;
}

#if defined(__SANITIZE_THREAD__)
/* libzmq is not instrumented: ThreadSanitizer does not see what it does between its threads. disarm_live puts other memory
 * under readers of a ring, which is its purpose. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\nrace:libzmq.so\nrace:disarm_live\n";
}
#endif

static inline uint32_t my_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* ---- rings ---- */

static inline long fake_perf_open(uint32_t tid, uint64_t period_ns)
{
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = period_ns,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .exclude_kernel = 1,
        .wakeup_events = 1,
    };
    return syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static inline int fake_make_ring(struct fake *f, uint32_t tid, size_t *ret_bytes, void **ret_map)
{
    bool perf = f->arm == FAKE_PERF;
    int fd = perf ? (int)fake_perf_open(tid, f->period_ns) : memfd_create("ring", MFD_CLOEXEC);
    *ret_bytes = perf ? FAKE_PERF_BYTES : FAKE_MAP_BYTES;
    if (fd < 0 || (!perf && ftruncate(fd, FAKE_MAP_BYTES) != 0))
        return -1;
    *ret_map = mmap(NULL, *ret_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ret_map == MAP_FAILED)
        return -1;
    if (!perf)
        atomic_store((_Atomic uint64_t *)((char *)*ret_map + 1024), f->first_head);
    return fd;
}

static inline void fake_send(int conn, const struct dvt_buf *b, int fd)
{
    _Alignas(struct cmsghdr) char ctl[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {b->p, b->n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = ctl;
        m.msg_controllen = sizeof ctl;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    (void)sendmsg(conn, &m, MSG_NOSIGNAL); /* the shim may have gone */
}

static inline void fake_answer(struct fake *f, struct fake_armed *a)
{
    size_t bytes = 0;
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    struct dvt_armed m = {.tid = a->tid, .epoch = a->epoch};
    if (f->arm != FAKE_REFUSE)
        a->fd = fake_make_ring(f, a->tid, &bytes, &a->map);
    m.code = a->fd < 0 ? DVT_EPERM : 0;
    m.text = dvt_str(a->fd < 0 ? "not allowed here" : "");
    m.map_bytes = (uint32_t)bytes;
    m.first_period_ns = f->period_ns;
    if (dvt_wire_put_armed(&b, &m) != 0)
        abort();
    fake_send(a->conn, &b, a->fd);
    dvt_buf_fini(&b);
}

/* ---- control socket ---- */

static inline void fake_greet(struct fake *f, int i, struct dvt_str map)
{
    struct dvt_hello h;
    struct dvt_err err;
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    if (dvt_wire_get_hello(map, &h, &err) != 0)
        abort();
    f->pids[i] = h.pid;
    f->n_hellos++;
    if (f->refuse_hello) {
        struct dvt_refuse r = {DVT_EVERSION, dvt_str("this daemon speaks version 9")};
        if (dvt_wire_put_refuse(&b, &r) != 0)
            abort();
    } else {
        struct dvt_welcome w = {
            .major = DVT_WIRE_MAJOR,
            .session = 100 + f->n_hellos,
            .endpoint = dvt_str(f->endpoint),
            .period_ns = f->period_ns,
            .jitter_permille = 200,
            .flush_ms = f->flush_ms,
            .use_signal = f->use_signal,
        };
        memset(w.key, 7, sizeof w.key);
        if (dvt_wire_put_welcome(&b, &w) != 0)
            abort();
    }
    fake_send(f->conns[i], &b, -1);
    dvt_buf_fini(&b);
}

static inline void fake_control_packet(struct fake *f, int i, struct dvt_str packet)
{
    uint32_t type;
    struct dvt_str map;
    struct dvt_arm m;
    if (dvt_wire_type(packet, &type, &map, NULL) != 0) {
        f->n_bad++;
    } else if (type == DVT_MSG_HELLO) {
        fake_greet(f, i, map);
    } else if (type == DVT_MSG_ARM && dvt_wire_get_arm(map, &m, NULL) == 0) {
        struct fake_armed *a = FAKE_PUSH(f->armed, f->n_armed);
        *a = (struct fake_armed){m.tid, m.epoch, f->conns[i], -1, NULL};
        if (f->arm != FAKE_HOLD)
            fake_answer(f, a);
    } else if (type == DVT_MSG_DISARM) {
        f->n_disarmed++;
    }
}

static inline void fake_control(struct fake *f, int i)
{
    static char p[DVT_MAX_CONTROL];
    ssize_t n = recv(f->conns[i], p, sizeof p, MSG_DONTWAIT);
    if (n > 0) {
        fake_control_packet(f, i, (struct dvt_str){p, (size_t)n});
    } else if (n == 0 || errno != EAGAIN) {
        close(f->conns[i]);
        f->conns[i] = -1;
    }
}

/* ---- messages ---- */

static inline void fake_take_scopes(struct fake *f, uint64_t session, struct dvt_str map)
{
    struct dvt_scopes s;
    if (dvt_wire_get_scopes(map, &s, NULL) != 0) {
        f->n_bad++;
        return;
    }
    uint64_t *col[10];
    const struct dvt_col *in[] = {&s.end,   &s.dur,  &s.head_close, &s.head_span, &s.serial, &s.parent_back,
                                  &s.trace, &s.name, &s.labelset,   &s.flags};
    for (int k = 0; k < 10; k++) {
        col[k] = calloc(s.n + 1, sizeof *col[k]);
        dvt_col_expand_u64(in[k], col[k]);
    }
    struct dvt_span_id *spans = calloc(s.n + 1, sizeof *spans), *parents = calloc(s.n + 1, sizeof *parents);
    uint32_t *work = calloc(s.n + 1, sizeof *work);
    struct dvt_str *names = calloc(s.n_names + 1, sizeof *names);
    struct dvt_label *labels = calloc((size_t)s.n_labelsets * DVT_MAX_LABELS + 1, sizeof *labels);
    uint32_t *label_first = calloc(s.n_labelsets + 2, sizeof *label_first);
    if (dvt_wire_parents(&s, col[4], work, spans, parents, col[5]) != 0 || dvt_wire_names(&s, names) != 0 ||
        dvt_wire_labelsets(&s, labels, (size_t)s.n_labelsets * DVT_MAX_LABELS + 1, label_first) != 0)
        f->n_bad++;
    size_t base = f->n_scopes;
    for (uint32_t i = 0; i < s.n; i++) {
        struct fake_scope *o = FAKE_PUSH(f->scopes, f->n_scopes);
        *o = (struct fake_scope){
            .session = session,
            .serial = col[4][i],
            .parent_serial = col[5][i],
            .start_ns = col[0][i] - col[1][i],
            .end_ns = col[0][i],
            .head_open = col[2][i] - col[3][i],
            .head_close = col[2][i],
            .settled_head = s.settled_head,
            .tid = s.tid,
            .epoch = s.epoch,
            .flags = (uint32_t)col[9][i],
        };
        memcpy(o->trace.b, s.traces + 16 * col[6][i], 16);
        o->span = spans[i];
        o->parent_span = parents[i];
        snprintf(o->name, sizeof o->name, "%.*s", (int)names[col[7][i]].n, names[col[7][i]].p);
        size_t at = 0;
        for (uint32_t l = label_first[col[8][i]]; l < label_first[col[8][i] + 1] && at < sizeof o->labels; l++)
            at += (size_t)snprintf(o->labels + at, sizeof o->labels - at, "%.*s=%.*s;", (int)labels[l].key.n,
                                   labels[l].key.p, (int)labels[l].value.n, labels[l].value.p);
    }
    size_t pos = 0;
    uint32_t scope, n_ids;
    const uint8_t *ids;
    while (dvt_wire_next_links(&s, &pos, &scope, &ids, &n_ids) == 1) {
        f->scopes[base + scope].n_links = n_ids;
        memcpy(f->scopes[base + scope].link.b, ids, 16);
    }
    f->settled_head = s.settled_head;
    f->n_batches++;
    for (int k = 0; k < 10; k++)
        free(col[k]);
    free(spans);
    free(parents);
    free(work);
    free(names);
    free(labels);
    free(label_first);
}

static inline void fake_take_stacks(struct fake *f, struct dvt_str map)
{
    struct dvt_stacks s;
    if (dvt_wire_get_stacks(map, &s, NULL) != 0) {
        f->n_bad++;
        return;
    }
    uint64_t *head = calloc(s.n + 1, 8);
    uint32_t *depth = calloc(s.n + 1, 4), *reason = calloc(s.n + 1, 4), *cut = calloc(s.n + 1, 4);
    uint32_t *code = calloc(s.n_frames_total + 1, 4), *line = calloc(s.n_frames_total + 1, 4);
    dvt_col_expand_u64(&s.head, head);
    dvt_col_expand_u32(&s.depth, depth);
    dvt_col_expand_u32(&s.reason, reason);
    dvt_col_expand_u32(&s.truncated, cut);
    dvt_col_expand_u32(&s.code, code);
    dvt_col_expand_u32(&s.line, line);
    for (uint32_t i = 0, at = 0; i < s.n; at += depth[i++]) {
        struct fake_stack *o = FAKE_PUSH(f->stacks, f->n_stacks);
        *o = (struct fake_stack){.head = head[i], .tid = s.tid, .epoch = s.epoch, .n_frames = depth[i], .reason = reason[i]};
        o->truncated = cut[i];
        o->scopes_before = f->n_scopes;
        for (uint32_t k = 0; k < depth[i] && k < 8; k++) {
            o->code[k] = code[at + k];
            o->line[k] = line[at + k];
        }
    }
    free(head), free(depth), free(reason), free(cut), free(code), free(line);
}

static inline void fake_take_lists(struct fake *f, uint64_t session, uint32_t type, struct dvt_str map)
{
    size_t pos = 0;
    struct dvt_thread_info t;
    struct dvt_dropped d;
    struct dvt_code_info c;
    while (type == DVT_MSG_THREADS && dvt_wire_next_thread(map, &pos, &t, NULL) == 1) {
        struct fake_thread *o = FAKE_PUSH(f->threads, f->n_threads);
        *o = (struct fake_thread){session, t.uncovered_ns, t.tid, t.epoch, t.ended, ""};
        snprintf(o->name, sizeof o->name, "%.*s", (int)t.name.n, t.name.p);
    }
    while (type == DVT_MSG_DROPPED && dvt_wire_next_dropped(map, &pos, &d, NULL) == 1) {
        struct fake_dropped *o = FAKE_PUSH(f->dropped, f->n_dropped);
        snprintf(o->name, sizeof o->name, "%.*s", (int)d.name.n, d.name.p);
        o->count = d.count;
    }
    while (type == DVT_MSG_CODE && dvt_wire_next_code(map, &pos, &c, NULL) == 1)
        *FAKE_PUSH(f->codes, f->n_codes) = (struct dvt_code_info){.id = c.id, .first_line = c.first_line};
}

static inline void fake_message(struct fake *f, const void *p, size_t n)
{
    struct dvt_envelope e;
    uint8_t key[DVT_KEY_BYTES];
    uint32_t type;
    struct dvt_str map;
    uint64_t now;
    memset(key, 7, sizeof key);
    if (dvt_wire_open(p, n, &e, NULL) != 0 || dvt_wire_verify(&e, key) != 0 || dvt_wire_type(e.body, &type, &map, NULL) != 0) {
        f->n_bad++;
        return;
    }
    if (type == DVT_MSG_SCOPES && !f->discard)
        fake_take_scopes(f, e.session, map);
    else if (type == DVT_MSG_STACKS)
        fake_take_stacks(f, map);
    else if (type == DVT_MSG_HEARTBEAT || type == DVT_MSG_BYE)
        f->n_bad += dvt_wire_get_counts(map, &f->counts, &now, NULL) != 0;
    else
        fake_take_lists(f, e.session, type, map);
    f->n_heartbeats += type == DVT_MSG_HEARTBEAT;
    f->n_byes += type == DVT_MSG_BYE;
}

/* ---- the thread ---- */

static inline void fake_accept(struct fake *f)
{
    int c = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < FAKE_CONNS && c >= 0; i++)
        if (f->conns[i] < 0) {
            f->conns[i] = c;
            return;
        }
    if (c >= 0)
        close(c);
}

/* A few at a time: threads whose arming waits for an answer send all their scopes, so that no end of them may come before it. */
static inline void fake_pull(struct fake *f)
{
    static uint8_t p[DVT_MAX_MESSAGE];
    for (int n, k = 0; k < 64 && (n = zmq_recv(f->pull, p, sizeof p, ZMQ_DONTWAIT)) >= 0; k++)
        fake_message(f, p, (size_t)n);
}

static inline void *fake_run(void *arg)
{
    struct fake *f = arg;
    for (;;) {
        zmq_pollitem_t items[FAKE_CONNS + 3] = {
            {NULL, f->stop_pipe[0], ZMQ_POLLIN, 0}, {NULL, f->listen_fd, ZMQ_POLLIN, 0}, {f->pull, 0, ZMQ_POLLIN, 0}};
        int n = 3, which[FAKE_CONNS + 3];
        for (int i = 0; i < FAKE_CONNS; i++)
            if (f->conns[i] >= 0) {
                which[n] = i;
                items[n++] = (zmq_pollitem_t){NULL, f->conns[i], ZMQ_POLLIN, 0};
            }
        if (zmq_poll(items, n, -1) < 0)
            continue;
        if (items[0].revents)
            return NULL;
        pthread_mutex_lock(&f->lock);
        if (items[1].revents)
            fake_accept(f);
        for (int k = 3; k < n; k++)
            if (items[k].revents)
                fake_control(f, which[k]);
        if (items[2].revents)
            fake_pull(f);
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        sched_yield(); /* the waiting test gets its turn at the lock */
    }
}

static inline void fake_start(struct fake *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", f->path);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->period_ns = f->period_ns ? f->period_ns : 10000000;
    f->flush_ms = f->flush_ms ? f->flush_ms : 20;
    for (int i = 0; i < FAKE_CONNS; i++)
        f->conns[i] = -1;
    snprintf(f->endpoint, sizeof f->endpoint, "ipc://%.100s.zmq", f->path);
    unlink(f->path);
    f->ctx = zmq_ctx_new();
    f->pull = zmq_socket(f->ctx, ZMQ_PULL);
    f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (zmq_bind(f->pull, f->endpoint) != 0 || bind(f->listen_fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        listen(f->listen_fd, 64) != 0 || pipe(f->stop_pipe) != 0 || pthread_create(&f->thread, NULL, fake_run, f) != 0)
        abort();
}

/* As a daemon that dies: everything is closed at once. What was received stays for the test. */
static inline void fake_kill(struct fake *f)
{
    if (write(f->stop_pipe[1], "", 1) != 1)
        abort();
    pthread_join(f->thread, NULL);
    int linger = 0;
    zmq_setsockopt(f->pull, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(f->pull);
    zmq_ctx_term(f->ctx);
    close(f->listen_fd);
    close(f->stop_pipe[0]);
    close(f->stop_pipe[1]);
    for (int i = 0; i < FAKE_CONNS; i++)
        if (f->conns[i] >= 0)
            close(f->conns[i]);
    for (size_t i = 0; i < f->n_armed; i++) {
        if (f->armed[i].map)
            munmap(f->armed[i].map, f->arm == FAKE_PERF ? FAKE_PERF_BYTES : FAKE_MAP_BYTES);
        if (f->armed[i].fd >= 0)
            close(f->armed[i].fd);
        f->armed[i].map = NULL;
        f->armed[i].fd = -1;
    }
    unlink(f->path);
}

static inline void fake_free(struct fake *f)
{
    free(f->scopes), free(f->stacks), free(f->threads), free(f->dropped), free(f->armed), free(f->codes);
    *f = (struct fake){0};
}

/* ---- for tests ---- */

/* Waits until COND holds (evaluated under the lock); false after a minute. */
#define fake_wait(f, COND)                                                                                             \
    __extension__({                                                                                                    \
        struct timespec fake_until;                                                                                    \
        clock_gettime(CLOCK_REALTIME, &fake_until);                                                                    \
        fake_until.tv_sec += 60;                                                                                       \
        pthread_mutex_lock(&(f)->lock);                                                                                \
        int fake_rc = 0;                                                                                               \
        while (!(COND) && fake_rc == 0)                                                                                \
            fake_rc = pthread_cond_timedwait(&(f)->changed, &(f)->lock, &fake_until);                                   \
        bool fake_holds = (COND);                                                                                      \
        pthread_mutex_unlock(&(f)->lock);                                                                              \
        fake_holds;                                                                                                    \
    })

static inline struct dvt_shim_counts fake_counts(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    struct dvt_shim_counts c = f->counts;
    pthread_mutex_unlock(&f->lock);
    return c;
}

static inline bool fake_knows(const struct fake *f, uint32_t tid, bool ended)
{
    for (size_t i = 0; i < f->n_threads; i++)
        if (f->threads[i].tid == tid && f->threads[i].ended == ended)
            return true;
    return false;
}

static inline _Atomic uint64_t *fake_head(struct fake *f, uint32_t tid)
{
    for (size_t i = f->n_armed; i-- > 0;)
        if (f->armed[i].tid == tid && f->armed[i].map)
            return (_Atomic uint64_t *)((char *)f->armed[i].map + 1024);
    return NULL;
}

/* A sample of thread tid: its ring's head moves by one record. */
static inline void fake_sample(struct fake *f, uint32_t tid)
{
    pthread_mutex_lock(&f->lock);
    _Atomic uint64_t *head = fake_head(f, tid);
    if (!head)
        abort();
    atomic_fetch_add_explicit(head, 64, memory_order_release);
    pthread_mutex_unlock(&f->lock);
}

static inline void fake_release(struct fake *f, enum fake_arm how)
{
    pthread_mutex_lock(&f->lock);
    f->arm = how;
    for (size_t i = 0; i < f->n_armed; i++)
        if (f->armed[i].fd < 0)
            fake_answer(f, &f->armed[i]);
    pthread_mutex_unlock(&f->lock);
}

static inline const struct fake_scope *fake_find(const struct fake *f, const char *name)
{
    for (size_t i = 0; i < f->n_scopes; i++)
        if (strcmp(f->scopes[i].name, name) == 0 && !(f->scopes[i].flags & DVT_SCOPE_OPEN))
            return &f->scopes[i];
    return NULL;
}

static inline size_t fake_count(const struct fake *f, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_scopes; i++)
        n += strcmp(f->scopes[i].name, name) == 0 && !(f->scopes[i].flags & DVT_SCOPE_OPEN);
    return n;
}

static inline uint64_t fake_dropped(const struct fake *f, const char *name)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->n_dropped; i++)
        if (strcmp(f->dropped[i].name, name) == 0)
            n += f->dropped[i].count;
    return n;
}

#endif
