/* columns_build: chunks to a column image; see columns.h. */
#include "alloc.h"
#include "columns.h"
#include "columns_image.h"
#include "intern.h"
#include "select.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1 << 24, SAMPLES_MAX = 1 << 28, TEXT_MAX = 1 << 30, NAMES_MAX = 64 };

struct columns_builder {
    struct intern *strings;
    struct dvt_tuples labels, contexts, nodes; /* in the order of their structs' fields */
    struct dvt_seqs label_sets, name_sets, frames;
    struct columns_chunk *chunks;
    uint32_t *sample_node, *sample_context, *sample_weight;
    size_t n_chunks, cap_chunks, n_samples, cap_node, cap_context, cap_weight;
};

/* A table of proto that is out of memory says UINT32_MAX. */
static uint32_t sure(uint32_t index)
{
    if (index == UINT32_MAX) {
        alloc_fail();
    }
    return index;
}

struct columns_builder *columns_builder_new(void)
{
    struct columns_builder *b = alloc_bytes(sizeof *b);
    b->strings = intern_new();
    sure(dvt_tuples_put(&b->nodes, (uint32_t[DVT_TUPLE]){UINT32_MAX, UINT32_MAX})); /* the root */
    return b;
}

void columns_builder_free(struct columns_builder *b)
{
    intern_free(b->strings);
    dvt_tuples_fini(&b->labels);
    dvt_tuples_fini(&b->contexts);
    dvt_tuples_fini(&b->nodes);
    dvt_seqs_fini(&b->label_sets);
    dvt_seqs_fini(&b->name_sets);
    dvt_seqs_fini(&b->frames);
    free(b->chunks);
    free(b->sample_node);
    free(b->sample_context);
    free(b->sample_weight);
    free(b);
}

static struct columns_chunk *add_chunk(struct columns_builder *b, const struct catalog_chunk *where)
{
    alloc_grow(&b->chunks, &b->cap_chunks, b->n_chunks + 1, sizeof *b->chunks);
    struct columns_chunk *c = &b->chunks[b->n_chunks++];
    *c = (struct columns_chunk){.offset = where->offset, .first_sample = (uint32_t)b->n_samples};
    memcpy(&c->digest, where->digest, sizeof c->digest);
    return c;
}

void columns_builder_skip(struct columns_builder *b, const struct catalog_chunk *where)
{
    add_chunk(b, where);
}

/* ---- contexts ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t put_label_set(struct columns_builder *b, const struct parts *p,
                              const struct dvt_label_sets *sets, uint32_t set)
{
    uint32_t ids[DVT_LABEL_SET_MAX], n = 0;
    const struct dvt_seq *s = &sets->sets.items[set];
    for (uint32_t i = 0; i < s->n && n < DVT_LABEL_SET_MAX; i++) {
        uint32_t id = sets->sets.values[s->first + i];
        uint32_t label[DVT_TUPLE] = {intern_index(b->strings, dvt_label_key(&p->labels, id)),
                                     intern_index(b->strings, dvt_label_value(&p->labels, id))};
        ids[n++] = sure(dvt_tuples_put(&b->labels, label));
    }
    qsort(ids, n, sizeof *ids, by_number);
    return sure(dvt_seqs_put(&b->label_sets, ids, n, 0));
}

/* The names a filter by name looks at; *ret_fits: they are not too many. */
static uint32_t put_name_set(struct columns_builder *b, const struct dvt_chunk *c, const struct select_up *up,
                             uint32_t scope, bool *ret_fits)
{
    uint32_t names[NAMES_MAX], n = 0;
    for (uint32_t s = scope, steps = 0; s != DVT_NONE && steps < SELECT_UP_MAX;
         s = select_up(up, c, s), steps++) {
        uint32_t name = intern_index(b->strings, c->scopes[s].name), k = 0;
        while (k < n && names[k] != name) {
            k++;
        }
        if (k == n && n == NAMES_MAX) {
            *ret_fits = false;
            break;
        }
        names[k] = name;
        n += k == n;
    }
    qsort(names, n, sizeof *names, by_number);
    return sure(dvt_seqs_put(&b->name_sets, names, n, 0));
}

/* Contexts of each scope, then of no scope, without the service, which is the thread's. */
struct context_parts {
    uint32_t labels, names, shared;
};

static struct context_parts *chunk_contexts(struct columns_builder *b, struct parts *p,
                                            const struct dvt_chunk *c, bool *ret_fits)
{
    struct dvt_label_sets sets;
    struct select_up up;
    if (dvt_labels_effective(&p->labels, c, &sets)) {
        alloc_fail();
    }
    struct context_parts *v = alloc_array((size_t)c->n_scopes + 1, sizeof *v);
    select_up_init(&up, c);
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        v[i] = (struct context_parts){put_label_set(b, p, &sets, sets.of_scope[i]),
                                      put_name_set(b, c, &up, i, ret_fits), c->scopes[i].n_links > 0};
    }
    v[c->n_scopes].labels = put_label_set(b, p, &sets, sets.of_no_scope);
    v[c->n_scopes].names = sure(dvt_seqs_put(&b->name_sets, NULL, 0, 0));
    select_up_fini(&up);
    dvt_label_sets_fini(&sets);
    return v;
}

/* ---- stacks ---- */

static uint32_t put_node(struct columns_builder *b, uint32_t parent, uint32_t kind, struct dvt_str name,
                         struct dvt_str module, struct dvt_str file, uint32_t line)
{
    uint32_t frame[5] = {kind, intern_index(b->strings, name), intern_index(b->strings, module),
                         intern_index(b->strings, file), line};
    uint32_t index = sure(dvt_seqs_put(&b->frames, frame, 5, 0));
    return sure(dvt_tuples_put(&b->nodes, (uint32_t[DVT_TUPLE]){parent, index}));
}

static uint32_t thread_node(struct columns_builder *b, const struct dvt_chunk *c, uint32_t thread)
{
    const struct dvt_chunk_thread *t = &c->threads[thread];
    char unnamed[32];
    struct dvt_str none = dvt_str(""), name = t->name;
    uint32_t service = put_node(b, 0, TREE_SERVICE << 8, c->processes[t->process].service, none, none, 0);
    if (!name.n) {
        snprintf(unnamed, sizeof unnamed, "thread %u", t->tid);
        name = dvt_str(unnamed);
    }
    return put_node(b, service, TREE_THREAD << 8, name, none, none, 0);
}

static uint32_t stack_node(struct columns_builder *b, const struct dvt_chunk *c, uint32_t base,
                           uint32_t stack)
{
    const struct dvt_chunk_stack *s = &c->stacks[stack];
    for (uint32_t i = s->n; i-- > 0;) {
        const struct dvt_chunk_frame *f = &c->frames[c->stack_frames[s->first + i]];
        base = put_node(b, base, TREE_FRAME << 8 | (f->kind & 0xff), f->name, f->module, f->file, f->line);
    }
    return base;
}

/* ---- samples ---- */

static void put_sample(struct columns_builder *b, uint32_t node, uint32_t context, uint32_t weight)
{
    alloc_grow(&b->sample_node, &b->cap_node, b->n_samples + 1, sizeof *b->sample_node);
    alloc_grow(&b->sample_context, &b->cap_context, b->n_samples + 1, sizeof *b->sample_context);
    alloc_grow(&b->sample_weight, &b->cap_weight, b->n_samples + 1, sizeof *b->sample_weight);
    b->sample_node[b->n_samples] = node;
    b->sample_context[b->n_samples] = context;
    b->sample_weight[b->n_samples++] = weight;
}

static bool fits(const struct columns_builder *b, const struct dvt_chunk *c)
{
    if (b->nodes.table.n >= NODES_MAX || b->n_samples + c->n_samples > SAMPLES_MAX ||
        intern_bytes(b->strings) > TEXT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < c->n_samples; i++) {
        if (c->samples[i].weight_ns > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static void put_samples(struct columns_builder *b, const struct dvt_chunk *c,
                        const struct context_parts *contexts)
{
    uint32_t *bases = alloc_array(c->n_threads, sizeof *bases);
    uint32_t last_stack = DVT_NONE, last_base = 0, node = 0;
    for (uint32_t i = 0; i < c->n_samples; i++) {
        const struct dvt_chunk_sample *s = &c->samples[i];
        const struct context_parts *k = &contexts[s->scope == DVT_NONE ? c->n_scopes : s->scope];
        uint32_t service = intern_index(b->strings, c->processes[c->threads[s->thread].process].service);
        uint32_t context = sure(
            dvt_tuples_put(&b->contexts, (uint32_t[DVT_TUPLE]){k->labels, k->names, service, k->shared}));
        if (!bases[s->thread]) {
            bases[s->thread] = thread_node(b, c, s->thread);
        }
        if (s->stack != last_stack || bases[s->thread] != last_base) {
            last_stack = s->stack;
            last_base = bases[s->thread];
            node = stack_node(b, c, last_base, last_stack);
        }
        put_sample(b, node, context, (uint32_t)s->weight_ns);
    }
    free(bases);
}

bool columns_builder_add(struct columns_builder *b, const struct catalog_chunk *where, struct parts *one)
{
    const struct dvt_chunk *c = &one->chunks[0];
    bool names_fit = true;
    struct columns_chunk *entry = add_chunk(b, where);
    if (one->n != 1 || !fits(b, c)) {
        return false;
    }
    struct context_parts *contexts = chunk_contexts(b, one, c, &names_fit);
    if (names_fit) {
        put_samples(b, c, contexts);
        entry->start_ns = (int64_t)c->start_ns + c->unix_offset_ns;
        entry->duration_ns = c->end_ns - c->start_ns;
        entry->period_ns = c->period_ns;
        entry->ambiguous = c->ledger.ambiguous;
        entry->lost_samples = c->ledger.lost_samples;
        entry->uncovered_ns = c->ledger.uncovered_ns;
        entry->cut_short = c->ledger.cut_short;
        entry->n_samples = c->n_samples;
        entry->event = intern_index(b->strings, c->event);
        entry->is_whole = 1;
    }
    free(contexts);
    return names_fit;
}

/* ---- the image ---- */

struct image {
    uint8_t *p;
    size_t at;
    uint32_t counts[COLUMNS_ARRAYS];
    int array;
};

/* The place of the next array of n items; padding is zero. */
static void *next_array(struct image *im, size_t n)
{
    void *p = im->p + im->at;
    im->counts[im->array] = (uint32_t)n;
    im->at += columns_padded((uint64_t)n * columns_item_bytes[im->array++]);
    return p;
}

static void copy_array(struct image *im, const void *from, size_t n)
{
    size_t bytes = n * columns_item_bytes[im->array];
    void *to = next_array(im, n);
    if (bytes) {
        memcpy(to, from, bytes);
    }
}

static void copy_tuples(struct image *im, const struct dvt_tuples *t)
{
    size_t bytes = columns_item_bytes[im->array];
    uint8_t *to = next_array(im, t->table.n);
    for (uint32_t i = 0; i < t->table.n; i++) {
        memcpy(to + i * bytes, t->items[i], bytes);
    }
}

static void copy_sets(struct image *im, const struct dvt_seqs *s)
{
    uint32_t *ends = next_array(im, s->table.n);
    for (uint32_t i = 0; i < s->table.n; i++) {
        ends[i] = s->items[i].first + s->items[i].n;
    }
    copy_array(im, s->values, s->n_values);
}

static size_t image_bytes(const struct columns_builder *b, size_t text_bytes)
{
    const size_t counts[COLUMNS_ARRAYS] = {b->n_chunks,
                                           intern_count(b->strings),
                                           b->labels.table.n,
                                           b->label_sets.table.n,
                                           b->label_sets.n_values,
                                           b->name_sets.table.n,
                                           b->name_sets.n_values,
                                           b->contexts.table.n,
                                           b->frames.table.n,
                                           b->nodes.table.n,
                                           b->n_samples,
                                           b->n_samples,
                                           b->n_samples,
                                           text_bytes};
    uint64_t n = sizeof(struct columns_header);
    for (int i = 0; i < COLUMNS_ARRAYS; i++) {
        n += columns_padded(counts[i] * columns_item_bytes[i]);
    }
    return n;
}

static void copy_text(uint32_t *ends, char *text, const struct intern *strings)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < intern_count(strings); i++) {
        struct dvt_str s = intern_at(strings, i);
        if (s.n) {
            memcpy(text + at, s.p, s.n);
        }
        at += (uint32_t)s.n;
        ends[i] = at;
    }
}

uint8_t *columns_builder_finish(struct columns_builder *b, size_t *ret_bytes)
{
    size_t text_bytes = intern_bytes(b->strings), bytes = image_bytes(b, text_bytes);
    struct image im = {.p = alloc_bytes(bytes), .at = sizeof(struct columns_header)};
    copy_array(&im, b->chunks, b->n_chunks);
    uint32_t *string_ends = next_array(&im, intern_count(b->strings));
    copy_tuples(&im, &b->labels);
    copy_sets(&im, &b->label_sets);
    copy_sets(&im, &b->name_sets);
    copy_tuples(&im, &b->contexts);
    copy_array(&im, b->frames.values, b->frames.table.n); /* sequences of five, one after the other */
    copy_tuples(&im, &b->nodes);
    copy_array(&im, b->sample_node, b->n_samples);
    copy_array(&im, b->sample_context, b->n_samples);
    copy_array(&im, b->sample_weight, b->n_samples);
    copy_text(string_ends, next_array(&im, text_bytes), b->strings);
    struct columns_header h = {.magic = COLUMNS_MAGIC,
                               .version = COLUMNS_VERSION,
                               .n_arrays = COLUMNS_ARRAYS,
                               .bytes = bytes,
                               .checksum = columns_checksum(im.p + sizeof h, bytes - sizeof h)};
    memcpy(h.counts, im.counts, sizeof h.counts);
    memcpy(im.p, &h, sizeof h);
    *ret_bytes = bytes;
    return im.p;
}
