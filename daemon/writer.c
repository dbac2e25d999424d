/*
 * writer: see writer.h.
 */
#include "writer.h"
#include "log.h"
#include "symbols.h"
#include "trace_jfr.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COMMIT_MS = 200, COMMIT_TRACES = 256, RETAIN_MS = 3000 };
enum { CLOCK_SET_NS = 100000000 }; /* a step of the wall clock, not its drift */
#define MS 1000000ull

enum item_type { ITEM_TRACE, ITEM_REPORT, ITEM_FLUSH };

struct item {
    enum item_type type;
    struct trace *trace;
    struct report *report;
    uint64_t generation;
};

struct writer {
    struct writer_config c;
    struct wake wake;
    struct queue queue; /* of struct item */
    _Atomic bool stop;
    pthread_t thread;

    /* the thread's own */
    struct symbols *symbols;
    struct board_writer counts;
    uint32_t n_uncommitted;
    uint64_t uncommitted_since_ns, retained_ns;
    bool grown; /* appended since the last retention */
    int64_t unix_offset_ns; /* UNIX time - CLOCK_MONOTONIC */
    char host[64], boot[40];
};

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void item_free(void *p)
{
    struct item *i = p;
    if (i->trace)
        trace_free(i->trace);
    report_free(i->report);
    free(i);
}

/* ---- the thread ---- */

static void note_error(struct writer *w, const char *id, const struct dvt_err *err)
{
    w->counts.errors++;
    snprintf(w->counts.last_error, sizeof w->counts.last_error, "%s", err->text);
    log_event(LOG_LEVEL_ERROR, id, "%s", err->text);
}

/* Each process gets the samples of its own threads; a trace counts for each process it ran in. */
static void count_written(const struct trace *t)
{
    for (uint32_t i = 0; i < t->n_processes; i++)
        edge_count(t->processes[i]->edge.traces_written, 1);
    for (uint32_t i = 0; i < t->n_samples; i++) {
        const struct trace_thread *th = &t->threads[t->samples[i].thread];
        edge_count(t->processes[th->process]->edge.samples_written, 1);
    }
}

static void count_lost(struct edge_counts *counts, const struct trace *t)
{
    edge_count(counts->traces_lost, 1);
    for (uint32_t i = 0; i < t->n_processes; i++)
        edge_count(t->processes[i]->edge.traces_lost, 1);
}

static void commit(struct writer *w)
{
    struct dvt_err err = {0};
    if (store_commit(w->c.store, &err))
        note_error(w, "STORE-COMMIT", &err);
    w->n_uncommitted = 0;
}

/* One offset for the whole run, so that its chunks share segments; a new one once the clock was set. */
static int64_t unix_offset(struct writer *w)
{
    int64_t now_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
    if (now_ns - w->unix_offset_ns > CLOCK_SET_NS || w->unix_offset_ns - now_ns > CLOCK_SET_NS)
        w->unix_offset_ns = now_ns;
    return w->unix_offset_ns;
}

static int write_trace(struct writer *w, const struct trace *t, struct dvt_err *err)
{
    struct trace_jfr *j = NULL;
    int r = trace_jfr_build(t, w->symbols, unix_offset(w), w->c.period_ns, w->c.event, w->host, &j, err);
    if (r)
        return r;
    r = store_append(w->c.store, trace_jfr_chunk(j), err);
    trace_jfr_free(j);
    return r;
}

static void on_trace(struct writer *w, const struct trace *t)
{
    struct dvt_err err = {0};
    if (write_trace(w, t, &err)) {
        count_lost(w->c.counts, t);
        note_error(w, "TRACE-LOST", &err);
        return;
    }
    edge_count(w->c.counts->traces_written, 1);
    edge_count(w->c.counts->samples_written, t->n_samples);
    count_written(t);
    w->counts.traces++;
    w->grown = true;
    if (w->n_uncommitted++ == 0)
        w->uncommitted_since_ns = clock_ns(CLOCK_MONOTONIC);
}

static int put_process(struct writer *w, const struct report_process *p, struct dvt_err *err)
{
    struct dvt_buf json;
    dvt_buf_init(&json, 65536);
    struct dvt_chunk_process cp = {.pid = p->proc->host_pid,
                                   .start_ticks = p->proc->start_ticks,
                                   .service = dvt_str(p->proc->service),
                                   .program = dvt_str(p->proc->program),
                                   .runtime = dvt_str(p->proc->runtime),
                                   .runtime_version = dvt_str(p->proc->runtime_version)};
    struct ledger l = report_ledger(p);
    int r = ledger_json(&l, &p->shim, &json);
    if (r == 0)
        r = dvt_buf_append(&json, "", 1);
    if (r == 0)
        r = store_put_process(w->c.store, w->boot, &cp, p->first_unix_ns, p->last_unix_ns,
                              (const char *)json.p, err);
    dvt_buf_fini(&json);
    return r;
}

static void on_report(struct writer *w, const struct report *rep)
{
    struct dvt_err err = {0};
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < rep->n; i++)
        r = put_process(w, &rep->v[i], &err);
    for (uint32_t i = 0; r == 0 && i < rep->n_dropped; i++) {
        const struct report_dropped *d = &rep->dropped[i];
        r = store_put_dropped(w->c.store, d->service, d->name, d->count, &err);
    }
    if (r)
        note_error(w, "STORE-LEDGER", &err);
    if (w->n_uncommitted++ == 0)
        w->uncommitted_since_ns = clock_ns(CLOCK_MONOTONIC);
}

static void on_item(struct writer *w, const struct item *i)
{
    switch (i->type) {
    case ITEM_TRACE:
        on_trace(w, i->trace);
        break;
    case ITEM_REPORT:
        on_report(w, i->report);
        break;
    case ITEM_FLUSH:
        commit(w);
        board_put_writer(w->c.board, &w->counts);
        board_put_flushed(w->c.board, i->generation);
        break;
    }
}

static bool commit_is_due(const struct writer *w, uint64_t now_ns)
{
    return w->n_uncommitted >= COMMIT_TRACES ||
           (w->n_uncommitted && now_ns - w->uncommitted_since_ns >= COMMIT_MS * MS);
}

static void retain(struct writer *w, uint64_t now_ns)
{
    struct dvt_err err = {0};
    if (!w->grown || now_ns - w->retained_ns < RETAIN_MS * MS)
        return;
    int n = store_retain(w->c.store, &err);
    if (n < 0)
        note_error(w, "STORE-RETAIN", &err);
    else
        w->counts.deleted += (uint64_t)n;
    w->grown = false;
    w->retained_ns = now_ns;
}

static void upkeep(struct writer *w)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!commit_is_due(w, now_ns))
        return;
    commit(w);
    retain(w, now_ns);
    board_put_writer(w->c.board, &w->counts);
}

static int sleep_ms(const struct writer *w)
{
    if (w->n_uncommitted == 0)
        return -1;
    uint64_t passed = (clock_ns(CLOCK_MONOTONIC) - w->uncommitted_since_ns) / MS;
    return passed >= COMMIT_MS ? 0 : (int)(COMMIT_MS - passed);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    for (;;) {
        bool stop = atomic_load_explicit(&w->stop, memory_order_acquire);
        struct item *i = queue_pop(&w->queue);
        if (i) {
            on_item(w, i);
            item_free(i);
            upkeep(w);
            continue;
        }
        if (stop)
            break;
        upkeep(w);
        wake_prepare(&w->wake);
        if (!queue_is_empty(&w->queue) || atomic_load_explicit(&w->stop, memory_order_acquire))
            wake_cancel(&w->wake);
        else
            wake_wait(&w->wake, sleep_ms(w));
    }
    commit(w);
    board_put_writer(w->c.board, &w->counts);
    return NULL;
}

/* ---- the pipeline's side ---- */

static bool put(struct writer *w, struct item item, size_t bytes)
{
    struct item *i = malloc(sizeof *i);
    if (!i)
        return false;
    *i = item;
    if (queue_push_must(&w->queue, i, bytes))
        return true;
    free(i);
    return false;
}

bool writer_has_room(const struct writer *w)
{
    return queue_bytes(&w->queue) < w->c.queue_bytes;
}

bool writer_put_trace(struct writer *w, struct trace *t)
{
    if (put(w, (struct item){.type = ITEM_TRACE, .trace = t}, sizeof(struct item) + t->bytes))
        return true;
    count_lost(w->c.counts, t);
    log_event(LOG_LEVEL_WARN, "TRACE-LOST", "reason=no-memory samples=%u", t->n_samples);
    trace_free(t);
    return false;
}

void writer_put_report(struct writer *w, struct report *r)
{
    if (!put(w, (struct item){.type = ITEM_REPORT, .report = r}, sizeof(struct item)))
        report_free(r);
}

void writer_put_flush(struct writer *w, uint64_t generation)
{
    if (!put(w, (struct item){.type = ITEM_FLUSH, .generation = generation}, sizeof(struct item)))
        board_put_flushed(w->c.board, generation); /* no memory for a word: nobody must wait for it */
}

/* ---- start and stop ---- */

static void read_boot_id(char *out, size_t cap)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, cap - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static void writer_free(struct writer *w)
{
    queue_fini(&w->queue, item_free);
    wake_fini(&w->wake);
    if (w->symbols)
        symbols_free(w->symbols);
    free(w);
}

int writer_start(const struct writer_config *c, struct writer **ret, struct dvt_err *err)
{
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the writer");
    w->c = *c;
    if (gethostname(w->host, sizeof w->host - 1))
        w->host[0] = 0;
    read_boot_id(w->boot, sizeof w->boot);
    int e = -wake_init(&w->wake);
    if (e) {
        free(w);
        return dvt_fail(err, DVT_EIO, e, "eventfd: %s", strerror(e));
    }
    if (queue_init(&w->queue, c->queue_bytes, &w->wake)) {
        wake_fini(&w->wake);
        free(w);
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the writer");
    }
    w->symbols = symbols_new();
    e = w->symbols ? pthread_create(&w->thread, NULL, writer_main, w) : ENOMEM;
    if (e) {
        writer_free(w);
        return dvt_fail(err, DVT_EIO, e, "cannot start the writer thread: %s", strerror(e));
    }
    *ret = w;
    return 0;
}

void writer_stop(struct writer *w)
{
    if (!w)
        return;
    atomic_store_explicit(&w->stop, true, memory_order_seq_cst);
    wake_up(&w->wake);
    pthread_join(w->thread, NULL);
    writer_free(w);
}
