/*
 * control: see control.h. Handshake first, then a switch over packet types for each role.
 */
#include "control.h"
#include "conn.h"
#include "feed.h"
#include "flush.h"
#include "handshake.h"
#include "log.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_CONNS = 2048,
    PACKETS_A_TURN = 32,
    STATUS_PART = 60000,
    STATUS_MAX = 16 << 20,
    FLUSH_POLL_MS = 10,
    FLUSH_TIMEOUT_MS = 1000,
};

struct control {
    struct control_config c;
    struct loop_source *listen_source, *board_source;
    struct loop_timer *timer; /* runs while a flush is under way or a HELLO is due */
    struct conn *conns;
    uint32_t n_conns;
    struct flush flush;
    uint64_t stop_flush; /* generation that ends us; 0: none */
    uint64_t report_generation;
    uint64_t start_ns;
    uint8_t packet[DVT_MAX_CONTROL];
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_timer(struct control *ctl)
{
    bool hello_due = false;
    for (const struct conn *c = ctl->conns; c; c = c->next)
        hello_due = hello_due || c->role == 0;
    bool flushing = ctl->flush.stage != FLUSH_IDLE || ctl->flush.wanted > ctl->flush.generation;
    loop_timer_set(ctl->timer, flushing ? FLUSH_POLL_MS : hello_due ? CONN_HELLO_MS : 0);
}

static void drop_conn(struct control *ctl, struct conn *c)
{
    if (c->proc) {
        log_event(LOG_LEVEL_INFO, "SESSION-DOWN", "pid=%u service=%s", c->proc->host_pid, c->proc->service);
        sampler_drop_process(ctl->c.sampler, c->proc);
        sessions_close(ctl->c.sessions, c->session, monotonic_ns());
        ingest_poke(ctl->c.ingest);
    }
    conn_free(c);
    ctl->n_conns--;
}

/* Sends, or hangs up. False: c is gone. */
static bool send_or_drop(struct control *ctl, struct conn *c, const struct dvt_buf *b, int fd)
{
    if (conn_send(c, b, fd) && !(c->hang_up && !conn_is_waiting(c)))
        return true;
    drop_conn(ctl, c);
    return false;
}

static bool refuse(struct control *ctl, struct conn *c, const struct dvt_err *err)
{
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    log_event(LOG_LEVEL_WARN, "PEER-REFUSED", "pid=%d uid=%u %s", (int)c->pid, c->uid, err->text);
    c->hang_up = true;
    dvt_wire_put_refuse(&b, &(struct dvt_refuse){.code = err->code, .text = dvt_str(err->text)});
    bool stays = send_or_drop(ctl, c, &b, -1);
    dvt_buf_fini(&b);
    return stays;
}

/* A packet that makes no sense. False: c is gone. */
static bool count_bad(struct control *ctl, struct conn *c, const char *what)
{
    struct edge_counts *counts = c->proc ? &c->proc->edge : sessions_unknown(ctl->c.sessions);
    edge_count(counts->messages_bad, 1);
    log_event(LOG_LEVEL_WARN, "PACKET-BAD", "pid=%d %s", (int)c->pid, what);
    if (++c->n_bad < CONN_MAX_BAD)
        return true;
    struct dvt_err err = {.code = DVT_EFORMAT};
    dvt_fail(&err, DVT_EFORMAT, 0, "too many packets that make no sense");
    return refuse(ctl, c, &err);
}

/* ---- shims ---- */

static bool on_hello(struct control *ctl, struct conn *c, struct dvt_str map)
{
    struct handshake h = {.sessions = ctl->c.sessions,
                          .out = ctl->c.out,
                          .endpoint = ctl->c.endpoint,
                          .source = perf_source_info(ctl->c.source)};
    struct dvt_err err = {0};
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    int r = handshake_answer(&h, c, map, &b, &err);
    bool stays = r ? refuse(ctl, c, &err) : send_or_drop(ctl, c, &b, -1);
    dvt_buf_fini(&b);
    return stays;
}

static bool on_arm(struct control *ctl, struct conn *c, struct dvt_str map)
{
    struct dvt_arm arm;
    struct dvt_err err = {0};
    uint32_t host_tid = 0;
    struct sampler_thread t = {.fd = -1};
    int r = dvt_wire_get_arm(map, &arm, &err);
    if (r)
        return count_bad(ctl, c, err.text);
    r = peer_host_tid(&c->peer, arm.tid, &host_tid, &err);
    if (r == 0)
        r = sampler_arm(ctl->c.sampler, c->proc, arm.tid, arm.epoch, host_tid, &t, &err);
    if (r) {
        edge_count(c->proc->edge.threads_failed, 1);
        log_event(r == DVT_ENOENT ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "ARM-FAILED", "pid=%u tid=%u %s",
                  c->proc->host_pid, arm.tid, err.text);
    }
    struct dvt_armed m = {.tid = arm.tid,
                          .epoch = arm.epoch,
                          .code = r,
                          .text = dvt_str(err.text),
                          .map_bytes = t.map_bytes,
                          .first_period_ns = t.first_period_ns};
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    dvt_wire_put_armed(&b, &m);
    bool stays = send_or_drop(ctl, c, &b, t.fd);
    dvt_buf_fini(&b);
    return stays;
}

static bool on_disarm(struct control *ctl, struct conn *c, struct dvt_str map)
{
    struct dvt_arm arm;
    struct dvt_err err = {0};
    if (dvt_wire_get_arm(map, &arm, &err))
        return count_bad(ctl, c, err.text);
    sampler_disarm(ctl->c.sampler, c->proc, arm.tid, arm.epoch);
    return true;
}

/* ---- status ---- */

static bool send_status_parts(struct control *ctl, struct conn *c, const struct dvt_buf *json)
{
    struct dvt_buf b;
    bool stays = true;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    for (size_t at = 0; stays && at < json->n; at += STATUS_PART) {
        size_t n = json->n - at < STATUS_PART ? json->n - at : STATUS_PART;
        struct dvt_status part = {.last = at + n == json->n, .json = {(const char *)json->p + at, n}};
        b.n = 0;
        dvt_wire_put_status(&b, &part);
        stays = send_or_drop(ctl, c, &b, -1);
    }
    dvt_buf_fini(&b);
    return stays;
}

/* The armed threads of each process of the report; NULL without memory (then they show as 0). */
static uint32_t *count_threads(const struct control *ctl, const struct report *r)
{
    uint32_t *n = r ? calloc(r->n + 1u, sizeof *n) : NULL;
    for (uint32_t i = 0; n && i < r->n; i++)
        n[i] = sampler_n_threads(ctl->c.sampler, r->v[i].proc);
    return n;
}

/* What the store's chunks take on disk now; 0 if that cannot be read. */
static uint64_t segment_bytes(const char *store)
{
    char path[CONFIG_PATH + 16];
    uint64_t sum = 0;
    struct stat st;
    const struct dirent *e;
    snprintf(path, sizeof path, "%s/segments", store);
    DIR *dir = opendir(path);
    while (dir && (e = readdir(dir)) != NULL) {
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return sum;
}

static uint32_t count_shims(const struct control *ctl)
{
    uint32_t n = 0;
    for (const struct conn *c = ctl->conns; c; c = c->next)
        n += c->proc != NULL;
    return n;
}

static void send_status(struct control *ctl, struct conn *c)
{
    struct report *report = board_get_report(ctl->c.board);
    struct board_writer writer;
    struct ledger edge = {0};
    const char *notes[9];
    uint32_t n_notes = 0, *n_threads = count_threads(ctl, report);
    board_get_writer(ctl->c.board, &writer);
    edge_counts_add(sessions_unknown(ctl->c.sessions), &edge);
    for (uint32_t i = 0; i < ctl->c.n_notes && n_notes < 8; i++)
        notes[n_notes++] = ctl->c.notes[i];
    notes[n_notes++] = sampler_note(ctl->c.sampler);
    struct status_in in = {.config = ctl->c.config,
                           .source = perf_source_info(ctl->c.source),
                           .report = report,
                           .writer = &writer,
                           .n_threads = n_threads,
                           .edge = &edge,
                           .pid = (uint32_t)getpid(),
                           .n_sessions = count_shims(ctl),
                           .store_bytes = segment_bytes(ctl->c.config->store),
                           .uptime_ns = monotonic_ns() - ctl->start_ns,
                           .endpoint = ctl->c.endpoint,
                           .notes = notes,
                           .n_notes = n_notes};
    struct dvt_buf json;
    dvt_buf_init(&json, STATUS_MAX);
    c->wants_report = 0;
    if (status_json(&in, &json) == 0)
        send_status_parts(ctl, c, &json);
    else
        drop_conn(ctl, c);
    dvt_buf_fini(&json);
    free(n_threads);
    report_free(report);
}

static void ask(struct control *ctl, enum feed_type type, uint64_t generation)
{
    struct feed *f = feed_new(type);
    if (!f)
        return;
    f->generation = generation;
    if (!queue_push_must(ctl->c.out, f, sizeof *f))
        feed_free(f);
}

/* ---- flush ---- */

static void ask_shims(struct control *ctl)
{
    struct dvt_buf b;
    struct conn *next;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    dvt_wire_put_plain(&b, DVT_MSG_FLUSH_REQ);
    for (struct conn *c = ctl->conns; c; c = next) {
        next = c->next;
        if (c->proc)
            send_or_drop(ctl, c, &b, -1);
    }
    dvt_buf_fini(&b);
}

static void answer_flushed(struct control *ctl)
{
    struct dvt_buf b;
    struct conn *next;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    dvt_wire_put_plain(&b, DVT_MSG_FLUSHED);
    for (struct conn *c = ctl->conns; c; c = next) {
        next = c->next;
        if (c->wants_flush == 0 || c->wants_flush > ctl->flush.generation)
            continue;
        c->wants_flush = 0;
        send_or_drop(ctl, c, &b, -1);
    }
    dvt_buf_fini(&b);
}

static void run_flush(struct control *ctl)
{
    for (;;) {
        bool heard = sessions_all_heard(ctl->c.sessions, ctl->flush.since_ns);
        switch (flush_step(&ctl->flush, heard, board_flushed(ctl->c.board), monotonic_ns())) {
        case FLUSH_ASK_SHIMS:
            ask_shims(ctl);
            break;
        case FLUSH_DRAIN:
            sampler_drain_all(ctl->c.sampler);
            ask(ctl, FEED_FLUSH, ctl->flush.generation);
            break;
        case FLUSH_DONE:
            answer_flushed(ctl);
            break;
        case FLUSH_WAIT:
            set_timer(ctl);
            return;
        }
    }
}

static void request_flush(struct control *ctl, struct conn *c)
{
    c->wants_flush = flush_request(&ctl->flush);
    run_flush(ctl);
}

/* ---- packets ---- */

static bool on_shim_packet(struct control *ctl, struct conn *c, uint32_t type, struct dvt_str map)
{
    switch (type) {
    case DVT_MSG_ARM:
        return on_arm(ctl, c, map);
    case DVT_MSG_DISARM:
        return on_disarm(ctl, c, map);
    default:
        return true; /* of a newer minor version */
    }
}

static bool on_cli_packet(struct control *ctl, struct conn *c, uint32_t type)
{
    if (type == DVT_MSG_STATUS_REQ) {
        c->wants_report = ++ctl->report_generation;
        ask(ctl, FEED_REPORT, c->wants_report);
    } else if (type == DVT_MSG_FLUSH_REQ) {
        request_flush(ctl, c);
        return false; /* c may be gone: read on in the next turn */
    }
    return true;
}

/* False: stop reading from c, which may be gone. */
static bool on_packet(struct control *ctl, struct conn *c, size_t n)
{
    uint32_t type;
    struct dvt_str map;
    struct dvt_err err = {0};
    struct dvt_str packet = {(const char *)ctl->packet, n};
    if (dvt_wire_type(packet, &type, &map, &err))
        return count_bad(ctl, c, err.text);
    if (c->role == 0)
        return type == DVT_MSG_HELLO ? on_hello(ctl, c, map) : count_bad(ctl, c, "no HELLO first");
    if (type == DVT_MSG_HELLO)
        return count_bad(ctl, c, "a second HELLO");
    return c->role == DVT_ROLE_SHIM ? on_shim_packet(ctl, c, type, map) : on_cli_packet(ctl, c, type);
}

static void read_conn(struct control *ctl, struct conn *c)
{
    for (int i = 0; i < PACKETS_A_TURN && !conn_is_waiting(c); i++) {
        ssize_t n = conn_receive(c, ctl->packet, sizeof ctl->packet);
        if (n == -EAGAIN)
            return;
        if (n == 0) {
            drop_conn(ctl, c);
            return;
        }
        bool too_long = n == -EMSGSIZE;
        bool stays = too_long ? count_bad(ctl, c, "an over-long packet") : on_packet(ctl, c, (size_t)n);
        if (!stays)
            return;
    }
}

static void on_conn(void *ctx, uint32_t events)
{
    struct conn *c = ctx;
    struct control *ctl = c->owner;
    if (events & EPOLLOUT) {
        if (!conn_resume(c) || (c->hang_up && !conn_is_waiting(c)))
            drop_conn(ctl, c);
    } else if (events & EPOLLIN) {
        read_conn(ctl, c);
    } else {
        drop_conn(ctl, c);
    }
}

static void on_listen(void *ctx, uint32_t events)
{
    struct control *ctl = ctx;
    struct conn *c = NULL;
    struct dvt_err err = {0};
    (void)events;
    int fd = accept4(ctl->c.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return; /* it went away, or there is no descriptor left: the next turn tries again */
    if (conn_new(fd, ctl->c.loop, on_conn, ctl, &ctl->conns, monotonic_ns(), &c, &err)) {
        log_event(LOG_LEVEL_ERROR, "ACCEPT-FAILED", "%s", err.text);
        return;
    }
    if (++ctl->n_conns > MAX_CONNS) {
        dvt_fail(&err, DVT_ELIMIT, 0, "%u connections are open, the most allowed", MAX_CONNS);
        refuse(ctl, c, &err);
        return;
    }
    set_timer(ctl);
}

static void on_board(void *ctx, uint32_t events)
{
    struct control *ctl = ctx;
    struct conn *next;
    (void)events;
    board_clear_news(ctl->c.board);
    uint64_t generation = board_report_generation(ctl->c.board);
    for (struct conn *c = ctl->conns; c; c = next) {
        next = c->next;
        if (c->wants_report && c->wants_report <= generation)
            send_status(ctl, c);
    }
    run_flush(ctl);
}

/* A peer that connects and says nothing is let go. */
static void drop_silent(struct control *ctl)
{
    uint64_t now = monotonic_ns();
    struct conn *next;
    for (struct conn *c = ctl->conns; c; c = next) {
        next = c->next;
        if (c->role == 0 && now - c->since_ns > CONN_HELLO_MS * 1000000ull)
            drop_conn(ctl, c);
    }
}

static void on_timer(void *ctx, uint32_t events)
{
    struct control *ctl = ctx;
    (void)events;
    drop_silent(ctl);
    run_flush(ctl); /* sets the timer anew */
}

int control_new(const struct control_config *cfg, struct control **ret, struct dvt_err *err)
{
    struct control *ctl = calloc(1, sizeof *ctl);
    if (!ctl)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the control socket");
    ctl->c = *cfg;
    ctl->start_ns = monotonic_ns();
    ctl->flush.timeout_ns = FLUSH_TIMEOUT_MS * 1000000ull;
    int r = loop_add(cfg->loop, cfg->listen_fd, EPOLLIN, on_listen, ctl, &ctl->listen_source, err);
    if (r == 0)
        r = loop_add(cfg->loop, board_fd(cfg->board), EPOLLIN, on_board, ctl, &ctl->board_source, err);
    if (r == 0)
        r = loop_timer_new(cfg->loop, on_timer, ctl, &ctl->timer, err);
    if (r)
        control_free(ctl);
    else
        *ret = ctl;
    return r;
}

void control_free(struct control *ctl)
{
    if (!ctl)
        return;
    while (ctl->conns)
        drop_conn(ctl, ctl->conns);
    loop_remove(ctl->c.loop, ctl->listen_source);
    loop_remove(ctl->c.loop, ctl->board_source);
    loop_timer_free(ctl->timer);
    free(ctl);
}

void control_begin_stop(struct control *ctl, uint32_t timeout_ms)
{
    if (ctl->stop_flush)
        return;
    loop_remove(ctl->c.loop, ctl->listen_source);
    ctl->listen_source = NULL;
    ctl->flush.timeout_ns = timeout_ms * 1000000ull;
    ctl->stop_flush = flush_request(&ctl->flush);
    run_flush(ctl);
}

bool control_is_flushed(const struct control *ctl)
{
    return ctl->stop_flush && ctl->flush.stage == FLUSH_IDLE && ctl->flush.generation >= ctl->stop_flush;
}
