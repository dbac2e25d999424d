/*
 * flush: the steps of "send, join and store all there is", asked for by a CLI or by the daemon's own end.
 * Layer 1; pure.
 *
 * 1 shims are asked to send; each answers with a heartbeat behind its last message; bounded by a deadline
 * 2 rings are drained, the pipeline closes all traces, the writer commits
 */
#ifndef FLUSH_H
#define FLUSH_H

#include <stdbool.h>
#include <stdint.h>

enum flush_stage { FLUSH_IDLE, FLUSH_SHIMS, FLUSH_STORE };
enum flush_action { FLUSH_WAIT, FLUSH_ASK_SHIMS, FLUSH_DRAIN, FLUSH_DONE };

struct flush {
    enum flush_stage stage;
    uint64_t generation; /* of the one under way, or the last one done */
    uint64_t wanted;     /* the highest asked for */
    uint64_t since_ns, deadline_ns;
    uint64_t timeout_ns;
};

/* Asks for one that begins after now; returns its generation. */
uint64_t flush_request(struct flush *f);
/* What to do now. all_heard: every shim has reported a time >= since_ns. flushed: the writer's last
 * generation. Call again until it says FLUSH_WAIT. */
enum flush_action flush_step(struct flush *f, bool all_heard, uint64_t flushed, uint64_t now_ns);

#endif
