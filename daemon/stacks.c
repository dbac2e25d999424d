/*
 * stacks: see stacks.h. An array with a moving front; heads arrive in order, a straggler is sorted in.
 */
#include "stacks.h"

#include <stdlib.h>

static void resolve(struct stack *s, const struct codetable *codes, const struct dvt_stack_rec *rec)
{
    for (uint32_t i = 0; i < rec->n_frames; i++) {
        struct code *c = codetable_get(codes, rec->code[i]);
        if (!c) {
            s->reason = DVT_STACK_CODE_GONE;
            break;
        }
        s->frames[s->n_frames++] = (struct stack_frame){code_ref(c), rec->line[i]};
    }
    if (!s->reason)
        return;
    while (s->n_frames)
        code_unref(s->frames[--s->n_frames].code);
}

struct stack *stack_new(const struct codetable *codes, const struct dvt_stack_rec *rec)
{
    size_t bytes = sizeof(struct stack) + rec->n_frames * sizeof(struct stack_frame);
    struct stack *s = malloc(bytes);
    if (!s)
        return NULL;
    *s = (struct stack){
        .head = rec->head, .reason = rec->reason, .truncated = rec->truncated != 0, .bytes = bytes};
    resolve(s, codes, rec);
    return s;
}

void stack_free(struct stack *s)
{
    for (uint32_t i = 0; s && i < s->n_frames; i++)
        code_unref(s->frames[i].code);
    free(s);
}

void stacks_fini(struct stacks *t)
{
    for (uint32_t i = t->first; i < t->n; i++)
        stack_free(t->v[i]);
    free(t->v);
    *t = (struct stacks){0};
}

static int make_room(struct stacks *t)
{
    if (t->n < t->cap)
        return 0;
    if (t->first > t->cap / 2) {
        memmove(t->v, t->v + t->first, (t->n - t->first) * sizeof(*t->v));
        t->n -= t->first;
        t->first = 0;
        return 0;
    }
    uint32_t cap = t->cap ? t->cap * 2 : 16;
    struct stack **v = realloc(t->v, cap * sizeof(*v));
    if (!v)
        return DVT_ENOMEM;
    t->v = v;
    t->cap = cap;
    return 0;
}

/* The place of the first stack whose head is >= head. */
static uint32_t find(const struct stacks *t, uint64_t head)
{
    uint32_t lo = t->first, hi = t->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->v[mid]->head < head)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int stacks_put(struct stacks *t, struct stack *s)
{
    if (make_room(t))
        return DVT_ENOMEM;
    uint32_t at = t->n && t->first < t->n && t->v[t->n - 1]->head > s->head ? find(t, s->head) : t->n;
    memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
    t->v[at] = s;
    t->n++;
    t->bytes += s->bytes;
    return 0;
}

bool stacks_has(const struct stacks *t, uint64_t head)
{
    uint32_t at = find(t, head);
    return at < t->n && t->v[at]->head == head;
}

struct stack *stacks_take(struct stacks *t, uint64_t head)
{
    uint32_t at = find(t, head);
    if (at >= t->n || t->v[at]->head != head)
        return NULL;
    struct stack *s = t->v[at];
    t->bytes -= s->bytes;
    memmove(t->v + t->first + 1, t->v + t->first, (at - t->first) * sizeof(*t->v));
    t->first++;
    return s;
}

void stacks_drop(struct stacks *t, uint64_t upto)
{
    for (; t->first < t->n && t->v[t->first]->head <= upto; t->first++) {
        t->bytes -= t->v[t->first]->bytes;
        stack_free(t->v[t->first]);
    }
    if (t->first == t->n)
        t->first = t->n = 0;
}
