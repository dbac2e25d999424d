/*
 * driver: see driver.h.
 *
 * Order: whenever something of ingest's queue is fed, the sampler's queue is emptied first. A process is
 * announced there before its first message can pass ingest's check, so the pipeline knows it; and the samples
 * up to a process's end are fed before ingest's word that it is down.
 */
#include "procmap.h"
#include "driver.h"
#include "feed.h"
#include "log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 50, REPORT_MS = 1000, BATCH = 64, REPORTS_AFTER = 4 };
#define MS 1000000ull

struct known { /* a process, from its announcement to its last report */
    struct known *next;
    struct report_process r;
    uint64_t told_scopes, told_samples; /* at the report before */
    uint32_t n_after; /* reports since the pipeline forgot it: its last traces are still being written */
};

struct driver {
    struct driver_config c;
    struct wake wake;
    struct queue from_sampler, from_ingest;
    _Atomic bool stop;
    pthread_t thread;

    /* the thread's own */
    struct pipeline *pipeline;
    struct known *known;
    uint64_t ticked_ns, reported_ns;
    uint64_t generation; /* of the last report asked for */
    uint64_t flush_generation;
    bool report_asked, flush_asked;
    struct ledger gone;  /* counts kept at the edge of processes that are gone */
};

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- reports ---- */

static void know(struct driver *d, struct process *p)
{
    struct known *k = calloc(1, sizeof *k);
    if (!k)
        return; /* its ledger is not shown; the pipeline still has it */
    k->r.proc = process_ref(p);
    k->r.first_unix_ns = clock_ns(CLOCK_REALTIME);
    k->r.last_unix_ns = k->r.first_unix_ns;
    k->next = d->known;
    d->known = k;
}

static double rate(uint64_t now, uint64_t before, uint64_t passed_ns)
{
    return passed_ns && now > before ? (double)(now - before) * 1e9 / (double)passed_ns : 0;
}

/* False: the pipeline has forgotten it for a while; its last counts stand. */
static bool update(struct driver *d, struct known *k, uint64_t passed_ns)
{
    struct ledger l = {0};
    struct dvt_shim_counts shim = {0};
    bool lives = pipeline_ledger(d->pipeline, k->r.proc->index, &l, &shim);
    if (lives) {
        k->r.ledger = l;
        k->r.shim = shim;
    }
    k->r.scopes_per_s = rate(k->r.shim.closed, k->told_scopes, passed_ns);
    k->r.samples_per_s = rate(k->r.ledger.samples, k->told_samples, passed_ns);
    k->told_scopes = k->r.shim.closed;
    k->told_samples = k->r.ledger.samples;
    if (lives && !k->r.down)
        k->r.last_unix_ns = clock_ns(CLOCK_REALTIME);
    return lives || ++k->n_after < REPORTS_AFTER;
}

static void take_dropped(void *ctx, const char *service, const char *name, uint64_t count)
{
    struct report *r = ctx;
    if ((r->n_dropped & (r->n_dropped - 1)) == 0) { /* full at each power of two */
        size_t cap = r->n_dropped ? r->n_dropped * 2u : 1;
        struct report_dropped *v = realloc(r->dropped, cap * sizeof *v);
        if (!v)
            return;
        r->dropped = v;
    }
    struct report_dropped x = {strdup(service), strdup(name), count};
    if (x.service && x.name) {
        r->dropped[r->n_dropped++] = x;
        return;
    }
    free(x.service);
    free(x.name);
}

static void forget(struct driver *d, struct known **at)
{
    struct known *k = *at;
    *at = k->next;
    edge_counts_add(&k->r.proc->edge, &d->gone);
    process_unref(k->r.proc);
    free(k);
}

static uint32_t count_known(const struct driver *d)
{
    uint32_t n = 0;
    for (const struct known *k = d->known; k; k = k->next)
        n++;
    return n;
}

/* The pipeline's counts, and those of the edge: of the daemon for what it counts itself, else summed over
 * processes. */
static void fill_total(const struct driver *d, struct ledger *ret)
{
    struct ledger l = {0}, edge = d->gone;
    pipeline_total(d->pipeline, &l);
    for (const struct known *k = d->known; k; k = k->next)
        edge_counts_add(&k->r.proc->edge, &edge);
    edge.traces_written = edge.traces_lost = edge.samples_written = 0; /* a trace of two processes is one */
    edge_counts_add(d->c.counts, &edge);
    ledger_add(&l, &edge);
    *ret = l;
}

static struct report *make_report(struct driver *d, uint64_t passed_ns)
{
    struct report *r = calloc(1, sizeof *r);
    struct report_process *v = calloc(count_known(d) + 1u, sizeof *v);
    if (!r || !v) {
        free(r);
        free(v);
        return NULL;
    }
    r->v = v;
    fill_total(d, &r->total);
    for (struct known **at = &d->known; *at;) {
        struct known *k = *at;
        bool lives = update(d, k, passed_ns);
        v[r->n] = k->r;
        process_ref(v[r->n++].proc);
        if (lives)
            at = &k->next;
        else
            forget(d, at);
    }
    r->generation = d->generation;
    r->open_traces = pipeline_open_traces(d->pipeline);
    pipeline_take_dropped(d->pipeline, take_dropped, r);
    return r;
}

static void report(struct driver *d, uint64_t now_ns)
{
    struct report *r = make_report(d, now_ns - d->reported_ns);
    d->reported_ns = now_ns;
    d->report_asked = false;
    if (!r)
        return;
    struct report *copy = report_copy(r);
    if (copy)
        board_put_report(d->c.board, copy);
    writer_put_report(d->c.writer, r);
}

/* ---- feeding ---- */

/* What the writer has no room for waits in the pipeline, which then closes no more than it must. */
static void hand_traces(struct driver *d, bool all)
{
    struct trace *t;
    while ((all || writer_has_room(d->c.writer)) && (t = pipeline_take_closed(d->pipeline)) != NULL)
        writer_put_trace(d->c.writer, t);
}

static void mark_down(struct driver *d, uint32_t process)
{
    for (struct known *k = d->known; k; k = k->next)
        k->r.down = k->r.down || k->r.proc->index == process;
}

static void feed(struct driver *d, struct feed *f)
{
    struct pipeline *p = d->pipeline;
    switch (f->type) {
    case FEED_PROCESS_UP:
        know(d, f->process);
        pipeline_process_up(p, f->process);
        break;
    case FEED_PROCESS_DOWN:
        mark_down(d, f->thread.process);
        pipeline_process_down(p, f->thread.process, clock_ns(CLOCK_MONOTONIC));
        break;
    case FEED_THREAD_UP:
        pipeline_thread_up(p, f->thread, f->host_tid);
        break;
    case FEED_SAMPLE:
        pipeline_sample(p, f->sample);
        f->sample = NULL;
        break;
    case FEED_PROGRESS:
        pipeline_progress(p, f->thread, f->head, f->lost, f->ended);
        break;
    case FEED_SWITCHES:
        pipeline_switches(p, f->thread, f->switches);
        break;
    case FEED_SWITCHED:
        pipeline_switched(p, f->head);
        break;
    case FEED_MESSAGE:
        pipeline_message(p, f->thread.process, f->body, f->n_body, clock_ns(CLOCK_MONOTONIC));
        break;
    case FEED_REPORT:
        d->generation = f->generation;
        d->report_asked = true;
        break;
    case FEED_FLUSH:
        d->flush_generation = f->generation;
        d->flush_asked = true; /* done when all that was queued before it is fed */
        break;
    }
    feed_free(f);
}

static void empty_sampler(struct driver *d)
{
    struct feed *f;
    while ((f = queue_pop(&d->from_sampler)) != NULL)
        feed(d, f);
}

/* Feeds at most max of ingest's queue, each behind all that was in the sampler's when it was seen. */
static uint32_t feed_some(struct driver *d, uint32_t max)
{
    uint32_t n = 0;
    struct feed *f = queue_pop(&d->from_ingest);
    empty_sampler(d);
    for (; f; f = ++n < max ? queue_pop(&d->from_ingest) : NULL) {
        empty_sampler(d);
        feed(d, f);
    }
    return n;
}

static void empty_queues(struct driver *d)
{
    while (feed_some(d, BATCH))
        ;
}

static bool queues_are_empty(const struct driver *d)
{
    return queue_is_empty(&d->from_sampler) && queue_is_empty(&d->from_ingest);
}

static void close_all(struct driver *d)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    empty_queues(d);
    pipeline_tick(d->pipeline, now_ns);
    pipeline_close_all(d->pipeline, now_ns);
    hand_traces(d, true);
    report(d, now_ns);
}

static void pass_time(struct driver *d)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (d->flush_asked) {
        close_all(d);
        d->flush_asked = false;
        writer_put_flush(d->c.writer, d->flush_generation);
    }
    if (now_ns - d->ticked_ns >= TICK_MS * MS) {
        pipeline_tick(d->pipeline, now_ns);
        hand_traces(d, false);
        for (struct known *k = d->known; k; k = k->next) {
            if (!k->r.down && k->r.proc->map)
                procmap_tick(k->r.proc->map, now_ns);
        }
        d->ticked_ns = now_ns;
    }
    if (d->report_asked || (d->known && now_ns - d->reported_ns >= REPORT_MS * MS))
        report(d, now_ns);
}

static void wait_for_work(struct driver *d)
{
    bool idle = !d->known && pipeline_open_traces(d->pipeline) == 0;
    wake_prepare(&d->wake);
    if (queues_are_empty(d) && !atomic_load(&d->stop))
        wake_wait(&d->wake, idle ? -1 : TICK_MS);
    else
        wake_cancel(&d->wake);
}

static void *driver_main(void *arg)
{
    struct driver *d = arg;
    while (!atomic_load(&d->stop)) {
        uint32_t n = feed_some(d, BATCH);
        pass_time(d);
        if (n == 0)
            wait_for_work(d);
    }
    close_all(d);
    return NULL;
}

/* ---- start and stop ---- */

int driver_new(const struct driver_config *c, struct driver **ret, struct dvt_err *err)
{
    struct driver *d = calloc(1, sizeof *d);
    if (!d)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the pipeline");
    d->c = *c;
    d->wake.fd = -1;
    int e = -wake_init(&d->wake);
    if (e) {
        free(d);
        return dvt_fail(err, DVT_EIO, e, "eventfd: %s", strerror(e));
    }
    d->pipeline = pipeline_new(&c->pipeline);
    if (!d->pipeline || queue_init(&d->from_sampler, c->queue_bytes, &d->wake) ||
        queue_init(&d->from_ingest, c->queue_bytes, &d->wake)) {
        driver_free(d);
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the pipeline");
    }
    *ret = d;
    return 0;
}

struct queue *driver_sampler_queue(struct driver *d)
{
    return &d->from_sampler;
}

struct queue *driver_ingest_queue(struct driver *d)
{
    return &d->from_ingest;
}

int driver_start(struct driver *d, struct dvt_err *err)
{
    int e = pthread_create(&d->thread, NULL, driver_main, d);
    return e ? dvt_fail(err, DVT_EIO, e, "cannot start the pipeline thread: %s", strerror(e)) : 0;
}

void driver_stop(struct driver *d)
{
    atomic_store(&d->stop, true);
    wake_up(&d->wake);
    pthread_join(d->thread, NULL);
}

void driver_free(struct driver *d)
{
    if (!d)
        return;
    if (d->from_sampler.head)
        queue_fini(&d->from_sampler, feed_free);
    if (d->from_ingest.head)
        queue_fini(&d->from_ingest, feed_free);
    while (d->known)
        forget(d, &d->known);
    if (d->pipeline)
        pipeline_free(d->pipeline);
    wake_fini(&d->wake);
    free(d);
}
