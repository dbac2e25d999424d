/*
 * sender: the thread's loop. A small state machine (away, greeting, connected) with a table of due times;
 * what it does in each state is in control, arm, drain and push.
 *
 * While no daemon is there, scopes are recorded for a grace time (a start or a restart is under way), then
 * the library is inert until one answers.
 */
#include "sender.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "arm.h"
#include "bell.h"
#include "control.h"
#include "drain.h"
#include "handler.h"
#include "push.h"
#include "stacks.h"
#include "tick.h"

#define MS UINT64_C(1000000)

enum {
    RETRY_MS = 250, RETRY_MAX_MS = 900, RETRY_REFUSED_MS = 5000,
    GREETING_MS = 2000, /* for WELCOME to come */
    GRACE_MS = 2000,
    HEARTBEAT_MS = 1000,
    FLUSH_MS = 200, FLUSH_MIN_MS = 10, FLUSH_MAX_MS = 1000,
    AGAIN_MS = 5, /* the control socket or ZeroMQ's queue was full */
    IDLE_DRAIN_MS = 1000,
    SLEEP_MS = 500, /* for what is on its way when the bell says sleep */
};

enum state { AWAY, GREETING, CONNECTED };

static struct {
    const struct dvt_config *config;
    const struct dvt_runtime *runtime;
    int wake_fd;
    enum state state;
    struct dvt_sampling sampling;
    uint64_t flush_ns, retry_ns;
    uint64_t next_try, greeting_until, grace_until, next_flush, next_heartbeat;
    bool ask_again, push_again, was_dormant;
} me;

static _Atomic uint64_t stop_deadline_ns; /* 0: run */
static _Atomic uint32_t dormant;

void dvt_sender_ask_stop(uint64_t deadline_ns)
{
    atomic_store_explicit(&stop_deadline_ns, deadline_ns, memory_order_release);
}

void dvt_sender_set_dormant(bool value)
{
    atomic_store_explicit(&dormant, value, memory_order_relaxed);
}

static bool is_dormant(void)
{
    return atomic_load_explicit(&dormant, memory_order_relaxed);
}

static void set_recording(bool on)
{
    if (on)
        dvt_tick_sync(); /* none was made while the library slept */
    bool was_on = __atomic_exchange_n(&dvt_recording, on, __ATOMIC_SEQ_CST);
    if (on && !was_on)
        dvt_slot_begin_anew();
}

/* ---- state changes ---- */

static void go_away(uint64_t now, uint64_t retry_ms)
{
    bool was_connected = me.state == CONNECTED;
    dvt_control_close();
    if (was_connected) {
        dvt_push_close(0);
        dvt_arm_hang_up();
        me.grace_until = now + GRACE_MS * MS;
    }
    me.state = AWAY;
    me.next_try = now + retry_ms * MS;
}

static void try_connect(uint64_t now)
{
    struct dvt_err err = {0};
    if (dvt_control_connect(me.config, me.runtime, &err) != 0) {
        dvt_set_error(err.text);
        me.next_try = now + me.retry_ns;
        me.retry_ns = me.retry_ns * 3 / 2 < RETRY_MAX_MS * MS ? me.retry_ns * 3 / 2 : RETRY_MAX_MS * MS;
        return;
    }
    me.state = GREETING;
    me.greeting_until = now + GREETING_MS * MS;
}

static void send_counts(bool bye, uint64_t now)
{
    struct dvt_shim_counts c;
    struct dvt_buf body;
    dvt_drain_dropped();
    dvt_drain_counts(&c);
    dvt_buf_init(&body, DVT_MAX_MESSAGE);
    int rc = bye ? dvt_wire_put_bye(&body, &c, now) : dvt_wire_put_heartbeat(&body, &c, now);
    if (rc == 0)
        (void)dvt_push_send(&body); /* totals: the next one says it all */
    dvt_buf_fini(&body);
}

static void take_welcome(struct dvt_str map, uint64_t now)
{
    struct dvt_welcome w;
    struct dvt_err err;
    int rc = dvt_wire_get_welcome(map, &w, &err);
    if (rc != 0 || me.state != GREETING || dvt_push_open(&w) != 0) {
        dvt_set_error(rc != 0 ? err.text : "cannot connect to the daemon's endpoint");
        go_away(now, RETRY_REFUSED_MS);
        return;
    }
    uint64_t flush_ms = w.flush_ms ? w.flush_ms : FLUSH_MS;
    flush_ms = flush_ms < FLUSH_MIN_MS ? FLUSH_MIN_MS : flush_ms > FLUSH_MAX_MS ? FLUSH_MAX_MS : flush_ms;
    me.sampling = (struct dvt_sampling){w.period_ns, w.jitter_permille, w.use_signal};
    dvt_handler_configure(w.period_ns, w.jitter_permille, me.runtime);
    if (w.use_signal)
        dvt_handler_install();
    me.flush_ns = flush_ms * MS;
    me.retry_ns = RETRY_MS * MS;
    me.next_flush = now + me.flush_ns;
    me.next_heartbeat = now;
    me.state = CONNECTED;
    dvt_drain_new_session(now);
    dvt_control_ready();
    set_recording(true);
    dvt_set_error("");
    me.ask_again = dvt_arm_ask_all();
}

static void take_refuse(struct dvt_str map, uint64_t now)
{
    struct dvt_refuse r;
    struct dvt_err err;
    char text[240];
    if (dvt_wire_get_refuse(map, &r, &err) != 0)
        r.text = dvt_str("the daemon refused");
    dvt_utf8_clean(r.text.p, r.text.n, true, text, sizeof text);
    dvt_set_error(text);
    go_away(now, RETRY_REFUSED_MS);
}

static void take_armed(struct dvt_str map, int *fd)
{
    struct dvt_armed m;
    struct dvt_err err;
    if (dvt_wire_get_armed(map, &m, &err) != 0)
        return;
    if (m.code != 0) {
        char text[240];
        dvt_utf8_clean(m.text.p, m.text.n, true, text, sizeof text);
        dvt_set_error(text);
    }
    dvt_arm_take(&m, *fd, &me.sampling);
    *fd = -1;
}

static void take_packet(struct dvt_str packet, int fd, uint64_t now)
{
    uint32_t type;
    struct dvt_str map;
    struct dvt_err err;
    if (dvt_wire_type(packet, &type, &map, &err) == 0) {
        if (type == DVT_MSG_WELCOME)
            take_welcome(map, now);
        else if (type == DVT_MSG_REFUSE)
            take_refuse(map, now);
        else if (type == DVT_MSG_ARMED && me.state == CONNECTED)
            take_armed(map, &fd);
        else if (type == DVT_MSG_FLUSH_REQ)
            me.next_flush = me.next_heartbeat = now; /* the heartbeat behind it says that all is sent */
    }
    if (fd >= 0)
        close(fd);
}

static void take_packets(uint64_t now)
{
    static char p[DVT_MAX_CONTROL];
    while (dvt_control_fd() >= 0) {
        int fd;
        long n = dvt_control_take(p, sizeof p, &fd);
        if (n == 0)
            return;
        if (n < 0) {
            go_away(now, RETRY_MS);
            return;
        }
        take_packet((struct dvt_str){p, (size_t)n}, fd, now);
    }
}

/* ---- the loop ---- */

static void flush(uint64_t now)
{
    if (me.state == CONNECTED) {
        dvt_drain(DVT_DRAIN_NORMAL);
        me.next_flush = now + me.flush_ns;
    } else {
        dvt_drain(now < me.grace_until ? DVT_DRAIN_WAITING : DVT_DRAIN_ABSENT);
        me.next_flush = now + IDLE_DRAIN_MS * MS;
    }
}

/* A stop that waits gives WELCOME until its end: what was recorded has no other chance. */
static uint64_t greeting_ends(void)
{
    uint64_t stop = atomic_load_explicit(&stop_deadline_ns, memory_order_acquire);
    return stop > me.greeting_until ? stop : me.greeting_until;
}

static void do_what_is_due(uint64_t now)
{
    if (me.was_dormant && !is_dormant()) {
        me.was_dormant = false;
        me.grace_until = now + GRACE_MS * MS;
        set_recording(true);
    }
    if (me.state == AWAY && now >= me.next_try && !me.was_dormant)
        try_connect(now);
    if (me.state == GREETING && now >= greeting_ends())
        go_away(now, RETRY_MS);
    if (me.state != CONNECTED && now >= me.grace_until)
        set_recording(false);
    if (me.ask_again && me.state == CONNECTED)
        me.ask_again = dvt_arm_ask_all();
    if (now >= me.next_flush)
        flush(now);
    if (me.state == CONNECTED && now >= me.next_heartbeat) {
        me.ask_again = dvt_arm_ask_all();
        send_counts(false, now);
        if (me.sampling.use_signal)
            dvt_handler_install();
        me.next_heartbeat = now + HEARTBEAT_MS * MS;
    }
    me.push_again = me.state == CONNECTED && dvt_push_retry();
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int timeout_ms(uint64_t now)
{
    uint64_t due = me.next_flush, stop = atomic_load_explicit(&stop_deadline_ns, memory_order_acquire);
    if (me.state == CONNECTED)
        due = earlier(due, me.ask_again || me.push_again ? now + AGAIN_MS * MS : me.next_heartbeat);
    else if (me.state == GREETING)
        due = earlier(due, greeting_ends());
    else
        due = earlier(due, me.next_try);
    if (me.was_dormant) /* until woken */
        return -1;
    if (stop)
        due = earlier(due, stop);
    return due <= now ? 0 : (int)((due - now + MS - 1) / MS);
}

static void say_goodbye(uint64_t deadline)
{
    uint64_t now = dvt_now_ns();
    dvt_arm_quiet();
    set_recording(false);
    if (me.state == CONNECTED) {
        dvt_drain(DVT_DRAIN_FINAL);
        send_counts(true, now);
        now = dvt_now_ns();
        dvt_push_close(now < deadline ? (int)((deadline - now) / MS) : 0);
        dvt_arm_hang_up();
    }
    dvt_control_close();
    dvt_drain(DVT_DRAIN_ABSENT);
}

/* ---- the bell ---- */

/* The state that a start leaves, but asleep. */
static void fall_asleep(void)
{
    say_goodbye(dvt_now_ns() + SLEEP_MS * MS);
    me.state = AWAY;
    me.was_dormant = true;
    me.next_try = 0;
    me.retry_ns = RETRY_MS * MS;
    dvt_sender_set_dormant(true);
}

static char obey(const struct dvt_bell *b)
{
    bool wakes = b->op == DVT_BELL_WAKE && me.was_dormant, sleeps = b->op == DVT_BELL_SLEEP && !me.was_dormant;
    if ((wakes || sleeps) && !dvt_start_set(sleeps, b->socket, b->service))
        return DVT_BELL_BUSY;
    if (sleeps)
        fall_asleep();
    if (wakes)
        dvt_sender_set_dormant(false);
    return is_dormant() ? DVT_BELL_ASLEEP : DVT_BELL_AWAKE;
}

static void answer_bell(void)
{
    struct dvt_bell b;
    int fd = dvt_bell_take(&b);
    if (fd >= 0)
        dvt_bell_answer(fd, obey(&b));
}

/* ---- the thread ---- */

static void wait_for_work(void)
{
    struct pollfd p[3] = {{.fd = me.wake_fd, .events = POLLIN},
                          {.fd = dvt_control_fd(), .events = POLLIN},
                          {.fd = dvt_bell_fd(), .events = POLLIN}};
    uint64_t n;
    if (poll(p, 3, timeout_ms(dvt_now_ns())) <= 0)
        return;
    if ((p[0].revents & POLLIN) && read(me.wake_fd, &n, sizeof n) == sizeof n)
        me.next_flush = 0;
    if (p[1].revents)
        take_packets(dvt_now_ns());
    if (p[2].revents)
        answer_bell();
}

/* Whether a stop can be carried out now, or something that matters is still under way. */
static bool may_stop(uint64_t now, uint64_t deadline)
{
    if (now >= deadline)
        return true;
    if (me.state == AWAY)
        return me.next_try != 0 || me.was_dormant; /* 0: not tried yet */
    return me.state == CONNECTED && !dvt_drain_waits_for_arming();
}

void dvt_sender_run(const struct dvt_sender_args *args)
{
    uint64_t deadline, now = dvt_now_ns();
    memset(&me, 0, sizeof me);
    me.config = args->config;
    me.runtime = args->runtime;
    me.wake_fd = args->wake_fd;
    me.retry_ns = RETRY_MS * MS;
    me.was_dormant = is_dormant();
    me.grace_until = me.was_dormant ? 0 : now + GRACE_MS * MS;
    dvt_stacks_set_runtime(args->runtime);
    for (;;) {
        now = dvt_now_ns();
        do_what_is_due(now);
        deadline = atomic_load_explicit(&stop_deadline_ns, memory_order_acquire);
        if (deadline && may_stop(now, deadline))
            break;
        wait_for_work();
    }
    say_goodbye(deadline);
    dvt_bell_close();
}

void dvt_sender_after_fork_child(void)
{
    atomic_store_explicit(&stop_deadline_ns, 0, memory_order_relaxed);
    dvt_bell_after_fork_child();
    dvt_push_after_fork_child();
    dvt_drain_after_fork_child();
}
