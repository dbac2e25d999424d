/* ingest: frames over a real ZeroMQ socket: verified ones arrive in order, the rest is counted. */
#include "../../daemon/ingest.h"
#include "edge_check.h"

#include <poll.h>
#include <stdlib.h>
#include <zmq.h>

struct rig {
    char dir[64], path[96], endpoint[128];
    struct sessions *sessions;
    struct wake wake;
    struct queue queue;
    struct ingest *ingest;
    struct process *proc;
    struct session_keys keys;
    void *zmq, *push;
};

static void rig_init(struct rig *r, size_t queue_bytes)
{
    struct dvt_err err = {0};
    struct dvt_hello hello = {.pid = 5};
    memset(r, 0, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/dvt-ingest-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(r->dir));
    snprintf(r->path, sizeof r->path, "%s/data", r->dir);
    snprintf(r->endpoint, sizeof r->endpoint, "ipc://%s", r->path);
    CU_ASSERT_EQUAL_FATAL(wake_init(&r->wake), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r->queue, queue_bytes, &r->wake), 0);
    r->sessions = sessions_new();
    r->proc = process_new(&hello);
    CU_ASSERT_EQUAL_FATAL(sessions_prepare(r->sessions, r->proc, &r->keys, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(sessions_publish(r->sessions, &r->keys, r->proc, NULL), 0);
    struct ingest_config c = {.endpoint = r->endpoint, .sessions = r->sessions, .out = &r->queue};
    CU_ASSERT_EQUAL_FATAL(ingest_start(&c, &r->ingest, &err), 0);
    r->zmq = zmq_ctx_new();
    r->push = zmq_socket(r->zmq, ZMQ_PUSH);
    CU_ASSERT_EQUAL_FATAL(zmq_connect(r->push, r->endpoint), 0);
}

static void rig_fini(struct rig *r)
{
    zmq_close(r->push);
    zmq_ctx_term(r->zmq);
    ingest_stop(r->ingest);
    queue_fini(&r->queue, feed_free);
    wake_fini(&r->wake);
    sessions_free(r->sessions);
    process_unref(r->proc);
    unlink(r->path);
    rmdir(r->dir);
}

static void send_heartbeat(struct rig *r, uint64_t seq, uint64_t now_ns, bool bye)
{
    struct dvt_buf body, sealed;
    struct dvt_shim_counts counts = {.opened = seq};
    dvt_buf_init(&body, 4096);
    dvt_buf_init(&sealed, 4096);
    if (bye)
        dvt_wire_put_bye(&body, &counts, now_ns);
    else
        dvt_wire_put_heartbeat(&body, &counts, now_ns);
    dvt_wire_seal(&sealed, r->keys.id, seq, r->keys.key, body.p, body.n);
    CU_ASSERT_EQUAL(zmq_send(r->push, sealed.p, sealed.n, 0), (int)sealed.n);
    dvt_buf_fini(&body);
    dvt_buf_fini(&sealed);
}

/* The next feed; waits for it: the test's time limit is the assertion. */
static struct feed *next(struct rig *r)
{
    struct feed *f;
    while ((f = queue_pop(&r->queue)) == NULL) {
        wake_prepare(&r->wake);
        if (queue_is_empty(&r->queue))
            wake_wait(&r->wake, -1);
        else
            wake_cancel(&r->wake);
    }
    return f;
}

static uint64_t opened_of(const struct feed *f)
{
    uint32_t type;
    struct dvt_str map;
    struct dvt_shim_counts counts = {0};
    uint64_t now_ns;
    struct dvt_str body = {f->body, f->n_body};
    CU_ASSERT_EQUAL(dvt_wire_type(body, &type, &map, NULL), 0);
    CU_ASSERT_EQUAL(dvt_wire_get_counts(map, &counts, &now_ns, NULL), 0);
    return counts.opened;
}

static void test_ingest_passes_verified_messages_in_order(void)
{
    struct rig r;
    rig_init(&r, 1 << 20);
    for (uint64_t seq = 1; seq <= 50; seq++)
        send_heartbeat(&r, seq, seq, false);
    for (uint64_t seq = 1; seq <= 50; seq++) {
        struct feed *f = next(&r);
        CU_ASSERT_EQUAL_FATAL(f->type, FEED_MESSAGE);
        CU_ASSERT_EQUAL(f->thread.process, r.proc->index);
        CU_ASSERT_EQUAL(opened_of(f), seq);
        feed_free(f);
    }
    CU_ASSERT_TRUE(sessions_all_heard(r.sessions, 50));
    rig_fini(&r);
}

static void test_ingest_drops_replays_forgeries_and_garbage_between_good_ones(void)
{
    struct rig r;
    rig_init(&r, 1 << 20);
    send_heartbeat(&r, 1, 1, false);
    send_heartbeat(&r, 1, 1, false);               /* replayed */
    CU_ASSERT_EQUAL(zmq_send(r.push, "junk", 4, 0), 4);
    CU_ASSERT_EQUAL(zmq_send(r.push, "", 0, 0), 0);
    uint8_t key[DVT_KEY_BYTES] = {0};
    struct session_keys true_keys = r.keys;
    memcpy(r.keys.key, key, sizeof key);
    send_heartbeat(&r, 2, 1, false);               /* wrong mac */
    r.keys = true_keys;
    send_heartbeat(&r, 3, 1, false);
    for (uint64_t seq = 1; seq <= 3; seq += 2) {
        struct feed *f = next(&r);
        CU_ASSERT_EQUAL(opened_of(f), seq);
        feed_free(f);
    }
    CU_ASSERT_EQUAL(r.proc->edge.messages_forged, 2);
    CU_ASSERT_EQUAL(sessions_unknown(r.sessions)->messages_bad, 2);
    rig_fini(&r);
}

static void test_ingest_counts_messages_of_a_newer_version(void)
{
    struct rig r;
    rig_init(&r, 1 << 20);
    /* array(5) [2, session, seq, mac, body] */
    uint8_t frame[64] = {0x95, 0x02, 0x01, 0x01, 0xc4, 32};
    size_t n = 6 + 32;
    frame[n++] = 0xc4;
    frame[n++] = 0;
    struct ingest_frame f = {.p = frame, .n = n};
    ingest_check(r.sessions, &f, 1, 0);
    CU_ASSERT(f.code == DVT_EVERSION && f.proc == NULL);
    CU_ASSERT_EQUAL(sessions_unknown(r.sessions)->messages_version, 1);
    rig_fini(&r);
}

static void test_ingest_says_down_behind_the_last_message(void)
{
    struct rig r;
    rig_init(&r, 1 << 20);
    send_heartbeat(&r, 1, 1, false);
    send_heartbeat(&r, 2, 2, true);
    sessions_close(r.sessions, r.keys.id, edge_now_ns(CLOCK_MONOTONIC));
    ingest_poke(r.ingest);
    const enum feed_type expected[] = {FEED_MESSAGE, FEED_MESSAGE, FEED_PROCESS_DOWN};
    for (int i = 0; i < 3; i++) {
        struct feed *f = next(&r);
        CU_ASSERT_EQUAL(f->type, expected[i]);
        CU_ASSERT_EQUAL(f->thread.process, r.proc->index);
        feed_free(f);
    }
    rig_fini(&r);
}

static void test_ingest_counts_what_a_full_queue_drops(void)
{
    struct rig r;
    rig_init(&r, 1);
    for (uint64_t seq = 1; seq <= 3; seq++)
        send_heartbeat(&r, seq, seq, seq == 3);
    sessions_close(r.sessions, r.keys.id, edge_now_ns(CLOCK_MONOTONIC));
    ingest_poke(r.ingest);
    struct feed *f = next(&r);
    CU_ASSERT_EQUAL(f->type, FEED_PROCESS_DOWN); /* an end is never dropped */
    feed_free(f);
    CU_ASSERT_EQUAL(r.proc->edge.messages_lost, 3);
    rig_fini(&r);
}

/* What lies in the socket when the daemon stops is still taken. */
static void test_ingest_stop_takes_what_has_arrived(void)
{
    struct rig r;
    rig_init(&r, 1 << 20);
    send_heartbeat(&r, 1, 1, false);
    feed_free(next(&r)); /* the connection stands */
    send_heartbeat(&r, 2, 2, false);
    struct feed *f = next(&r);
    CU_ASSERT_EQUAL(opened_of(f), 2);
    feed_free(f);
    ingest_stop(r.ingest);
    r.ingest = NULL;
    CU_ASSERT_TRUE(queue_is_empty(&r.queue));
    rig_fini(&r);
}

static void test_ingest_names_an_endpoint_it_cannot_bind(void)
{
    struct rig r;
    struct dvt_err err = {0};
    struct ingest *other = NULL;
    rig_init(&r, 1 << 20);
    struct ingest_config c = {
        .endpoint = "ipc:///no/such/place/data", .sessions = r.sessions, .out = &r.queue};
    CU_ASSERT_EQUAL(ingest_start(&c, &other, &err), DVT_EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/place/data"));
    CU_ASSERT_PTR_NULL(other);
    rig_fini(&r);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"ingest passes verified messages in order", test_ingest_passes_verified_messages_in_order},
        {"ingest drops replays, forgeries and garbage between good ones",
         test_ingest_drops_replays_forgeries_and_garbage_between_good_ones},
        {"ingest counts messages of a newer version", test_ingest_counts_messages_of_a_newer_version},
        {"ingest says down behind the last message", test_ingest_says_down_behind_the_last_message},
        {"ingest counts what a full queue drops", test_ingest_counts_what_a_full_queue_drops},
        {"ingest_stop leaves nothing behind", test_ingest_stop_takes_what_has_arrived},
        {"ingest names an endpoint it cannot bind", test_ingest_names_an_endpoint_it_cannot_bind},
    };
    return EDGE_RUN("ingest", tests);
}
