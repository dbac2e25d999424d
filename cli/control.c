/* control: see control.h. */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_MS = 10000 };

static int connect_to(struct control *c, const char *path, struct dvt_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof a.sun_path) {
        return dvt_fail(err, DVT_EINVAL, 0, "the socket path is longer than %zu bytes: %.60s...",
                        sizeof a.sun_path - 1, path);
    }
    memcpy(a.sun_path, path, n + 1);
    memcpy(c->path, path, n + 1);
    c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        return dvt_fail(err, DVT_EIO, errno, "cannot make a socket: %s", strerror(errno));
    }
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a)) {
        int no = errno;
        control_close(c);
        if (no == EACCES || no == EPERM) {
            return dvt_fail(
                err, DVT_EPERM, no,
                "may not talk to the daemon at %s: join the group that owns it, or use its account", path);
        }
        return dvt_fail(err, DVT_ESTATE, no, "no daemon answers at %s: start one with dovetaild --socket %s",
                        path, path);
    }
    return 0;
}

/* The places where a shim looks, in its order. */
static int connect_anywhere(struct control *c, struct dvt_err *err)
{
    const char *given = getenv("DOVETAIL_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    char path[256];
    if (given && *given) {
        return connect_to(c, given, err);
    }
    int rc = connect_to(c, "/run/dovetail/control.sock", err), first = rc;
    if (rc && runtime && *runtime && snprintf(path, sizeof path, "%s/dovetail/control.sock", runtime) < 108) {
        rc = connect_to(c, path, err);
    }
    if (rc) {
        snprintf(path, sizeof path, "/tmp/dovetail-%u/control.sock", (unsigned)geteuid());
        rc = connect_to(c, path, err);
    }
    if (rc == DVT_ESTATE && first == DVT_EPERM) {
        rc =
            dvt_fail(err, DVT_EPERM, 0,
                     "may not talk to the daemon at /run/dovetail/control.sock: join the group that owns it");
    } else if (rc == DVT_ESTATE) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "no daemon is running here: start one with dovetaild, or name its socket in "
                      "DOVETAIL_SOCKET");
    }
    return rc;
}

static int send_packet(struct control *c, const struct dvt_buf *b, struct dvt_err *err)
{
    ssize_t n;
    do {
        n = send(c->fd, b->p, b->n, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)b->n ? 0 : dvt_fail(err, DVT_EIO, errno, "the daemon at %s hung up", c->path);
}

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* One packet's type and map, which point into packet[DVT_MAX_CONTROL]. */
static int receive(struct control *c, int timeout_ms, uint8_t *packet, uint32_t *ret_type,
                   struct dvt_str *ret_map, struct dvt_err *err)
{
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        int64_t left = until - now_ms();
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int ready = poll(&p, 1, left > 0 ? (int)left : 0);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return dvt_fail(err, DVT_EIO, ready ? errno : ETIMEDOUT, "the daemon at %s does not answer",
                            c->path);
        }
        ssize_t n = recv(c->fd, packet, DVT_MAX_CONTROL, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return dvt_fail(err, DVT_EIO, n ? errno : 0, "the daemon at %s hung up", c->path);
        }
        return dvt_wire_type((struct dvt_str){(const char *)packet, (size_t)n}, ret_type, ret_map, err);
    }
}

static int greet(struct control *c, uint8_t *packet, struct dvt_err *err)
{
    struct dvt_hello hello = {.major = DVT_WIRE_MAJOR,
                              .minor = DVT_WIRE_MINOR,
                              .role = DVT_ROLE_CLI,
                              .pid = (uint32_t)getpid(),
                              .runtime = dvt_str("cli"),
                              .program = dvt_str("dovetail")};
    struct dvt_buf b;
    struct dvt_str map;
    struct dvt_refuse refuse;
    uint32_t type;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    int rc = dvt_wire_put_hello(&b, &hello);
    rc = rc ? dvt_fail(err, rc, 0, "cannot greet the daemon") : send_packet(c, &b, err);
    dvt_buf_fini(&b);
    if (rc == 0) {
        rc = receive(c, ANSWER_TIMEOUT_MS, packet, &type, &map, err);
    }
    if (rc == 0 && type == DVT_MSG_REFUSE && dvt_wire_get_refuse(map, &refuse, err) == 0) {
        int code = refuse.code < 0 ? refuse.code : DVT_EPERM;
        return dvt_fail(err, code, 0, "the daemon refuses: %.*s",
                        (int)(refuse.text.n < 180 ? refuse.text.n : 180), refuse.text.p);
    }
    if (rc == 0 && type != DVT_MSG_WELCOME) {
        rc = dvt_fail(err, DVT_EVERSION, 0, "what listens at %s is no daemon of ours", c->path);
    }
    return rc;
}

int control_open(struct control *c, const char *path, struct dvt_err *err)
{
    *c = (struct control){.fd = -1};
    int rc = path ? connect_to(c, path, err) : connect_anywhere(c, err);
    if (rc) {
        return rc;
    }
    uint8_t *packet = malloc(DVT_MAX_CONTROL);
    rc = packet ? greet(c, packet, err) : dvt_fail(err, DVT_ENOMEM, 0, "out of memory");
    free(packet);
    if (rc) {
        control_close(c);
    }
    return rc;
}

void control_close(struct control *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->fd = -1;
}

static int request(struct control *c, enum dvt_msg_type type, struct dvt_err *err)
{
    struct dvt_buf b;
    dvt_buf_init(&b, 64);
    int rc = dvt_wire_put_plain(&b, type);
    rc = rc ? dvt_fail(err, rc, 0, "cannot ask the daemon") : send_packet(c, &b, err);
    dvt_buf_fini(&b);
    return rc;
}

int control_status(struct control *c, struct dvt_buf *out, struct dvt_err *err)
{
    uint8_t *packet = malloc(DVT_MAX_CONTROL);
    struct dvt_status part = {0};
    struct dvt_str map;
    uint32_t type;
    int rc = packet ? request(c, DVT_MSG_STATUS_REQ, err) : dvt_fail(err, DVT_ENOMEM, 0, "out of memory");
    while (rc == 0 && !part.last) {
        rc = receive(c, ANSWER_TIMEOUT_MS, packet, &type, &map, err);
        if (rc == 0 && type == DVT_MSG_STATUS) {
            rc = dvt_wire_get_status(map, &part, err);
        }
        if (rc == 0 && type == DVT_MSG_STATUS && dvt_buf_append(out, part.json.p, part.json.n)) {
            rc = dvt_fail(err, DVT_ELIMIT, 0, "the daemon's state is longer than %zu bytes", out->max);
        }
    }
    free(packet);
    return rc;
}

int control_flush(struct control *c, int timeout_ms, struct dvt_err *err)
{
    uint8_t *packet = malloc(DVT_MAX_CONTROL);
    struct dvt_str map;
    uint32_t type = 0;
    int rc = packet ? request(c, DVT_MSG_FLUSH_REQ, err) : dvt_fail(err, DVT_ENOMEM, 0, "out of memory");
    while (rc == 0 && type != DVT_MSG_FLUSHED) {
        rc = receive(c, timeout_ms, packet, &type, &map, err);
    }
    free(packet);
    return rc;
}
