/*
 * jit: see jit.h. V8 tells of code with a name on the isolate's thread; of code that moves also on the threads that help
 * it collect garbage. Source positions come before their code, between START and END, and wait here for it: a function and
 * those compiled with it give all their positions first, then their codes. What then still waits never gets its code.
 *
 * Only bytecode's positions are of use: baseline code has none, and those of optimised code do not say of which function
 * they are, it or one inlined.
 */
#include "jit.h"
#include "builtins.h"
#include "functions.h"

#include <stdlib.h>
#include <string.h>

enum { ENUMERATE_EXISTING = 1, MAX_ISOLATES = 256, MAX_POSITIONS = 1 << 16, MAX_WAITING = 32 };

struct positions {
    uintptr_t start; /* of the bytecode, 0: none, or not all are here */
    struct position {
        uint32_t offset, pos; /* in the code; in the source, in characters */
    } *v; /* [n] */
    uint32_t n, cap;
};

struct jit {
    void *isolate;
    struct dvt_node_codemap map;
    const struct dvt_v8 *v8;
    struct positions waiting[MAX_WAITING]; /* [n_waiting]; their memory is kept */
    uint32_t n_waiting;
    bool recording, complete; /* into the last of those; nothing was left out */
    bool coded; /* code came after them */
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* isolates[] */
static struct jit *isolates[MAX_ISOLATES];
static __thread struct jit *tl __attribute__((tls_model("initial-exec")));

struct dvt_node_codemap *dvt_node_jit_map(void)
{
    return tl ? &tl->map : NULL;
}

/* ---- events ---- */

static void forget_waiting(struct jit *j)
{
    j->n_waiting = 0;
    j->recording = j->coded = false;
}

static void begin_positions(struct jit *j)
{
    if (j->coded)
        forget_waiting(j);
    j->recording = j->complete = j->n_waiting < MAX_WAITING;
    if (j->recording)
        j->waiting[j->n_waiting].n = 0;
}

static bool record(struct positions *p, size_t offset, size_t pos)
{
    if (p->n >= MAX_POSITIONS || offset > UINT32_MAX || pos > INT32_MAX)
        return false;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 16;
        struct position *v = realloc(p->v, cap * sizeof *v);
        if (!v)
            return false;
        p->v = v;
        p->cap = cap;
    }
    p->v[p->n++] = (struct position){(uint32_t)offset, (uint32_t)pos};
    return true;
}

static void end_positions(struct jit *j, const struct dvt_v8_code_event *e)
{
    if (j->recording && j->complete && e->code_type == DVT_V8_BYTE_CODE && j->waiting[j->n_waiting].n)
        j->waiting[j->n_waiting++].start = (uintptr_t)e->code_start;
    j->recording = false;
}

/* The lines of the code that was announced, by its script: V8 has just made its table of line ends, to tell where the
 * function begins. */
static void set_lines(struct jit *j, struct dvt_node_code *code, const struct positions *p, void *script)
{
    struct dvt_v8_handle_scope handles;
    struct dvt_node_line *lines = malloc(p->n * sizeof *lines);
    if (!lines)
        return;
    uint32_t n = 0;
    j->v8->open_handles(&handles, j->isolate);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t line = (uint32_t)(j->v8->line(script, (int)p->v[i].pos) + 1);
        if (n == 0 || line != lines[n - 1].line)
            lines[n++] = (struct dvt_node_line){p->v[i].offset, line};
    }
    j->v8->close_handles(&handles);
    struct dvt_node_line *fitting = realloc(lines, n * sizeof *lines);
    code->lines = fitting ? fitting : lines;
    code->n_lines = n;
}

static void take_lines(struct jit *j, struct dvt_node_code *code, void *script)
{
    j->coded = true;
    for (uint32_t i = 0; i < j->n_waiting; i++) {
        if (j->waiting[i].start == code->start) {
            set_lines(j, code, &j->waiting[i], script);
            j->waiting[i].start = 0;
            return;
        }
    }
}

static void add(struct jit *j, const struct dvt_v8_code_event *e)
{
    struct dvt_str text = {e->name.text, e->name.n};
    if (e->code_len > UINT32_MAX)
        return;
    struct dvt_node_code code = {.start = (uintptr_t)e->code_start,
                                 .bytes = (uint32_t)e->code_len,
                                 .id = dvt_node_function(text),
                                 .kind = dvt_node_kind(text)};
    if (j == tl && e->script)
        take_lines(j, &code, e->script);
    dvt_node_codemap_add(&j->map, code);
}

static void own_event(struct jit *j, const struct dvt_v8_code_event *e)
{
    switch (e->type) {
    case DVT_V8_LINE_START:
        begin_positions(j);
        break;
    case DVT_V8_LINE_ADD:
        j->complete &= j->recording && record(&j->waiting[j->n_waiting], e->line.offset, e->line.pos);
        break;
    case DVT_V8_LINE_END:
        end_positions(j, e);
        break;
    default:
        break;
    }
}

static void move(struct jit *j, const struct dvt_v8_code_event *e)
{
    if (j == tl)
        forget_waiting(j); /* garbage was collected: other code may begin where they say */
    dvt_node_codemap_move(&j->map, (uintptr_t)e->code_start, (uintptr_t)e->new_start);
}

static void event(struct jit *j, const struct dvt_v8_code_event *e)
{
    if (e->type == DVT_V8_CODE_ADDED)
        add(j, e);
    else if (e->type == DVT_V8_CODE_MOVED)
        move(j, e);
    else if (e->type == DVT_V8_CODE_REMOVED)
        dvt_node_codemap_remove(&j->map, (uintptr_t)e->code_start);
    else if (j == tl)
        own_event(j, e);
}

static void on_event(const struct dvt_v8_code_event *e)
{
    if (tl && tl->isolate == e->isolate) {
        event(tl, e);
        return;
    }
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < MAX_ISOLATES; i++)
        if (isolates[i] && isolates[i]->isolate == e->isolate)
            event(isolates[i], e);
    pthread_rwlock_unlock(&lock);
}

/* ---- life ---- */

static bool put(struct jit *old, struct jit *new)
{
    bool done = false;
    pthread_rwlock_wrlock(&lock);
    for (int i = 0; i < MAX_ISOLATES && !done; i++) {
        done = isolates[i] == old;
        if (done)
            isolates[i] = new;
    }
    pthread_rwlock_unlock(&lock);
    return done;
}

int dvt_node_jit_start(const struct dvt_v8 *v8)
{
    if (tl)
        return 0;
    struct jit *j = calloc(1, sizeof *j);
    if (!j)
        return -1;
    j->v8 = v8;
    j->isolate = v8->current();
    if (!j->isolate || dvt_node_codemap_init(&j->map) || !put(NULL, j)) {
        free(j->map.pages);
        free(j);
        return -1;
    }
    dvt_node_builtins_find(v8, j->isolate, &j->map);
    tl = j;
    v8->on_code(j->isolate, ENUMERATE_EXISTING, on_event);
    return 0;
}

void dvt_node_jit_stop(const struct dvt_v8 *v8)
{
    struct jit *j = tl;
    if (!j)
        return;
    v8->on_code(j->isolate, 0, NULL);
    tl = NULL;
    atomic_signal_fence(memory_order_seq_cst); /* the handler lets go before anything is freed */
    (void)put(j, NULL);
    dvt_node_codemap_fini(&j->map);
    for (int i = 0; i < MAX_WAITING; i++)
        free(j->waiting[i].v);
    free(j);
}
