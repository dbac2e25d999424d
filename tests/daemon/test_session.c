/* session, peer: keys, macs, sequence numbers; who a process is; when a session has said all. */
#include "../../daemon/session.h"
#include "edge_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#define MS 1000000ull

struct rig {
    struct sessions *s;
    struct process *proc;
    struct session_keys keys;
};

static void rig_init(struct rig *r)
{
    struct dvt_hello hello = {.pid = 5};
    r->s = sessions_new();
    r->proc = process_new(&hello);
    CU_ASSERT_EQUAL_FATAL(sessions_prepare(r->s, r->proc, &r->keys, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(sessions_publish(r->s, &r->keys, r->proc, NULL), 0);
}

static void rig_fini(struct rig *r)
{
    sessions_free(r->s);
    process_unref(r->proc);
}

struct offer {
    uint64_t session, seq;
    const uint8_t *key;
};

/* Seals heartbeats and has them checked at once. */
static void offer_all(struct rig *r, const struct offer *o, size_t n, int *ret_codes)
{
    struct dvt_buf body, sealed[2];
    struct dvt_envelope env[2];
    struct session_answer answers[2];
    struct dvt_shim_counts counts = {0};
    dvt_buf_init(&body, 4096);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_put_heartbeat(&body, &counts, 1), 0);
    for (size_t i = 0; i < n; i++) {
        dvt_buf_init(&sealed[i], 4096);
        CU_ASSERT_EQUAL_FATAL(dvt_wire_seal(&sealed[i], o[i].session, o[i].seq, o[i].key, body.p, body.n), 0);
        CU_ASSERT_EQUAL_FATAL(dvt_wire_open(sealed[i].p, sealed[i].n, &env[i], NULL), 0);
    }
    sessions_check(r->s, env, n, 0, answers);
    for (size_t i = 0; i < n; i++) {
        ret_codes[i] = answers[i].code;
        CU_ASSERT_EQUAL(answers[i].proc != NULL, answers[i].code == 0);
        process_unref(answers[i].proc);
        dvt_buf_fini(&sealed[i]);
    }
    dvt_buf_fini(&body);
}

static int offer(struct rig *r, uint64_t session, uint64_t seq, const uint8_t key[DVT_KEY_BYTES])
{
    int code;
    offer_all(r, &(struct offer){session, seq, key}, 1, &code);
    return code;
}

static void test_session_takes_growing_sequence_numbers_only(void)
{
    struct rig r;
    rig_init(&r);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 1, r.keys.key), 0);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 1, r.keys.key), DVT_EAUTH);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 9, r.keys.key), 0);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 5, r.keys.key), DVT_EAUTH);
    CU_ASSERT_EQUAL(r.proc->edge.messages_forged, 2);
    rig_fini(&r);
}

/* A wrong mac must not move the sequence: else a forger could silence the process. */
static void test_session_refuses_a_wrong_mac_and_stays_as_it_was(void)
{
    struct rig r;
    uint8_t key[DVT_KEY_BYTES] = {1};
    rig_init(&r);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, UINT64_MAX, key), DVT_EAUTH);
    CU_ASSERT_EQUAL(r.proc->edge.messages_forged, 1);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 1, r.keys.key), 0);
    rig_fini(&r);
}

static void test_session_counts_messages_of_unknown_sessions(void)
{
    struct rig r;
    rig_init(&r);
    CU_ASSERT_EQUAL(offer(&r, r.keys.id + 1, 1, r.keys.key), DVT_EAUTH);
    CU_ASSERT_EQUAL(sessions_unknown(r.s)->messages_forged, 1);
    CU_ASSERT_EQUAL(r.proc->edge.messages_forged, 0);
    rig_fini(&r);
}

/* Of two at once, each has its own answer, and the second follows the first. */
static void test_session_checks_two_messages_as_one_after_the_other(void)
{
    struct rig r;
    uint8_t wrong[DVT_KEY_BYTES] = {1};
    int codes[2];
    rig_init(&r);
    const uint8_t *key = r.keys.key;
    const uint64_t id = r.keys.id;
    const struct {
        struct offer offers[2];
        int codes[2];
    } cases[] = {
        {{{id, 1, key}, {id, 2, key}}, {0, 0}},
        {{{id, 3, wrong}, {id, 3, key}}, {DVT_EAUTH, 0}},
        {{{id, 4, key}, {id, 9, wrong}}, {0, DVT_EAUTH}},
        {{{id, 6, key}, {id, 5, key}}, {0, DVT_EAUTH}}, /* replayed */
        {{{id, 7, key}, {id, 7, key}}, {0, DVT_EAUTH}},
        {{{id + 1, 8, key}, {id, 8, key}}, {DVT_EAUTH, 0}},
        {{{id, 9, key}, {id + 1, 9, wrong}}, {0, DVT_EAUTH}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        offer_all(&r, cases[i].offers, 2, codes);
        CU_ASSERT(codes[0] == cases[i].codes[0] && codes[1] == cases[i].codes[1]);
    }
    CU_ASSERT_EQUAL(r.proc->edge.messages_forged, 4);
    CU_ASSERT_EQUAL(sessions_unknown(r.s)->messages_forged, 2);
    rig_fini(&r);
}

static void test_session_is_unknown_until_published(void)
{
    struct rig r;
    struct session_keys k;
    rig_init(&r);
    CU_ASSERT_EQUAL_FATAL(sessions_prepare(r.s, r.proc, &k, NULL), 0);
    CU_ASSERT_EQUAL(offer(&r, k.id, 1, k.key), DVT_EAUTH);
    CU_ASSERT_EQUAL_FATAL(sessions_publish(r.s, &k, r.proc, NULL), 0);
    CU_ASSERT_EQUAL(offer(&r, k.id, 1, k.key), 0);
    rig_fini(&r);
}

static void test_session_keys_and_indexes_differ(void)
{
    struct rig r;
    struct session_keys k;
    rig_init(&r);
    uint32_t first = r.proc->index;
    CU_ASSERT_EQUAL_FATAL(sessions_prepare(r.s, r.proc, &k, NULL), 0);
    CU_ASSERT_TRUE(k.id != r.keys.id && memcmp(k.key, r.keys.key, sizeof k.key) != 0);
    CU_ASSERT_TRUE(r.proc->index > first);
    rig_fini(&r);
}

static void test_session_ends_after_its_goodbye_or_a_quiet_while(void)
{
    struct rig r;
    uint32_t index = 0;
    const uint64_t quiet = SESSION_QUIET_MS * MS;
    rig_init(&r);
    CU_ASSERT_FALSE(sessions_take_ended(r.s, 100 * quiet, &index)); /* open: silence is no end */
    sessions_close(r.s, r.keys.id, 10 * quiet);
    CU_ASSERT_TRUE(sessions_any_closing(r.s));
    CU_ASSERT_FALSE(sessions_take_ended(r.s, 11 * quiet - 1, &index));
    CU_ASSERT_TRUE(sessions_take_ended(r.s, 11 * quiet, &index));
    CU_ASSERT_EQUAL(index, r.proc->index);
    CU_ASSERT_FALSE(sessions_any_closing(r.s));
    CU_ASSERT_EQUAL(offer(&r, r.keys.id, 1, r.keys.key), DVT_EAUTH);

    CU_ASSERT_EQUAL_FATAL(sessions_publish(r.s, &r.keys, r.proc, NULL), 0);
    sessions_heard(r.s, r.keys.id, 5, true);
    CU_ASSERT_FALSE(sessions_take_ended(r.s, 0, &index)); /* its connection still stands */
    sessions_close(r.s, r.keys.id, 0);
    CU_ASSERT_TRUE(sessions_take_ended(r.s, 0, &index));
    rig_fini(&r);
}

static void test_session_all_heard_needs_every_shim(void)
{
    struct rig r;
    struct session_keys k;
    rig_init(&r);
    CU_ASSERT_EQUAL_FATAL(sessions_prepare(r.s, r.proc, &k, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(sessions_publish(r.s, &k, r.proc, NULL), 0);
    sessions_heard(r.s, k.id, 100, false);
    CU_ASSERT_FALSE(sessions_all_heard(r.s, 100));
    sessions_heard(r.s, r.keys.id, 99, false);
    CU_ASSERT_FALSE(sessions_all_heard(r.s, 100));
    sessions_heard(r.s, r.keys.id, 100, false);
    CU_ASSERT_TRUE(sessions_all_heard(r.s, 100));
    CU_ASSERT_FALSE(sessions_all_heard(r.s, 101));
    rig_fini(&r);
}

static void test_process_text_is_cleaned_and_bounded(void)
{
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    struct dvt_hello hello = {.service = {"a\nb\xff", 4}, .program = {longer, sizeof longer}};
    struct process *p = process_new(&hello);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_PTR_NULL(strchr(p->service, '\n'));
    CU_ASSERT_EQUAL(p->service[0], 'a');
    CU_ASSERT_EQUAL(strlen(p->program), DVT_MAX_PATH);
    CU_ASSERT_STRING_EQUAL(p->runtime, "");
    process_unref(p);
}

static void test_peer_reads_the_start_time_behind_any_name(void)
{
    uint64_t ticks = 0;
    const char *plain = "5 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0 4711 23";
    const char *nasty = "5 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0 4712 23";
    CU_ASSERT_EQUAL(peer_parse_stat(plain, &ticks), 0);
    CU_ASSERT_EQUAL(ticks, 4711);
    CU_ASSERT_EQUAL(peer_parse_stat(nasty, &ticks), 0);
    CU_ASSERT_EQUAL(ticks, 4712);
    CU_ASSERT_EQUAL(peer_parse_stat("5 (a) S 1 2 3", &ticks), DVT_EFORMAT);
    CU_ASSERT_EQUAL(peer_parse_stat("", &ticks), DVT_EFORMAT);
}

static void test_peer_reads_the_innermost_pid(void)
{
    uint32_t pid = 0, n = 0;
    CU_ASSERT_EQUAL(peer_parse_nspid("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n", &pid, &n), 0);
    CU_ASSERT_TRUE(pid == 1 && n == 3);
    CU_ASSERT_EQUAL(peer_parse_nspid("Name:\tx\nNSpid:\t4711\n", &pid, &n), 0);
    CU_ASSERT_TRUE(pid == 4711 && n == 1);
    CU_ASSERT_EQUAL(peer_parse_nspid("Name:\tx\n", &pid, &n), DVT_EFORMAT);
    CU_ASSERT_EQUAL(peer_parse_nspid("Name:\tx\nNSpid:\n", &pid, &n), DVT_EFORMAT);
}

static void test_peer_knows_this_process(void)
{
    struct peer p;
    uint32_t host_tid = 0;
    CU_ASSERT_EQUAL_FATAL(peer_read((uint32_t)getpid(), &p, NULL), 0);
    CU_ASSERT_EQUAL(p.ns_pid, (uint32_t)getpid());
    CU_ASSERT_TRUE(p.start_ticks > 0);
    CU_ASSERT_EQUAL(peer_host_tid(&p, (uint32_t)getpid(), &host_tid, NULL), 0);
    CU_ASSERT_EQUAL(host_tid, (uint32_t)getpid());
    CU_ASSERT_EQUAL(peer_host_tid(&p, (uint32_t)getppid(), &host_tid, NULL), DVT_ENOENT);
    CU_ASSERT_EQUAL(peer_read(0, &p, NULL), DVT_ENOENT);
}

struct child {
    int ready[2], done[2];
};

static void child_main(const struct child *c)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    char byte;
    if (write(c->ready[1], &tid, sizeof tid) != sizeof tid || read(c->done[0], &byte, 1) < 0)
        _exit(1);
    _exit(0);
}

/* A process in a pid namespace of its own calls itself 1; the host has another number for it. */
static void test_peer_translates_numbers_of_a_pid_namespace(void)
{
    struct child c;
    struct peer p;
    uint32_t own_tid = 0, host_tid = 0;
    CU_ASSERT_EQUAL_FATAL(pipe(c.ready) | pipe(c.done), 0);
    pid_t helper = fork();
    if (helper == 0) {
        if (unshare(CLONE_NEWPID))
            _exit(77);
        pid_t pid = fork();
        if (pid == 0)
            child_main(&c);
        if (write(c.ready[1], &pid, sizeof pid) != sizeof pid)
            _exit(1);
        int status;
        waitpid(pid, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    close(c.ready[1]);
    uint32_t numbers[2] = {0};
    size_t n = 0;
    ssize_t got;
    while (n < sizeof numbers && (got = read(c.ready[0], (char *)numbers + n, sizeof numbers - n)) > 0)
        n += (size_t)got;
    if (n == sizeof numbers) { /* in either order: the child says 1 */
        uint32_t pid = numbers[0] == 1 ? numbers[1] : numbers[0];
        own_tid = 1;
        CU_ASSERT_EQUAL(peer_read(pid, &p, NULL), 0);
        CU_ASSERT_TRUE(p.ns_pid == 1 && p.n_namespaces == 2);
        CU_ASSERT_EQUAL(peer_host_tid(&p, own_tid, &host_tid, NULL), 0);
        CU_ASSERT_EQUAL(host_tid, pid);
        CU_ASSERT_EQUAL(peer_host_tid(&p, pid, &host_tid, NULL), DVT_ENOENT);
    } else {
        fputs("pid namespaces are not permitted here; ", stderr);
    }
    CU_ASSERT_EQUAL(write(c.done[1], "x", 1), 1);
    waitpid(helper, NULL, 0);
    close(c.ready[0]);
    close(c.done[0]);
    close(c.done[1]);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"session takes growing sequence numbers only", test_session_takes_growing_sequence_numbers_only},
        {"session refuses a wrong mac and stays as it was",
         test_session_refuses_a_wrong_mac_and_stays_as_it_was},
        {"session counts messages of unknown sessions", test_session_counts_messages_of_unknown_sessions},
        {"session checks two messages as one after the other",
         test_session_checks_two_messages_as_one_after_the_other},
        {"session is unknown until published", test_session_is_unknown_until_published},
        {"session keys and indexes differ", test_session_keys_and_indexes_differ},
        {"session ends after its goodbye or a quiet while",
         test_session_ends_after_its_goodbye_or_a_quiet_while},
        {"session all_heard needs every shim", test_session_all_heard_needs_every_shim},
        {"process text is cleaned and bounded", test_process_text_is_cleaned_and_bounded},
        {"peer reads the start time behind any name", test_peer_reads_the_start_time_behind_any_name},
        {"peer reads the innermost pid", test_peer_reads_the_innermost_pid},
        {"peer knows this process", test_peer_knows_this_process},
        {"peer translates numbers of a pid namespace", test_peer_translates_numbers_of_a_pid_namespace},
    };
    return EDGE_RUN("session", tests);
}
