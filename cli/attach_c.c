/*
 * attach_c: attacher of C programs that have libdovetail in them and have called dvt_start: rings their bell (proto/bell.h).
 */
#include "attacher.h"

#include "../proto/bell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_S = 5, TRIES = 20, AGAIN_MS = 100 };

static bool is_it(const struct target *t)
{
    char *path = target_mapped(t, "libdovetail.so");
    free(path);
    return path != NULL;
}

static void describe(const struct target *t, char *out, size_t cap)
{
    char *program = target_program(t);
    snprintf(out, cap, "c %s", program);
    free(program);
}

/* ---- its bell ---- */

static int no_bell(const struct target *t, struct dvt_err *err)
{
    const char *dovetail = target_variable(t, "DOVETAIL");
    if (dovetail && strcmp(dovetail, "off") == 0) {
        return dvt_fail(err, DVT_ESTATE, 0, "it runs with DOVETAIL=off in its environment: start it without");
    }
    return dvt_fail(err, DVT_ESTATE, 0,
                    "it has libdovetail, but does not listen: it has not called dvt_start (with dormant = true it may do so at "
                    "its start and cost nothing), or another process of its number has the name");
}

/* Connected to no other process than the target. */
static int connect_to(const struct target *t, int *ret_fd, struct dvt_err *err)
{
    struct sockaddr_un a;
    struct ucred peer = {0};
    struct timeval patience = {ANSWER_S, 0};
    socklen_t n = dvt_bell_address(t->inner_pid, &a), n_peer = sizeof peer;
    int fd = target_socket(t, AF_UNIX, SOCK_SEQPACKET);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience)) {
        int no = errno;
        if (fd >= 0) {
            close(fd);
        }
        return dvt_fail(err, DVT_EPERM, no, "its network namespace cannot be entered (%s): run dovetail as root", strerror(no));
    }
    if (connect(fd, (struct sockaddr *)&a, n) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_peer) ||
        peer.pid != t->pid) {
        close(fd);
        return no_bell(t, err);
    }
    *ret_fd = fd;
    return 0;
}

static int ring_once(const struct target *t, const struct dvt_bell *b, char *ret_answer, struct dvt_err *err)
{
    char packet[DVT_BELL_MAX];
    int fd = -1;
    size_t n = dvt_bell_put(b, packet);
    if (!n) {
        return dvt_fail(err, DVT_EINVAL, 0, "the socket's path or the service's name is too long");
    }
    int rc = connect_to(t, &fd, err);
    if (rc) {
        return rc;
    }
    ssize_t got = send(fd, packet, n, MSG_NOSIGNAL) == (ssize_t)n ? recv(fd, ret_answer, 1, 0) : -1;
    int no = errno;
    close(fd);
    if (got == 1 && *ret_answer != DVT_BELL_BAD) {
        return 0;
    }
    if (got == 1) {
        return dvt_fail(err, DVT_EVERSION, 0, "the libdovetail in it is of another version");
    }
    if (!target_is_there(t)) {
        return dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
    }
    return got < 0 && no == EAGAIN
               ? dvt_fail(err, DVT_ESTATE, 0, "it does not answer: its threads do not run")
               : dvt_fail(err, DVT_EPERM, 0, "it belongs to another user: run dovetail as that user, or as root");
}

static int ring(const struct target *t, const struct dvt_bell *b, char *ret_answer, struct dvt_err *err)
{
    struct timespec step = {0, AGAIN_MS * 1000000};
    int rc = ring_once(t, b, ret_answer, err);
    for (int tries = 1; rc == 0 && *ret_answer == DVT_BELL_BUSY && tries < TRIES; tries++) {
        nanosleep(&step, NULL);
        rc = ring_once(t, b, ret_answer, err);
    }
    if (rc == 0 && *ret_answer == DVT_BELL_BUSY) {
        rc = dvt_fail(err, DVT_EBUSY, 0, "its libdovetail is starting or ending: try again");
    }
    return rc;
}

static const struct dvt_bell report = {.op = DVT_BELL_REPORT};

/* ---- attach and detach ---- */

static int check(const struct target *t, struct dvt_err *err)
{
    char answer;
    if (t->state == 'T' || t->state == 't' || t->state == 'Z') {
        return dvt_fail(err, DVT_ESTATE, 0, "it is stopped, and would not answer");
    }
    return ring(t, &report, &answer, err);
}

static int attach(const struct target *t, const struct attach_options *o, struct attach_note *ret, struct dvt_err *err)
{
    struct dvt_bell wake = {.op = DVT_BELL_WAKE, .socket = o->socket, .service = o->service ? o->service : ""};
    char answer;
    int rc = ring(t, &report, &answer, err);
    if (rc == 0 && answer == DVT_BELL_AWAKE) {
        rc = dvt_fail(err, DVT_EBUSY, 0, "it is profiled already");
    }
    if (rc == 0 && !target_sees(t, o->socket)) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "the daemon's socket %.90s is not there in its file system: mount its folder into its container, at that path",
                      o->socket);
    }
    rc = rc ? rc : ring(t, &wake, &answer, err);
    snprintf(ret->text, sizeof ret->text, "scopes of dovetail.h");
    return rc;
}

static int detach(const struct target *t, struct attach_note *ret, struct dvt_err *err)
{
    struct dvt_bell sleep = {.op = DVT_BELL_SLEEP};
    char answer;
    int rc = ring(t, &report, &answer, err);
    if (rc == 0 && answer == DVT_BELL_ASLEEP) {
        return dvt_fail(err, DVT_ENOENT, 0, "it is not profiled");
    }
    rc = rc ? rc : ring(t, &sleep, &answer, err);
    snprintf(ret->text, sizeof ret->text, "its events are closed, its scopes do nothing");
    return rc;
}

const struct attacher attacher_c = {"c", is_it, describe, check, attach, detach};
