/*
 * jit: see jit.h. V8 tells of code with a name on the isolate's thread; of code that moves also on the threads that help
 * it collect garbage. Source positions come before their code, between START and END, and wait here for it.
 */
#include "jit.h"
#include "builtins.h"
#include "functions.h"

#include <stdlib.h>
#include <string.h>

enum { ENUMERATE_EXISTING = 1, MAX_ISOLATES = 256, MAX_POSITIONS = 1 << 16 };

struct positions {
    struct dvt_node_pos *v; /* [n] */
    uint32_t n, cap;
};

struct jit {
    void *isolate;
    struct dvt_node_codemap map;
    struct positions recorder; /* between START and END */
    struct positions ready; /* of the code at ready_start, which is announced next */
    uintptr_t ready_start;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* isolates[] */
static struct jit *isolates[MAX_ISOLATES];
static __thread struct jit *tl __attribute__((tls_model("initial-exec")));

struct dvt_node_codemap *dvt_node_jit_map(void)
{
    return tl ? &tl->map : NULL;
}

/* ---- events ---- */

static void forget(struct positions *p)
{
    free(p->v);
    *p = (struct positions){0};
}

static void record(struct positions *p, size_t offset, size_t pos)
{
    if (p->n >= MAX_POSITIONS || offset > UINT32_MAX || pos > UINT32_MAX)
        return;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 16;
        struct dvt_node_pos *v = realloc(p->v, cap * sizeof *v);
        if (!v)
            return;
        p->v = v;
        p->cap = cap;
    }
    p->v[p->n++] = (struct dvt_node_pos){(uint32_t)offset, (uint32_t)pos};
}

static void add(struct jit *j, const struct dvt_v8_code_event *e)
{
    struct dvt_str text = {e->name.text, e->name.n};
    uintptr_t start = (uintptr_t)e->code_start;
    if (e->code_len > UINT32_MAX)
        return;
    struct dvt_node_code code = {.start = start,
                                 .bytes = (uint32_t)e->code_len,
                                 .id = dvt_node_function(text),
                                 .kind = dvt_node_kind(text)};
    if (j == tl && j->ready_start == start) {
        code.pos = j->ready.v;
        code.n_pos = j->ready.n;
        j->ready = (struct positions){0};
        j->ready_start = 0;
    }
    dvt_node_codemap_add(&j->map, code);
}

static void own_event(struct jit *j, const struct dvt_v8_code_event *e)
{
    switch (e->type) {
    case DVT_V8_LINE_START:
        j->recorder.n = 0;
        break;
    case DVT_V8_LINE_ADD:
        record(&j->recorder, e->line.offset, e->line.pos);
        break;
    case DVT_V8_LINE_END:
        forget(&j->ready);
        j->ready = j->recorder;
        j->ready_start = (uintptr_t)e->code_start;
        j->recorder = (struct positions){0};
        break;
    default:
        break;
    }
}

static void event(struct jit *j, const struct dvt_v8_code_event *e)
{
    if (e->type == DVT_V8_CODE_ADDED)
        add(j, e);
    else if (e->type == DVT_V8_CODE_MOVED)
        dvt_node_codemap_move(&j->map, (uintptr_t)e->code_start, (uintptr_t)e->new_start);
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
    forget(&j->recorder);
    forget(&j->ready);
    free(j);
}
