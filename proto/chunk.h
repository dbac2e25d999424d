/*
 * chunk: one part of one trace as a table model, encoded as one JFR chunk and decoded again.
 *
 * The daemon fills a struct dvt_chunk and encodes it; the CLI decodes. An encoded chunk is a valid JFR
 * recording by itself and in a row with others (`jfr summary`, `jfr print`, JMC, jfrconv).
 * All times are CLOCK_MONOTONIC ns; unix_offset_ns + time = UNIX ns.
 * Indexes are into the arrays of the same chunk; DVT_NONE means none.
 */
#ifndef DVT_CHUNK_H
#define DVT_CHUNK_H

#include "err.h"
#include "ids.h"
#include "str.h"
#include "wire.h"

#define DVT_NONE UINT32_MAX

enum dvt_frame_kind { /* JFR FrameType keys in the chunk */
    DVT_FRAME_MANAGED = 0, /* interpreted */
    DVT_FRAME_JIT = 1,
    DVT_FRAME_INLINED = 2, /* native or JIT code inlined into the frame below it */
    DVT_FRAME_NATIVE = 3,
    DVT_FRAME_KERNEL = 5,
    DVT_FRAME_SPECIAL = 6, /* ours: "[no stack: ...]", "[truncated]" */
};

struct dvt_chunk_process {
    uint32_t pid;       /* on the host */
    uint64_t start_ticks; /* /proc/PID/stat field 22: with pid and boot id the identity */
    struct dvt_str service, program, runtime, runtime_version;
};
struct dvt_chunk_thread {
    uint32_t process, tid; /* tid on the host where known, else the process's own */
    struct dvt_str name;
};
struct dvt_chunk_frame {
    struct dvt_str name;   /* function, qualified */
    struct dvt_str module; /* managed: source file; native: file name of the binary; kernel: "kernel" */
    struct dvt_str file;   /* native with debug info: source file, else empty */
    uint32_t line;         /* 0 unknown */
    uint32_t kind;         /* enum dvt_frame_kind */
};
struct dvt_chunk_stack {
    uint32_t first, n; /* into stack_frames, leaf first */
    bool truncated;
};
struct dvt_chunk_scope {
    uint32_t thread, parent; /* enclosing scope on the same thread within this chunk, or DVT_NONE */
    uint64_t serial, start_ns, end_ns;
    struct dvt_span_id span, parent_span;
    struct dvt_str name, tag;
    uint32_t flags; /* enum dvt_scope_flags */
    uint32_t first_label, n_labels; /* into labels */
    uint32_t first_link, n_links;   /* into links */
};
/* How good a root of its trace a scope is: one without parent, one entered from another process, neither. Among equals it is the
 * one that began first. */
static inline uint32_t dvt_chunk_root_rank(const struct dvt_chunk_scope *s)
{
    return s->flags & DVT_SCOPE_ROOT ? 2 : s->flags & DVT_SCOPE_REMOTE_PARENT ? 1 : 0;
}
struct dvt_chunk_sample {
    uint32_t thread, scope; /* the innermost scope */
    uint32_t stack;
    uint64_t time_ns;
    uint64_t weight_ns; /* CPU time it stands for (count of events if the chunk's period_ns is 0) */
};
/* How the time of a scope was spent, whole and with the scopes in it; the four add up to its length. Only where the
 * thread's context switches were recorded. */
struct dvt_chunk_times {
    uint32_t scope;
    uint32_t waits, preemptions; /* stretches blocked, stretches ready to run but off the CPU */
    uint64_t on_cpu_ns, blocked_ns, runnable_ns, unknown_ns;
};
struct dvt_chunk_ledger { /* of this part of the trace */
    uint64_t samples, no_stack, ambiguous, shared;
    uint64_t no_stack_by[DVT_N_STACK_REASONS]; /* by enum dvt_no_stack */
    uint64_t scopes, cut_short;
    uint64_t uncovered_ns; /* of its threads */
    uint64_t lost_samples; /* the kernel's count of lost records in its threads, while it ran */
};

struct dvt_chunk {
    struct dvt_trace_id trace;
    uint32_t part;      /* 0, 1, ... of the trace in one daemon run */
    int64_t unix_offset_ns;
    uint64_t start_ns, end_ns; /* of all scopes and samples */
    uint64_t period_ns;
    struct dvt_str event; /* libpfm4 name of the sampled event */
    struct dvt_str host;

    struct dvt_chunk_process *processes;
    struct dvt_chunk_thread *threads;
    struct dvt_chunk_frame *frames;
    struct dvt_chunk_stack *stacks;
    uint32_t *stack_frames; /* [n_stack_frames] frame indexes */
    struct dvt_chunk_scope *scopes;
    struct dvt_label *labels;
    struct dvt_trace_id *links;
    struct dvt_chunk_sample *samples;
    struct dvt_chunk_times *times; /* [n_times] ascending by scope */
    uint32_t n_processes, n_threads, n_frames, n_stacks, n_stack_frames, n_scopes, n_labels, n_links,
        n_samples, n_times;
    struct dvt_chunk_ledger ledger;
};

/* Keys in the chunk's constant pools are *key_base + index; *key_base is advanced by what was used, and wraps
 * below INT32_MAX. One key base for all chunks of a store (the JDK's parser carries pool values over between
 * adjacent chunks, so a key must not change its meaning). Appends to out. DVT_ELIMIT above out->max,
 * DVT_EINVAL if the tables contradict each other (chunk_check.h). Ticks are the times themselves, and the JDK
 * (25) takes the first chunk's offset to UNIX time for a whole file: chunks in one file must have the same
 * unix_offset_ns. */
int dvt_chunk_encode(const struct dvt_chunk *c, uint32_t *key_base, struct dvt_buf *out, struct dvt_err *err);

/* Size in bytes of the chunk that begins at p (from its header), if n bytes hold a whole plausible header and
 * it is finished; else DVT_EFORMAT. Used by recovery. */
int dvt_chunk_size(const uint8_t *p, size_t n, uint64_t *ret_size);

/* Decodes a chunk written by dvt_chunk_encode, any minor version. Strings point into p, arrays into one block
 * owned by the chunk; free with dvt_chunk_fini. Every index of the result is checked, every parent chain
 * ends. */
int dvt_chunk_decode(const uint8_t *p, size_t n, struct dvt_chunk *ret, struct dvt_err *err);
void dvt_chunk_fini(struct dvt_chunk *c);

#endif
