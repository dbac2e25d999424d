/* catalog_internal: shared by catalog*.c only. */
#ifndef CATALOG_INTERNAL_H
#define CATALOG_INTERNAL_H

#include "catalog.h"

#include <sqlite3.h>

struct catalog_store {
    char *dir, *escaped;
    sqlite3 *db;
    sqlite3_stmt *cached[6]; /* neighbours up and down, chunks of a trace, services, labels, a trace */
    int segment_fd;          /* the segment read last, or -1 */
    uint32_t segment;
};
struct catalog {
    struct catalog_store *stores;
    size_t n_stores;
};

/* Columns that catalog_take_row expects. */
#define CATALOG_TRACE_COLUMNS                                                                                \
    "t.id, t.trace, t.start_ns, t.end_ns, t.duration_ns, t.on_cpu_ns, t.blocked_ns, t.runnable_ns, "         \
    "t.samples,"                                                                                             \
    " t.no_stack, t.scopes, t.root_name, t.root_service, t.bytes, t.failed, t.cut"
/* A column that is never negative; 0 if it is. */
uint64_t catalog_u64(sqlite3_stmt *st, int column);
void catalog_take_row(struct catalog_list *l, sqlite3_stmt *st, uint32_t store);

/* Makes the glob functions known to SQLite. */
void catalog_filter_install(sqlite3 *db);
/* Appends the traces of one store that match, slowest first, at most limit (0: all). */
int catalog_filter_run(struct catalog *c, uint32_t store, const struct filter *f, size_t limit,
                       struct catalog_list *list, struct dvt_err *err);
int catalog_filter_count(struct catalog *c, uint32_t store, const struct filter *f, size_t max, size_t *ret,
                         struct dvt_err *err);

#endif
