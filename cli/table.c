/* table: columns of text, each as wide as its widest cell; declared in text.h. */
#include "alloc.h"
#include "text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct table {
    size_t n_columns, n_headings;
    struct {
        const char *name;
        enum table_align align;
        size_t width;
    } *columns;
    char **cells; /* [n_cells], row by row, safe text */
    size_t n_cells, cap_cells;
};

struct table *table_new(size_t n_columns)
{
    struct table *t = alloc_bytes(sizeof *t);
    t->n_columns = n_columns;
    t->columns = alloc_array(n_columns, sizeof *t->columns);
    return t;
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->n_cells; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    free(t->columns);
    free(t);
}

void table_heading(struct table *t, const char *name, enum table_align align)
{
    t->columns[t->n_headings].name = name;
    t->columns[t->n_headings].align = align;
    t->columns[t->n_headings++].width = strlen(name);
}

static void add(struct table *t, char *safe)
{
    size_t width = text_columns(safe), *column = &t->columns[t->n_cells % t->n_columns].width;
    *column = width > *column ? width : *column;
    alloc_grow(&t->cells, &t->cap_cells, t->n_cells + 1, sizeof *t->cells);
    t->cells[t->n_cells++] = safe;
}

void table_cell(struct table *t, struct dvt_str s)
{
    add(t, text_safe(s, 0));
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    table_cell(t, dvt_str(n < 0 ? "" : text));
    if (n >= 0) {
        free(text);
    }
}

static void print_row(const struct table *t, const struct term *term, const char *const *cells, FILE *out)
{
    size_t used = 0;
    for (size_t c = 0; c < t->n_columns; c++) {
        bool last = c + 1 == t->n_columns;
        size_t width = t->columns[c].width, columns = text_columns(cells[c]), pad = width - columns;
        if (t->columns[c].align == TABLE_RIGHT) {
            fprintf(out, "%*s", (int)pad, "");
        }
        size_t room = last && term->columns > used + 12 ? term->columns - used : 0;
        text_put(out, dvt_str(cells[c]), room);
        if (!last) {
            fprintf(out, "%*s", (int)(t->columns[c].align == TABLE_LEFT ? pad + 2 : 2), "");
        }
        used += width + 2;
    }
    fputc('\n', out);
}

void table_print(const struct table *t, const struct term *term, FILE *out)
{
    const char **names = alloc_array(t->n_columns, sizeof *names);
    for (size_t c = 0; c < t->n_columns; c++) {
        names[c] = t->columns[c].name;
    }
    fputs(term_on(term, TERM_BOLD), out);
    print_row(t, term, names, out);
    fputs(term_off(term, TERM_BOLD), out);
    for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns) {
        print_row(t, term, (const char *const *)t->cells + i, out);
    }
    free(names);
}
