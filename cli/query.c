/* query: see query.h. */
#include "query.h"
#include "alloc.h"
#include "parts.h"
#include "query_columns.h"
#include "select.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames ---- */

bool query_is_managed(uint32_t frame_kind)
{
    return frame_kind == DVT_FRAME_MANAGED || frame_kind == DVT_FRAME_JIT;
}

static bool begins_with(struct dvt_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.n >= n && memcmp(s.p, prefix, n) == 0;
}

/* python, python3, python3.11; not python-ldap.so. */
static bool is_python_program(struct dvt_str module)
{
    if (!begins_with(module, "python")) {
        return false;
    }
    for (size_t i = strlen("python"); i < module.n; i++) {
        if ((module.p[i] < '0' || module.p[i] > '9') && module.p[i] != '.') {
            return false;
        }
    }
    return true;
}

bool query_is_runtime(uint32_t frame_kind, struct dvt_str module)
{
    if (frame_kind != DVT_FRAME_NATIVE && frame_kind != DVT_FRAME_INLINED) {
        return false;
    }
    return begins_with(module, "libpython") || begins_with(module, "libdovetail.so") ||
           begins_with(module, "_dovetail.") || is_python_program(module);
}

/* ---- one chunk ---- */

struct chunk_walk {
    const struct dvt_chunk *c;
    struct dvt_str root_tag; /* of the whole trace */
    const struct query_options *o;
    struct tree *tree;
    struct tree_key *frames; /* [n_frames], interned */
    uint32_t *bases;         /* [n_scopes + n_threads]: node above the stack, TREE_NONE unknown */
};

static uint32_t service_node(const struct chunk_walk *w, uint32_t thread)
{
    const struct dvt_chunk_process *p = &w->c->processes[w->c->threads[thread].process];
    struct tree_key key = {.kind = TREE_SERVICE, .name = p->service};
    if (!w->o->processes) {
        return tree_child(w->tree, 0, &key);
    }
    char *text = alloc_printf("%.*s (pid %u)", (int)p->service.n, p->service.p ? p->service.p : "", p->pid);
    key.name = dvt_str(text);
    uint32_t node = tree_child(w->tree, 0, &key);
    free(text);
    return node;
}

static uint32_t thread_node(const struct chunk_walk *w, uint32_t thread)
{
    const struct dvt_chunk_thread *t = &w->c->threads[thread];
    uint32_t node = service_node(w, thread);
    if (!w->o->threads) {
        return node;
    }
    struct tree_key key = {.kind = TREE_THREAD, .name = t->name};
    char *text = t->name.n == 0 ? alloc_printf("thread %u", t->tid)
                 : w->o->tids   ? alloc_printf("%.*s (%u)", (int)t->name.n, t->name.p, t->tid)
                                : NULL;
    key.name = text ? dvt_str(text) : key.name;
    node = tree_child(w->tree, node, &key);
    free(text);
    return node;
}

/* Of the trace's root, wherever among its parts and processes it ran. */
static struct dvt_str root_tag_of(const struct parts *parts)
{
    const struct dvt_chunk_scope *root = NULL;
    for (size_t k = 0; k < parts->n; k++) {
        const struct dvt_chunk *c = &parts->chunks[k];
        for (uint32_t i = 0; i < c->n_scopes; i++) {
            uint32_t rank = dvt_chunk_root_rank(&c->scopes[i]), best = root ? dvt_chunk_root_rank(root) : 0;
            if (!root || rank > best || (rank == best && c->scopes[i].start_ns < root->start_ns)) {
                root = &c->scopes[i];
            }
        }
    }
    return root ? root->tag : dvt_str("");
}

static uint32_t scope_path(const struct chunk_walk *w, uint32_t node, uint32_t scope)
{
    uint32_t path[DVT_MAX_DEPTH], n = 0;
    for (; scope != DVT_NONE && n < DVT_MAX_DEPTH; scope = w->c->scopes[scope].parent) {
        path[n++] = scope;
    }
    while (n > 0) {
        struct tree_key key = {.kind = TREE_SCOPE, .name = w->c->scopes[path[--n]].name};
        node = tree_child(w->tree, node, &key);
    }
    return node;
}

/* The node above the stack of a sample: service, thread, scopes as asked for. */
static uint32_t base_node(const struct chunk_walk *w, const struct dvt_chunk_sample *s)
{
    uint32_t slot = s->scope == DVT_NONE ? w->c->n_scopes + s->thread : s->scope;
    if (w->bases[slot] != TREE_NONE) {
        return w->bases[slot];
    }
    uint32_t node = thread_node(w, s->thread);
    if (w->o->by == QUERY_BY_TAG) {
        struct tree_key key = {.kind = TREE_SCOPE, .name = w->root_tag};
        node = tree_child(w->tree, node, &key);
    } else if (w->o->by == QUERY_BY_SCOPE) {
        node = scope_path(w, node, s->scope);
    }
    w->bases[slot] = node;
    return node;
}

/* Samples with one base and one stack, summed before the stack is walked. */
struct same {
    uint32_t base, stack;
    uint64_t weight_ns, samples; /* samples 0: a free slot */
};
struct sums {
    struct same *slots;
    size_t size, n;
};

static struct same *find_same(const struct sums *s, uint32_t base, uint32_t stack)
{
    uint64_t h = ((uint64_t)base << 32 | stack) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 32) & (s->size - 1);
    while (s->slots[i].samples && (s->slots[i].base != base || s->slots[i].stack != stack)) {
        i = (i + 1) & (s->size - 1);
    }
    return &s->slots[i];
}

static void grow_sums(struct sums *s)
{
    struct sums old = *s;
    s->size = old.size ? old.size * 2 : 64;
    s->slots = alloc_array(s->size, sizeof *s->slots);
    for (size_t i = 0; i < old.size; i++) {
        if (old.slots[i].samples) {
            *find_same(s, old.slots[i].base, old.slots[i].stack) = old.slots[i];
        }
    }
    free(old.slots);
}

static void sum_same(struct sums *s, uint32_t base, const struct dvt_chunk_sample *sample)
{
    if (s->n * 2 >= s->size) {
        grow_sums(s);
    }
    struct same *slot = find_same(s, base, sample->stack);
    s->n += slot->samples == 0;
    slot->base = base;
    slot->stack = sample->stack;
    slot->weight_ns += sample->weight_ns;
    slot->samples++;
}

static void add_stack(const struct chunk_walk *w, const struct same *same)
{
    const struct dvt_chunk_stack *stack = &w->c->stacks[same->stack];
    uint32_t node = same->base;
    bool managed_seen = false;
    for (uint32_t i = stack->n; i-- > 0;) { /* leaf first in the chunk, root first in the tree */
        uint32_t frame = w->c->stack_frames[stack->first + i];
        const struct dvt_chunk_frame *f = &w->c->frames[frame];
        managed_seen = managed_seen || query_is_managed(f->kind);
        if (managed_seen && !w->o->native && query_is_runtime(f->kind, f->module)) {
            continue;
        }
        node = tree_child_interned(w->tree, node, &w->frames[frame]);
        tree_line(w->tree, node, f->line, same->weight_ns);
    }
    tree_add(w->tree, node, same->weight_ns, same->samples);
}

static void walk_init(struct chunk_walk *w, const struct dvt_chunk *c, const struct query_options *o,
                      struct tree *tree)
{
    *w = (struct chunk_walk){.c = c, .o = o, .tree = tree};
    w->frames = alloc_array(c->n_frames, sizeof *w->frames);
    for (uint32_t i = 0; i < c->n_frames; i++) {
        const struct dvt_chunk_frame *f = &c->frames[i];
        w->frames[i] = (struct tree_key){TREE_FRAME, (uint8_t)f->kind, f->name, f->module, f->file};
        tree_intern(tree, &w->frames[i]);
    }
    size_t n = (size_t)c->n_scopes + c->n_threads;
    w->bases = alloc_array(n, sizeof *w->bases);
    memset(w->bases, 0xff, n * sizeof *w->bases);
}

/* The event's name while all chunks agree on it. */
void query_sum_event(struct tree_meta *meta, struct dvt_str name)
{
    char *event = text_safe(name, sizeof meta->event / 4);
    if (!meta->has_event) {
        snprintf(meta->event, sizeof meta->event, "%s", event);
    } else if (strcmp(meta->event, event) != 0) {
        meta->event[0] = 0;
    }
    meta->has_event = true;
    free(event);
}

static void sum_chunk(struct tree_meta *meta, const struct dvt_chunk *c)
{
    query_sum_event(meta, c->event);
    meta->ambiguous += c->ledger.ambiguous;
    meta->lost_samples += c->ledger.lost_samples;
    meta->uncovered_ns += c->ledger.uncovered_ns;
    meta->cut_short += c->ledger.cut_short;
    meta->period_ns = c->period_ns;
    meta->weights_are_counts = meta->weights_are_counts || c->period_ns == 0;
}

static bool stack_is_missing(const struct dvt_chunk *c, uint32_t stack)
{
    for (uint32_t i = 0; i < c->stacks[stack].n; i++) {
        const struct dvt_chunk_frame *f = &c->frames[c->stack_frames[c->stacks[stack].first + i]];
        if (f->kind == DVT_FRAME_SPECIAL && begins_with(f->name, "[no stack")) {
            return true;
        }
    }
    return false;
}

static void add_sums(const struct chunk_walk *w, const struct sums *sums, struct tree_meta *meta)
{
    for (size_t i = 0; i < sums->size; i++) {
        const struct same *same = &sums->slots[i];
        if (same->samples) {
            add_stack(w, same);
            meta->samples += same->samples;
            meta->on_cpu_ns += same->weight_ns;
            meta->no_stack += stack_is_missing(w->c, same->stack) ? same->samples : 0;
        }
    }
}

/* One part of a trace. 0 or DVT_ENOMEM. */
static int add_part(struct parts *parts, size_t part, struct dvt_str root_tag, const struct filter *f,
                    const struct query_options *o, struct tree *tree, struct tree_meta *meta)
{
    const struct dvt_chunk *chunk = &parts->chunks[part];
    struct chunk_walk w;
    struct select select;
    struct sums sums = {0};
    int rc = select_init(&select, f, chunk, &parts->labels);
    if (rc) {
        return rc;
    }
    uint64_t before = meta->samples;
    walk_init(&w, chunk, o, tree);
    w.root_tag = root_tag;
    for (uint32_t i = 0; i < chunk->n_samples; i++) {
        const struct dvt_chunk_sample *s = &chunk->samples[i];
        if (select_sample(&select, chunk, s)) {
            sum_same(&sums, base_node(&w, s), s);
            meta->shared += s->scope != DVT_NONE && chunk->scopes[s->scope].n_links > 0;
        }
    }
    add_sums(&w, &sums, meta);
    if (meta->samples > before || !filter_picks_samples(f)) {
        sum_chunk(meta, chunk);
    }
    select_fini(&select);
    free(sums.slots);
    free(w.frames);
    free(w.bases);
    return 0;
}

/* ---- traces ---- */

void query_sum_trace(struct tree_meta *meta, int64_t start_ns, uint64_t duration_ns)
{
    if (meta->n_traces == 0 || start_ns < meta->start_ns) {
        meta->start_ns = start_ns;
    }
    meta->duration_ns += duration_ns;
    meta->n_traces++;
}

static int query_trace(struct catalog *c, const struct catalog_trace *t, const struct filter *f,
                       const struct query_options *o, struct tree *tree, struct tree_meta *meta,
                       struct dvt_err *err)
{
    struct parts parts;
    uint64_t before = meta->samples;
    int rc = parts_read(c, t, &parts, err);
    if (rc) {
        return rc;
    }
    struct dvt_str root_tag = root_tag_of(&parts);
    for (size_t i = 0; i < parts.n && rc == 0; i++) {
        rc = add_part(&parts, i, root_tag, f, o, tree, meta);
    }
    parts_fini(&parts);
    if (meta->samples > before || !filter_picks_samples(f)) {
        query_sum_trace(meta, t->start_ns, t->duration_ns);
    }
    return rc ? dvt_fail(err, rc, 0, "out of memory") : 0;
}

int query_one(struct catalog *c, const struct filter *f, const struct catalog_trace *t,
              const struct query_options *o, struct tree *tree, struct tree_meta *meta, struct dvt_err *err)
{
    int rc = query_trace(c, t, f, o, tree, meta, err);
    meta->start_ns = t->start_ns;
    meta->duration_ns = t->duration_ns;
    tree_finish(tree);
    return rc;
}

int query_row(struct catalog *c, struct catalog_source row, const struct filter *f,
              const struct query_options *o, struct tree *tree, struct tree_meta *meta, struct dvt_err *err)
{
    struct catalog_list list;
    int rc = catalog_row(c, row, &list, err);
    if (rc == 0 && list.n && filter_takes_trace(f, list.traces[0].start_ns, list.traces[0].duration_ns)) {
        rc = query_trace(c, &list.traces[0], f, o, tree, meta, err);
    }
    catalog_list_fini(&list);
    return rc;
}

static int query_list(struct catalog *c, const struct filter *f, const struct query_options *o,
                      struct tree *tree, struct tree_meta *meta, struct dvt_err *err)
{
    struct catalog_list list;
    struct term_progress progress;
    int rc = catalog_traces(c, f, 0, &list, err);
    if (rc) {
        return rc;
    }
    term_progress_start(&progress, "reading traces", list.n);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        rc = query_trace(c, &list.traces[i], f, o, tree, meta, err);
        term_progress_at(&progress, i);
    }
    term_progress_end(&progress);
    catalog_list_fini(&list);
    tree_finish(tree);
    return rc;
}

int query_all(struct catalog *c, const struct filter *f, const struct query_options *o, struct tree *tree,
              struct tree_meta *meta, bool *ret_found, struct dvt_err *err)
{
    enum { FEW = 256 }; /* read without columns: making them costs more */
    size_t n;
    int rc = catalog_count(c, f, FEW + 1, &n, err);
    if (rc) {
        return rc;
    }
    *ret_found = n > 0;
    bool by_columns = n > FEW && query_columns_can(f, o);
    return by_columns ? query_columns(c, f, o, tree, meta, err) : query_list(c, f, o, tree, meta, err);
}
