/* bell: see bell.h. */
#include "bell.h"

#include <poll.h>
#include <unistd.h>

enum { BACKLOG = 4, PATIENCE_MS = 100 };

static int listen_fd = -1;

void dvt_bell_open(void)
{
    struct sockaddr_un a;
    socklen_t n = dvt_bell_address(getpid(), &a);
    listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listen_fd >= 0 && (bind(listen_fd, (struct sockaddr *)&a, n) != 0 || listen(listen_fd, BACKLOG) != 0))
        dvt_bell_close();
}

void dvt_bell_close(void)
{
    if (listen_fd >= 0)
        close(listen_fd);
    listen_fd = -1;
}

int dvt_bell_fd(void)
{
    return listen_fd;
}

static bool is_welcome(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

int dvt_bell_take(struct dvt_bell *ret)
{
    static char packet[DVT_BELL_MAX + 1];
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd < 0)
        return -1;
    ssize_t n = is_welcome(fd) && poll(&p, 1, PATIENCE_MS) > 0 ? recv(fd, packet, sizeof packet, 0) : -1;
    if (n > 0 && dvt_bell_get(packet, (size_t)n, ret) == 0)
        return fd;
    if (n > 0)
        dvt_bell_answer(fd, DVT_BELL_BAD);
    else
        close(fd);
    return -1;
}

void dvt_bell_answer(int fd, char answer)
{
    (void)send(fd, &answer, sizeof answer, MSG_NOSIGNAL); /* who has gone asks again */
    close(fd);
}

void dvt_bell_after_fork_child(void)
{
    dvt_bell_close();
}
