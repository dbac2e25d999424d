/*
 * join: which scope a sample belongs to, on the columns of one thread. Pure: no memory, no time, no state.
 * Layer 3.
 *
 * A sample whose record ends at ring offset o lies in a scope iff open < o <= close (ring heads). Of several,
 * the one opened last (greatest serial) is the innermost. Closed scopes arrive in order of close, so a
 * backward sweep over both columns needs no sort: at each sample the scopes that may still hold it form a
 * stack ordered by serial.
 */
#ifndef JOIN_H
#define JOIN_H

#include <stdint.h>

enum { JOIN_NONE = UINT32_MAX, JOIN_AMBIGUOUS = UINT32_MAX - 1 };

struct join_scopes { /* columns [n], ascending by close */
    const uint64_t *open, *close;
    const uint64_t *serial; /* the filter does not look at it */
    uint32_t n;
};

/* Which scopes hold at least one of the offsets offs[m] (ascending): their rows go to ret_keep[n], ascending;
 * returns how many. ret_keep needs n entries, whatever the result. Hot: about 1 ns a scope. */
uint32_t join_filter(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *ret_keep);

/* The innermost scope of each sample offs[m] (ascending): ret_row[m] is its row, JOIN_NONE if no scope holds
 * it, or JOIN_AMBIGUOUS if two of equal serial do. stack is scratch of [n]. */
void join_innermost(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *stack,
                    uint32_t *ret_row);

/* How many of the ascending offs[m] are <= x. */
uint32_t join_count_upto(const uint64_t *offs, uint32_t m, uint64_t x);

#endif
