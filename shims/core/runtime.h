/*
 * runtime: what the language shims (python, jvm, node) use of libdovetail beyond dovetail.h.
 *
 * The hot calls take binary ids and defer names and labels to the close of a kept scope, so that a dropped
 * scope costs nothing but two loads and a read of the counter. A walker runs in the SIGURG handler on the
 * interrupted thread.
 */
#ifndef DVT_RUNTIME_H
#define DVT_RUNTIME_H

#include "dovetail.h"
#include "../../proto/ids.h"
#include "../../proto/limits.h"
#include "../../proto/str.h"
#include "../../proto/wire.h"

struct dvt_rt_frame {
    uint64_t key;    /* opaque to core: PyCodeObject *, jmethodID, ... */
    int64_t offset;  /* opaque: byte offset, bci, ... */
};

struct dvt_runtime {
    const char *runtime;         /* "python" */
    const char *runtime_version; /* "3.11.7" */
    const char *program;
    uint64_t eval_lo, eval_hi; /* see struct dvt_hello */

    /* Walks the calling thread's managed frames, async-signal-safe: fills frames leaf first, at most cap
     * (keeps leaf-side frames first and, if deeper, the root side per limits.h, with *ret_truncated). Returns
     * the number of frames, or -(enum dvt_no_stack). NULL: no managed stacks. */
    int (*walk)(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated);
    /* In the sender thread: turns frame keys into code ids and lines; NULL without walk. Called with the
     * records of one thread; the runtime takes its own lock (Python: the GIL, only if it gets it within a
     * bounded time: then returns -1 and is called again later with the same records). Must call dvt_rt_code
     * for ids not yet announced. */
    int (*resolve)(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line);
};

/* Like dvt_start for a shim; rt must stay alive. */
DVT_API int dvt_rt_start(const struct dvt_options *options, const struct dvt_runtime *rt);

/* Announces code id (chosen by the runtime, dense from 1) before any stack that uses it. In resolve. */
DVT_API void dvt_rt_code(uint32_t id, struct dvt_str name, struct dvt_str file, uint32_t first_line);
/* Drains all stack rings through resolve now (the runtime holds its lock): before a code object dies. */
DVT_API void dvt_rt_drain_stacks(void);

struct dvt_rt_open {
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent_span;
    uint32_t flags; /* enum dvt_scope_flags: ROOT, REMOTE_PARENT, UNSAMPLED, ALWAYS */
    const struct dvt_name *name; /* may be NULL when it is learned at close */
};
struct dvt_rt_late { /* what a kept scope gets at its close; borrowed for the call */
    struct dvt_str name;
    const struct dvt_label *labels;
    size_t n_labels;
    const struct dvt_trace_id *links;
    size_t n_links;
};

/* The calling thread's slot (struct dvt_slot of slot.h), made if need be; NULL without memory: what a struct
 * dvt_scope has as its thread. */
DVT_API void *dvt_rt_slot(void);
/* For a runtime that writes frames from code of its own (slot.h): what dvt_rt_active reads. */
DVT_API const _Atomic uint32_t *dvt_rt_recording_word(void);
DVT_API struct dvt_scope dvt_rt_open(const struct dvt_rt_open *args);
/* True if the scope must be kept (a sample fell inside, or ALWAYS): then call dvt_rt_commit with its late
 * parts. False: it is closed, dropped, and counted under `name` (NULL: "(other)"). */
DVT_API bool dvt_rt_close(struct dvt_scope scope, const struct dvt_name *name);
DVT_API void dvt_rt_commit(struct dvt_scope scope, const struct dvt_rt_late *late);

/* True once a daemon is connected and sampling: lets a shim skip work when idle. One relaxed load. */
DVT_API bool dvt_rt_active(void);
/* The calling thread's innermost scope's ids; false if none. */
DVT_API bool dvt_rt_current(struct dvt_trace_id *ret_trace, struct dvt_span_id *ret_span);

#endif
