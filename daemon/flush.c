/*
 * flush: see flush.h.
 */
#include "flush.h"

uint64_t flush_request(struct flush *f)
{
    /* generation is the one under way, which may miss what came since it began: the next one is meant. */
    f->wanted = f->generation + 1;
    return f->wanted;
}

enum flush_action flush_step(struct flush *f, bool all_heard, uint64_t flushed, uint64_t now_ns)
{
    switch (f->stage) {
    case FLUSH_IDLE:
        if (f->wanted <= f->generation)
            return FLUSH_WAIT;
        f->stage = FLUSH_SHIMS;
        f->generation++;
        f->since_ns = now_ns;
        f->deadline_ns = now_ns + f->timeout_ns;
        return FLUSH_ASK_SHIMS;
    case FLUSH_SHIMS:
        if (!all_heard && now_ns < f->deadline_ns)
            return FLUSH_WAIT;
        f->stage = FLUSH_STORE;
        return FLUSH_DRAIN;
    case FLUSH_STORE:
        if (flushed < f->generation)
            return FLUSH_WAIT;
        f->stage = FLUSH_IDLE;
        return FLUSH_DONE;
    }
    return FLUSH_WAIT;
}
