/*
 * control: see control.h. `ready` and the descriptor change under the lock; the sender alone changes them.
 */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WAITING = 1 << 14 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static bool ready;
/* Slots that wait for ARMED, by arming number; one that was overwritten is found by a search. */
static struct dvt_slot *_Atomic waiting[WAITING];

int dvt_control_fd(void)
{
    return fd;
}

static int connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, path, strlen(path) + 1);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    if (connect(s, (struct sockaddr *)&a, sizeof a) == 0)
        return s;
    int saved = errno;
    close(s);
    errno = saved;
    return -1;
}

static int send_hello(int s, const struct dvt_config *c, const struct dvt_runtime *rt)
{
    struct dvt_hello m = {
        .major = DVT_WIRE_MAJOR,
        .minor = DVT_WIRE_MINOR,
        .role = DVT_ROLE_SHIM,
        .pid = (uint32_t)getpid(),
        .runtime = dvt_str(rt->runtime),
        .runtime_version = dvt_str(rt->runtime_version),
        .service = dvt_str(c->service),
        .program = dvt_str(c->program),
        .tag_template = dvt_str(c->tag_template),
        .eval_lo = rt->eval_lo,
        .eval_hi = rt->eval_hi,
        .has_walker = rt->walk != NULL,
    };
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    int rc = dvt_wire_put_hello(&b, &m);
    if (rc == 0 && send(s, b.p, b.n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)b.n)
        rc = DVT_EIO;
    dvt_buf_fini(&b);
    return rc;
}

int dvt_control_connect(const struct dvt_config *c, const struct dvt_runtime *rt, struct dvt_err *err)
{
    int s = -1;
    const char *path = c->socket[0];
    for (int i = 0; i < c->n_sockets && s < 0; i++)
        s = connect_to(path = c->socket[i]);
    if (s < 0)
        return dvt_fail(err, DVT_EIO, errno, "no daemon at %s: %s", path, strerror(errno));
    if (send_hello(s, c, rt) != 0) {
        close(s);
        return dvt_fail(err, DVT_EIO, errno, "cannot greet the daemon at %s", path);
    }
    pthread_mutex_lock(&lock);
    fd = s;
    ready = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

void dvt_control_ready(void)
{
    pthread_mutex_lock(&lock);
    ready = true;
    pthread_mutex_unlock(&lock);
}

/* Under the lock, so that no thread sends on a number that has become another file's. */
void dvt_control_close(void)
{
    pthread_mutex_lock(&lock);
    if (fd >= 0)
        close(fd);
    fd = -1;
    ready = false;
    pthread_mutex_unlock(&lock);
}

/* Takes the first descriptor of a message and closes others. */
static int take_fds(struct msghdr *m)
{
    int got = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int one;
            memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
            if (got < 0)
                got = one;
            else
                close(one);
        }
    }
    return got;
}

long dvt_control_take(void *p, size_t cap, int *ret_fd)
{
    _Alignas(struct cmsghdr) char ctl[CMSG_SPACE(4 * sizeof(int))];
    struct iovec v = {p, cap};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof ctl};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *ret_fd = n >= 0 ? take_fds(&m) : -1;
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return -1;
}

/* ---- arming ---- */

static int send_arm(const struct dvt_slot *s, bool arm)
{
    struct dvt_arm m = {(uint32_t)s->tid, dvt_slot_epoch(s)};
    struct dvt_buf b;
    dvt_buf_init(&b, DVT_MAX_CONTROL);
    int rc = arm ? dvt_wire_put_arm(&b, &m) : dvt_wire_put_disarm(&b, &m);
    if (rc == 0 && send(fd, b.p, b.n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)b.n)
        rc = DVT_EIO;
    dvt_buf_fini(&b);
    return rc;
}

void dvt_control_arm(struct dvt_slot *s)
{
    pthread_mutex_lock(&lock);
    if (ready && atomic_load_explicit(&s->arm_state, memory_order_relaxed) == DVT_ARM_WANTED) {
        /* Pending before the daemon can know of it: see dvt_read_head. */
        uint32_t epoch = dvt_slot_epoch(s);
        atomic_store_explicit(&s->epoch_word, epoch | DVT_EPOCH_PENDING, memory_order_seq_cst);
        atomic_store_explicit(&s->arm_state, DVT_ARM_SENT, memory_order_release);
        atomic_store_explicit(&waiting[epoch % WAITING], s, memory_order_release);
        if (send_arm(s, true) != 0) {
            atomic_store_explicit(&s->arm_state, DVT_ARM_WANTED, memory_order_release);
            atomic_store_explicit(&s->epoch_word, epoch, memory_order_release);
        }
    }
    pthread_mutex_unlock(&lock);
}

void dvt_control_disarm(const struct dvt_slot *s)
{
    pthread_mutex_lock(&lock);
    if (ready)
        (void)send_arm(s, false); /* a full socket: the daemon sees the thread end by itself */
    pthread_mutex_unlock(&lock);
}

static bool waits(const struct dvt_slot *s, uint32_t tid, uint32_t epoch)
{
    return s && dvt_slot_is_ours(s) && (uint32_t)s->tid == tid && dvt_slot_epoch(s) == epoch &&
           atomic_load_explicit(&s->arm_state, memory_order_acquire) == DVT_ARM_SENT;
}

struct dvt_slot *dvt_control_waiting(uint32_t tid, uint32_t epoch)
{
    struct dvt_slot *s = atomic_load_explicit(&waiting[epoch % WAITING], memory_order_acquire);
    if (waits(s, tid, epoch))
        return s;
    for (s = dvt_slot_first(); s; s = s->all_next)
        if (waits(s, tid, epoch))
            return s;
    return NULL;
}

void dvt_control_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void dvt_control_after_fork(bool in_child)
{
    if (in_child && fd >= 0)
        close(fd);
    if (in_child) {
        fd = -1;
        ready = false;
    }
    pthread_mutex_unlock(&lock);
}
