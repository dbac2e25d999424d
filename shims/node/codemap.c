/* codemap: see codemap.h. */
#include "codemap.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_BITS = 18, FIRST_BITS = 10, MAX_PAGES = 1 << 18, LOOK_BACK = 64 }; /* code of up to 16 MiB */

struct dvt_node_page {
    uintptr_t number; /* address >> PAGE_BITS, 0: free */
    struct dvt_node_code *codes; /* [n] by start */
    uint32_t n, cap;
};

/* ---- changes ---- */

static bool is_owner(const struct dvt_node_codemap *m)
{
    return pthread_equal(m->owner, pthread_self());
}

/* The handler runs on the owner: it cannot be reading while the owner is here. */
static void dispose(struct dvt_node_codemap *m, void *p)
{
    if (!p || is_owner(m)) {
        free(p);
        return;
    }
    memcpy(p, &m->retired, sizeof m->retired); /* all that is disposed of is larger than a pointer */
    m->retired = p;
}

static void free_retired(struct dvt_node_codemap *m)
{
    while (m->retired) {
        void *p = m->retired;
        memcpy(&m->retired, p, sizeof m->retired);
        free(p);
    }
}

static void begin(struct dvt_node_codemap *m)
{
    pthread_mutex_lock(&m->lock);
    atomic_fetch_add_explicit(&m->version, 1, memory_order_acq_rel);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with enter and leave */
    if (is_owner(m))
        free_retired(m);
}

static void end(struct dvt_node_codemap *m)
{
    atomic_fetch_add_explicit(&m->version, 1, memory_order_release);
    pthread_mutex_unlock(&m->lock);
}

/* ---- pages ---- */

static uint32_t slot_of(const struct dvt_node_codemap *m, uintptr_t number)
{
    return (uint32_t)(((uint64_t)number * 0x9E3779B97F4A7C15u) >> (64 - m->bits));
}

static struct dvt_node_page *find_slot(const struct dvt_node_codemap *m, uintptr_t number)
{
    uint32_t mask = (1u << m->bits) - 1, at = slot_of(m, number);
    while (m->pages[at].number && m->pages[at].number != number)
        at = (at + 1) & mask;
    return &m->pages[at];
}

static bool grow_table(struct dvt_node_codemap *m)
{
    struct dvt_node_page *old = m->pages, *table = calloc((size_t)2 << m->bits, sizeof *table);
    uint32_t n = 1u << m->bits;
    if (!table)
        return false;
    m->pages = table;
    m->bits++;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].number)
            *find_slot(m, old[i].number) = old[i];
    dispose(m, old);
    return true;
}

static struct dvt_node_page *get_page(struct dvt_node_codemap *m, uintptr_t number)
{
    struct dvt_node_page *p = find_slot(m, number);
    if (p->number)
        return p;
    if (m->n_pages >= MAX_PAGES || (m->n_pages * 2 >= 1u << m->bits && !grow_table(m)))
        return NULL;
    p = find_slot(m, number);
    p->number = number;
    m->n_pages++;
    return p;
}

/* How many of the page's codes start at or below addr. */
static uint32_t count_upto(const struct dvt_node_page *p, uintptr_t addr)
{
    uint32_t low = 0, high = p->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (p->codes[mid].start <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Removes codes [from, to). */
static void cut(struct dvt_node_codemap *m, struct dvt_node_page *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        dispose(m, p->codes[i].lines);
    memmove(p->codes + from, p->codes + to, (p->n - to) * sizeof *p->codes);
    p->n -= to - from;
}

static bool make_room(struct dvt_node_codemap *m, struct dvt_node_page *p)
{
    if (p->n < p->cap)
        return true;
    uint32_t cap = p->cap ? 2 * p->cap : 8;
    struct dvt_node_code *codes = malloc(cap * sizeof *codes);
    if (!codes)
        return false;
    if (p->n)
        memcpy(codes, p->codes, p->n * sizeof *codes);
    dispose(m, p->codes);
    p->codes = codes;
    p->cap = cap;
    return true;
}

/* What starts within [start, end) is overwritten; what reaches into it from before as well. */
static void clear_range(struct dvt_node_codemap *m, uintptr_t start, uintptr_t end)
{
    for (uintptr_t number = start >> PAGE_BITS; number <= (end - 1) >> PAGE_BITS; number++) {
        struct dvt_node_page *p = find_slot(m, number);
        if (!p->number)
            continue;
        uint32_t from = count_upto(p, start - 1), to = count_upto(p, end - 1);
        if (from > 0 && p->codes[from - 1].start + p->codes[from - 1].bytes > start)
            from--;
        cut(m, p, from, to);
    }
}

static bool insert(struct dvt_node_codemap *m, const struct dvt_node_code *c)
{
    clear_range(m, c->start, c->start + c->bytes);
    struct dvt_node_page *p = get_page(m, c->start >> PAGE_BITS);
    if (!p || !make_room(m, p))
        return false;
    uint32_t at = count_upto(p, c->start);
    memmove(p->codes + at + 1, p->codes + at, (p->n - at) * sizeof *p->codes);
    p->codes[at] = *c;
    p->n++;
    return true;
}

/* ---- interface ---- */

int dvt_node_codemap_init(struct dvt_node_codemap *m)
{
    *m = (struct dvt_node_codemap){.owner = pthread_self(), .bits = FIRST_BITS};
    m->pages = calloc((size_t)1 << FIRST_BITS, sizeof *m->pages);
    return m->pages && pthread_mutex_init(&m->lock, NULL) == 0 ? 0 : -1;
}

void dvt_node_codemap_fini(struct dvt_node_codemap *m)
{
    for (uint32_t i = 0; i < 1u << m->bits; i++) {
        for (uint32_t k = 0; k < m->pages[i].n; k++)
            free(m->pages[i].codes[k].lines);
        free(m->pages[i].codes);
    }
    free_retired(m);
    free(m->pages);
    pthread_mutex_destroy(&m->lock);
}

void dvt_node_codemap_add(struct dvt_node_codemap *m, struct dvt_node_code code)
{
    begin(m);
    bool fits = code.bytes && code.start && code.start + code.bytes > code.start;
    if (!fits || !insert(m, &code))
        free(code.lines);
    end(m);
}

void dvt_node_codemap_move(struct dvt_node_codemap *m, uintptr_t from, uintptr_t to)
{
    begin(m);
    struct dvt_node_page *p = find_slot(m, from >> PAGE_BITS);
    uint32_t at = p->number ? count_upto(p, from) : 0;
    if (at > 0 && p->codes[at - 1].start == from) {
        struct dvt_node_code code = p->codes[at - 1];
        p->codes[at - 1].lines = NULL; /* goes along */
        cut(m, p, at - 1, at);
        code.start = to;
        if (!to || !insert(m, &code))
            dispose(m, code.lines);
    }
    end(m);
}

void dvt_node_codemap_remove(struct dvt_node_codemap *m, uintptr_t start)
{
    begin(m);
    struct dvt_node_page *p = find_slot(m, start >> PAGE_BITS);
    uint32_t at = p->number ? count_upto(p, start) : 0;
    if (at > 0 && p->codes[at - 1].start == start)
        cut(m, p, at - 1, at);
    end(m);
}

bool dvt_node_codemap_enter(const struct dvt_node_codemap *m, uint32_t *ret_version)
{
    *ret_version = atomic_load_explicit(&m->version, memory_order_acquire); /* pairs with end */
    return !(*ret_version & 1);
}

bool dvt_node_codemap_leave(const struct dvt_node_codemap *m, uint32_t version)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with begin */
    return atomic_load_explicit(&m->version, memory_order_relaxed) == version;
}

static const struct dvt_node_code *find(const struct dvt_node_codemap *m, uintptr_t addr)
{
    uintptr_t number = addr >> PAGE_BITS;
    for (uintptr_t back = 0; back < LOOK_BACK && number >= back && number - back; back++) {
        const struct dvt_node_page *p = find_slot(m, number - back);
        uint32_t at = p->number ? count_upto(p, addr) : 0;
        if (at > 0)
            return addr - p->codes[at - 1].start < p->codes[at - 1].bytes ? &p->codes[at - 1] : NULL;
    }
    return NULL;
}

const struct dvt_node_code *dvt_node_codemap_find(const struct dvt_node_codemap *m, uintptr_t addr)
{
    const struct dvt_node_code *c = find(m, addr);
    if (!c && addr - m->copy < m->copy_bytes)
        c = find(m, addr - m->copy + m->original);
    return c;
}

uint32_t dvt_node_code_line(const struct dvt_node_code *c, uint32_t offset)
{
    uint32_t low = 0, high = c->n_lines;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (c->lines[mid].offset <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? c->lines[low - 1].line : 0;
}
