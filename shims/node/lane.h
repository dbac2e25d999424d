/*
 * lane: the scopes that one JavaScript thread has open. JavaScript says what is current (lib/lane.js) and calls here
 * only when that changes; a span's ids come through a table in shared memory, which JavaScript fills, because each
 * argument of a native call costs more than the scope itself.
 *
 * One lane per environment (the main thread or a worker); all functions run on its thread.
 */
#ifndef DVT_NODE_LANE_H
#define DVT_NODE_LANE_H

#include <node_api.h>

#include "../core/runtime.h"
#include "v8.h"

/* struct dvt_node_mark in memory shared with JavaScript, which writes it as words of 32 bits: lib/table.js. */
struct dvt_node_mark {
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent;
    uint32_t flags; /* enum dvt_scope_flags */
    uint32_t name;  /* of dvt_node_lane_name, 0: not yet known */
};
_Static_assert(sizeof(struct dvt_node_mark) == 40, "lib/table.js");

enum { DVT_NODE_MARKS = 4096 };

/* The control words, in front of the marks. LINGERS: the innermost scope has no level any more and closes when the
 * microtasks are through. DRAINS: they have been once. */
enum { DVT_NODE_ARG, DVT_NODE_KEEP, DVT_NODE_NAME, DVT_NODE_LINGERS, DVT_NODE_DRAINS, DVT_NODE_WORDS = 8 };

/* Defines open, close, commit, name and state on exports. napi_ok, or what failed; nothing is left open then. */
napi_status dvt_node_lane_define(napi_env env, napi_value exports);
/* From now on notices when microtasks are through. NULL: never. */
void dvt_node_lane_watch(const struct dvt_v8 *v8);
void dvt_node_lane_unwatch(void);

#endif
