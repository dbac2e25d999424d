/*
 * dovetaild: the program itself, started by the test: exit codes and texts of a wrong start, one daemon for a
 * store and a socket, a clean stop that keeps what arrived, the end with another process.
 */
#include "edge_check.h"
#include "fake_shim.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zmq.h>

static char dir[64]; /* of the whole run; each test has its own below */

struct daemon {
    pid_t pid;
    int err; /* its stderr */
    char text[8192];
    size_t n;
};

static char *at(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
    return out;
}

static void start(struct daemon *d, char *const argv[])
{
    int fds[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_CLOEXEC), 0);
    memset(d, 0, sizeof *d);
    d->pid = fork();
    if (d->pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        execv(BINARY_DIR "/bin/dovetaild", argv);
        _exit(99);
    }
    close(fds[1]);
    d->err = fds[0];
}

static bool read_more(struct daemon *d)
{
    ssize_t n = read(d->err, d->text + d->n, sizeof d->text - 1 - d->n);
    d->n += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Reads its messages until one has the text; false if it ended first. */
static bool await_text(struct daemon *d, const char *text)
{
    while (!strstr(d->text, text)) {
        if (!read_more(d))
            return false;
    }
    return true;
}

/* Its exit code, once it has ended. */
static int finish(struct daemon *d)
{
    int status = 0;
    while (read_more(d))
        ;
    close(d->err);
    waitpid(d->pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start_in(struct daemon *d, const char *store, const char *socket)
{
    char a[256], b[256];
    start(d, (char *[]){"dovetaild", "--store", at(a, store), "--socket", at(b, socket), NULL});
}

static void expect_start_fails(char *const argv[], int code, const char *text)
{
    struct daemon d;
    start(&d, argv);
    CU_ASSERT_EQUAL(finish(&d), code);
    if (!strstr(d.text, text))
        fprintf(stderr, "wanted '%s', got: %s", text, d.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(d.text, text));
}

static void test_dovetaild_wrong_starts_say_what_is_wrong(void)
{
    char store[256], sock[256], file[256];
    at(store, "w/store");
    at(sock, "w/c.sock");
    expect_start_fails((char *[]){"dovetaild", "--event", "frobs", "--store", store, "--socket", sock, NULL},
                       2,
                       "unknown event 'frobs'");
    expect_start_fails((char *[]){"dovetaild", "--hz", "20000", NULL}, 2, "--force");
    expect_start_fails((char *[]){"dovetaild", "--hz", "0", NULL}, 2, "hz: '0'");
    expect_start_fails((char *[]){"dovetaild", "--frob", NULL}, 2, "--help");
    expect_start_fails((char *[]){"dovetaild", "--store", store, "--socket", "/proc/x/c.sock", NULL}, 3,
                       "/proc/x");
    at(file, "file");
    close(open(file, O_CREAT | O_WRONLY, 0600));
    expect_start_fails((char *[]){"dovetaild", "--store", file, "--socket", sock, NULL}, 2,
                       "not a directory");
}

static void test_dovetaild_is_one_for_a_store_and_one_for_a_socket(void)
{
    struct daemon first, second;
    char pid[32];
    start_in(&first, "one", "one.d/c.sock");
    CU_ASSERT_TRUE_FATAL(await_text(&first, "READY"));
    snprintf(pid, sizeof pid, "%d", (int)first.pid);
    start_in(&second, "one", "other.d/c.sock");
    CU_ASSERT_EQUAL(finish(&second), 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(second.text, pid));
    start_in(&second, "other", "one.d/c.sock");
    CU_ASSERT_EQUAL(finish(&second), 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(second.text, "already listens"));
    CU_ASSERT_PTR_NOT_NULL(strstr(second.text, pid));
    kill(first.pid, SIGTERM);
    CU_ASSERT_EQUAL(finish(&first), 0);
    start_in(&second, "one", "one.d/c.sock"); /* both are free again */
    CU_ASSERT_TRUE(await_text(&second, "READY"));
    kill(second.pid, SIGINT);
    CU_ASSERT_EQUAL(finish(&second), 0);
}

static void test_dovetaild_takes_over_from_one_that_was_killed(void)
{
    struct daemon d;
    start_in(&d, "killed", "killed.d/c.sock");
    CU_ASSERT_TRUE_FATAL(await_text(&d, "READY"));
    kill(d.pid, SIGKILL);
    CU_ASSERT_EQUAL(finish(&d), -1);
    start_in(&d, "killed", "killed.d/c.sock");
    CU_ASSERT_TRUE(await_text(&d, "READY"));
    kill(d.pid, SIGHUP); /* ignored */
    kill(d.pid, SIGTERM);
    CU_ASSERT_EQUAL(finish(&d), 0);
}

static void test_dovetaild_ends_with_the_process_it_was_told(void)
{
    struct daemon d;
    char store[256], sock[256], number[32];
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    snprintf(number, sizeof number, "%d", (int)other);
    start(&d, (char *[]){"dovetaild", "--store", at(store, "with"), "--socket", at(sock, "with.d/c.sock"),
                         "--exit-with", number, NULL});
    CU_ASSERT_TRUE_FATAL(await_text(&d, "READY"));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    CU_ASSERT_EQUAL(finish(&d), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(d.text, "reason=exit-with"));
    CU_ASSERT_TRUE(access(sock, F_OK) != 0); /* no file is left behind */
}

static void test_dovetaild_tells_systemd(void)
{
    struct daemon d;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char text[64] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "dvt-notify-%d", (int)getpid()); /* abstract */
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&a, len), 0);
    snprintf(text, sizeof text, "@dvt-notify-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", text, 1);
    start_in(&d, "notify", "notify.d/c.sock");
    unsetenv("NOTIFY_SOCKET");
    CU_ASSERT_EQUAL(recv(fd, text, sizeof text, 0), 7);
    CU_ASSERT_EQUAL(memcmp(text, "READY=1", 7), 0);
    kill(d.pid, SIGTERM);
    CU_ASSERT_EQUAL(recv(fd, text, sizeof text, 0), 10);
    CU_ASSERT_EQUAL(memcmp(text, "STOPPING=1", 10), 0);
    CU_ASSERT_EQUAL(finish(&d), 0);
    close(fd);
}

/* ---- a shim that sends one scope kept by rule ---- */

static void wait_packet(int fd, struct shim_packet *p)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    while (!shim_receive(fd, p))
        poll(&pfd, 1, -1);
}

static int join(const char *path, struct shim_packet *p, uint32_t role, struct dvt_welcome *ret)
{
    struct dvt_hello h = shim_hello(role);
    struct dvt_buf b;
    int fd = shim_connect(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_put_hello(&b, &h), 0);
    CU_ASSERT_EQUAL_FATAL(shim_send(fd, &b), 0);
    dvt_buf_fini(&b);
    wait_packet(fd, p);
    CU_ASSERT_EQUAL_FATAL(p->type, DVT_MSG_WELCOME);
    CU_ASSERT_EQUAL_FATAL(dvt_wire_get_welcome(p->map, ret, NULL), 0);
    return fd;
}

struct pusher {
    void *zmq, *socket;
    struct dvt_welcome welcome;
    uint64_t seq;
};

static void push(struct pusher *u, struct dvt_buf *body)
{
    struct dvt_buf sealed;
    dvt_buf_init(&sealed, DVT_MAX_MESSAGE);
    CU_ASSERT_EQUAL(
        dvt_wire_seal(&sealed, u->welcome.session, ++u->seq, u->welcome.key, body->p, body->n), 0);
    CU_ASSERT_EQUAL(zmq_send(u->socket, sealed.p, sealed.n, 0), (int)sealed.n);
    body->n = 0;
    dvt_buf_fini(&sealed);
}

static void push_scope(struct pusher *u, uint64_t serial)
{
    uint64_t now = edge_now_ns(CLOCK_MONOTONIC);
    struct dvt_scope_rec s = {.serial = serial,
                              .start_ns = now - 1000000,
                              .end_ns = now,
                              .trace = {{1, 2, 3, (uint8_t)serial}},
                              .span = {{4, (uint8_t)serial}},
                              .name = dvt_str("GET /"),
                              .flags = DVT_SCOPE_ALWAYS | DVT_SCOPE_ROOT};
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_MESSAGE);
    CU_ASSERT_EQUAL(dvt_wire_put_scopes(&b, 77, 0, 0, now, &s, 1), 0);
    push(u, &b);
    dvt_buf_fini(&b);
}

static void push_heartbeat(struct pusher *u)
{
    struct dvt_shim_counts c = {.opened = u->seq};
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_MESSAGE);
    CU_ASSERT_EQUAL(dvt_wire_put_heartbeat(&b, &c, edge_now_ns(CLOCK_MONOTONIC)), 0);
    push(u, &b);
    dvt_buf_fini(&b);
}

static long long segment_bytes(const char *store)
{
    char path[512];
    long long sum = 0;
    const struct dirent *e;
    snprintf(path, sizeof path, "%s/segments", store);
    DIR *d = opendir(path);
    while (d && (e = readdir(d)) != NULL) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += st.st_size;
    }
    if (d)
        closedir(d);
    return sum;
}

static void open_pusher(struct pusher *u)
{
    char endpoint[256];
    snprintf(endpoint, sizeof endpoint, "%.*s", (int)u->welcome.endpoint.n, u->welcome.endpoint.p);
    u->zmq = zmq_ctx_new();
    u->socket = zmq_socket(u->zmq, ZMQ_PUSH);
    CU_ASSERT_EQUAL_FATAL(zmq_connect(u->socket, endpoint), 0);
}

/* SIGTERM asks the shim for the rest; what it answers with is in the store when the daemon has ended. */
static void test_dovetaild_stop_keeps_what_arrives_until_its_end(void)
{
    struct daemon d;
    struct pusher u = {0};
    struct shim_packet *p = malloc(sizeof *p);
    char store[256], sock[256];
    start_in(&d, "stop", "stop.d/c.sock");
    CU_ASSERT_TRUE_FATAL(await_text(&d, "READY"));
    int fd = join(at(sock, "stop.d/c.sock"), p, DVT_ROLE_SHIM, &u.welcome);
    open_pusher(&u);
    push_scope(&u, 1);
    kill(d.pid, SIGTERM);
    wait_packet(fd, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_FLUSH_REQ);
    push_scope(&u, 2);
    push_heartbeat(&u);
    CU_ASSERT_EQUAL(finish(&d), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(d.text, "STOPPED"));
    CU_ASSERT_TRUE(segment_bytes(at(store, "stop")) > 0);
    wait_packet(fd, p);
    CU_ASSERT_EQUAL(p->n, 0); /* it hung up */
    close(fd);
    zmq_close(u.socket);
    zmq_ctx_term(u.zmq);
    free(p);
}

static void test_dovetaild_flush_puts_open_traces_into_the_store(void)
{
    struct daemon d;
    struct pusher u = {0};
    struct dvt_welcome w;
    struct dvt_buf b;
    struct shim_packet *p = malloc(sizeof *p);
    char store[256], sock[256];
    start_in(&d, "flush", "flush.d/c.sock");
    CU_ASSERT_TRUE_FATAL(await_text(&d, "READY"));
    at(sock, "flush.d/c.sock");
    int shim = join(sock, p, DVT_ROLE_SHIM, &u.welcome);
    open_pusher(&u);
    int cli = join(sock, p, DVT_ROLE_CLI, &w);
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    CU_ASSERT_EQUAL(dvt_wire_put_plain(&b, DVT_MSG_FLUSH_REQ), 0);
    CU_ASSERT_EQUAL(shim_send(cli, &b), 0);
    dvt_buf_fini(&b);
    wait_packet(shim, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_FLUSH_REQ);
    push_scope(&u, 1);
    push_heartbeat(&u);
    wait_packet(cli, p);
    CU_ASSERT_EQUAL(p->type, DVT_MSG_FLUSHED);
    CU_ASSERT_TRUE(segment_bytes(at(store, "flush")) > 0);
    kill(d.pid, SIGTERM);
    close(shim);
    close(cli);
    CU_ASSERT_EQUAL(finish(&d), 0);
    zmq_close(u.socket);
    zmq_ctx_term(u.zmq);
    free(p);
}

static void remove_all(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", dir);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"wrong starts say what is wrong", test_dovetaild_wrong_starts_say_what_is_wrong},
        {"there is one daemon for a store and one for a socket",
         test_dovetaild_is_one_for_a_store_and_one_for_a_socket},
        {"it takes over from one that was killed", test_dovetaild_takes_over_from_one_that_was_killed},
        {"it ends with the process it was told", test_dovetaild_ends_with_the_process_it_was_told},
        {"it tells systemd", test_dovetaild_tells_systemd},
        {"stop keeps what arrives until its end", test_dovetaild_stop_keeps_what_arrives_until_its_end},
        {"flush puts open traces into the store", test_dovetaild_flush_puts_open_traces_into_the_store},
    };
    snprintf(dir, sizeof dir, "/tmp/dvt-daemon-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    int failed = EDGE_RUN("dovetaild", tests);
    remove_all();
    return failed;
}
