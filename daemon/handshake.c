/*
 * handshake: see handshake.h.
 */
#include "handshake.h"
#include "feed.h"
#include "log.h"
#include "procmap.h"

#include "../proto/tag.h"

#include <stdlib.h>
#include <string.h>

enum { JITTER_PERMILLE = 1000, FLUSH_MS = 200 };

static int check_identity(const struct handshake *h, const struct conn *c, const struct dvt_hello *hello,
                          struct peer *ret, struct dvt_err *err)
{
    int r = peer_read((uint32_t)c->pid, ret, err);
    if (r)
        return r;
    if (hello->pid == ret->ns_pid)
        return 0;
    edge_count(sessions_unknown(h->sessions)->messages_forged, 1);
    return dvt_fail(err, DVT_EAUTH, 0, "process %u says it is %u: a process can report only about itself",
                    ret->ns_pid, hello->pid);
}

static struct process *make_process(const struct dvt_hello *hello, const struct peer *peer,
                                    struct dvt_err *err)
{
    struct dvt_hello clean = *hello;
    struct dvt_err why = {0};
    if (hello->tag_template.n == 0)
        clean.tag_template = dvt_str(DVT_TAG_DEFAULT);
    if (dvt_tag_check(clean.tag_template, &why)) {
        log_event(LOG_LEVEL_WARN, "TAG-TEMPLATE", "pid=%u %s: using %s", peer->host_pid, why.text,
                  DVT_TAG_DEFAULT);
        clean.tag_template = dvt_str(DVT_TAG_DEFAULT);
    }
    struct process *p = process_new(&clean);
    if (!p) {
        dvt_fail(err, DVT_ENOMEM, 0, "no memory for a process");
        return NULL;
    }
    p->host_pid = peer->host_pid;
    p->start_ticks = peer->start_ticks;
    if (procmap_new(p->host_pid, &p->map, &why)) {
        p->map = NULL;
        log_event(LOG_LEVEL_WARN, "PROCMAP-NONE", "pid=%u %s: its native frames have no names", p->host_pid,
                  why.text);
    }
    return p;
}

static int announce(const struct handshake *h, struct process *p, struct dvt_err *err)
{
    struct feed *f = feed_new(FEED_PROCESS_UP);
    if (f) {
        f->process = process_ref(p);
        if (queue_push_must(h->out, f, sizeof *f))
            return 0;
        feed_free(f);
    }
    return dvt_fail(err, DVT_ENOMEM, 0, "no memory for a process");
}

static struct dvt_welcome welcome_of(const struct handshake *h)
{
    return (struct dvt_welcome){.major = DVT_WIRE_MAJOR,
                                .minor = DVT_WIRE_MINOR,
                                .endpoint = dvt_str(h->endpoint),
                                .period_ns = h->source->is_time ? h->source->period : 0,
                                .jitter_permille = JITTER_PERMILLE,
                                .flush_ms = FLUSH_MS};
}

static int welcome_shim(const struct handshake *h, struct conn *c, const struct dvt_hello *hello,
                        struct dvt_buf *out, struct dvt_err *err)
{
    struct session_keys keys;
    struct peer peer;
    int r = check_identity(h, c, hello, &peer, err);
    if (r)
        return r;
    struct process *p = make_process(hello, &peer, err);
    if (!p)
        return err ? err->code : DVT_ENOMEM;
    r = sessions_prepare(h->sessions, p, &keys, err);
    if (r == 0)
        r = announce(h, p, err);
    if (r == 0)
        r = sessions_publish(h->sessions, &keys, p, err);
    struct dvt_welcome w = welcome_of(h);
    w.session = keys.id;
    memcpy(w.key, keys.key, sizeof w.key);
    /* The first period is short and random, the handler sets the next; counted events need it for managed
     * stacks only. */
    w.use_signal = h->source->is_time || hello->has_walker;
    if (r == 0)
        r = dvt_wire_put_welcome(out, &w);
    if (r) {
        process_unref(p);
        return r;
    }
    log_event(LOG_LEVEL_INFO, "SESSION-UP", "pid=%u service=%s runtime=%s%s%s", p->host_pid, p->service,
              p->runtime, p->runtime_version[0] ? "-" : "", p->runtime_version);
    c->role = DVT_ROLE_SHIM;
    c->peer = peer;
    c->proc = p;
    c->session = keys.id;
    return 0;
}

int handshake_answer(const struct handshake *h, struct conn *c, struct dvt_str map, struct dvt_buf *out,
                     struct dvt_err *err)
{
    struct dvt_hello hello;
    int r = dvt_wire_get_hello(map, &hello, err);
    if (r == DVT_EVERSION)
        edge_count(sessions_unknown(h->sessions)->messages_version, 1);
    if (r)
        return r;
    if (hello.role == DVT_ROLE_SHIM)
        return welcome_shim(h, c, &hello, out, err);
    if (hello.role != DVT_ROLE_CLI)
        return dvt_fail(err, DVT_EINVAL, 0, "unknown role %u", hello.role);
    struct dvt_welcome w = welcome_of(h);
    r = dvt_wire_put_welcome(out, &w);
    if (r == 0)
        c->role = DVT_ROLE_CLI;
    return r;
}
