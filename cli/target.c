/* target: see target.h. Sources: proc(5), pid_namespaces(7), openat2(2). */
#include "target.h"
#include "alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_STATUS = 16 << 10, MAX_WORDS = 4 << 20, MAX_MAPS = 64 << 20, FIRST_READ = 16 << 10 };

/* A file of /proc/PID, NUL-terminated; NULL with errno. What is beyond max is cut. */
static char *read_file(pid_t pid, const char *name, size_t max, size_t *ret_n)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    char *text = NULL;
    size_t n = 0, cap = 0;
    ssize_t got;
    do {
        alloc_grow(&text, &cap, n + FIRST_READ, 1);
        size_t room = cap - 1 - n;
        got = read(fd, text + n, room < max - n ? room : max - n);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    int no = errno;
    close(fd);
    text[n] = 0;
    *ret_n = n;
    if (got < 0 && n == 0) {
        free(text);
        errno = no;
        return NULL;
    }
    return text;
}

/* ---- status and stat ---- */

static const char *field(const char *text, const char *name)
{
    const char *p = strstr(text, name); /* each begins with a newline: comm, in the first line, has none */
    return p ? p + strlen(name) : NULL;
}

/* The number of the innermost namespace is the last of the line. */
static pid_t last_number(const char *p)
{
    long last = 0;
    while (*p == '\t' || *p == ' ') {
        char *end;
        last = strtol(p, &end, 10);
        if (end == p) {
            break;
        }
        p = end;
    }
    return last > 0 && last <= INT32_MAX ? (pid_t)last : 0;
}

int target_parse_status(const char *text, struct target *t)
{
    const char *state = field(text, "\nState:\t"), *uid = field(text, "\nUid:\t"),
               *gid = field(text, "\nGid:\t");
    const char *pids = field(text, "\nNSpid:"), *caught = field(text, "\nSigCgt:\t");
    unsigned real, effective, group;
    if (!state || !uid || !gid || !caught || sscanf(uid, "%u %u", &real, &effective) != 2 ||
        sscanf(gid, "%*u %u", &group) != 1 || sscanf(caught, "%" SCNx64, &t->caught) != 1) {
        return DVT_EFORMAT;
    }
    t->state = *state;
    t->uid = real;
    t->euid = effective;
    t->egid = group;
    t->inner_pid = pids ? last_number(pids) : t->pid;
    return t->inner_pid ? 0 : DVT_EFORMAT;
}

/* Field 22 of stat; comm may hold anything, so from its last parenthesis on. 0: it is gone. */
static uint64_t start_of(pid_t pid, char *ret_state)
{
    size_t n;
    uint64_t ticks = 0;
    char *text = read_file(pid, "stat", MAX_STATUS, &n), *p = text ? strrchr(text, ')') : NULL;
    if (p && p[1] == ' ') {
        *ret_state = p[2];
        for (int i = 2; p && i < 22; i++) {
            p = strchr(p + 1, ' ');
        }
        ticks = p ? strtoull(p + 1, NULL, 10) : 0;
    }
    free(text);
    return ticks;
}

static void read_comm(struct target *t)
{
    size_t n;
    char *text = read_file(t->pid, "comm", sizeof t->comm - 1, &n);
    if (text && n) {
        text[strcspn(text, "\n")] = 0;
        snprintf(t->comm, sizeof t->comm, "%s", text);
    }
    free(text);
}

int target_read(pid_t pid, struct target *ret, struct dvt_err *err)
{
    struct target t = {.pid = pid};
    size_t n;
    char *status = read_file(pid, "status", MAX_STATUS, &n);
    t.start_ticks = start_of(pid, &t.state);
    if (!status || !t.start_ticks) {
        free(status);
        return dvt_fail(err, DVT_ENOENT, 0, "there is no process %d", (int)pid);
    }
    int rc = target_parse_status(status, &t);
    free(status);
    if (rc) {
        return dvt_fail(err, rc, 0, "/proc/%d/status is not as proc(5) says", (int)pid);
    }
    read_comm(&t);
    t.command = read_file(pid, "cmdline", MAX_WORDS, &t.n_command);
    t.environment = read_file(pid, "environ", MAX_WORDS, &t.n_environment);
    t.maps = read_file(pid, "maps", MAX_MAPS, &n);
    *ret = t;
    return 0;
}

void target_fini(struct target *t)
{
    free(t->command);
    free(t->environment);
    free(t->maps);
    *t = (struct target){0};
}

bool target_is_there(const struct target *t)
{
    char state = 'Z';
    return start_of(t->pid, &state) == t->start_ticks && state != 'Z' && state != 'X';
}

bool target_catches(const struct target *t, int signal)
{
    return t->caught >> (signal - 1) & 1;
}

/* ---- what it was given, what it has mapped ---- */

const char *target_variable(const struct target *t, const char *name)
{
    size_t n = strlen(name);
    const char *p = t->environment, *end = p ? p + t->n_environment : NULL;
    for (; p && p < end; p += strlen(p) + 1) {
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            return p + n + 1;
        }
    }
    return NULL;
}

bool target_has_thread(const struct target *t, const char *comm)
{
    char path[300];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)t->pid);
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir && !found && (e = readdir(dir)) != NULL) {
        size_t n;
        snprintf(path, sizeof path, "task/%.200s/comm", e->d_name);
        char *name = read_file(t->pid, path, MAX_STATUS, &n);
        if (name) {
            name[strcspn(name, "\n")] = 0;
            found = strcmp(name, comm) == 0;
        }
        free(name);
    }
    if (dir) {
        closedir(dir);
    }
    return found;
}

size_t target_find_mapped(const char *maps, const char *begin, const char **ret)
{
    static const char gone[] = " (deleted)";
    size_t n_begin = strlen(begin), n_gone = sizeof gone - 1;
    for (const char *line = maps; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        const char *path = memchr(line, '/', n); /* what stands before it has none */
        if (!path) {
            continue;
        }
        n -= (size_t)(path - line);
        n -= n > n_gone && memcmp(path + n - n_gone, gone, n_gone) == 0 ? n_gone : 0;
        const char *name = path + n;
        while (name[-1] != '/') {
            name--;
        }
        if ((size_t)(path + n - name) >= n_begin && memcmp(name, begin, n_begin) == 0) {
            *ret = path;
            return n;
        }
    }
    return 0;
}

char *target_mapped(const struct target *t, const char *begin)
{
    const char *path;
    size_t n = t->maps ? target_find_mapped(t->maps, begin, &path) : 0;
    return n ? alloc_text(path, n) : NULL;
}

char *target_program(const struct target *t)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)t->pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    const char *name = t->comm;
    if (n > 0) {
        path[n] = 0;
        name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    }
    return alloc_text(name, strlen(name));
}

/* ---- its file system ---- */

static int open_root(const struct target *t)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root", (int)t->pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A link in there is resolved as the target would: it cannot lead us to a file of ours. */
static int open_inside(const struct target *t, const char *path, uint64_t flags)
{
    int root = open_root(t);
    if (root < 0) {
        return -1;
    }
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    int no = errno;
    close(root);
    errno = no;
    return (int)fd;
}

int target_open_folder(const struct target *t, const char *path)
{
    return open_inside(t, path, O_DIRECTORY);
}

int target_open_file(const struct target *t, const char *path)
{
    char link[64];
    int fd = open_inside(t, path, 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int file = fd < 0 ? -1 : open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK), no = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = no;
    return file;
}

bool target_sees(const struct target *t, const char *path)
{
    struct stat ours, theirs;
    int fd = open_inside(t, path, 0);
    bool same = fd >= 0 && fstat(fd, &theirs) == 0 && stat(path, &ours) == 0 &&
                ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
    if (fd >= 0) {
        close(fd);
    }
    return same;
}

static int open_network(const char *pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino;
}

int target_socket(const struct target *t, int family, int type)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)t->pid);
    int ours = open_network("self"), its = open_network(pid), fd = -1;
    bool is_ours = is_same(ours, its);
    if (ours >= 0 && its >= 0 && (is_ours || setns(its, CLONE_NEWNET) == 0)) {
        fd = socket(family, type | SOCK_CLOEXEC, 0);
        int no = errno;
        if (!is_ours && setns(ours, CLONE_NEWNET) != 0) {
            abort(); /* cannot be: it is where we come from; going on in another would be worse */
        }
        errno = no;
    }
    int no = errno;
    if (ours >= 0) {
        close(ours);
    }
    if (its >= 0) {
        close(its);
    }
    errno = no;
    return fd;
}
