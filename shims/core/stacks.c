/*
 * stacks: see stacks.h. Encoded stacks wait in a bounded queue for the sender; what does not fit is counted
 * as lost.
 */
#include "stacks.h"

#include <stdlib.h>

#include "push.h"

enum {
    BATCH = 64,                     /* stacks resolved in one call */
    MAX_QUEUED_BYTES = 8 << 20,     /* encoded stacks that wait */
    MAX_CODE_BYTES = 64 << 20,      /* names and files of all code */
    MAX_ANNOUNCED_BYTES = 1 << 20,  /* announcements of one thread that wait */
};

struct queued {
    struct queued *next;
    struct dvt_buf body;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rings' consumer side, queue, counts */
static const struct dvt_runtime *runtime;
static struct queued *first, **last = &first;
static size_t queued_bytes;
static uint64_t n_ok, n_none, n_lost;
/* One batch, under the lock. */
static struct dvt_stack_rec recs[BATCH];
static struct dvt_rt_frame frames[BATCH * DVT_MAX_FRAMES];
static uint32_t code[BATCH * DVT_MAX_FRAMES], line[BATCH * DVT_MAX_FRAMES];

static pthread_mutex_t code_lock = PTHREAD_MUTEX_INITIALIZER; /* taken inside lock */
static struct dvt_code_info *codes;
static size_t n_codes, cap_codes, codes_sent, code_bytes;

void dvt_stacks_set_runtime(const struct dvt_runtime *rt)
{
    pthread_mutex_lock(&lock);
    runtime = rt;
    pthread_mutex_unlock(&lock);
}

void dvt_stacks_lock(void)
{
    pthread_mutex_lock(&lock);
}

void dvt_stacks_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- code ---- */

static int add_code(uint32_t id, struct dvt_str name, struct dvt_str file, uint32_t first_line)
{
    if (n_codes == cap_codes) {
        size_t cap = cap_codes ? 2 * cap_codes : 256;
        struct dvt_code_info *p = realloc(codes, cap * sizeof *p);
        if (!p)
            return DVT_ENOMEM;
        codes = p;
        cap_codes = cap;
    }
    name.n = name.n > DVT_MAX_FRAME_NAME ? dvt_utf8_cut(name.p, name.n, DVT_MAX_FRAME_NAME) : name.n;
    file.n = file.n > DVT_MAX_PATH ? dvt_utf8_cut(file.p, file.n, DVT_MAX_PATH) : file.n;
    size_t bytes = name.n + file.n;
    if (code_bytes + bytes > MAX_CODE_BYTES)
        return DVT_ELIMIT;
    char *text = malloc(bytes + 1);
    if (!text)
        return DVT_ENOMEM;
    memcpy(text, name.p, name.n);
    memcpy(text + name.n, file.p, file.n);
    codes[n_codes++] = (struct dvt_code_info){id, {text, name.n}, {text + name.n, file.n}, first_line};
    code_bytes += bytes;
    return 0;
}

void dvt_rt_code(uint32_t id, struct dvt_str name, struct dvt_str file, uint32_t first_line)
{
    pthread_mutex_lock(&code_lock);
    (void)add_code(id, name, file, first_line); /* without it the frame shows as unknown */
    pthread_mutex_unlock(&code_lock);
}

/* The next codes to send, at most a batch's bytes. */
static size_t next_codes(void)
{
    size_t bytes = 0, n = 0;
    while (codes_sent + n < n_codes && n < DVT_MAX_BATCH && bytes < DVT_PUSH_BATCH_BYTES) {
        const struct dvt_code_info *c = &codes[codes_sent + n++];
        bytes += c->name.n + c->file.n + 16;
    }
    return n;
}

static int send_codes(struct dvt_buf *body)
{
    int rc = 0;
    pthread_mutex_lock(&code_lock);
    for (size_t n; rc == 0 && (n = next_codes()) > 0;) {
        rc = dvt_wire_put_code(body, codes + codes_sent, n);
        if (rc == 0 && (rc = dvt_push_send(body)) == 0)
            codes_sent += n;
    }
    pthread_mutex_unlock(&code_lock);
    return rc;
}

/* ---- resolving ---- */

static void enqueue(const struct dvt_slot *s, size_t n, uint64_t ok)
{
    struct queued *q = queued_bytes < MAX_QUEUED_BYTES ? calloc(1, sizeof *q) : NULL;
    if (q)
        dvt_buf_init(&q->body, DVT_MAX_MESSAGE);
    if (!q || dvt_wire_put_stacks(&q->body, (uint32_t)s->tid, dvt_slot_epoch(s), recs, n) != 0) {
        n_lost += n;
        if (q)
            dvt_buf_fini(&q->body);
        free(q);
        return;
    }
    n_ok += ok;
    n_none += n - ok;
    queued_bytes += q->body.n;
    *last = q;
    last = &q->next;
}

/* Adds a stack to the batch: its frames follow the earlier ones'. */
static void add_stack(const struct dvt_stack_entry *e, const uint8_t *raw, size_t n, size_t *n_frames)
{
    uint32_t reason =
        e->reason >= 0 && e->reason < DVT_N_STACK_REASONS ? (uint32_t)e->reason : DVT_STACK_FAULT;
    memcpy(frames + *n_frames, raw, e->n_frames * sizeof frames[0]);
    recs[n] = (struct dvt_stack_rec){
        .head = e->head,
        .time_ns = e->time_ns,
        .reason = reason,
        .truncated = e->truncated,
        .n_frames = e->n_frames,
        .code = code + *n_frames,
        .line = line + *n_frames,
    };
    *n_frames += e->n_frames;
}

static void add_announcement(struct dvt_slot *s, const uint8_t *p)
{
    struct dvt_scope_entry e;
    memcpy(&e, p, sizeof e);
    if (s->announced.max == 0)
        dvt_buf_init(&s->announced, MAX_ANNOUNCED_BYTES);
    /* One that does not fit is not lost: the scope's own record follows. */
    (void)dvt_buf_append(&s->announced, p, sizeof e + e.blob_bytes);
}

/* Reads up to BATCH stacks of the present epoch from *pos on; other epochs' are void. */
static size_t read_batch(struct dvt_slot *s, uint64_t *pos, uint64_t end, size_t *ret_n_frames)
{
    size_t n = 0;
    uint32_t kind;
    const uint8_t *p;
    *ret_n_frames = 0;
    while (n < BATCH && (p = dvt_ring_next(&s->stacks, pos, end, &kind))) {
        struct dvt_stack_entry e;
        if (kind == DVT_ENTRY_SCOPE) {
            add_announcement(s, p);
            continue;
        }
        memcpy(&e, p, sizeof e);
        if (e.epoch == dvt_slot_epoch(s))
            add_stack(&e, p + sizeof e, n++, ret_n_frames);
    }
    return n;
}

static uint64_t count_ok(size_t n)
{
    uint64_t ok = 0;
    for (size_t i = 0; i < n; i++)
        ok += recs[i].reason == DVT_STACK_OK;
    return ok;
}

static int take(struct dvt_slot *s)
{
    uint64_t end = dvt_ring_end(&s->stacks), pos = dvt_ring_begin(&s->stacks);
    while (pos != end) {
        size_t n_frames, announced = s->announced.n, n = read_batch(s, &pos, end, &n_frames);
        if (n_frames &&
            (!runtime || !runtime->resolve || runtime->resolve(frames, n_frames, code, line) != 0)) {
            s->announced.n = announced; /* read again with the stacks */
            return -1;
        }
        if (n)
            enqueue(s, n, count_ok(n));
        dvt_ring_release(&s->stacks, pos);
    }
    return 0;
}

int dvt_stacks_take(struct dvt_slot *s)
{
    pthread_mutex_lock(&lock);
    int rc = take(s);
    pthread_mutex_unlock(&lock);
    return rc;
}

void dvt_rt_drain_stacks(void)
{
    for (struct dvt_slot *s = dvt_slot_first(); s; s = s->all_next)
        if (dvt_slot_is_ours(s))
            (void)dvt_stacks_take(s); /* what cannot be resolved even now stays */
}

/* ---- sending ---- */

static struct queued *pop_queued(void)
{
    pthread_mutex_lock(&lock);
    struct queued *q = first;
    if (q) {
        first = q->next;
        last = first ? last : &first;
        queued_bytes -= q->body.n;
    }
    pthread_mutex_unlock(&lock);
    return q;
}

void dvt_stacks_send(void)
{
    struct dvt_buf body;
    dvt_buf_init(&body, DVT_MAX_MESSAGE);
    (void)send_codes(&body); /* what was not taken is sent next time */
    for (struct queued *q; (q = pop_queued());) {
        (void)dvt_push_send(&q->body); /* the daemon counts the missing stacks: no_stack */
        dvt_buf_fini(&q->body);
        free(q);
    }
    dvt_buf_fini(&body);
}

void dvt_stacks_new_session(void)
{
    for (struct queued *q; (q = pop_queued());) {
        dvt_buf_fini(&q->body);
        free(q);
    }
    pthread_mutex_lock(&code_lock);
    codes_sent = 0;
    pthread_mutex_unlock(&code_lock);
}

void dvt_stacks_count(struct dvt_shim_counts *sum)
{
    pthread_mutex_lock(&lock);
    sum->stacks_ok = n_ok;
    sum->stacks_none = n_none;
    sum->stacks_lost += n_lost;
    pthread_mutex_unlock(&lock);
}

void dvt_stacks_before_fork(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&code_lock);
}

void dvt_stacks_after_fork(bool in_child)
{
    if (in_child) {
        n_ok = n_none = n_lost = 0;
        codes_sent = 0;
        first = NULL; /* the parent sends them */
        last = &first;
        queued_bytes = 0;
    }
    pthread_mutex_unlock(&code_lock);
    pthread_mutex_unlock(&lock);
}
