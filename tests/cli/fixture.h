/*
 * fixture: traces for tests of the command line, in a few lines each.
 *
 * Stacks are written root first, frames joined by ';', each "name@module:line"; a leading '~' makes it
 * native, '!' special,
 * '%' a kernel frame, else it is managed: "main@app.py:10;~sqlite3_step@libsqlite3.so.0".
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "../../proto/chunk.h"

struct fixture;

enum { FIXTURE_PERIOD_NS = 10000000 };
/* Monotonic + this = UNIX; 2026-01-01T00:00:00Z at monotonic 0. */
#define FIXTURE_UNIX_OFFSET_NS INT64_C(1767225600000000000)

struct fixture *fixture_new(const char *trace_hex, uint64_t start_ns, uint64_t end_ns);
void fixture_free(struct fixture *f);
/* Begins another trace, as fixture_new, without its cost: a fixture's tables are megabytes. */
void fixture_again(struct fixture *f, const char *trace_hex, uint64_t start_ns, uint64_t end_ns);
uint32_t fixture_process(struct fixture *f, uint32_t pid, const char *service);
uint32_t fixture_thread(struct fixture *f, uint32_t process, uint32_t tid, const char *name);
/* Over the whole trace; labels "k=v,k=v" or NULL. The span id is the scope's number + 1. parent: DVT_NONE for
 * a root. */
uint32_t fixture_scope(struct fixture *f, uint32_t thread, uint32_t parent, const char *name,
                       const char *labels);
uint32_t fixture_stack(struct fixture *f, const char *stack);
/* n samples of one period each. */
void fixture_samples(struct fixture *f, uint32_t thread, uint32_t scope, uint32_t stack, uint32_t n);
/* Valid until the next call that adds something. */
struct dvt_chunk *fixture_chunk(struct fixture *f);

/* A new, empty store in a fresh folder under /tmp; the path is kept until fixture_store_free, which removes
 * it. */
struct fixture_store;
struct fixture_store *fixture_store_new(void);
const char *fixture_store_dir(const struct fixture_store *s);
void fixture_store_add(struct fixture_store *s, struct fixture *f);
void fixture_store_commit(struct fixture_store *s);
/* Commits and closes the writer: what was added can be read. */
void fixture_store_close(struct fixture_store *s);
void fixture_store_free(struct fixture_store *s);

#endif
