/*
 * daemon: see daemon.h. Everything is made in the order in which it is used and unmade in reverse; a failed
 * start takes the same way out.
 */
#include "daemon.h"
#include "control.h"
#include "driver.h"
#include "listener.h"
#include "log.h"
#include "urgent.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { QUEUE_BYTES = 64 << 20, WRITER_QUEUE_BYTES = 256 << 20, STOP_TIMEOUT_MS = 2000 };

struct daemon {
    const struct config *config;
    struct perf_source *source;
    struct store *store;
    struct board *board;
    struct sessions *sessions;
    struct writer *writer;
    struct driver *driver;
    struct ingest *ingest;
    struct loop *loop;
    struct sampler *sampler;
    struct control *control;
    struct loop_source *signal_source, *exit_source;
    struct edge_counts counts; /* the writer's */
    int listen_fd, signal_fd, exit_fd;
    bool driver_runs, stop, stop_now;
    char data_path[CONFIG_PATH + 8], endpoint[CONFIG_PATH + 16];
    char store_note[240];
    const char *notes[2];
};

/* ---- reasons to stop ---- */

static void begin_stop(struct daemon *d, const char *why)
{
    d->stop_now = d->stop; /* a second signal: do not wait for anybody */
    d->stop = true;
    log_event(LOG_LEVEL_INFO, "STOPPING", "reason=%s", why);
    daemon_notify("STOPPING=1");
    control_begin_stop(d->control, STOP_TIMEOUT_MS);
}

static void on_signal(void *ctx, uint32_t events)
{
    struct daemon *d = ctx;
    struct signalfd_siginfo info;
    (void)events;
    if (read(d->signal_fd, &info, sizeof info) == sizeof info)
        begin_stop(d, info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
}

static void on_exit_with(void *ctx, uint32_t events)
{
    struct daemon *d = ctx;
    (void)events;
    loop_remove(d->loop, d->exit_source);
    d->exit_source = NULL;
    begin_stop(d, "exit-with");
}

static int watch_signals(struct daemon *d, struct dvt_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* inherited by all threads; valid arguments: cannot fail */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (d->signal_fd < 0)
        return dvt_fail(err, DVT_EIO, errno, "signalfd: %s", strerror(errno));
    return loop_add(d->loop, d->signal_fd, EPOLLIN, on_signal, d, &d->signal_source, err);
}

static int watch_process(struct daemon *d, struct dvt_err *err)
{
    uint32_t pid = d->config->exit_with;
    if (pid == 0)
        return 0;
    d->exit_fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (d->exit_fd < 0)
        return dvt_fail(err, DVT_EIO, errno, "exit-with: cannot watch process %u: %s", pid, strerror(errno));
    return loop_add(d->loop, d->exit_fd, EPOLLIN, on_exit_with, d, &d->exit_source, err);
}

/* ---- start ---- */

/* A thread takes two descriptors here for a while, one for long. */
static void raise_file_limit(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur == lim.rlim_max)
        return;
    lim.rlim_cur = lim.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &lim))
        log_event(LOG_LEVEL_WARN, "NOFILE", "cannot raise the limit of open files: %s", strerror(errno));
}

static int open_source(struct daemon *d, struct dvt_err *err)
{
    const struct config *c = d->config;
    struct perf_source_config sc = {
        .event = c->event, .hz = c->hz, .native = c->native, .stack_bytes = c->stack_bytes};
    int r = perf_source_new(&sc, &d->source, err);
    if (r)
        return r;
    const struct perf_source_info *info = perf_source_info(d->source);
    if (info->why[0])
        log_event(LOG_LEVEL_WARN, "EVENT", "%s", info->why);
    return 0;
}

static int open_store(struct daemon *d, struct dvt_err *err)
{
    struct store_config sc = {.dir = d->config->store,
                              .budget_bytes = d->config->budget_bytes,
                              .segment_bytes = 64 << 20,
                              .slow_keep_permille = 50};
    int r = store_open(&sc, &d->store, d->store_note, err);
    if (r == 0 && d->store_note[0])
        log_event(LOG_LEVEL_WARN, "STORE-RECOVERED", "%s", d->store_note);
    return r;
}

static int start_writer(struct daemon *d, struct dvt_err *err)
{
    const struct perf_source_info *info = perf_source_info(d->source);
    struct writer_config wc = {.store = d->store,
                               .board = d->board,
                               .counts = &d->counts,
                               .event = info->used,
                               .period_ns = info->is_time ? info->period : 0,
                               .queue_bytes = WRITER_QUEUE_BYTES};
    return writer_start(&wc, &d->writer, err);
}

static int start_driver(struct daemon *d, struct dvt_err *err)
{
    const struct perf_source_info *info = perf_source_info(d->source);
    struct driver_config dc = {
        .queue_bytes = QUEUE_BYTES, .board = d->board, .writer = d->writer, .counts = &d->counts};
    pipeline_config_default(&dc.pipeline);
    dc.pipeline.period_ns = info->is_time ? info->period : 0;
    int r = driver_new(&dc, &d->driver, err);
    if (r == 0)
        r = driver_start(d->driver, err);
    d->driver_runs = r == 0;
    return r;
}

static int start_ingest(struct daemon *d, struct dvt_err *err)
{
    struct ingest_config ic = {
        .endpoint = d->endpoint, .sessions = d->sessions, .out = driver_ingest_queue(d->driver)};
    int r = ingest_start(&ic, &d->ingest, err);
    return r ? r : listener_protect(d->data_path, d->config->socket_group, err);
}

static int start_sampler(struct daemon *d, struct dvt_err *err)
{
    struct sampler_config sc = {.source = d->source,
                                .native = d->config->native,
                                .stack_bytes = d->config->stack_bytes,
                                .max_threads = d->config->max_threads,
                                .wall = d->config->wall,
                                .loop = d->loop,
                                .out = driver_sampler_queue(d->driver)};
    return sampler_new(&sc, &d->sampler, err);
}

static int start_control(struct daemon *d, struct dvt_err *err)
{
    d->notes[0] = perf_source_info(d->source)->why;
    d->notes[1] = d->store_note;
    struct control_config cc = {.listen_fd = d->listen_fd,
                                .endpoint = d->endpoint,
                                .config = d->config,
                                .source = d->source,
                                .loop = d->loop,
                                .sessions = d->sessions,
                                .sampler = d->sampler,
                                .ingest = d->ingest,
                                .board = d->board,
                                .out = driver_sampler_queue(d->driver),
                                .notes = d->notes,
                                .n_notes = 2};
    return control_new(&cc, &d->control, err);
}

static int start(struct daemon *d, struct dvt_err *err)
{
    snprintf(d->data_path, sizeof d->data_path, "%s.data", d->config->socket);
    snprintf(d->endpoint, sizeof d->endpoint, "ipc://%s", d->data_path);
    raise_file_limit();
    int r = open_source(d, err);
    if (r == 0)
        r = listener_open(d->config->socket, d->config->socket_group, &d->listen_fd, err);
    if (r == 0)
        r = open_store(d, err);
    if (r == 0)
        r = loop_new(&d->loop, err);
    if (r == 0)
        r = watch_signals(d, err); /* before the first thread */
    if (r == 0)
        r = watch_process(d, err);
    if (r == 0)
        r = board_new(&d->board, err);
    if (r == 0 && !(d->sessions = sessions_new()))
        r = dvt_fail(err, DVT_ENOMEM, 0, "no memory for sessions");
    if (r == 0)
        r = start_writer(d, err);
    if (r == 0)
        r = start_driver(d, err);
    if (r == 0)
        r = start_ingest(d, err);
    if (r == 0)
        r = start_sampler(d, err);
    return r ? r : start_control(d, err);
}

/* ---- stop ---- */

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Producers first, so that each consumer sees all there is. */
static void stop(struct daemon *d)
{
    control_free(d->control);
    sampler_free(d->sampler);
    ingest_stop(d->ingest);
    if (d->driver_runs)
        driver_stop(d->driver);
    writer_stop(d->writer);
    driver_free(d->driver);
    sessions_free(d->sessions);
    board_free(d->board);
    if (d->loop) {
        loop_remove(d->loop, d->signal_source);
        loop_remove(d->loop, d->exit_source);
    }
    loop_free(d->loop);
    close_fd(d->signal_fd);
    close_fd(d->exit_fd);
    if (d->store)
        store_close(d->store);
    if (d->listen_fd >= 0) {
        unlink(d->config->socket); /* ours: it may be gone already */
        unlink(d->data_path);
        close(d->listen_fd);
    }
    perf_source_free(d->source);
}

static int run(struct daemon *d, struct dvt_err *err)
{
    const struct perf_source_info *info = perf_source_info(d->source);
    log_event(LOG_LEVEL_INFO, "READY", "version=%s socket=%s store=%s event=%s hz=%u%s", DOVETAIL_VERSION,
              d->config->socket, d->config->store, info->used, info->hz, info->opens ? "" : " samples=no");
    daemon_notify("READY=1");
    int r = 0;
    bool first = urgent_begin();
    log_event(LOG_LEVEL_DEBUG, "URGENT", "sampler at %s priority", first ? "real-time" : "normal");
    while (r == 0 && !d->stop_now && !(d->stop && control_is_flushed(d->control)))
        r = loop_turn(d->loop, -1, err);
    urgent_end();
    return r;
}

int daemon_run(const struct config *config, struct dvt_err *err)
{
    struct daemon *d = calloc(1, sizeof *d);
    if (!d)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the daemon");
    d->config = config;
    d->listen_fd = d->signal_fd = d->exit_fd = -1;
    int r = start(d, err);
    if (r == 0)
        r = run(d, err);
    stop(d);
    free(d);
    if (r == 0)
        log_event(LOG_LEVEL_INFO, "STOPPED", "clean");
    return r;
}

void daemon_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n == 0 || n >= sizeof a.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(a.sun_path, path, n);
    if (a.sun_path[0] == '@')
        a.sun_path[0] = 0; /* an abstract socket */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&a, len) < 0)
        log_event(LOG_LEVEL_DEBUG, "NOTIFY", "%s", strerror(errno));
    close(fd);
}
