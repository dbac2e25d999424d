/*
 * listener: see listener.h. Look, unlink and bind happen under a flock on the directory, so that two daemons
 * that start at once do not take each other's socket for a dead one.
 */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static void directory_of(const char *path, char *out, size_t cap)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(out, cap, ".");
    else
        snprintf(out, cap, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static bool find_group(const char *name, gid_t *ret)
{
    const struct group *g = getgrnam(name); /* before threads start */
    if (g)
        *ret = g->gr_gid;
    return g != NULL;
}

static int open_directory(const char *dir, const char *group, int *ret_fd, struct dvt_err *err)
{
    if (mkdir(dir, 0750) && errno != EEXIST)
        return dvt_fail(err, DVT_EIO, errno, "cannot make directory %s: %s", dir, strerror(errno));
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return dvt_fail(err, DVT_EIO, errno, "cannot open directory %s: %s", dir, strerror(errno));
    struct stat st;
    gid_t gid;
    int r = 0;
    if (fstat(fd, &st))
        r = dvt_fail(err, DVT_EIO, errno, "cannot look at %s: %s", dir, strerror(errno));
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        r = dvt_fail(err, DVT_EPERM, 0, "%s belongs to user %u: choose a directory of your own with --socket",
                     dir, st.st_uid);
    else if (st.st_mode & S_IWOTH)
        r = dvt_fail(err, DVT_EPERM, 0,
                     "%s can be written by everybody: choose a directory of your own with --socket",
                     dir);
    else if (group[0] && st.st_uid == geteuid() && find_group(group, &gid) && fchown(fd, (uid_t)-1, gid))
        r = dvt_fail(err, DVT_EPERM, errno, "cannot give %s to group %s: %s", dir, group, strerror(errno));
    if (r)
        close(fd);
    else
        *ret_fd = fd;
    return r;
}

/* Removes the file of a daemon that is gone. */
static int clear_path(int fd, const struct sockaddr_un *a, struct dvt_err *err)
{
    struct stat st;
    if (lstat(a->sun_path, &st))
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return dvt_fail(err, DVT_EIO, EEXIST, "%s exists and is no socket", a->sun_path);
    if (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0) {
        struct ucred peer = {0};
        socklen_t n = sizeof peer;
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n); /* then pid 0 is named */
        return dvt_fail(err, DVT_EBUSY, 0, "a daemon with pid %d already listens on %s", (int)peer.pid,
                        a->sun_path);
    }
    if (errno != ECONNREFUSED)
        return dvt_fail(err, DVT_EBUSY, errno, "%s is in use: %s", a->sun_path, strerror(errno));
    unlink(a->sun_path); /* if it fails, bind says why */
    return 0;
}

int listener_protect(const char *path, const char *group, struct dvt_err *err)
{
    gid_t gid = (gid_t)-1;
    if (group[0] && !find_group(group, &gid))
        return dvt_fail(err, DVT_EINVAL, 0, "socket-group: there is no group '%s'", group);
    if (chmod(path, 0660) || (group[0] && chown(path, (uid_t)-1, gid)))
        return dvt_fail(err, DVT_EPERM, errno, "cannot set mode and group of %s: %s", path, strerror(errno));
    return 0;
}

static int new_socket(int *ret_fd, struct dvt_err *err)
{
    *ret_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *ret_fd < 0 ? dvt_fail(err, DVT_EIO, errno, "socket: %s", strerror(errno)) : 0;
}

static int bind_in(const struct sockaddr_un *a, const char *group, int *ret_fd, struct dvt_err *err)
{
    int probe = -1, fd = -1;
    int r = new_socket(&probe, err);
    if (r)
        return r;
    r = clear_path(probe, a, err);
    close(probe);
    if (r == 0)
        r = new_socket(&fd, err);
    if (r)
        return r;
    if (bind(fd, (const struct sockaddr *)a, sizeof *a) || listen(fd, BACKLOG))
        r = dvt_fail(err, DVT_EIO, errno, "cannot listen on %s: %s", a->sun_path, strerror(errno));
    if (r == 0)
        r = listener_protect(a->sun_path, group, err);
    if (r)
        close(fd);
    else
        *ret_fd = fd;
    return r;
}

int listener_open(const char *path, const char *group, int *ret_fd, struct dvt_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[sizeof a.sun_path];
    if (strlen(path) >= sizeof a.sun_path)
        return dvt_fail(err, DVT_EINVAL, 0, "socket path %s is longer than %zu bytes", path,
                        sizeof a.sun_path - 1);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    directory_of(path, dir, sizeof dir);
    int dir_fd = -1;
    int r = open_directory(dir, group, &dir_fd, err);
    if (r)
        return r;
    flock(dir_fd, LOCK_EX); /* without it (NFS) only the race of two starts is open */
    r = bind_in(&a, group, ret_fd, err);
    close(dir_fd);
    return r;
}
