/* fixture: see fixture.h. Test code: running out of memory or room aborts. */
#include "fixture.h"

#include "../../daemon/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unlike assert(3), in every build. */
#define REQUIRE(claim)                                                                                       \
    do {                                                                                                     \
        if (!(claim)) {                                                                                      \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                              \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum {
    MAX_PROCESSES = 8,
    MAX_THREADS = 64,
    MAX_FRAMES = 4096,
    MAX_STACKS = 1024,
    MAX_STACK_FRAMES = 16384,
    MAX_SCOPES = 4096,
    MAX_LABELS = 4096,
    MAX_SAMPLES = 100000,
    MAX_TEXTS = 20000
};

struct fixture {
    struct dvt_chunk c;
    char *texts[MAX_TEXTS];
    size_t n_texts;
};

static struct dvt_str keep(struct fixture *f, const char *p, size_t n)
{
    REQUIRE(f->n_texts < MAX_TEXTS);
    char *copy = malloc(n + 1);
    REQUIRE(copy);
    memcpy(copy, p, n);
    copy[n] = 0;
    f->texts[f->n_texts++] = copy;
    return (struct dvt_str){copy, n};
}

static struct dvt_str keep_text(struct fixture *f, const char *z)
{
    return keep(f, z, strlen(z));
}

static void free_texts(struct fixture *f)
{
    for (size_t i = 0; i < f->n_texts; i++) {
        free(f->texts[i]);
    }
    f->n_texts = 0;
}

static void begin(struct dvt_chunk *c, const char *trace_hex, uint64_t start_ns, uint64_t end_ns)
{
    REQUIRE(dvt_trace_id_parse(trace_hex, strlen(trace_hex), &c->trace) == 0);
    c->start_ns = start_ns;
    c->end_ns = end_ns;
    c->unix_offset_ns = FIXTURE_UNIX_OFFSET_NS;
    c->period_ns = FIXTURE_PERIOD_NS;
    c->event = dvt_str("perf::PERF_COUNT_SW_CPU_CLOCK");
    c->host = dvt_str("host");
}

struct fixture *fixture_new(const char *trace_hex, uint64_t start_ns, uint64_t end_ns)
{
    struct fixture *f = calloc(1, sizeof *f);
    REQUIRE(f);
    struct dvt_chunk *c = &f->c;
    begin(c, trace_hex, start_ns, end_ns);
    c->processes = calloc(MAX_PROCESSES, sizeof *c->processes);
    c->threads = calloc(MAX_THREADS, sizeof *c->threads);
    c->frames = calloc(MAX_FRAMES, sizeof *c->frames);
    c->stacks = calloc(MAX_STACKS, sizeof *c->stacks);
    c->stack_frames = calloc(MAX_STACK_FRAMES, sizeof *c->stack_frames);
    c->scopes = calloc(MAX_SCOPES, sizeof *c->scopes);
    c->labels = calloc(MAX_LABELS, sizeof *c->labels);
    c->samples = calloc(MAX_SAMPLES, sizeof *c->samples);
    return f;
}

void fixture_again(struct fixture *f, const char *trace_hex, uint64_t start_ns, uint64_t end_ns)
{
    struct dvt_chunk *c = &f->c;
    free_texts(f);
    c->n_processes = c->n_threads = c->n_frames = c->n_stacks = c->n_stack_frames = 0;
    c->n_scopes = c->n_labels = c->n_links = c->n_samples = 0;
    c->ledger = (struct dvt_chunk_ledger){0};
    begin(c, trace_hex, start_ns, end_ns);
}

void fixture_free(struct fixture *f)
{
    free_texts(f);
    free(f->c.processes);
    free(f->c.threads);
    free(f->c.frames);
    free(f->c.stacks);
    free(f->c.stack_frames);
    free(f->c.scopes);
    free(f->c.labels);
    free(f->c.samples);
    free(f);
}

uint32_t fixture_process(struct fixture *f, uint32_t pid, const char *service)
{
    REQUIRE(f->c.n_processes < MAX_PROCESSES);
    f->c.processes[f->c.n_processes] = (struct dvt_chunk_process){.pid = pid,
                                                                  .start_ticks = pid,
                                                                  .service = keep_text(f, service),
                                                                  .program = dvt_str("app"),
                                                                  .runtime = dvt_str("python"),
                                                                  .runtime_version = dvt_str("3.11.7")};
    return f->c.n_processes++;
}

uint32_t fixture_thread(struct fixture *f, uint32_t process, uint32_t tid, const char *name)
{
    REQUIRE(f->c.n_threads < MAX_THREADS);
    f->c.threads[f->c.n_threads] = (struct dvt_chunk_thread){process, tid, keep_text(f, name)};
    return f->c.n_threads++;
}

static void add_labels(struct fixture *f, struct dvt_chunk_scope *s, const char *labels)
{
    s->first_label = f->c.n_labels;
    for (const char *p = labels; p && *p;) {
        size_t n = strcspn(p, ","), key = strcspn(p, "=");
        REQUIRE(key < n && f->c.n_labels < MAX_LABELS);
        f->c.labels[f->c.n_labels++] = (struct dvt_label){keep(f, p, key), keep(f, p + key + 1, n - key - 1)};
        s->n_labels++;
        p += n + (p[n] == ',');
    }
}

uint32_t fixture_scope(struct fixture *f, uint32_t thread, uint32_t parent, const char *name,
                       const char *labels)
{
    char tag[1200], trace[DVT_TRACE_HEX + 1];
    uint32_t i = f->c.n_scopes;
    REQUIRE(i < MAX_SCOPES);
    struct dvt_chunk_scope *s = &f->c.scopes[i];
    dvt_trace_id_format(&f->c.trace, trace);
    snprintf(tag, sizeof tag, "%s/%016x/%s", trace, i + 1, name);
    *s = (struct dvt_chunk_scope){.thread = thread,
                                  .parent = parent,
                                  .serial = i + 1,
                                  .start_ns = f->c.start_ns,
                                  .end_ns = f->c.end_ns,
                                  .name = keep_text(f, name),
                                  .tag = keep_text(f, tag),
                                  .flags = parent == DVT_NONE && i == 0 ? DVT_SCOPE_ROOT : 0};
    s->span.b[6] = (uint8_t)((i + 1) >> 8);
    s->span.b[7] = (uint8_t)(i + 1);
    if (parent != DVT_NONE) {
        s->parent_span = f->c.scopes[parent].span;
    }
    add_labels(f, s, labels);
    f->c.n_scopes++;
    f->c.ledger.scopes++;
    return i;
}

static uint32_t add_frame(struct fixture *f, const char *p, size_t n)
{
    struct dvt_chunk_frame frame = {.kind = DVT_FRAME_MANAGED};
    static const char marks[] = "~!%";
    static const uint32_t kinds[] = {DVT_FRAME_NATIVE, DVT_FRAME_SPECIAL, DVT_FRAME_KERNEL};
    const char *mark = strchr(marks, *p);
    if (*p && mark) {
        frame.kind = kinds[mark - marks];
        p++;
        n--;
    }
    char text[2048];
    REQUIRE(n < sizeof text && f->c.n_frames < MAX_FRAMES);
    memcpy(text, p, n);
    text[n] = 0;
    char *at = strrchr(text, '@'), *colon = at ? strrchr(at, ':') : NULL;
    frame.line = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    if (colon) {
        *colon = 0;
    }
    if (at) {
        *at = 0;
        frame.module = keep_text(f, at + 1);
    }
    frame.name = keep_text(f, text);
    f->c.frames[f->c.n_frames] = frame;
    return f->c.n_frames++;
}

uint32_t fixture_stack(struct fixture *f, const char *stack)
{
    struct dvt_chunk *c = &f->c;
    REQUIRE(c->n_stacks < MAX_STACKS);
    struct dvt_chunk_stack *s = &c->stacks[c->n_stacks];
    *s = (struct dvt_chunk_stack){.first = c->n_stack_frames};
    for (size_t end = strlen(stack); *stack;) { /* from the leaf, the last */
        size_t begin = end;
        while (begin > 0 && stack[begin - 1] != ';') {
            begin--;
        }
        REQUIRE(c->n_stack_frames < MAX_STACK_FRAMES);
        c->stack_frames[c->n_stack_frames++] = add_frame(f, stack + begin, end - begin);
        s->n++;
        if (begin == 0) {
            break;
        }
        end = begin - 1;
    }
    return c->n_stacks++;
}

void fixture_samples(struct fixture *f, uint32_t thread, uint32_t scope, uint32_t stack, uint32_t n)
{
    struct dvt_chunk *c = &f->c;
    for (uint32_t i = 0; i < n; i++) {
        REQUIRE(c->n_samples < MAX_SAMPLES);
        uint64_t time_ns = c->start_ns + (c->end_ns - c->start_ns) * c->n_samples / MAX_SAMPLES;
        c->samples[c->n_samples++] =
            (struct dvt_chunk_sample){thread, scope, stack, time_ns, FIXTURE_PERIOD_NS};
        c->ledger.samples++;
    }
}

struct dvt_chunk *fixture_chunk(struct fixture *f)
{
    return &f->c;
}

/* ---- stores ---- */

struct fixture_store {
    char dir[64];
    struct store *store;
};

struct fixture_store *fixture_store_new(void)
{
    struct fixture_store *s = calloc(1, sizeof *s);
    struct dvt_err err = {0};
    char note[240];
    REQUIRE(s);
    snprintf(s->dir, sizeof s->dir, "/tmp/dovetail-test-XXXXXX");
    REQUIRE(mkdtemp(s->dir));
    struct store_config c = {.dir = s->dir, .segment_bytes = 64 << 20, .slow_keep_permille = 50};
    if (store_open(&c, &s->store, note, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return s;
}

const char *fixture_store_dir(const struct fixture_store *s)
{
    return s->dir;
}

void fixture_store_add(struct fixture_store *s, struct fixture *f)
{
    struct dvt_err err = {0};
    if (store_append(s->store, &f->c, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

void fixture_store_commit(struct fixture_store *s)
{
    struct dvt_err err = {0};
    REQUIRE(store_commit(s->store, &err) == 0);
}

void fixture_store_close(struct fixture_store *s)
{
    fixture_store_commit(s);
    store_close(s->store);
    s->store = NULL;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void fixture_store_free(struct fixture_store *s)
{
    if (s->store) {
        store_close(s->store);
    }
    nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
}
