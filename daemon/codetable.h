/*
 * codetable: one process's managed code by id, as its CODE messages tell it. Layer 2.
 *
 * An id may be told again (its code object died, the number was reused): stacks resolved before keep the code
 * they had, because entries are counted by reference and never change. Bounded by number and bytes; what does
 * not fit is refused and its stacks say so. Strings are cleaned UTF-8. Pipeline thread only.
 */
#ifndef CODETABLE_H
#define CODETABLE_H

#include "../proto/wire.h"

enum { CODETABLE_MAX_ID = 1 << 20, CODETABLE_MAX_BYTES = 64 << 20 };

struct code {
    uint32_t refs, first_line;
    const char *name, *file; /* in this block, NUL-terminated */
    size_t bytes;
};

struct codetable {
    struct code **by_id; /* [cap] */
    uint32_t cap;
    size_t bytes;
};

void codetable_fini(struct codetable *t);
/* 0, DVT_EINVAL for id 0, DVT_ELIMIT above the bounds, DVT_ENOMEM. */
int codetable_put(struct codetable *t, const struct dvt_code_info *info);
/* Borrowed until the next put; NULL if the id was never told. */
struct code *codetable_get(const struct codetable *t, uint32_t id);

struct code *code_ref(struct code *c);
void code_unref(struct code *c); /* NULL is fine */

#endif
