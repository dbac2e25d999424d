/*
 * join: see join.h. Two cursors forward for the filter, one backward sweep for the innermost scope.
 *
 * Peers' data is not trusted: an open head that does not grow with the serial only costs time, never a wrong
 * answer, because a scope that has left the stack cannot hold an earlier sample.
 */
#include "join.h"

#include <stdbool.h>

uint32_t join_filter(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *ret_keep)
{
    if (!m)
        return 0;
    const uint64_t *open = s->open, *close = s->close;
    uint32_t n = s->n, j = 0, n_keep = 0; /* j: samples at or below the scope's close */
    uint64_t last = 0, next = offs[0];    /* offset of sample j - 1, which is never 0, and of sample j */
    for (uint32_t i = join_count_upto(close, n, next - 1); i < n; i++) {
        while (next <= close[i] && j < m) {
            last = next;
            next = ++j < m ? offs[j] : UINT64_MAX;
        }
        ret_keep[n_keep] = i; /* written always: no branch to mispredict */
        n_keep += last > open[i];
    }
    return n_keep;
}

/* Puts row i into the stack, which stays ordered by serial; nested scopes go on top at once. */
static void push_row(const struct join_scopes *s, uint32_t *stack, uint32_t n, uint32_t i)
{
    while (n && s->serial[stack[n - 1]] > s->serial[i]) {
        stack[n] = stack[n - 1];
        n--;
    }
    stack[n] = i;
}

static uint32_t top_row(const struct join_scopes *s, const uint32_t *stack, uint32_t n, uint64_t off)
{
    if (!n)
        return JOIN_NONE;
    uint32_t top = stack[n - 1];
    for (uint32_t k = n - 1; k-- > 0 && s->serial[stack[k]] == s->serial[top];)
        if (s->open[stack[k]] < off)
            return JOIN_AMBIGUOUS;
    return top;
}

/* Scopes opened after the sample leave the stack before those that end after it come: so of nested ones each goes
 * on top. False if one does not, or serials are equal: then nothing is right. What is pushed is written always, and
 * counts if it is to: no branch to mispredict. */
static bool innermost_of_nested(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *stack,
                                uint32_t *ret_row)
{
    const uint64_t *open = s->open, *close = s->close, *serial = s->serial;
    uint32_t depth = 0, i = s->n;
    uint64_t top_serial = 0;
    bool is_nested = true;
    for (uint32_t k = m; k-- > 0;) {
        uint64_t off = offs[k];
        while (depth && open[stack[depth - 1]] >= off)
            depth--;
        top_serial = depth ? serial[stack[depth - 1]] : 0;
        for (; i > 0 && close[i - 1] >= off; i--) {
            bool holds = open[i - 1] < off;
            is_nested &= !holds | (serial[i - 1] > top_serial);
            top_serial = holds ? serial[i - 1] : top_serial;
            stack[depth] = i - 1;
            depth += holds;
        }
        ret_row[k] = depth ? stack[depth - 1] : JOIN_NONE;
    }
    return is_nested;
}

static void innermost_of_any(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *stack,
                             uint32_t *ret_row)
{
    const uint64_t *open = s->open, *close = s->close;
    uint32_t depth = 0, i = s->n;
    for (uint32_t k = m; k-- > 0;) {
        uint64_t off = offs[k];
        while (depth && open[stack[depth - 1]] >= off)
            depth--;
        for (; i > 0 && close[i - 1] >= off; i--)
            if (open[i - 1] < off)
                push_row(s, stack, depth++, i - 1);
        ret_row[k] = top_row(s, stack, depth, off);
    }
}

void join_innermost(const struct join_scopes *s, const uint64_t *offs, uint32_t m, uint32_t *stack,
                    uint32_t *ret_row)
{
    if (!innermost_of_nested(s, offs, m, stack, ret_row))
        innermost_of_any(s, offs, m, stack, ret_row);
}

/* What is looked for is mostly near the beginning: in steps that double, then by halves between the last
 * two. */
uint32_t join_count_upto(const uint64_t *offs, uint32_t m, uint64_t x)
{
    uint32_t lo = 0, hi = 1;
    while (hi < m && offs[hi - 1] <= x) {
        lo = hi;
        hi = hi < m / 2 ? 2 * hi : m;
    }
    while (lo < hi && lo < m) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (offs[mid] <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
