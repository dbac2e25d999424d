/*
 * cmd_trace: the accounting of one trace: per service and thread, CPU time and samples; its scopes; what was
 * not seen.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "json.h"
#include "text.h"
#include "wall.h"

#include "../proto/chunk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_STORE };

static const struct args_option options[] = {
    {OPT_JSON, 0, "--json", NULL, "one JSON object; times in ns"},
    {OPT_STORE, 0, "--store", "DIR", "read this store; repeat to merge several"},
    {0},
};

struct thread_row {
    char *service, *thread;
    uint32_t pid, tid;
    uint64_t samples, on_cpu_ns, scopes, scope_ns;
};
struct account {
    struct catalog *c;
    uint8_t *buf;
    size_t cap;
    struct thread_row *rows;
    size_t n_rows, cap_rows;
    struct dvt_chunk_ledger ledger; /* summed over parts */
    struct wall wall;
    uint64_t parts, shared;
    bool weights_are_counts;
};

static struct thread_row *row_of(struct account *a, const struct dvt_chunk *c, uint32_t thread)
{
    const struct dvt_chunk_thread *t = &c->threads[thread];
    const struct dvt_chunk_process *p = &c->processes[t->process];
    for (size_t i = 0; i < a->n_rows; i++) {
        if (a->rows[i].pid == p->pid && a->rows[i].tid == t->tid) {
            return &a->rows[i];
        }
    }
    alloc_grow(&a->rows, &a->cap_rows, a->n_rows + 1, sizeof *a->rows);
    a->rows[a->n_rows] = (struct thread_row){
        alloc_text(p->service.p, p->service.n), alloc_text(t->name.p, t->name.n), p->pid, t->tid, 0, 0, 0, 0};
    return &a->rows[a->n_rows++];
}

static void add_ledger(struct dvt_chunk_ledger *sum, const struct dvt_chunk_ledger *x)
{
    sum->samples += x->samples;
    sum->no_stack += x->no_stack;
    sum->ambiguous += x->ambiguous;
    sum->shared += x->shared;
    sum->scopes += x->scopes;
    sum->cut_short += x->cut_short;
    sum->uncovered_ns += x->uncovered_ns;
    sum->lost_samples += x->lost_samples;
    for (size_t i = 0; i < sizeof x->no_stack_by / sizeof *x->no_stack_by; i++) {
        sum->no_stack_by[i] += x->no_stack_by[i];
    }
}

static void add_chunk(struct account *a, const struct dvt_chunk *c)
{
    for (uint32_t i = 0; i < c->n_samples; i++) {
        struct thread_row *row = row_of(a, c, c->samples[i].thread);
        row->samples++;
        row->on_cpu_ns += c->samples[i].weight_ns;
    }
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        const struct dvt_chunk_scope *s = &c->scopes[i];
        struct thread_row *row = row_of(a, c, s->thread);
        row->scopes++;
        row->scope_ns += s->parent == DVT_NONE && s->end_ns > s->start_ns ? s->end_ns - s->start_ns
                                                                          : 0; /* nested ones are in it */
    }
    add_ledger(&a->ledger, &c->ledger);
    wall_add(&a->wall, c);
    a->parts++;
    a->weights_are_counts = a->weights_are_counts || c->period_ns == 0;
}

static int read_chunk(void *ctx, const struct catalog_chunk *where, struct dvt_err *err)
{
    struct account *a = ctx;
    struct dvt_chunk c;
    int rc = catalog_read(a->c, where, &a->buf, &a->cap, err);
    if (rc == 0) {
        rc = dvt_chunk_decode(a->buf, where->bytes, &c, err);
    }
    if (rc == 0) {
        add_chunk(a, &c);
        dvt_chunk_fini(&c);
    }
    return rc;
}

static int by_cpu(const void *a, const void *b)
{
    const struct thread_row *x = a, *y = b;
    if (x->on_cpu_ns != y->on_cpu_ns) {
        return x->on_cpu_ns < y->on_cpu_ns ? 1 : -1;
    }
    return (x->tid > y->tid) - (x->tid < y->tid);
}

static const char *const no_stack_names[] = {
    [DVT_STACK_OK] = NULL,
    [DVT_STACK_NO_THREAD_STATE] = "thread without managed frames",
    [DVT_STACK_WINDOW] = "frame chain in motion",
    [DVT_STACK_RING_FULL] = "stack ring full",
    [DVT_STACK_FAULT] = "memory fault",
    [DVT_STACK_NOT_ARMED] = "not armed",
    [DVT_STACK_NO_SIGNAL] = "no stack record",
    [DVT_STACK_CODE_GONE] = "code gone",
    [DVT_STACK_LATE] = "late signal",
};

static void note(uint64_t n, const char *what)
{
    char text[TEXT_NUMBER_MAX];
    if (n) {
        text_count(n, text);
        printf("%12s  %s\n", text, what);
    }
}

static void print_ledger(const struct account *a)
{
    const struct dvt_chunk_ledger *l = &a->ledger;
    char uncovered[TEXT_NUMBER_MAX];
    puts("\nledger of this trace");
    note(l->samples, "samples");
    note(l->no_stack, "of them without a managed stack");
    for (size_t i = 1; i < sizeof no_stack_names / sizeof *no_stack_names; i++) {
        char what[80];
        snprintf(what, sizeof what, "  %s", no_stack_names[i]);
        note(l->no_stack_by[i], what);
    }
    note(l->shared, "of them in work shared with other traces");
    note(l->ambiguous, "samples that fit two contexts, given to none");
    note(l->lost_samples, "samples lost by the kernel");
    note(l->scopes, "scopes");
    note(l->cut_short, "of them still open when their process ended");
    if (l->uncovered_ns) {
        text_duration(l->uncovered_ns, uncovered);
        printf("%12s  of CPU time before sampling of a thread began: not covered\n", uncovered);
    }
}

static void print_head(const struct catalog_trace *t)
{
    char id[DVT_TRACE_HEX + 1], start[40], duration[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX];
    dvt_trace_id_format(&t->id, id);
    text_time(t->start_ns, false, start);
    text_duration(t->duration_ns, duration);
    text_duration(t->on_cpu_ns, cpu);
    printf("trace %s  ", id);
    text_put(stdout, dvt_str(t->root_name), 200);
    printf("\nbegan %s, lasted %s, %s on CPU, %" PRIu64 " samples%s\n\n", start, duration, cpu, t->samples,
           t->is_cut ? ", cut short" : "");
}

static void print_text(const struct account *a, const struct catalog_trace *t)
{
    struct term term = term_of(STDOUT_FILENO);
    struct table *table = table_new(7);
    print_head(t);
    wall_print(&a->wall, &term);
    table_heading(table, "SERVICE", TABLE_LEFT);
    table_heading(table, "PID", TABLE_RIGHT);
    table_heading(table, "ON-CPU", TABLE_RIGHT);
    table_heading(table, "SAMPLES", TABLE_RIGHT);
    table_heading(table, "IN SCOPES", TABLE_RIGHT);
    table_heading(table, "SCOPES", TABLE_RIGHT);
    table_heading(table, "THREAD", TABLE_LEFT);
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct thread_row *row = &a->rows[i];
        char n[TEXT_NUMBER_MAX];
        table_cell(table, dvt_str(row->service));
        table_cellf(table, "%" PRIu32, row->pid);
        text_duration(row->on_cpu_ns, n);
        table_cellf(table, "%s", a->weights_are_counts ? "-" : n);
        table_cellf(table, "%" PRIu64, row->samples);
        text_duration(row->scope_ns, n);
        table_cellf(table, "%s", n);
        table_cellf(table, "%" PRIu64, row->scopes);
        table_cellf(table, "%s (%" PRIu32 ")", row->thread, row->tid);
    }
    table_print(table, &term, stdout);
    table_free(table);
    print_ledger(a);
}

static void print_json(const struct account *a, const struct catalog_trace *t)
{
    char id[DVT_TRACE_HEX + 1];
    struct json j = {.out = stdout};
    dvt_trace_id_format(&t->id, id);
    json_open(&j, NULL, '{');
    json_text(&j, "trace_id", dvt_str(id));
    json_text(&j, "root_name", dvt_str(t->root_name));
    json_i64(&j, "start_unix_ns", t->start_ns);
    json_u64(&j, "duration_ns", t->duration_ns);
    json_u64(&j, "on_cpu_ns", t->on_cpu_ns);
    json_u64(&j, "samples", t->samples);
    json_u64(&j, "parts", a->parts);
    json_open(&j, "threads", '[');
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct thread_row *row = &a->rows[i];
        json_open(&j, NULL, '{');
        json_text(&j, "service", dvt_str(row->service));
        json_u64(&j, "pid", row->pid);
        json_u64(&j, "tid", row->tid);
        json_text(&j, "thread", dvt_str(row->thread));
        json_u64(&j, "on_cpu_ns", row->on_cpu_ns);
        json_u64(&j, "samples", row->samples);
        json_u64(&j, "scopes", row->scopes);
        json_u64(&j, "scope_ns", row->scope_ns);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    wall_json(&a->wall, &j);
    json_open(&j, "ledger", '{');
    json_u64(&j, "samples", a->ledger.samples);
    json_u64(&j, "no_stack", a->ledger.no_stack);
    json_u64(&j, "shared", a->ledger.shared);
    json_u64(&j, "ambiguous", a->ledger.ambiguous);
    json_u64(&j, "lost_samples", a->ledger.lost_samples);
    json_u64(&j, "scopes", a->ledger.scopes);
    json_u64(&j, "cut_short", a->ledger.cut_short);
    json_u64(&j, "uncovered_ns", a->ledger.uncovered_ns);
    json_close(&j, '}');
    json_close(&j, '}');
    putchar('\n');
}

static int show(const char *id, const struct filter *f, bool json)
{
    struct account a = {0};
    struct catalog_list list = {0};
    struct dvt_err err = {0};
    int rc = catalog_open(f->stores, f->n_stores, &a.c, &err);
    if (rc == 0) {
        rc = catalog_find(a.c, id, &list, &err);
    }
    if (rc == 0) {
        rc = catalog_trace_chunks(a.c, &list.traces[0], read_chunk, &a, &err);
    }
    if (rc == 0) {
        if (a.n_rows) {
            qsort(a.rows, a.n_rows, sizeof *a.rows, by_cpu);
        }
        wall_finish(&a.wall);
        (json ? print_json : print_text)(&a, &list.traces[0]);
    }
    int code = rc ? cli_report(&err) : CLI_DONE;
    if (rc && list.n > 1) {
        cli_candidates(&list);
    }
    for (size_t i = 0; i < a.n_rows; i++) {
        free(a.rows[i].service);
        free(a.rows[i].thread);
    }
    free(a.rows);
    wall_fini(&a.wall);
    free(a.buf);
    catalog_list_fini(&list);
    catalog_close(a.c);
    return code;
}

static int run(struct args *args)
{
    struct filter f = {0};
    struct dvt_err err = {0};
    const char *value, *trace = NULL;
    bool json = false;
    int id, rc = 0;
    while (rc == 0 && (id = cli_next(&cmd_trace, args, &value, &err)) != ARGS_END) {
        if (id == OPT_JSON) {
            json = true;
        } else if (id == ARGS_OTHER && !trace) {
            trace = value;
        } else if (id == ARGS_OTHER) {
            rc = dvt_fail(&err, DVT_EINVAL, 0, "one trace at a time: \"%.40s\" is one too many", value);
        } else {
            rc = id < 0 ? id : filter_take_store(&f, value, &err);
        }
    }
    if (rc == 0 && !trace) {
        rc = dvt_fail(&err, DVT_EINVAL, 0, "which trace? dovetail trace ID; dovetail traces lists them");
    }
    return rc ? cli_report(&err) : show(trace, &f, json);
}

const struct command cmd_trace = {
    .name = "trace",
    .synopsis = "ID [--json]",
    .summary = "one trace's account: CPU time and samples by service and thread, and what was not seen",
    .details = NULL,
    .examples = "  dovetail trace 4bf92f35\n  dovetail trace 4bf92f35 --json",
    .options = options,
    .run = run,
};
