/* control, handshake, conn: a real socket with a shim's and a CLI's side driven by the test, one thread
 * for all. */
#include "../../daemon/conn.h"
#include "../../daemon/control.h"
#include "../../daemon/feed.h"
#include "../../daemon/listener.h"
#include "edge_check.h"
#include "fake_shim.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct rig {
    char dir[64], path[96], data[128], endpoint[160];
    struct config config;
    struct perf_source *source;
    struct loop *loop;
    struct queue feeds, messages;
    struct sessions *sessions;
    struct sampler *sampler;
    struct ingest *ingest;
    struct board *board;
    struct control *control;
    int listen_fd;
};

static void rig_init(struct rig *r)
{
    struct dvt_err err = {0};
    memset(r, 0, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/dvt-control-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(r->dir));
    snprintf(r->path, sizeof r->path, "%s/control.sock", r->dir);
    snprintf(r->data, sizeof r->data, "%s.data", r->path);
    snprintf(r->endpoint, sizeof r->endpoint, "ipc://%s", r->data);
    r->config.hz = 99;
    struct perf_source_config sc = {.event = "cpu-clock", .hz = 99, .stack_bytes = 4096};
    CU_ASSERT_EQUAL_FATAL(perf_source_new(&sc, &r->source, &err), 0);
    CU_ASSERT_EQUAL_FATAL(listener_open(r->path, "", &r->listen_fd, &err), 0);
    CU_ASSERT_EQUAL_FATAL(loop_new(&r->loop, &err), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r->feeds, 1 << 20, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r->messages, 1 << 20, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(board_new(&r->board, &err), 0);
    r->sessions = sessions_new();
    struct ingest_config ic = {.endpoint = r->endpoint, .sessions = r->sessions, .out = &r->messages};
    CU_ASSERT_EQUAL_FATAL(ingest_start(&ic, &r->ingest, &err), 0);
    struct sampler_config pc = {
        .source = r->source, .stack_bytes = 4096, .max_threads = 10, .loop = r->loop, .out = &r->feeds};
    CU_ASSERT_EQUAL_FATAL(sampler_new(&pc, &r->sampler, &err), 0);
    static const char *const notes[] = {"", "a \"note\""};
    struct control_config cc = {.listen_fd = r->listen_fd,
                                .endpoint = r->endpoint,
                                .config = &r->config,
                                .source = r->source,
                                .loop = r->loop,
                                .sessions = r->sessions,
                                .sampler = r->sampler,
                                .ingest = r->ingest,
                                .board = r->board,
                                .out = &r->feeds,
                                .notes = notes,
                                .n_notes = 2};
    CU_ASSERT_EQUAL_FATAL(control_new(&cc, &r->control, &err), 0);
}

static void rig_fini(struct rig *r)
{
    control_free(r->control);
    sampler_free(r->sampler);
    ingest_stop(r->ingest);
    sessions_free(r->sessions);
    board_free(r->board);
    queue_fini(&r->feeds, feed_free);
    queue_fini(&r->messages, feed_free);
    loop_free(r->loop);
    perf_source_free(r->source);
    close(r->listen_fd);
    unlink(r->path);
    unlink(r->data);
    rmdir(r->dir);
}

/* Turns the daemon's loop until a packet for fd is there. */
static void await(struct rig *r, int fd, struct shim_packet *p)
{
    while (!shim_receive(fd, p)) /* the test's time limit is the assertion */
        CU_ASSERT_EQUAL_FATAL(loop_turn(r->loop, 10, NULL), 0);
}

static int say_hello(struct rig *r, const struct dvt_hello *h, struct shim_packet *answer)
{
    struct dvt_buf b;
    int fd = shim_connect(r->path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_put_hello(&b, h), 0);
    CU_ASSERT_EQUAL_FATAL(shim_send(fd, &b), 0);
    dvt_buf_fini(&b);
    await(r, fd, answer);
    return fd;
}

/* Connects as this process; the session's welcome. */
static int join(struct rig *r, struct shim_packet *p, struct dvt_welcome *ret)
{
    struct dvt_hello h = shim_hello(DVT_ROLE_SHIM);
    int fd = say_hello(r, &h, p);
    CU_ASSERT_EQUAL_FATAL(p->type, DVT_MSG_WELCOME);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_welcome(p->map, ret, NULL), 0);
    return fd;
}

static void send_arm(int fd, uint32_t tid, uint32_t epoch)
{
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_put_arm(&b, &(struct dvt_arm){.tid = tid, .epoch = epoch}), 0);
    CU_ASSERT_EQUAL_FATAL(shim_send(fd, &b), 0);
    dvt_buf_fini(&b);
}

static void send_plain(int fd, enum dvt_msg_type type)
{
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_put_plain(&b, type), 0);
    CU_ASSERT_EQUAL_FATAL(shim_send(fd, &b), 0);
    dvt_buf_fini(&b);
}

static unsigned count_feeds(struct rig *r, enum feed_type type)
{
    unsigned n = 0;
    struct feed *f;
    while ((f = queue_pop(&r->feeds)) != NULL) {
        n += f->type == type;
        feed_free(f);
    }
    return n;
}

static bool text_has(struct dvt_str s, const char *needle)
{
    char text[512];
    size_t n = s.n < sizeof text - 1 ? s.n : sizeof text - 1;
    memcpy(text, s.p, n);
    text[n] = 0;
    return strstr(text, needle) != NULL;
}

static void expect_refusal(struct rig *r, const struct dvt_hello *h, int code, const char *text)
{
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_refuse refuse;
    int fd = say_hello(r, h, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_REFUSE);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_refuse(p->map, &refuse, NULL), 0);
    CU_ASSERT_EQUAL(refuse.code, code);
    CU_ASSERT_TRUE(text_has(refuse.text, text));
    await(r, fd, p);
    CU_ASSERT_EQUAL(p->n, 0); /* hung up */
    CU_ASSERT_EQUAL(count_feeds(r, FEED_PROCESS_UP), 0);
    close(fd);
    free(p);
}

static void test_control_welcomes_a_shim_with_key_and_endpoint(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    const uint8_t zero[DVT_KEY_BYTES] = {0};
    rig_init(&r);
    int fd = join(&r, p, &w);
    CU_ASSERT_EQUAL(w.period_ns, 1000000000u / 99);
    CU_ASSERT_TRUE(dvt_str_eq(w.endpoint, dvt_str(r.endpoint)));
    CU_ASSERT_TRUE(memcmp(w.key, zero, sizeof zero) != 0 && w.session != 0);
    CU_ASSERT_TRUE(w.use_signal);
    CU_ASSERT_EQUAL(count_feeds(&r, FEED_PROCESS_UP), 1);
    close(fd);
    rig_fini(&r);
    free(p);
}

static void test_control_refuses_a_forged_pid(void)
{
    struct rig r;
    struct dvt_hello h = shim_hello(DVT_ROLE_SHIM);
    rig_init(&r);
    h.pid = 1;
    expect_refusal(&r, &h, DVT_EAUTH, "only about itself");
    CU_ASSERT_EQUAL(sessions_unknown(r.sessions)->messages_forged, 1);
    rig_fini(&r);
}

static void test_control_refuses_a_newer_version_naming_both(void)
{
    struct rig r;
    struct dvt_hello h = shim_hello(DVT_ROLE_SHIM);
    rig_init(&r);
    h.major = DVT_WIRE_MAJOR + 1;
    h.minor = 7;
    expect_refusal(&r, &h, DVT_EVERSION, "2.7");
    expect_refusal(&r, &h, DVT_EVERSION, "1.0");
    CU_ASSERT_EQUAL(sessions_unknown(r.sessions)->messages_version, 2);
    rig_fini(&r);
}

static void test_control_survives_garbage_and_hangs_up_on_it(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    rig_init(&r);
    int bad = shim_connect(r.path);
    for (int i = 0; i < CONN_MAX_BAD; i++) {
        uint8_t junk[300];
        memset(junk, 0xc1 + i, sizeof junk);
        CU_ASSERT_EQUAL(send(bad, junk, sizeof junk, MSG_NOSIGNAL), (ssize_t)sizeof junk);
    }
    await(&r, bad, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_REFUSE);
    await(&r, bad, p);
    CU_ASSERT_EQUAL(p->n, 0);
    CU_ASSERT_EQUAL(sessions_unknown(r.sessions)->messages_bad, CONN_MAX_BAD);
    int good = join(&r, p, &w); /* the others are served on */
    close(good);
    close(bad);
    rig_fini(&r);
    free(p);
}

static void test_control_wants_hello_first_and_once(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    rig_init(&r);
    int fd = shim_connect(r.path);
    for (int i = 0; i < CONN_MAX_BAD; i++)
        send_plain(fd, DVT_MSG_STATUS_REQ);
    await(&r, fd, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_REFUSE);
    close(fd);
    fd = join(&r, p, &w);
    struct dvt_buf b;
    struct dvt_hello h = shim_hello(DVT_ROLE_CLI);
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    for (int i = 0; i < CONN_MAX_BAD; i++) {
        CU_ASSERT_EQUAL(dvt_wire_put_hello(&b, &h), 0);
        CU_ASSERT_EQUAL(shim_send(fd, &b), 0);
    }
    dvt_buf_fini(&b);
    await(&r, fd, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_REFUSE);
    close(fd);
    rig_fini(&r);
    free(p);
}

static void test_control_arms_a_thread_and_passes_its_event(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    struct dvt_armed armed;
    rig_init(&r);
    int fd = join(&r, p, &w);
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    send_arm(fd, tid, 5);
    await(&r, fd, p);
    CU_ASSERT_EQUAL_FATAL(p->type, DVT_MSG_ARMED);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_armed(p->map, &armed, NULL), 0);
    CU_ASSERT_EQUAL(armed.code, 0);
    CU_ASSERT_TRUE(armed.tid == tid && armed.epoch == 5);
    CU_ASSERT_TRUE(p->fd >= 0 && armed.map_bytes > 4096 && armed.first_period_ns >= 500000);
    close(p->fd);
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, NULL), 1);
    close(fd); /* a process that goes away takes its threads along */
    while (sampler_n_threads(r.sampler, NULL))
        CU_ASSERT_EQUAL_FATAL(loop_turn(r.loop, 10, NULL), 0);
    rig_fini(&r);
    free(p);
}

static void test_control_refuses_to_arm_another_process_s_thread(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    struct dvt_armed armed;
    rig_init(&r);
    int fd = join(&r, p, &w);
    send_arm(fd, (uint32_t)getppid(), 1);
    await(&r, fd, p);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_armed(p->map, &armed, NULL), 0);
    CU_ASSERT_EQUAL(armed.code, DVT_ENOENT);
    CU_ASSERT_TRUE(text_has(armed.text, "has no thread"));
    CU_ASSERT_EQUAL(p->fd, -1);
    CU_ASSERT_EQUAL(sampler_n_threads(r.sampler, NULL), 0);
    close(fd);
    rig_fini(&r);
    free(p);
}

static int join_cli(struct rig *r, struct shim_packet *p)
{
    struct dvt_hello h = shim_hello(DVT_ROLE_CLI);
    int fd = say_hello(r, &h, p);
    CU_ASSERT_EQUAL_FATAL(p->type, DVT_MSG_WELCOME);
    return fd;
}

static void test_control_answers_status_after_the_pipeline_s_report(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_status part;
    rig_init(&r);
    int fd = join_cli(&r, p);
    send_plain(fd, DVT_MSG_STATUS_REQ);
    struct feed *f;
    while ((f = queue_pop(&r.feeds)) == NULL)
        CU_ASSERT_EQUAL_FATAL(loop_turn(r.loop, 10, NULL), 0);
    CU_ASSERT_EQUAL(f->type, FEED_REPORT);
    CU_ASSERT_FALSE(shim_receive(fd, p)); /* not before the report */
    struct report *report = calloc(1, sizeof *report);
    report->generation = f->generation;
    report->open_traces = 42;
    board_put_report(r.board, report);
    feed_free(f);
    await(&r, fd, p);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_status(p->map, &part, NULL), 0);
    CU_ASSERT_TRUE(part.last);
    char json[8192] = {0};
    CU_ASSERT_TRUE_FATAL(part.json.n < sizeof json);
    memcpy(json, part.json.p, part.json.n);
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"open_traces\":42"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"notes\":[\"a \\\"note\\\"\"]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"asked\":\"cpu-clock\""));
    close(fd);
    rig_fini(&r);
    free(p);
}

/* The shim is asked; without its answer the flush goes on after its deadline; the CLI is told when the
 * writer is through. */
static void test_control_flushes_shims_rings_and_store_in_turn(void)
{
    struct rig r;
    struct shim_packet *p = malloc(sizeof *p);
    struct dvt_welcome w;
    rig_init(&r);
    int shim = join(&r, p, &w), cli = join_cli(&r, p);
    count_feeds(&r, FEED_PROCESS_UP);
    send_plain(cli, DVT_MSG_FLUSH_REQ);
    await(&r, shim, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_FLUSH_REQ);
    CU_ASSERT_TRUE(queue_is_empty(&r.feeds)); /* waits for the shim's heartbeat */
    sessions_heard(r.sessions, w.session, UINT64_MAX, false);
    struct feed *f;
    while ((f = queue_pop(&r.feeds)) == NULL)
        CU_ASSERT_EQUAL_FATAL(loop_turn(r.loop, 10, NULL), 0);
    CU_ASSERT_EQUAL(f->type, FEED_FLUSH);
    CU_ASSERT_FALSE(shim_receive(cli, p));
    board_put_flushed(r.board, f->generation);
    feed_free(f);
    await(&r, cli, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_FLUSHED);
    close(shim);
    close(cli);
    rig_fini(&r);
    free(p);
}

static void test_listener_refuses_a_second_daemon_and_replaces_a_dead_one(void)
{
    struct rig r;
    struct dvt_err err = {0};
    char pid[32];
    int fd = -1;
    rig_init(&r);
    CU_ASSERT_EQUAL(listener_open(r.path, "", &fd, &err), DVT_EBUSY);
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, pid));
    char dead[128];
    snprintf(dead, sizeof dead, "%s/dead.sock", r.dir);
    CU_ASSERT_EQUAL(listener_open(dead, "", &fd, &err), 0);
    close(fd); /* the file stays */
    CU_ASSERT_EQUAL(listener_open(dead, "", &fd, &err), 0);
    close(fd);
    unlink(dead);
    rig_fini(&r);
}

static void test_listener_refuses_places_others_can_write(void)
{
    struct dvt_err err = {0};
    int fd = -1;
    char dir[] = "/tmp/dvt-listen-XXXXXX", path[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/c.sock", dir);
    chmod(dir, 0777);
    CU_ASSERT_EQUAL(listener_open(path, "", &fd, &err), DVT_EPERM);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "--socket"));
    chmod(dir, 0700);
    CU_ASSERT_EQUAL(listener_open(path, "no-such-group-here", &fd, &err), DVT_EINVAL);
    CU_ASSERT_EQUAL(fd, -1);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"control welcomes a shim with key and endpoint", test_control_welcomes_a_shim_with_key_and_endpoint},
        {"control refuses a forged pid", test_control_refuses_a_forged_pid},
        {"control refuses a newer version, naming both", test_control_refuses_a_newer_version_naming_both},
        {"control survives garbage and hangs up on it", test_control_survives_garbage_and_hangs_up_on_it},
        {"control wants HELLO first and once", test_control_wants_hello_first_and_once},
        {"control arms a thread and passes its event", test_control_arms_a_thread_and_passes_its_event},
        {"control refuses to arm another process's thread",
         test_control_refuses_to_arm_another_process_s_thread},
        {"control answers status after the pipeline's report",
         test_control_answers_status_after_the_pipeline_s_report},
        {"control flushes shims, rings and store in turn",
         test_control_flushes_shims_rings_and_store_in_turn},
        {"listener refuses a second daemon, replaces a dead one",
         test_listener_refuses_a_second_daemon_and_replaces_a_dead_one},
        {"listener refuses places others can write", test_listener_refuses_places_others_can_write},
    };
    if (!edge_perf_is_permitted()) {
        fputs("skipped: perf events are not permitted here\n", stderr);
        return 77;
    }
    return EDGE_RUN("control", tests);
}
