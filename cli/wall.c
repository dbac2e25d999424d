/*
 * wall: see wall.h.
 */
#include "wall.h"
#include "alloc.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 20 };

static void add(struct wall_times *to, const struct wall_times *x)
{
    to->wall_ns += x->wall_ns;
    to->on_cpu_ns += x->on_cpu_ns;
    to->blocked_ns += x->blocked_ns;
    to->runnable_ns += x->runnable_ns;
    to->unknown_ns += x->unknown_ns;
    to->waits += x->waits;
    to->preemptions += x->preemptions;
}

static uint64_t without(uint64_t from, uint64_t x)
{
    return from > x ? from - x : 0;
}

static void subtract(struct wall_times *from, const struct wall_times *x)
{
    from->on_cpu_ns = without(from->on_cpu_ns, x->on_cpu_ns);
    from->blocked_ns = without(from->blocked_ns, x->blocked_ns);
    from->runnable_ns = without(from->runnable_ns, x->runnable_ns);
    from->unknown_ns = without(from->unknown_ns, x->unknown_ns);
    from->wall_ns = from->on_cpu_ns + from->blocked_ns + from->runnable_ns + from->unknown_ns;
    from->waits = without(from->waits, x->waits);
    from->preemptions = without(from->preemptions, x->preemptions);
}

/* ---- collecting ---- */

static void add_scope(struct wall *w, const struct dvt_chunk *c, uint32_t i, const struct dvt_chunk_times *t)
{
    const struct dvt_chunk_scope *s = &c->scopes[i];
    const struct dvt_chunk_thread *thread = &c->threads[s->thread];
    const struct dvt_chunk_process *p = &c->processes[thread->process];
    uint64_t wall_ns = s->end_ns - s->start_ns;
    struct wall_times whole = {.wall_ns = wall_ns, .unknown_ns = wall_ns};
    if (t)
        whole = (struct wall_times){wall_ns,       t->on_cpu_ns, t->blocked_ns, t->runnable_ns,
                                    t->unknown_ns, t->waits,     t->preemptions};
    alloc_grow(&w->scopes, &w->cap, w->n + 1, sizeof *w->scopes);
    w->scopes[w->n++] = (struct wall_scope){
        .pid = p->pid,
        .tid = thread->tid,
        .serial = s->serial,
        .parent_serial = s->parent == DVT_NONE ? 0 : c->scopes[s->parent].serial,
        .start_ns = s->start_ns,
        .end_ns = s->end_ns,
        .span = s->span,
        .service = alloc_text(p->service.p, p->service.n),
        .thread = alloc_text(thread->name.p, thread->name.n),
        .name = alloc_text(s->name.p, s->name.n),
        .whole = whole,
        .self = whole,
    };
}

void wall_add(struct wall *w, const struct dvt_chunk *c)
{
    uint32_t next = 0;
    if (!c->n_times) {
        w->n_without += c->n_scopes;
        return;
    }
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        bool has = next < c->n_times && c->times[next].scope == i;
        add_scope(w, c, i, has ? &c->times[next] : NULL);
        next += has;
    }
}

static int by_identity(const void *a, const void *b)
{
    const struct wall_scope *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

/* The same scope's later state behind the earlier one's. */
static int by_identity_and_end(const void *a, const void *b)
{
    const struct wall_scope *x = a, *y = b;
    int order = by_identity(a, b);
    return order ? order : (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static void scope_fini(struct wall_scope *s)
{
    free(s->service);
    free(s->thread);
    free(s->name);
}

static void keep_last(struct wall *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        bool again = i + 1 < w->n && by_identity(&w->scopes[i], &w->scopes[i + 1]) == 0;
        if (again)
            scope_fini(&w->scopes[i]);
        else
            w->scopes[n++] = w->scopes[i];
    }
    w->n = n;
}

/* One that outlasts its parent (closed out of order) is not inside it. */
static void take_from_parent(struct wall *w, const struct wall_scope *s)
{
    const struct wall_scope key = {.pid = s->pid, .tid = s->tid, .serial = s->parent_serial};
    struct wall_scope *parent =
        s->parent_serial ? bsearch(&key, w->scopes, w->n, sizeof *w->scopes, by_identity) : NULL;
    if (parent && parent->start_ns <= s->start_ns && s->end_ns <= parent->end_ns)
        subtract(&parent->self, &s->whole);
}

void wall_finish(struct wall *w)
{
    if (!w->n)
        return;
    qsort(w->scopes, w->n, sizeof *w->scopes, by_identity_and_end);
    keep_last(w);
    for (size_t i = 0; i < w->n; i++)
        take_from_parent(w, &w->scopes[i]);
}

/* ---- showing ---- */

static void print_sum(const struct wall_times *t)
{
    char wall[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX], blocked[TEXT_NUMBER_MAX], ready[TEXT_NUMBER_MAX];
    text_duration(t->wall_ns, wall);
    text_duration(t->on_cpu_ns, cpu);
    text_duration(t->blocked_ns, blocked);
    text_duration(t->runnable_ns, ready);
    printf("%s wall = %s on-CPU + %s blocked + %s runnable", wall, cpu, blocked, ready);
    if (t->unknown_ns) {
        text_duration(t->unknown_ns, wall);
        printf(" + %s not known", wall);
    }
}

/* Of the scopes that have no parent, for the others lie in them. */
static struct wall_times sum_of_thread(const struct wall *w, size_t first, size_t end)
{
    struct wall_times sum = {0};
    for (size_t i = first; i < end; i++)
        if (!w->scopes[i].parent_serial)
            add(&sum, &w->scopes[i].whole);
    return sum;
}

static size_t end_of_thread(const struct wall *w, size_t first)
{
    size_t i = first;
    while (i < w->n && w->scopes[i].pid == w->scopes[first].pid && w->scopes[i].tid == w->scopes[first].tid)
        i++;
    return i;
}

static void print_threads(const struct wall *w)
{
    for (size_t i = 0, end; i < w->n; i = end) {
        const struct wall_scope *s = &w->scopes[i];
        end = end_of_thread(w, i);
        struct wall_times sum = sum_of_thread(w, i, end);
        print_sum(&sum);
        printf("   ");
        text_put(stdout, dvt_str(s->service), 40);
        printf(" (pid %u) ", s->pid);
        text_put(stdout, dvt_str(s->thread), 40);
        printf(" (%u)\n", s->tid);
    }
    if (w->n_without)
        printf("%llu more scopes on threads whose switches were not recorded\n", (unsigned long long)w->n_without);
    puts("blocked is until the thread ran again: what it waited for a CPU after its wake-up is part of it\n");
}

struct name_row {
    const char *name;
    uint64_t n;
    struct wall_times whole, self;
};

static int by_name(const void *a, const void *b)
{
    const struct name_row *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_wall(const void *a, const void *b)
{
    const struct name_row *x = a, *y = b;
    if (x->whole.wall_ns != y->whole.wall_ns)
        return x->whole.wall_ns < y->whole.wall_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* One row a name, the longest first; returns how many. */
static size_t sum_names(const struct wall *w, struct name_row *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        rows[i] = (struct name_row){w->scopes[i].name, 1, w->scopes[i].whole, w->scopes[i].self};
    qsort(rows, w->n, sizeof *rows, by_name);
    for (size_t i = 0; i < w->n; i++) {
        if (n && !strcmp(rows[n - 1].name, rows[i].name)) {
            rows[n - 1].n++;
            add(&rows[n - 1].whole, &rows[i].whole);
            add(&rows[n - 1].self, &rows[i].self);
        } else {
            rows[n++] = rows[i];
        }
    }
    qsort(rows, n, sizeof *rows, by_wall);
    return n;
}

static void cell_ns(struct table *t, uint64_t ns)
{
    char text[TEXT_NUMBER_MAX];
    text_duration(ns, text);
    table_cellf(t, "%s", text);
}

static void print_names(const struct wall *w, const struct term *term)
{
    static const char *const heads[] = {"SCOPES", "WALL", "ON-CPU", "BLOCKED", "RUNNABLE", "WAITS", "SELF ON-CPU",
                                        "SELF BLOCKED"};
    enum { N_HEADS = sizeof heads / sizeof *heads };
    struct name_row *rows = alloc_bytes((w->n + 1) * sizeof *rows);
    struct table *t = table_new(N_HEADS + 1);
    size_t n = sum_names(w, rows);
    for (size_t i = 0; i < N_HEADS; i++)
        table_heading(t, heads[i], TABLE_RIGHT);
    table_heading(t, "NAME", TABLE_LEFT);
    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++) {
        table_cellf(t, "%llu", (unsigned long long)rows[i].n);
        cell_ns(t, rows[i].whole.wall_ns);
        cell_ns(t, rows[i].whole.on_cpu_ns);
        cell_ns(t, rows[i].whole.blocked_ns);
        cell_ns(t, rows[i].whole.runnable_ns);
        table_cellf(t, "%llu", (unsigned long long)rows[i].whole.waits);
        cell_ns(t, rows[i].self.on_cpu_ns);
        cell_ns(t, rows[i].self.blocked_ns);
        table_cell(t, dvt_str(rows[i].name));
    }
    table_print(t, term, stdout);
    table_free(t);
    free(rows);
    if (n > NAMES_SHOWN)
        printf("and %zu more names (--json has all scopes)\n", n - NAMES_SHOWN);
    puts("");
}

void wall_print(const struct wall *w, const struct term *term)
{
    if (!w->n)
        return;
    print_threads(w);
    print_names(w, term);
}

static void json_times(struct json *j, const struct wall_times *t)
{
    json_u64(j, "wall_ns", t->wall_ns);
    json_u64(j, "on_cpu_ns", t->on_cpu_ns);
    json_u64(j, "blocked_ns", t->blocked_ns);
    json_u64(j, "runnable_ns", t->runnable_ns);
    json_u64(j, "unknown_ns", t->unknown_ns);
    json_u64(j, "waits", t->waits);
    json_u64(j, "preemptions", t->preemptions);
}

void wall_json(const struct wall *w, struct json *j)
{
    if (!w->n)
        return;
    json_u64(j, "scopes_without_times", w->n_without);
    json_open(j, "scopes", '[');
    for (size_t i = 0; i < w->n; i++) {
        const struct wall_scope *s = &w->scopes[i];
        char span[DVT_SPAN_HEX + 1];
        dvt_span_id_format(&s->span, span);
        json_open(j, NULL, '{');
        json_text(j, "name", dvt_str(s->name));
        json_text(j, "span_id", dvt_str(span));
        json_u64(j, "pid", s->pid);
        json_u64(j, "tid", s->tid);
        json_times(j, &s->whole);
        json_open(j, "self", '{');
        json_times(j, &s->self);
        json_close(j, '}');
        json_close(j, '}');
    }
    json_close(j, ']');
}

void wall_fini(struct wall *w)
{
    for (size_t i = 0; i < w->n; i++)
        scope_fini(&w->scopes[i]);
    free(w->scopes);
    *w = (struct wall){0};
}
