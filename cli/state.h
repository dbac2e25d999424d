/*
 * state: reads the daemon's JSON. SQLite's JSON functions do the parsing: it is here anyway, and hostile
 * input is its trade.
 */
#ifndef STATE_H
#define STATE_H

#include "../proto/err.h"
#include "../proto/str.h"

#include <stdbool.h>
#include <stdint.h>

struct state;

/* Keeps its own copy. DVT_EFORMAT if it is no JSON object. */
int state_new(struct dvt_str json, struct state **ret, struct dvt_err *err);
void state_free(struct state *s); /* NULL is fine */

/* path as SQLite's: "$.event.used", "$.processes[3].pid". Missing: 0, false, "". */
uint64_t state_u64(struct state *s, const char *path);
double state_number(struct state *s, const char *path);
bool state_bool(struct state *s, const char *path);
/* Borrowed until the next call. */
struct dvt_str state_text(struct state *s, const char *path);
/* Items of the array at path, each as a state of its own. *ret_items freed by state_free_items. */
size_t state_items(struct state *s, const char *path, struct state ***ret_items);
void state_free_items(struct state **items, size_t n);
/* Texts of the array at path: calls fn for each. */
void state_texts(struct state *s, const char *path, void (*fn)(void *ctx, struct dvt_str text), void *ctx);

/* What is missing of the ledger's identity at path ("$.totals"): samples not accounted for (negative: counted
 * twice). */
int64_t state_ledger_gap(struct state *s, const char *path);

#endif
