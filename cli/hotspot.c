/*
 * hotspot: see hotspot.h. Sources: HotSpot's attachListener.cpp and attachListener_posix.cpp of JDK 17
 * and 25.
 *
 * The JVM looks at the owner of the trigger file and at the peer of the connection: both must be its own
 * effective user, or root. In a user namespace our root is nobody to it, so files and connection are made
 * with its own effective ids.
 */
#include "hotspot.h"
#include "alloc.h"
#include "hsperf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { START_TIMEOUT_MS = 10000, ANSWER_TIMEOUT_MS = 60000, STEP_MS = 5, OLDEST = 17, NEWEST = 25 };

/* ---- the target's ids ---- */

struct ids {
    uid_t uid;
    gid_t gid;
};

static struct ids take_ids(const struct target *t)
{
    struct ids before = {geteuid(), getegid()};
    if (before.uid == 0 && (setegid(t->egid) || seteuid(t->euid))) {
        /* as root it works wherever the target is in our user namespace */
    }
    return before;
}

static void give_ids_back(struct ids before)
{
    if (before.uid == 0 && (seteuid(before.uid) || setegid(before.gid))) {
        abort(); /* cannot be: the saved ids are root's; going on as another user would be worse */
    }
}

/* ---- its options ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == 0;
}

enum hotspot_truth hotspot_flag(const char *options, size_t n, const char *name, enum hotspot_truth otherwise)
{
    enum hotspot_truth v = otherwise;
    size_t n_name = strlen(name), n_option = n_name + 5;
    for (size_t i = 0; i + n_option <= n; i++) {
        const char *p = options + i;
        bool is_whole = (i == 0 || is_blank(p[-1])) && (i + n_option == n || is_blank(p[n_option]));
        if (is_whole && memcmp(p, "-XX:", 4) == 0 && (p[4] == '+' || p[4] == '-') &&
            memcmp(p + 5, name, n_name) == 0) {
            v = p[4] == '+' ? HOTSPOT_YES : HOTSPOT_NO;
        }
    }
    return v;
}

int hotspot_major(const char *version)
{
    int major = atoi(version);
    return major == 1 && version[1] == '.' ? atoi(version + 2) : major > 0 ? major : 0;
}

/* Other programs that hold a JVM give it options of their own. */
static bool is_launcher(const struct target *t)
{
    char *program = target_program(t);
    bool same = strcmp(program, "java") == 0;
    free(program);
    return same;
}

static bool has_option_file(const struct target *t)
{
    const char *p = t->command, *end = p ? p + t->n_command : NULL;
    for (; p && p < end; p += strlen(p) + 1) {
        if (*p == '@' || strncmp(p, "-XX:Flags=", 10) == 0 || strncmp(p, "-XX:VMOptionsFile=", 18) == 0) {
            return true;
        }
    }
    return false;
}

/* Of the command line and the variables that a JVM reads. An application's own argument may look the same:
 * then it is refused without need. */
static enum hotspot_truth given_flag(const struct target *t, const char *name, enum hotspot_truth otherwise)
{
    static const char *const variables[] = {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"};
    enum hotspot_truth v = otherwise;
    if (!t->command || !t->environment || !is_launcher(t) || has_option_file(t)) {
        v = HOTSPOT_UNKNOWN;
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = target_variable(t, variables[i]);
        v = text ? hotspot_flag(text, strlen(text), name, v) : v;
    }
    return t->command ? hotspot_flag(t->command, t->n_command, name, v) : v;
}

static enum hotspot_truth told_flag(const struct target *t, const struct hsperf *p, const char *name,
                                    enum hotspot_truth otherwise)
{
    bool whole = p->arguments && strlen(p->arguments) < HSPERF_CUT;
    return whole ? hotspot_flag(p->arguments, strlen(p->arguments), name, otherwise)
                 : given_flag(t, name, otherwise);
}

/* ---- what can be known without touching it ---- */

static void socket_name(const struct hotspot *h, char *out, size_t cap)
{
    snprintf(out, cap, ".java_pid%d", (int)h->target->inner_pid);
}

/* Its socket, and no link: others may write into a temporary folder as well. */
static bool has_socket(const struct hotspot *h)
{
    char name[32];
    struct stat st;
    socket_name(h, name, sizeof name);
    return fstatat(h->tmp, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
           (st.st_uid == h->target->euid || st.st_uid == 0);
}

/* A connection, or -1: none listens. */
static int connect_to(const struct hotspot *h)
{
    char name[32];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = has_socket(h) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return -1;
    }
    socket_name(h, name, sizeof name);
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", h->tmp, name);
    struct ids before = take_ids(h->target);
    int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
    give_ids_back(before);
    if (rc) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool may_act_for(const struct target *t)
{
    return geteuid() == 0 || (geteuid() == t->euid && t->uid == t->euid);
}

static void learn(struct hotspot *h, struct hotspot_facts *f)
{
    const struct target *t = h->target;
    struct hsperf p = {0};
    (void)hsperf_read(t, h->tmp, &p); /* without it the options say */
    f->loading_is_off =
        told_flag(t, &p, "EnableDynamicAgentLoading", HOTSPOT_YES) == HOTSPOT_NO ? HOTSPOT_YES : HOTSPOT_NO;
    f->attach_is_off = told_flag(t, &p, "DisableAttachMechanism", HOTSPOT_NO);
    if (p.capabilities && (p.capabilities[0] == '0' || p.capabilities[0] == '1')) {
        f->attach_is_off = p.capabilities[0] == '0' ? HOTSPOT_YES : HOTSPOT_NO; /* its own word for it */
    }
    /* Of JVMs that keep no counters: a thread that is started last. */
    f->is_initialised = p.is_ready || target_has_thread(t, "VM Periodic Tas");
    snprintf(h->version, sizeof h->version, "%s", p.version ? p.version : "");
    f->major = hotspot_major(h->version);
    h->command = p.command;
    p.command = NULL;
    hsperf_fini(&p);
}

int hotspot_open(const struct target *t, struct hotspot *ret, struct hotspot_facts *ret_facts,
                 struct dvt_err *err)
{
    struct hotspot h = {.target = t, .tmp = target_open_folder(t, "/tmp")};
    struct hotspot_facts f = {
        .state = t->state, .handles_signal = target_catches(t, SIGQUIT), .is_other_user = !may_act_for(t)};
    if (h.tmp < 0 && !f.is_other_user) {
        return dvt_fail(err, DVT_EPERM, errno,
                        "its temporary folder cannot be opened (%s): CAP_SYS_PTRACE is needed for that",
                        strerror(errno));
    }
    f.attach_is_off = f.loading_is_off = HOTSPOT_UNKNOWN;
    if (h.tmp >= 0) {
        learn(&h, &f);
    }
    if (h.tmp >= 0 && !f.is_other_user) {
        int fd = connect_to(&h);
        f.listens = fd >= 0;
        if (fd >= 0) {
            close(fd);
        }
    }
    *ret = h;
    *ret_facts = f;
    return 0;
}

void hotspot_close(struct hotspot *h)
{
    if (h->tmp >= 0) {
        close(h->tmp);
    }
    free(h->command);
    *h = (struct hotspot){.tmp = -1};
}

/* ---- may it be touched ---- */

int hotspot_judge(const struct hotspot_facts *f, struct dvt_err *err)
{
    if (f->state == 'Z' || f->state == 'X') {
        return dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
    }
    if (f->is_other_user) {
        return dvt_fail(err, DVT_EPERM, 0,
                        "it belongs to another user: run dovetail as that user, or as root");
    }
    if (f->state == 'T' || f->state == 't') {
        return dvt_fail(err, DVT_ESTATE, 0, "it is stopped, by a signal or a debugger: let it go on first");
    }
    if (f->major && f->major < OLDEST) {
        return dvt_fail(err, DVT_EVERSION, 0, "JDK %d is too old: 17 to %d can be profiled", f->major,
                        NEWEST);
    }
    if (f->loading_is_off == HOTSPOT_YES) {
        return dvt_fail(
            err, DVT_ESTATE, 0,
            "it runs with -XX:-EnableDynamicAgentLoading: start it without, or under dovetail run");
    }
    if (f->attach_is_off == HOTSPOT_YES) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "it runs with -XX:+DisableAttachMechanism: start it without, or under dovetail run");
    }
    if (!f->is_initialised || (!f->listens && !f->handles_signal)) {
        return dvt_fail(err, DVT_ESTATE, 0, "it is starting up: try again");
    }
    if (f->listens) {
        return 0;
    }
    if (f->attach_is_off == HOTSPOT_UNKNOWN) {
        return dvt_fail(
            err, DVT_ESTATE, 0,
            "it cannot be told whether it would listen or print its threads: it keeps no hsperfdata, "
            "and its options come from a file or cannot be read; start it without -XX:-UsePerfData, or under "
            "dovetail run");
    }
    return 0;
}

/* ---- making it listen ---- */

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

struct trigger {
    char name[32];
    int folder;
};

/* The JVM looks in its working folder first, then in its temporary one, and takes a file of another user for
 * none. */
static bool is_in_the_way(const struct hotspot *h, int folder, const char *name)
{
    struct stat st;
    return folder >= 0 && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_uid != h->target->euid && st.st_uid != 0;
}

static int make_file(const struct hotspot *h, int folder, const char *name)
{
    struct ids before = take_ids(h->target);
    int fd = folder < 0
                 ? -1
                 : openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600),
        no = errno;
    give_ids_back(before);
    if (fd < 0) {
        return no;
    }
    close(fd);
    return 0;
}

static int make_trigger(const struct hotspot *h, struct trigger *ret, struct dvt_err *err)
{
    char path[64];
    snprintf(ret->name, sizeof ret->name, ".attach_pid%d", (int)h->target->inner_pid);
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)h->target->pid);
    int cwd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), no = 0;
    ret->folder = dup(h->tmp);
    bool blocked = is_in_the_way(h, cwd, ret->name) || is_in_the_way(h, ret->folder, ret->name);
    if (!blocked && (no = make_file(h, ret->folder, ret->name)) != 0 && make_file(h, cwd, ret->name) == 0) {
        int tmp = ret->folder;
        ret->folder = cwd;
        cwd = tmp;
        no = 0;
    }
    if (cwd >= 0) {
        close(cwd);
    }
    if (!blocked && !no) {
        return 0;
    }
    close(ret->folder);
    return dvt_fail(err, DVT_EPERM, no, "no file %s can be made in its temporary or working folder: %s",
                    ret->name, blocked ? "another user's is there" : strerror(no));
}

static void remove_trigger(const struct hotspot *h, const struct trigger *t)
{
    struct ids before = take_ids(h->target);
    (void)unlinkat(t->folder, t->name, 0); /* the other side may have */
    give_ids_back(before);
}

static int await_socket(const struct hotspot *h, int *ret_fd, struct dvt_err *err)
{
    for (int waited = 0; waited < START_TIMEOUT_MS; waited += STEP_MS) {
        *ret_fd = connect_to(h);
        if (*ret_fd >= 0) {
            return 0;
        }
        if (!target_is_there(h->target)) {
            return dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
        }
        pause_ms(STEP_MS);
    }
    return dvt_fail(err, DVT_EBUSY, ETIMEDOUT,
                    "it does not answer within %d s (frozen?): try again when it runs",
                    START_TIMEOUT_MS / 1000);
}

/* A trigger that had no effect in time stays: without it a JVM that goes on later would print its threads. */
static int make_listen(const struct hotspot *h, int *ret_fd, struct dvt_err *err)
{
    struct trigger trigger;
    int rc = make_trigger(h, &trigger, err);
    if (rc) {
        return rc;
    }
    if (!target_is_there(h->target)) {
        rc = dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
    } else if (kill(h->target->pid, SIGQUIT)) {
        rc = dvt_fail(err, DVT_EPERM, errno, "it cannot be sent a signal: %s", strerror(errno));
    } else {
        rc = await_socket(h, ret_fd, err);
    }
    if (rc != DVT_EBUSY) {
        remove_trigger(h, &trigger);
    }
    close(trigger.folder);
    return rc;
}

/* ---- asking ---- */

static int send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno != EINTR) {
            return -1;
        }
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* Protocol 1: version, command and three arguments, each with its NUL. */
static int send_load(int fd, const char *library, const char *options)
{
    const char *const words[] = {"1", "load", library, "true", options};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (send_all(fd, words[i], strlen(words[i]) + 1)) {
            return -1;
        }
    }
    return 0;
}

static int receive(int fd, char *text, size_t cap, struct dvt_err *err)
{
    size_t n = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char rest[256];
        bool full = n == cap - 1;
        int ready = poll(&p, 1, ANSWER_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        ssize_t got = ready > 0 ? recv(fd, full ? rest : text + n, full ? sizeof rest : cap - 1 - n, 0) : -1;
        if (ready <= 0 || (got < 0 && errno != EINTR)) {
            return dvt_fail(err, DVT_EIO, ready ? errno : ETIMEDOUT,
                            "it took the request and does not answer");
        }
        if (got == 0) {
            text[n] = 0;
            return 0;
        }
        n += got > 0 && !full ? (size_t)got : 0;
    }
}

/* "0\nreturn code: 0\n"; where it could not load the library, of which JDK 17 says -1 and 25 says 0, a text
 * instead. */
bool hotspot_parse_answer(const char *text, struct hotspot_answer *ret)
{
    static const char code[] = "return code: ";
    const char *body = strchr(text, '\n'), *p = strstr(text, code);
    size_t n = 0;
    *ret = (struct hotspot_answer){0};
    for (const char *c = body ? body + 1 : text; *c && n < sizeof ret->text - 1; c++) {
        ret->text[n++] = *c == '\n' ? ' ' : *c;
    }
    while (n > 0 && ret->text[n - 1] == ' ') {
        ret->text[--n] = 0;
    }
    if (p && (p == text || p[-1] == '\n')) {
        ret->agent = atoi(p + sizeof code - 1);
        return true;
    }
    return false;
}

int hotspot_load(const struct hotspot *h, const char *library, const char *options,
                 struct hotspot_answer *ret, struct dvt_err *err)
{
    char text[4096];
    int fd = connect_to(h);
    int rc = fd >= 0 ? 0 : make_listen(h, &fd, err);
    if (rc) {
        return rc;
    }
    rc = send_load(fd, library, options) ? dvt_fail(err, DVT_EIO, errno, "it hung up: %s", strerror(errno))
                                         : receive(fd, text, sizeof text, err);
    close(fd);
    if (rc == 0 && !hotspot_parse_answer(text, ret)) {
        rc = dvt_fail(err, DVT_EIO, 0, "the JVM does not load the agent: %.180s",
                      ret->text[0] ? ret->text : "it says nothing");
    }
    return rc;
}
