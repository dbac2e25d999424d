/*
 * catalog: what the stores' indexes know: traces, their chunks, labels, tags. Reads only.
 *
 * Several stores are read as one: a trace with parts in two stores is one trace with two sources.
 */
#ifndef CATALOG_H
#define CATALOG_H

#include "filter.h"

#include "../proto/ids.h"
#include "../proto/store_format.h"

#include <stdint.h>

struct catalog;
struct sqlite3;

/* Opens the stores (n = 0: the default one). DVT_ENOENT: there is none; DVT_EFORMAT: damaged; DVT_EVERSION:
 * newer. */
int catalog_open(const char *const *dirs, size_t n, struct catalog **ret, struct dvt_err *err);
void catalog_close(struct catalog *c); /* NULL is fine */
size_t catalog_stores(const struct catalog *c);
const char *catalog_dir(const struct catalog *c, size_t store);
/* The directory of the default store; the caller frees. */
char *catalog_default_dir(void);

struct catalog_source {
    uint32_t store;
    int64_t row; /* traces.id in it */
};
struct catalog_trace {
    struct dvt_trace_id id;
    int64_t start_ns, end_ns; /* UNIX */
    uint64_t duration_ns, on_cpu_ns, blocked_ns, runnable_ns;
    bool has_waits; /* blocked_ns and runnable_ns are known */
    bool is_cut, is_failed;
    uint64_t samples, no_stack, scopes, bytes;
    char *root_name, *root_service; /* owned */
    struct catalog_source *sources; /* [n_sources], owned */
    size_t n_sources;
};
struct catalog_list {
    struct catalog_trace *traces;
    size_t n, cap;
};
void catalog_list_fini(struct catalog_list *l);

/* The traces that match, slowest first, at most limit (0: all). */
int catalog_traces(struct catalog *c, const struct filter *f, size_t limit, struct catalog_list *ret,
                   struct dvt_err *err);
/* The one trace whose id begins with the hex digits. DVT_ENOENT with what the store holds instead; DVT_EINVAL
 * with *ret holding the candidates if it is ambiguous. */
int catalog_find(struct catalog *c, const char *hex, struct catalog_list *ret, struct dvt_err *err);
/* The trace of one row, as a list of one; empty if the row is gone. */
int catalog_row(struct catalog *c, struct catalog_source row, struct catalog_list *ret, struct dvt_err *err);
/* How many traces match, counted up to max: cheap. */
int catalog_count(struct catalog *c, const struct filter *f, size_t max, size_t *ret, struct dvt_err *err);
/* How many hex digits, at least 8, tell this trace from every other in the stores. */
size_t catalog_unique_digits(struct catalog *c, const struct dvt_trace_id *id);

struct catalog_chunk {
    uint32_t store, segment, part;
    uint64_t offset, bytes, samples;
    int64_t trace_row;
    uint8_t digest[DVT_DIGEST_BYTES];
};
typedef int catalog_chunk_fn(void *ctx, const struct catalog_chunk *chunk, struct dvt_err *err);
/* Calls fn for each chunk of the trace in the order of parts, or (all of a store) of segments and offsets;
 * stops at the first non-zero return and returns it. */
int catalog_trace_chunks(struct catalog *c, const struct catalog_trace *t, catalog_chunk_fn *fn, void *ctx,
                         struct dvt_err *err);
int catalog_all_chunks(struct catalog *c, uint32_t store, catalog_chunk_fn *fn, void *ctx,
                       struct dvt_err *err);

/* Calls fn with every value of one column of text: the services, or "key=value" labels, of a trace. */
typedef void catalog_text_fn(void *ctx, struct dvt_str text);
int catalog_services(struct catalog *c, const struct catalog_trace *t, catalog_text_fn *fn, void *ctx);
int catalog_labels(struct catalog *c, const struct catalog_trace *t, catalog_text_fn *fn, void *ctx);

/* ---- for the modules that ask their own questions ---- */

struct sqlite3_stmt;
int catalog_prepare(const struct catalog *c, size_t store, const char *sql, struct sqlite3_stmt **ret,
                    struct dvt_err *err);
/* The error of the last call on that store. */
int catalog_fail(const struct catalog *c, size_t store, const char *what, struct dvt_err *err);
struct dvt_str catalog_column(struct sqlite3_stmt *st, int column);

/* Reads bytes of a segment. */
int catalog_read(struct catalog *c, const struct catalog_chunk *chunk, uint8_t **buf, size_t *cap,
                 struct dvt_err *err);

#endif
