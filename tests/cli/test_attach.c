/* target, hsperf, hotspot: what may be known of a process, and whether a JVM may be sent SIGQUIT. */
#include "check.h"

#include "../../cli/attacher.h"
#include "../../cli/hotspot.h"
#include "../../cli/hsperf.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- target ---- */

static const char status[] =
    "Name:\tState:\tX\nUmask:\t0022\nState:\tS (sleeping)\nPid:\t4711\nUid:\t7\t8\t8\t8\nGid:\t1\t2\t2\t2\n"
    "NSpid:\t4711\t12\t1\nSigCgt:\t2000000101005ccd\nThreads:\t3\n";

static void test_status_is_read(void)
{
    struct target t = {.pid = 4711};
    CU_ASSERT_EQUAL_FATAL(target_parse_status(status, &t), 0);
    CU_ASSERT_EQUAL(t.state, 'S'); /* not what its name says */
    CU_ASSERT_EQUAL(t.uid, 7);
    CU_ASSERT_EQUAL(t.euid, 8);
    CU_ASSERT_EQUAL(t.egid, 2);
    CU_ASSERT_EQUAL(t.inner_pid, 1); /* of the innermost namespace */
    CU_ASSERT_TRUE(target_catches(&t, SIGQUIT));
    CU_ASSERT_FALSE(target_catches(&t, SIGINT));
}

static void test_a_status_without_its_lines_is_refused(void)
{
    static const char *const lines[] = {"\nState:", "\nUid:", "\nGid:", "\nSigCgt:"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[sizeof status];
        struct target t = {.pid = 1};
        memcpy(text, status, sizeof status);
        strstr(text, lines[i])[1] = '?';
        CU_ASSERT_EQUAL(target_parse_status(text, &t), DVT_EFORMAT);
    }
}

static void test_mapped_files_are_found_by_name(void)
{
    static const char maps[] = "7f00-7f01 r-xp 00000000 fd:00 1    /x/notlibjvm.so\n"
                               "7f02-7f03 rw-p 00000000 00:00 0\n"
                               "7f04-7f05 r-xp 00000000 fd:00 2    /usr/lib/a b/libjvm.so\n"
                               "7f06-7f07 r-xp 00000000 fd:00 3    /tmp/libgone.so (deleted)\n"
                               "7f08-7f09 rw-p 00000000 00:00 0    [stack]\n";
    const char *path;
    CU_ASSERT_EQUAL_FATAL(target_find_mapped(maps, "libjvm.so", &path), strlen("/usr/lib/a b/libjvm.so"));
    CU_ASSERT_NSTRING_EQUAL(path, "/usr/lib/a b/libjvm.so", strlen("/usr/lib/a b/libjvm.so"));
    CU_ASSERT_EQUAL(target_find_mapped(maps, "libgone.so", &path), strlen("/tmp/libgone.so"));
    CU_ASSERT_EQUAL(target_find_mapped(maps, "libpython3", &path), 0);
}

static void test_this_process_is_read_and_an_ended_one_is_not(void)
{
    struct target t;
    struct dvt_err err = {0};
    setenv("DOVETAIL_TEST_X", "y", 1); /* /proc shows it as it was at the start */
    CU_ASSERT_EQUAL_FATAL(target_read(getpid(), &t, &err), 0);
    CU_ASSERT_TRUE(target_is_there(&t));
    CU_ASSERT_EQUAL(t.euid, geteuid());
    CU_ASSERT_PTR_NULL(target_variable(&t, "DOVETAIL_TEST_X"));
    CU_ASSERT_TRUE(target_sees(&t, "/proc/self/../../etc"));
    CU_ASSERT_FALSE(target_sees(&t, "/nowhere"));
    t.start_ticks++; /* its number has gone to another */
    CU_ASSERT_FALSE(target_is_there(&t));
    target_fini(&t);

    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    CU_ASSERT_EQUAL_FATAL(target_read(child, &t, &err), 0); /* a zombie */
    CU_ASSERT_FALSE(target_is_there(&t));
    target_fini(&t);
    waitpid(child, NULL, 0);
    CU_ASSERT_EQUAL(target_read(child, &t, &err), DVT_ENOENT);
}

static void test_a_process_of_no_runtime_is_refused_with_a_reason(void)
{
    struct target t;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL_FATAL(target_read(getpid(), &t, &err), 0);
    const struct attacher *a = attacher_of(&t);
    CU_ASSERT_EQUAL(a->check(&t, &err), DVT_ESTATE);
    CHECK_CONTAINS(err.text, "no Java program");
    target_fini(&t);
}

/* ---- hotspot ---- */

static enum hotspot_truth flag(const char *options)
{
    return hotspot_flag(options, strlen(options), "DisableAttachMechanism", HOTSPOT_UNKNOWN);
}

static void test_the_last_flag_counts(void)
{
    CU_ASSERT_EQUAL(flag(""), HOTSPOT_UNKNOWN);
    CU_ASSERT_EQUAL(flag("-XX:+DisableAttachMechanism"), HOTSPOT_YES);
    CU_ASSERT_EQUAL(flag("-Xmx1g -XX:+DisableAttachMechanism -XX:-DisableAttachMechanism -ea"), HOTSPOT_NO);
    CU_ASSERT_EQUAL(flag("-Dx=-XX:+DisableAttachMechanism"), HOTSPOT_UNKNOWN);
    CU_ASSERT_EQUAL(flag("-XX:+DisableAttachMechanisms -XX:=DisableAttachMechanism"), HOTSPOT_UNKNOWN);
    CU_ASSERT_EQUAL(
        hotspot_flag("java\0-XX:+DisableAttachMechanism\0App", 37, "DisableAttachMechanism", HOTSPOT_NO),
        HOTSPOT_YES);
    CU_ASSERT_EQUAL(hotspot_major("17.0.15"), 17);
    CU_ASSERT_EQUAL(hotspot_major("1.8.0_392"), 8);
    CU_ASSERT_EQUAL(hotspot_major("25-ea"), 25);
    CU_ASSERT_EQUAL(hotspot_major(""), 0);
}

static const struct hotspot_facts fine = {.is_initialised = true,
                                          .handles_signal = true,
                                          .state = 'S',
                                          .major = 21,
                                          .attach_is_off = HOTSPOT_NO,
                                          .loading_is_off = HOTSPOT_NO};

static void refused(struct hotspot_facts f, const char *why)
{
    struct dvt_err err = {0};
    CU_ASSERT_NOT_EQUAL(hotspot_judge(&f, &err), 0);
    CHECK_CONTAINS(err.text, why);
}
#define REFUSED(why, change)                                                                                 \
    do {                                                                                                     \
        struct hotspot_facts f = fine;                                                                       \
        change;                                                                                              \
        refused(f, why);                                                                                     \
    } while (0)

static void test_a_jvm_that_would_not_listen_gets_no_signal(void)
{
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(hotspot_judge(&fine, &err), 0);
    REFUSED("DisableAttachMechanism", f.attach_is_off = HOTSPOT_YES);
    REFUSED("cannot be told", f.attach_is_off = HOTSPOT_UNKNOWN);
    REFUSED("EnableDynamicAgentLoading", f.loading_is_off = HOTSPOT_YES);
    REFUSED("starting up", f.handles_signal = false);
    REFUSED("starting up", f.is_initialised = false);
    REFUSED("starting up", f.is_initialised = false; f.listens = true);
    REFUSED("another user", f.is_other_user = true);
    REFUSED("stopped", f.state = 'T');
    REFUSED("stopped", f.state = 't');
    REFUSED("ended", f.state = 'Z');
    REFUSED("too old", f.major = 11);
}

static void test_a_jvm_that_listens_needs_no_signal(void)
{
    struct hotspot_facts f = fine;
    struct dvt_err err = {0};
    f.listens = true;
    f.handles_signal = false; /* -Xrs */
    f.attach_is_off = HOTSPOT_UNKNOWN;
    CU_ASSERT_EQUAL(hotspot_judge(&f, &err), 0);
    f.state = 'T';
    CU_ASSERT_EQUAL(hotspot_judge(&f, &err), DVT_ESTATE);
}

static void test_answers(void)
{
    struct hotspot_answer a;
    CU_ASSERT_TRUE(hotspot_parse_answer("0\nreturn code: 0\n", &a));
    CU_ASSERT_EQUAL(a.agent, 0);
    CU_ASSERT_TRUE(hotspot_parse_answer("0\nreturn code: -1\n", &a));
    CU_ASSERT_EQUAL(a.agent, -1);
    CU_ASSERT_FALSE(hotspot_parse_answer("-1\n/x.so was not loaded.\nno such file\n", &a)); /* JDK 17 */
    CU_ASSERT_STRING_EQUAL(a.text, "/x.so was not loaded. no such file");
    CU_ASSERT_FALSE(hotspot_parse_answer("0\n/return code: 0.so was not loaded\n",
                                         &a)); /* JDK 25, and a path of that name */
    CU_ASSERT_FALSE(hotspot_parse_answer("", &a));
}

/* ---- hsperf ---- */

struct image {
    uint8_t p[512];
    size_t n;
};

static void put32(uint8_t *p, size_t v)
{
    for (size_t i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

static void begin(struct image *m)
{
    static const uint8_t head[] = {0xca, 0xfe, 0xc0, 0xc0, 1, 2, 0, 1};
    *m = (struct image){.n = 32};
    memcpy(m->p, head, sizeof head);
    put32(m->p + 24, 32);
}

static void add(struct image *m, const char *name, const char *value)
{
    uint8_t *e = m->p + m->n;
    size_t data = 20 + strlen(name) + 1, bytes = data + strlen(value) + 1;
    put32(e, bytes);
    put32(e + 4, 20);
    put32(e + 8, strlen(value) + 1);
    e[12] = 'B';
    put32(e + 16, data);
    memcpy(e + 20, name, strlen(name));
    memcpy(e + data, value, strlen(value));
    m->n += bytes;
    put32(m->p + 28, (size_t)m->p[28] + 1);
}

static void test_counters_are_read(void)
{
    struct image m;
    struct hsperf h = {0};
    begin(&m);
    add(&m, "sun.rt.other", "x");
    add(&m, "java.rt.vmArgs", "-Xmx1g -ea");
    add(&m, "sun.rt.javaCommand", "com.acme.Main a b");
    add(&m, "sun.rt.jvmCapabilities", "0100");
    CU_ASSERT_EQUAL_FATAL(hsperf_decode(m.p, m.n, &h), 0);
    CU_ASSERT_TRUE(h.is_ready);
    CU_ASSERT_STRING_EQUAL(h.arguments, "-Xmx1g -ea");
    CU_ASSERT_STRING_EQUAL(h.command, "com.acme.Main a b");
    CU_ASSERT_STRING_EQUAL(h.capabilities, "0100");
    CU_ASSERT_PTR_NULL(h.version);
    hsperf_fini(&h);
}

static void test_damaged_counters_are_refused(void)
{
    struct image m;
    struct hsperf h = {0};
    begin(&m);
    add(&m, "java.rt.vmArgs", "-ea");
    for (size_t n = 0; n < m.n; n++) {
        CU_ASSERT_EQUAL(hsperf_decode(m.p, n, &h), DVT_EFORMAT);
    }
    for (size_t at = 0; at < m.n; at++) { /* no byte leads out of it: ASan looks */
        struct image bad = m;
        bad.p[at] = 0xff;
        if (hsperf_decode(bad.p, bad.n, &h) == 0) {
            hsperf_fini(&h);
        }
    }
    put32(m.p + 28, 1000000);
    CU_ASSERT_EQUAL(hsperf_decode(m.p, m.n, &h), DVT_EFORMAT);
}

static const struct check_case cases[] = {
    CASE(test_status_is_read),
    CASE(test_a_status_without_its_lines_is_refused),
    CASE(test_mapped_files_are_found_by_name),
    CASE(test_this_process_is_read_and_an_ended_one_is_not),
    CASE(test_a_process_of_no_runtime_is_refused_with_a_reason),
    CASE(test_the_last_flag_counts),
    CASE(test_a_jvm_that_would_not_listen_gets_no_signal),
    CASE(test_a_jvm_that_listens_needs_no_signal),
    CASE(test_answers),
    CASE(test_counters_are_read),
    CASE(test_damaged_counters_are_refused),
};
CHECK_MAIN("attach", cases)
