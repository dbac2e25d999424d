/* state, control, doctor: the daemon's answers are read with care; verdicts are pure. */
#include "check.h"

#include "../../cli/control.h"
#include "../../cli/doctor.h"
#include "../../cli/state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct state *parse(const char *json)
{
    struct state *s = NULL;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL_FATAL(state_new(dvt_str(json), &s, &err), 0);
    return s;
}

static void test_fields_by_path(void)
{
    struct state *s =
        parse("{\"a\":{\"b\":[{\"pid\":7,\"name\":\"x\\u0000y\"},{\"pid\":8}]},\"r\":1.5,\"yes\":true}");
    struct state **items;
    CU_ASSERT_EQUAL(state_u64(s, "$.a.b[1].pid"), 8);
    CU_ASSERT_EQUAL(state_number(s, "$.r"), 1.5);
    CU_ASSERT_TRUE(state_bool(s, "$.yes"));
    CU_ASSERT_EQUAL(state_u64(s, "$.missing"), 0);
    CU_ASSERT_EQUAL(state_text(s, "$.missing").n, 0);
    size_t n = state_items(s, "$.a.b", &items);
    CU_ASSERT_EQUAL_FATAL(n, 2);
    CU_ASSERT_EQUAL(state_u64(items[0], "$.pid"), 7);
    CU_ASSERT_EQUAL(state_u64(items[1], "$.pid"), 8);
    state_free_items(items, n);
    state_free(s);
}

static void test_what_is_no_object_is_refused(void)
{
    static const char *const bad[] = {"", "[1]", "{", "{\"a\":}", "null", "{\"a\":1}}", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct state *s = NULL;
        struct dvt_err err = {0};
        CU_ASSERT_EQUAL(state_new(dvt_str(bad[i]), &s, &err), DVT_EFORMAT);
        CU_ASSERT_PTR_NULL(s);
    }
}

static void test_the_ledger_adds_up_or_says_by_how_much(void)
{
    struct state *s =
        parse("{\"totals\":{\"samples\":100,\"joined\":60,\"outside\":20,\"ambiguous\":5,\"pending\":10,"
              "\"lost_queue\":3,\"lost_end\":2}}");
    CU_ASSERT_EQUAL(state_ledger_gap(s, "$.totals"), 0);
    state_free(s);
    s = parse("{\"totals\":{\"samples\":100,\"joined\":60}}");
    CU_ASSERT_EQUAL(state_ledger_gap(s, "$.totals"), 40);
    state_free(s);
    s = parse("{\"totals\":{\"samples\":1,\"joined\":3}}");
    CU_ASSERT_EQUAL(state_ledger_gap(s, "$.totals"), -2);
    state_free(s);
}

/* ---- a daemon of a thread ---- */

struct fake {
    char folder[64], path[96];
    int listener;
    bool refuses;
    pthread_t thread;
};

static void reply(int fd, struct dvt_buf *b)
{
    CU_ASSERT_EQUAL(send(fd, b->p, b->n, MSG_NOSIGNAL), (ssize_t)b->n);
    b->n = 0;
}

static void serve_one(const struct fake *d, int fd)
{
    uint8_t packet[4096];
    struct dvt_buf b;
    ssize_t n;
    dvt_buf_init(&b, 1 << 16);
    while ((n = recv(fd, packet, sizeof packet, 0)) > 0) {
        uint32_t type = 0;
        struct dvt_str map;
        CU_ASSERT_EQUAL(dvt_wire_type((struct dvt_str){(char *)packet, (size_t)n}, &type, &map, NULL), 0);
        if (type == DVT_MSG_HELLO && d->refuses) {
            dvt_wire_put_refuse(&b, &(struct dvt_refuse){DVT_EVERSION, dvt_str("speak 2.0")});
        } else if (type == DVT_MSG_HELLO) {
            dvt_wire_put_welcome(&b, &(struct dvt_welcome){.major = DVT_WIRE_MAJOR, .endpoint = dvt_str("")});
        } else if (type == DVT_MSG_STATUS_REQ) {
            dvt_wire_put_status(&b, &(struct dvt_status){false, dvt_str("{\"pid\":")});
            reply(fd, &b);
            dvt_wire_put_status(&b, &(struct dvt_status){true, dvt_str("7}")});
        } else if (type == DVT_MSG_FLUSH_REQ) {
            dvt_wire_put_plain(&b, DVT_MSG_FLUSHED);
        }
        reply(fd, &b);
    }
    dvt_buf_fini(&b);
}

static void *serve(void *arg)
{
    struct fake *d = arg;
    int fd;
    while ((fd = accept(d->listener, NULL, NULL)) >= 0) {
        serve_one(d, fd);
        close(fd);
    }
    return NULL;
}

static void fake_start(struct fake *d, bool refuses)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *d = (struct fake){.refuses = refuses};
    snprintf(d->folder, sizeof d->folder, "/tmp/dovetail-test-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(d->folder));
    snprintf(d->path, sizeof d->path, "%s/control.sock", d->folder);
    memcpy(a.sun_path, d->path, strlen(d->path) + 1);
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CU_ASSERT_EQUAL_FATAL(bind(d->listener, (struct sockaddr *)&a, sizeof a), 0);
    CU_ASSERT_EQUAL_FATAL(listen(d->listener, 4), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&d->thread, NULL, serve, d), 0);
}

static void fake_stop(struct fake *d)
{
    shutdown(d->listener, SHUT_RDWR);
    pthread_join(d->thread, NULL);
    close(d->listener);
    unlink(d->path);
    rmdir(d->folder);
}

static void test_status_comes_in_parts_and_flush_is_answered(void)
{
    struct fake d;
    struct control c;
    struct dvt_err err = {0};
    struct dvt_buf b;
    fake_start(&d, false);
    dvt_buf_init(&b, 1 << 16);
    CU_ASSERT_EQUAL_FATAL(control_open(&c, d.path, &err), 0);
    CU_ASSERT_EQUAL(control_status(&c, &b, &err), 0);
    CU_ASSERT_EQUAL(b.n, 9);
    CU_ASSERT_TRUE(b.n == 9 && memcmp(b.p, "{\"pid\":7}", 9) == 0);
    CU_ASSERT_EQUAL(control_flush(&c, 5000, &err), 0);
    control_close(&c);
    dvt_buf_fini(&b);
    fake_stop(&d);
}

static void test_a_refusal_is_told_in_the_daemons_words(void)
{
    struct fake d;
    struct control c;
    struct dvt_err err = {0};
    fake_start(&d, true);
    CU_ASSERT_EQUAL(control_open(&c, d.path, &err), DVT_EVERSION);
    CHECK_CONTAINS(err.text, "speak 2.0");
    fake_stop(&d);
}

static void test_no_daemon_is_said_with_how_to_start_one(void)
{
    struct control c;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(control_open(&c, "/nonexistent/control.sock", &err), DVT_ESTATE);
    CHECK_CONTAINS(err.text, "dovetaild");
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    CU_ASSERT_EQUAL(control_open(&c, longest, &err), DVT_EINVAL);
}

static void test_sampling_is_judged_by_what_opens(void)
{
    CU_ASSERT_EQUAL(doctor_judge_paranoid(2, false, true), DOCTOR_OK);
    CU_ASSERT_EQUAL(doctor_judge_paranoid(3, false, true), DOCTOR_WARN);
    CU_ASSERT_EQUAL(doctor_judge_paranoid(3, true, true), DOCTOR_OK);
    CU_ASSERT_EQUAL(doctor_judge_paranoid(-1, true, false), DOCTOR_BAD);
}

static const struct check_case cases[] = {CASE(test_fields_by_path),
                                          CASE(test_what_is_no_object_is_refused),
                                          CASE(test_the_ledger_adds_up_or_says_by_how_much),
                                          CASE(test_status_comes_in_parts_and_flush_is_answered),
                                          CASE(test_a_refusal_is_told_in_the_daemons_words),
                                          CASE(test_no_daemon_is_said_with_how_to_start_one),
                                          CASE(test_sampling_is_judged_by_what_opens)};
CHECK_MAIN("state", cases)
