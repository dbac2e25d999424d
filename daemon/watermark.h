/*
 * watermark: how far one thread's time is settled, in ring offsets. Layer 2.
 *
 * The sampler says how far it has drained the thread's ring; the shim says up to where every scope that holds
 * a sample has been told. A sample at or below both is settled: no later message can change its scope.
 *
 * Above that, open scopes may be known by announcement. An announcement completes the knowledge up to the
 * head it was made at. The shim's signal handler announces a scope once, at the first sample in it, before
 * that sample's managed stack: so managed stacks carry the knowledge on, up to the last but one (in the last
 * run the handler may have met a scope in motion), and only after a margin, because stacks and scopes travel
 * in different messages.
 */
#ifndef WATERMARK_H
#define WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

#define WATERMARK_MARGIN_NS 500000000u

struct watermark {
    uint64_t drained;   /* all samples at or below it are here */
    uint64_t told;      /* all closed scopes holding a sample at or below it are here */
    uint64_t announced; /* all scopes holding a sample at or below it are here, open ones as announcements */
    uint64_t last_stack, stacks;          /* heads of the last managed stack and of the one before */
    uint64_t staged_stacks, staged_ns;    /* `stacks` as it was then, becomes known after the margin */
    uint64_t known_stacks;
    bool ended;         /* the ring is gone: everything is drained */
};

static inline void watermark_drain(struct watermark *w, uint64_t head, bool ended)
{
    w->ended = w->ended || ended;
    if (w->ended)
        w->drained = UINT64_MAX;
    else if (head > w->drained)
        w->drained = head;
}

static inline void watermark_tell(struct watermark *w, uint64_t head)
{
    if (head > w->told)
        w->told = head;
}

static inline void watermark_announce(struct watermark *w, uint64_t head)
{
    if (head > w->announced)
        w->announced = head;
}

static inline void watermark_stack(struct watermark *w, uint64_t head, uint64_t now_ns)
{
    if (head <= w->last_stack)
        return;
    w->stacks = w->last_stack;
    w->last_stack = head;
    if (w->staged_stacks <= w->known_stacks) {
        w->staged_stacks = w->stacks;
        w->staged_ns = now_ns;
    }
}

/* Up to where all scopes are known, open ones included. all_told: no message is under way. */
static inline uint64_t watermark_known(struct watermark *w, uint64_t now_ns, bool all_told)
{
    if (w->staged_stacks > w->known_stacks && now_ns - w->staged_ns >= WATERMARK_MARGIN_NS) {
        w->known_stacks = w->staged_stacks;
        w->staged_stacks = w->stacks;
        w->staged_ns = now_ns;
    }
    uint64_t stacks = all_told ? w->stacks : w->known_stacks;
    return w->announced > stacks ? w->announced : stacks;
}

static inline uint64_t watermark_settled(const struct watermark *w)
{
    return w->drained < w->told ? w->drained : w->told;
}

#endif
