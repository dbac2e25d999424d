/* listing: see listing.h. */
#include "listing.h"
#include "alloc.h"

#include <stdlib.h>

/* Joins texts with a separator, each neutralised only when it is printed. */
struct join {
    FILE *out;
    const char *separator;
    size_t n;
};

static void join_text(void *ctx, struct dvt_str s)
{
    struct join *j = ctx;
    fputs(j->n++ ? j->separator : "", j->out);
    fwrite(s.p, 1, s.n, j->out);
}

typedef int texts_fn(struct catalog *c, const struct catalog_trace *t, catalog_text_fn *fn, void *ctx);

static void join_cell(struct table *table, struct catalog *c, const struct catalog_trace *t, texts_fn *texts)
{
    char *text = NULL;
    size_t n = 0;
    struct join j = {.out = open_memstream(&text, &n), .separator = " "};
    if (j.out) {
        texts(c, t, join_text, &j);
        fclose(j.out); /* a memory stream */
    }
    table_cell(table, (struct dvt_str){text ? text : "", n});
    free(text);
}

static void add_row(struct table *table, struct catalog *c, const struct catalog_trace *t)
{
    char id[DVT_TRACE_HEX + 1], start[40], duration[TEXT_NUMBER_MAX], cpu[TEXT_NUMBER_MAX],
        samples[TEXT_NUMBER_MAX];
    dvt_trace_id_format(&t->id, id);
    text_time(t->start_ns, false, start);
    text_duration(t->duration_ns, duration);
    text_duration(t->on_cpu_ns, cpu);
    text_count(t->samples, samples);
    table_cellf(table, "%.*s", (int)catalog_unique_digits(c, &t->id), id);
    table_cellf(table, "%s", start);
    table_cellf(table, "%s%s", duration, t->is_cut ? "+" : "");
    table_cellf(table, "%s", cpu);
    table_cellf(table, "%s", samples);
    join_cell(table, c, t, catalog_services);
    table_cell(table, dvt_str(t->root_name[0] ? t->root_name : "-"));
    join_cell(table, c, t, catalog_labels);
}

bool listing_print(struct catalog *c, const struct catalog_list *list, const struct term *term, FILE *out)
{
    struct table *table = table_new(8);
    bool any_cut = false;
    table_heading(table, "TRACE", TABLE_LEFT);
    table_heading(table, "START", TABLE_LEFT);
    table_heading(table, "DURATION", TABLE_RIGHT);
    table_heading(table, "ON-CPU", TABLE_RIGHT);
    table_heading(table, "SAMPLES", TABLE_RIGHT);
    table_heading(table, "SERVICES", TABLE_LEFT);
    table_heading(table, "ROOT", TABLE_LEFT);
    table_heading(table, "LABELS", TABLE_LEFT);
    for (size_t i = 0; i < list->n; i++) {
        add_row(table, c, &list->traces[i]);
        any_cut = any_cut || list->traces[i].is_cut;
    }
    table_print(table, term, out);
    table_free(table);
    return any_cut;
}
