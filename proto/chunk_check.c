/*
 * chunk_check: see chunk_check.h. All checks are linear in the chunk's size.
 */
#include "chunk_check.h"

#include <stdlib.h>
#include "limits.h"

#define RULE(holds, what)                                                                                    \
    do {                                                                                                     \
        if (!(holds))                                                                                        \
            return dvt_fail(err, code, 0, "chunk: " what " (index %u)", i);                                  \
    } while (0)

static bool kind_is_known(uint32_t kind)
{
    return kind <= DVT_FRAME_SPECIAL && kind != 4;
}

static bool slice_is_inside(uint32_t first, uint32_t n, uint32_t size)
{
    return first <= size && n <= size - first;
}

static bool time_is_inside(const struct dvt_chunk *c, uint64_t t)
{
    return t >= c->start_ns && t <= c->end_ns;
}

static int check_stacks(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    for (uint32_t i = 0; i < c->n_threads; i++)
        RULE(c->threads[i].process < c->n_processes, "a thread without process");
    for (uint32_t i = 0; i < c->n_frames; i++)
        RULE(kind_is_known(c->frames[i].kind) && c->frames[i].line <= DVT_CHUNK_MAX_LINE,
             "an impossible frame");
    for (uint32_t i = 0; i < c->n_stacks; i++)
        RULE(slice_is_inside(c->stacks[i].first, c->stacks[i].n, c->n_stack_frames), "a stack out of range");
    for (uint32_t i = 0; i < c->n_stack_frames; i++)
        RULE(c->stack_frames[i] < c->n_frames, "a stack with an unknown frame");
    return 0;
}

static int check_scopes(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        const struct dvt_chunk_scope *s = &c->scopes[i];
        RULE(s->thread < c->n_threads, "a scope without thread");
        RULE(s->parent == DVT_NONE || s->parent < c->n_scopes, "a scope with an unknown parent");
        RULE(s->parent == DVT_NONE || c->scopes[s->parent].thread == s->thread, "a parent on another thread");
        RULE(s->start_ns <= s->end_ns && time_is_inside(c, s->start_ns) && time_is_inside(c, s->end_ns),
             "a scope outside the chunk's time");
        RULE(s->n_labels <= DVT_MAX_LABELS && slice_is_inside(s->first_label, s->n_labels, c->n_labels),
             "labels out of range");
        RULE(s->n_links <= DVT_MAX_LINKS && slice_is_inside(s->first_link, s->n_links, c->n_links),
             "links out of range");
    }
    return 0;
}

static int check_samples(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    for (uint32_t i = 0; i < c->n_samples; i++) {
        const struct dvt_chunk_sample *s = &c->samples[i];
        RULE(s->thread < c->n_threads && s->stack < c->n_stacks, "a sample without thread or stack");
        RULE(s->scope == DVT_NONE || s->scope < c->n_scopes, "a sample of an unknown scope");
        RULE(time_is_inside(c, s->time_ns), "a sample outside the chunk's time");
    }
    return 0;
}

/* The parts of a time without overflow: each is at most the whole. */
static bool adds_up(const struct dvt_chunk_times *t, uint64_t wall_ns)
{
    const uint64_t parts[] = {t->on_cpu_ns, t->blocked_ns, t->runnable_ns, t->unknown_ns};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i] > wall_ns)
            return false;
        wall_ns -= parts[i];
    }
    return wall_ns == 0;
}

static int check_times(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    for (uint32_t i = 0; i < c->n_times; i++) {
        const struct dvt_chunk_times *t = &c->times[i];
        RULE(t->scope < c->n_scopes && (!i || c->times[i - 1].scope < t->scope), "times of no scope, or out of order");
        RULE(adds_up(t, c->scopes[t->scope].end_ns - c->scopes[t->scope].start_ns), "times that do not add up");
    }
    return 0;
}

/* Each scope is walked over once: a walk stops at a scope that an earlier walk has marked. */
static int check_chains(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    uint32_t *walk = calloc(c->n_scopes + 1u, sizeof *walk); /* number of the walk that passed it, from 1 */
    if (!walk)
        return dvt_fail(err, DVT_ENOMEM, 0, "chunk: out of memory for %u scopes", c->n_scopes);
    uint32_t looped = DVT_NONE;
    for (uint32_t i = 0; i < c->n_scopes; i++) {
        uint32_t at = i;
        for (; at != DVT_NONE && !walk[at]; at = c->scopes[at].parent)
            walk[at] = i + 1;
        if (at != DVT_NONE && walk[at] == i + 1)
            looped = at;
    }
    free(walk);
    if (looped != DVT_NONE)
        return dvt_fail(err, code, 0, "chunk: scope %u is its own ancestor", looped);
    return 0;
}

int dvt_chunk_check(const struct dvt_chunk *c, int code, struct dvt_err *err)
{
    int rc = check_stacks(c, code, err);
    if (!rc)
        rc = check_scopes(c, code, err);
    if (!rc)
        rc = check_samples(c, code, err);
    if (!rc)
        rc = check_times(c, code, err);
    return rc ? rc : check_chains(c, code, err);
}
