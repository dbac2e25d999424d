/*
 * peer: see peer.h. Sources: proc(5), pid_namespaces(7).
 */
#include "peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int peer_parse_stat(const char *text, uint64_t *ret_start_ticks)
{
    const char *p = strrchr(text, ')');
    if (!p)
        return DVT_EFORMAT;
    for (int field = 2; field < 22; field++) { /* p: the end of field 2, then the blank before each next */
        p = strchr(p + 1, ' ');
        if (!p)
            return DVT_EFORMAT;
    }
    char *end;
    unsigned long long v = strtoull(p + 1, &end, 10);
    if (end == p + 1 || p[1] == '-')
        return DVT_EFORMAT;
    *ret_start_ticks = v;
    return 0;
}

int peer_parse_nspid(const char *text, uint32_t *ret_innermost, uint32_t *ret_n)
{
    const char *p = strstr(text, "\nNSpid:");
    if (!p)
        return DVT_EFORMAT;
    p += strlen("\nNSpid:");
    uint32_t n = 0, last = 0;
    while (*p == '\t' || *p == ' ') {
        char *end;
        unsigned long v = strtoul(p + 1, &end, 10);
        if (end == p + 1 || v > INT32_MAX)
            return DVT_EFORMAT;
        last = (uint32_t)v;
        n++;
        p = end;
    }
    if (n == 0)
        return DVT_EFORMAT;
    *ret_innermost = last;
    *ret_n = n;
    return 0;
}

/* Reads a small file whole into text[cap], NUL-terminated. 0 or errno. */
static int read_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    size_t n = 0;
    ssize_t got;
    while (n < cap - 1 && (got = read(fd, text + n, cap - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = 0;
    return n ? 0 : ESRCH;
}

static int read_nspid(const char *path, uint32_t *ret_innermost, uint32_t *ret_n)
{
    char text[4096];
    if (read_text(path, text, sizeof text))
        return DVT_ENOENT;
    return peer_parse_nspid(text, ret_innermost, ret_n);
}

int peer_read(uint32_t host_pid, struct peer *ret, struct dvt_err *err)
{
    char path[64], text[2048];
    struct peer p = {.host_pid = host_pid};
    if (host_pid == 0)
        return dvt_fail(err, DVT_ENOENT, 0, "the peer is in a pid namespace that the daemon cannot see");
    snprintf(path, sizeof path, "/proc/%u/stat", host_pid);
    int e = read_text(path, text, sizeof text);
    if (e)
        return dvt_fail(err, DVT_ENOENT, e, "cannot read %s: %s", path, strerror(e));
    if (peer_parse_stat(text, &p.start_ticks))
        return dvt_fail(err, DVT_EFORMAT, 0, "%s has no start time", path);
    snprintf(path, sizeof path, "/proc/%u/status", host_pid);
    int r = read_nspid(path, &p.ns_pid, &p.n_namespaces);
    if (r)
        return dvt_fail(err, r, 0, "%s has no NSpid line", path);
    *ret = p;
    return 0;
}

bool peer_has_task(uint32_t host_pid, uint32_t host_tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task/%u", host_pid, host_tid);
    return access(path, F_OK) == 0;
}

/* Looks at each thread of the process for the one whose innermost number is tid. */
static uint32_t search_tid(const struct peer *p, uint32_t tid)
{
    char path[320];
    uint32_t found = 0, inner, n;
    snprintf(path, sizeof path, "/proc/%u/task", p->host_pid);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    const struct dirent *e;
    while (!found && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%u/task/%s/status", p->host_pid, e->d_name);
        if (read_nspid(path, &inner, &n) == 0 && inner == tid)
            found = (uint32_t)strtoul(e->d_name, NULL, 10);
    }
    closedir(dir);
    return found;
}

int peer_host_tid(const struct peer *p, uint32_t tid, uint32_t *ret_host_tid, struct dvt_err *err)
{
    uint32_t host = p->n_namespaces == 1 ? tid : search_tid(p, tid);
    if (host == 0 || !peer_has_task(p->host_pid, host))
        return dvt_fail(err, DVT_ENOENT, 0, "process %u has no thread %u", p->host_pid, tid);
    *ret_host_tid = host;
    return 0;
}
