/*
 * scope_index: see scope_index.h.
 */
#include "scope_index.h"

#include <stdlib.h>
#include <string.h>

#include "../proto/err.h"

enum { ROW_BYTES = 3 * sizeof(uint64_t) + sizeof(struct scope *), FIRST_CAP = 64 };

void scope_index_init(struct scope_index *x)
{
    *x = (struct scope_index){.is_sorted = true};
}

void scope_index_fini(struct scope_index *x)
{
    free(x->open);
    scope_index_init(x);
}

int scope_index_reserve(struct scope_index *x, uint32_t extra)
{
    if (extra <= x->cap - x->n)
        return 0;
    if (extra > UINT32_MAX / 4 || x->n > UINT32_MAX / 4)
        return DVT_ENOMEM;
    uint32_t cap = x->cap ? x->cap : FIRST_CAP;
    while (cap < x->n + extra)
        cap *= 2;
    uint64_t *block = malloc((size_t)cap * ROW_BYTES);
    if (!block)
        return DVT_ENOMEM;
    struct scope_index y = *x;
    y.open = block, y.close = block + cap, y.serial = block + 2 * (size_t)cap, y.cap = cap;
    y.scopes = (struct scope **)(block + 3 * (size_t)cap);
    if (x->n) {
        memcpy(y.open, x->open, x->n * sizeof *y.open);
        memcpy(y.close, x->close, x->n * sizeof *y.close);
        memcpy(y.serial, x->serial, x->n * sizeof *y.serial);
        memcpy(y.scopes, x->scopes, x->n * sizeof(*y.scopes));
    }
    free(x->open);
    *x = y;
    return 0;
}

static void set_row(struct scope_index *x, uint32_t to, uint32_t from)
{
    x->open[to] = x->open[from];
    x->close[to] = x->close[from];
    x->serial[to] = x->serial[from];
    x->scopes[to] = x->scopes[from];
}

struct row {
    uint64_t open, close, serial;
    struct scope *scope;
    uint32_t place;
};

static int row_cmp(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->close != y->close)
        return x->close < y->close ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

int scope_index_sort(struct scope_index *x)
{
    if (x->is_sorted)
        return 0;
    struct row *rows = malloc(x->n * sizeof *rows);
    if (!rows)
        return DVT_ENOMEM;
    for (uint32_t i = 0; i < x->n; i++)
        rows[i] = (struct row){x->open[i], x->close[i], x->serial[i], x->scopes[i], i};
    qsort(rows, x->n, sizeof *rows, row_cmp);
    for (uint32_t i = 0; i < x->n; i++) {
        x->open[i] = rows[i].open;
        x->close[i] = rows[i].close;
        x->serial[i] = rows[i].serial;
        x->scopes[i] = rows[i].scope;
    }
    free(rows);
    x->is_sorted = true;
    return 0;
}

void scope_index_keep(struct scope_index *x, const uint32_t *keep, uint32_t n_keep)
{
    for (uint32_t i = 0; i < n_keep; i++)
        set_row(x, i, keep[i]);
    x->n = n_keep;
}
