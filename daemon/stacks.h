/*
 * stacks: the managed stacks of one thread, waiting for the kernel's samples with the same head. Layer 2.
 *
 * A stack's code ids are resolved when it arrives, so that a later redefinition of an id does not change it.
 * Ordered by head. Pipeline thread only.
 */
#ifndef STACKS_H
#define STACKS_H

#include "codetable.h"

struct stack_frame {
    struct code *code; /* a reference */
    uint32_t line;
};
struct stack {
    uint64_t head;
    uint32_t reason; /* enum dvt_no_stack */
    bool truncated;
    uint32_t n_frames;
    size_t bytes;
    struct stack_frame frames[]; /* [n_frames], leaf first */
};

struct stacks {
    struct stack **v; /* [first, n) by ascending head */
    uint32_t first, n, cap;
    size_t bytes;
};

/* Resolves rec. A code id that was never told makes it a stack without frames, reason DVT_STACK_CODE_GONE. */
struct stack *stack_new(const struct codetable *codes, const struct dvt_stack_rec *rec);
void stack_free(struct stack *s); /* NULL is fine */

void stacks_fini(struct stacks *t);
int stacks_put(struct stacks *t, struct stack *s); /* takes it if 0; DVT_ENOMEM */
bool stacks_has(const struct stacks *t, uint64_t head);
/* Takes out the stack of that head; NULL if it is not there. */
struct stack *stacks_take(struct stacks *t, uint64_t head);
/* Drops stacks with head <= upto: their samples are gone. */
void stacks_drop(struct stacks *t, uint64_t upto);

#endif
