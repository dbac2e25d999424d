/* processes: see processes.h. Processes come and go meanwhile: what has just ended is not there, what has just begun may be missed. */
#include "processes.h"
#include "alloc.h"
#include "target.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 4096, MAX_DEPTH = 64, MAX_LEVELS = 32 };

void processes_fini(struct processes *p)
{
    free(p->v);
    *p = (struct processes){0};
}

static void add(struct processes *p, pid_t pid)
{
    size_t at = p->n;
    while (at && p->v[at - 1] >= pid) {
        at--;
    }
    if (pid == getpid() || (at < p->n && p->v[at] == pid)) {
        return;
    }
    alloc_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v);
    memmove(p->v + at + 1, p->v + at, (p->n - at) * sizeof *p->v);
    p->v[at] = pid;
    p->n++;
}

/* ---- /proc ---- */

static DIR *open_proc(struct dvt_err *err)
{
    DIR *dir = opendir("/proc");
    if (!dir) {
        dvt_fail(err, DVT_EIO, errno, "cannot read /proc: %s", strerror(errno));
    }
    return dir;
}

/* 0 at the end. */
static pid_t next_pid(DIR *dir)
{
    for (const struct dirent *e; (e = readdir(dir));) {
        long pid = strtol(e->d_name, NULL, 10);
        if (pid > 0) {
            return (pid_t)pid;
        }
    }
    return 0;
}

/* The words of its command line with blanks between, or its name in the kernel. False: it has ended. */
static bool command_of(pid_t pid, char out[MAX_LINE])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, MAX_LINE - 1, f) : 0;
    if (f) {
        fclose(f);
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = out[i] ? out[i] : ' ';
    }
    while (n && out[n - 1] == ' ') {
        n--;
    }
    out[n] = 0;
    return n > 0;
}

static bool is_called(pid_t pid, const void *what)
{
    const char *pattern = what;
    char line[MAX_LINE];
    struct target t = {.pid = pid};
    if (!command_of(pid, line)) {
        return false;
    }
    char *program = target_program(&t);
    bool same = fnmatch(pattern, program, 0) == 0 || fnmatch(pattern, line, 0) == 0;
    free(program);
    return same;
}

/* DVT_ENOENT, without a text: none is. */
static int add_all(struct processes *p, bool (*is_it)(pid_t pid, const void *what), const void *what, struct dvt_err *err)
{
    DIR *dir = open_proc(err);
    size_t before = p->n;
    if (!dir) {
        return DVT_EIO;
    }
    for (pid_t pid; (pid = next_pid(dir));) {
        if (is_it(pid, what)) {
            add(p, pid);
        }
    }
    closedir(dir);
    return p->n > before ? 0 : DVT_ENOENT;
}

int processes_by_name(struct processes *p, const char *pattern, struct dvt_err *err)
{
    int rc = add_all(p, is_called, pattern, err);
    return rc != DVT_ENOENT ? rc
                            : dvt_fail(err, DVT_ENOENT, 0,
                                       "no process is called \"%.100s\": a pattern such as \"*order*\" is held against the "
                                       "program's name and the whole command line",
                                       pattern);
}

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    const char *p = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f) {
        fclose(f);
    }
    return p && sscanf(p, ") %*c %d", &parent) == 1 ? parent : 0;
}

static bool is_below(pid_t pid, const void *what)
{
    pid_t root = *(const pid_t *)what;
    for (int i = 0; pid && i < MAX_DEPTH; i++, pid = parent_of(pid)) {
        if (pid == root) {
            return true;
        }
    }
    return false;
}

int processes_by_tree(struct processes *p, pid_t root, struct dvt_err *err)
{
    int rc = add_all(p, is_below, &root, err);
    return rc != DVT_ENOENT ? rc : dvt_fail(err, DVT_ENOENT, 0, "there is no process %d", (int)root);
}

/* ---- control groups ---- */

static void add_procs(struct processes *p, const char *folder)
{
    char *path = alloc_printf("%s/cgroup.procs", folder);
    FILE *f = fopen(path, "re");
    int pid;
    while (f && fscanf(f, "%d", &pid) == 1) {
        if (pid > 0) { /* 0: of another pid namespace */
            add(p, pid);
        }
    }
    if (f) {
        fclose(f);
    }
    free(path);
}

/* True if the folder is there. */
static bool add_group(struct processes *p, const char *folder, int level)
{
    DIR *dir = level < MAX_LEVELS ? opendir(folder) : NULL;
    if (!dir) {
        return false;
    }
    add_procs(p, folder);
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            char *inner = alloc_printf("%s/%s", folder, e->d_name);
            (void)add_group(p, inner, level + 1);
            free(inner);
        }
    }
    closedir(dir);
    return true;
}

int processes_by_cgroup(struct processes *p, const char *path, struct dvt_err *err)
{
    static const char top[] = "/sys/fs/cgroup";
    bool is_whole = strncmp(path, top, sizeof top - 1) == 0;
    size_t before = p->n;
    char *folder = is_whole ? alloc_text(path, strlen(path)) : alloc_printf("%s/%s", top, path);
    bool is_there = add_group(p, folder, 0);
    int rc = p->n > before ? 0
             : is_there    ? dvt_fail(err, DVT_ENOENT, 0, "no process is in the control group %.200s", folder)
                           : dvt_fail(err, DVT_ENOENT, 0, "there is no control group %.200s", folder);
    free(folder);
    return rc;
}
