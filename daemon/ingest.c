/*
 * ingest: see ingest.h. A message's bytes stay in ZeroMQ's buffer until the pipeline has read them: no copy.
 */
#include "ingest.h"
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { RECEIVE_HWM = 512, BATCH = 128, CLOSING_POLL_MS = 50, MAX_ENVELOPE = DVT_MAX_MESSAGE };

struct ingest {
    struct ingest_config c;
    void *zmq;
    void *pull; /* own thread, once started */
    int poke_fd;
    _Atomic bool stop;
    pthread_t thread;
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A shim reports its clock at the end of each flush; the flush of the whole daemon waits for that. */
static void note_heartbeat(struct sessions *s, uint64_t session, struct dvt_str body)
{
    uint32_t type;
    struct dvt_str map;
    struct dvt_shim_counts counts;
    uint64_t shim_now_ns;
    if (dvt_wire_type(body, &type, &map, NULL) || (type != DVT_MSG_HEARTBEAT && type != DVT_MSG_BYE))
        return;
    if (dvt_wire_get_counts(map, &counts, &shim_now_ns, NULL) == 0)
        sessions_heard(s, session, shim_now_ns, type == DVT_MSG_BYE);
}

/* Takes the envelope off. False: refused and counted. */
static bool open_frame(struct sessions *s, struct ingest_frame *f, struct dvt_envelope *ret_env)
{
    struct dvt_err err = {0};
    f->proc = NULL;
    f->code = f->n > MAX_ENVELOPE ? DVT_ELIMIT : dvt_wire_open(f->p, f->n, ret_env, &err);
    if (f->code == DVT_EVERSION) {
        edge_count(sessions_unknown(s)->messages_version, 1);
        log_event(LOG_LEVEL_WARN, "MESSAGE-VERSION", "%s", err.text);
    } else if (f->code) {
        edge_count(sessions_unknown(s)->messages_bad, 1);
        log_event(LOG_LEVEL_WARN, "MESSAGE-BAD", "bytes=%zu %s", f->n, err.text);
    }
    return f->code == 0;
}

static void take_answer(struct sessions *s, struct ingest_frame *f, const struct dvt_envelope *env,
                        const struct session_answer *answer)
{
    f->code = answer->code;
    f->proc = answer->proc;
    f->body = env->body;
    if (f->code)
        log_event(LOG_LEVEL_WARN, "MESSAGE-FORGED", "session=%016llx seq=%llu",
                  (unsigned long long)env->session, (unsigned long long)env->seq);
    else
        note_heartbeat(s, env->session, env->body);
}

void ingest_check(struct sessions *s, struct ingest_frame *f, size_t n, uint64_t now_ns)
{
    struct dvt_envelope env[INGEST_AT_ONCE] = {0};
    struct ingest_frame *of[INGEST_AT_ONCE];
    struct session_answer answers[INGEST_AT_ONCE];
    size_t n_open = 0;
    for (size_t i = 0; i < n; i++) {
        of[n_open] = &f[i];
        n_open += open_frame(s, &f[i], &env[n_open]);
    }
    sessions_check(s, env, n_open, now_ns, answers);
    for (size_t i = 0; i < n_open; i++)
        take_answer(s, of[i], &env[i], &answers[i]);
}

static void release_message(void *owner)
{
    zmq_msg_close(owner); /* fails only for what is no message */
    free(owner);
}

/* Takes msg, whose frame is good. */
static void hand_over(struct ingest *i, zmq_msg_t *msg, const struct ingest_frame *frame)
{
    struct feed *f = feed_new(FEED_MESSAGE);
    if (f) {
        f->thread.process = frame->proc->index;
        f->body = frame->body.p;
        f->n_body = frame->body.n;
        f->owner = msg;
        f->release = release_message;
    } else {
        release_message(msg);
    }
    if (!f || !queue_push(i->c.out, f, sizeof *f + frame->n)) {
        edge_count(frame->proc->edge.messages_lost, 1);
        log_event(LOG_LEVEL_WARN, "MESSAGE-LOST", "pid=%u reason=queue-full", frame->proc->host_pid);
        if (f)
            feed_free(f);
    }
    process_unref(frame->proc);
}

/* NULL: nothing more to read now. */
static zmq_msg_t *receive_one(struct ingest *i)
{
    zmq_msg_t *msg = malloc(sizeof *msg);
    if (!msg)
        return NULL;
    zmq_msg_init(msg); /* always 0 */
    if (zmq_msg_recv(msg, i->pull, ZMQ_DONTWAIT) >= 0)
        return msg;
    release_message(msg);
    return NULL;
}

/* False: nothing more to read now. */
static bool receive_some(struct ingest *i)
{
    zmq_msg_t *msgs[INGEST_AT_ONCE];
    struct ingest_frame frames[INGEST_AT_ONCE];
    size_t n = 0;
    for (; n < INGEST_AT_ONCE && (msgs[n] = receive_one(i)); n++)
        frames[n] = (struct ingest_frame){.p = zmq_msg_data(msgs[n]), .n = zmq_msg_size(msgs[n])};
    ingest_check(i->c.sessions, frames, n, monotonic_ns());
    for (size_t k = 0; k < n; k++) {
        if (frames[k].code)
            release_message(msgs[k]);
        else
            hand_over(i, msgs[k], &frames[k]);
    }
    return n == INGEST_AT_ONCE;
}

static void announce_ended(struct ingest *i)
{
    uint32_t process;
    while (sessions_take_ended(i->c.sessions, monotonic_ns(), &process)) {
        struct feed *f = feed_new(FEED_PROCESS_DOWN);
        if (!f)
            return;
        f->thread.process = process;
        if (!queue_push_must(i->c.out, f, sizeof *f))
            feed_free(f);
    }
}

static void *ingest_main(void *arg)
{
    struct ingest *i = arg;
    zmq_pollitem_t items[] = {{.socket = i->pull, .events = ZMQ_POLLIN},
                              {.fd = i->poke_fd, .events = ZMQ_POLLIN}};
    bool stop = false;
    while (!stop) {
        long timeout_ms = sessions_any_closing(i->c.sessions) ? CLOSING_POLL_MS : -1;
        zmq_poll(items, 2, timeout_ms); /* EINTR: look and poll again */
        stop = atomic_load_explicit(&i->stop, memory_order_acquire);
        uint64_t pokes;
        if (items[1].revents && read(i->poke_fd, &pokes, sizeof pokes) < 0)
            pokes = 0;
        for (int k = 0; (stop || k < BATCH) && receive_some(i); k += INGEST_AT_ONCE)
            ;
        announce_ended(i);
    }
    return NULL;
}

static void ingest_free(struct ingest *i)
{
    if (i->pull)
        zmq_close(i->pull);
    if (i->zmq)
        zmq_ctx_term(i->zmq);
    if (i->poke_fd >= 0)
        close(i->poke_fd);
    free(i);
}

static int bind_pull(struct ingest *i, struct dvt_err *err)
{
    int hwm = RECEIVE_HWM, linger = 0;
    int64_t max_bytes = MAX_ENVELOPE;
    i->zmq = zmq_ctx_new();
    i->pull = i->zmq ? zmq_socket(i->zmq, ZMQ_PULL) : NULL;
    if (!i->pull || zmq_setsockopt(i->pull, ZMQ_RCVHWM, &hwm, sizeof hwm) ||
        zmq_setsockopt(i->pull, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_setsockopt(i->pull, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes))
        return dvt_fail(err, DVT_EIO, errno, "cannot make the message socket: %s", zmq_strerror(errno));
    if (zmq_bind(i->pull, i->c.endpoint))
        return dvt_fail(err, DVT_EIO, errno, "cannot bind %s: %s", i->c.endpoint, zmq_strerror(errno));
    return 0;
}

int ingest_start(const struct ingest_config *c, struct ingest **ret, struct dvt_err *err)
{
    struct ingest *i = calloc(1, sizeof *i);
    if (!i)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the message socket");
    i->c = *c;
    i->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = i->poke_fd < 0 ? dvt_fail(err, DVT_EIO, errno, "eventfd: %s", strerror(errno)) : 0;
    if (r == 0)
        r = bind_pull(i, err);
    if (r == 0) {
        int e = pthread_create(&i->thread, NULL, ingest_main, i);
        if (e)
            r = dvt_fail(err, DVT_EIO, e, "cannot start the ingest thread: %s", strerror(e));
    }
    if (r)
        ingest_free(i);
    else
        *ret = i;
    return r;
}

void ingest_poke(struct ingest *i)
{
    uint64_t one = 1;
    if (write(i->poke_fd, &one, sizeof one) < 0)
        return; /* EAGAIN: poked often enough */
}

void ingest_stop(struct ingest *i)
{
    if (!i)
        return;
    atomic_store_explicit(&i->stop, true, memory_order_release);
    ingest_poke(i);
    pthread_join(i->thread, NULL);
    ingest_free(i);
}
