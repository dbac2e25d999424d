/*
 * wire: the messages between shims, daemon and CLI. PROTOCOL.md has a table for each.
 *
 * Control socket (unix SOCK_SEQPACKET, one msgpack message a packet, at most DVT_MAX_CONTROL bytes):
 *   array [type, map]. File descriptors travel by SCM_RIGHTS beside the packet.
 * ZeroMQ (shim PUSH -> daemon PULL, one frame a message, at most DVT_MAX_MESSAGE bytes), the envelope:
 *   array [major, session, seq, mac bin(32), body bin]; body = array [type, map];
 *   mac = HMAC-SHA256(session key, be64(session) be64(seq) body); seq grows by at least 1 each message.
 *
 * Unknown map keys and unknown types of the same major are skipped: minor versions add, never change.
 * Decoders check every length against limits.h and the message; what they return points into the input,
 * which must outlive it. They never allocate.
 * No sockets, no threads, no logging here.
 */
#ifndef DVT_WIRE_H
#define DVT_WIRE_H

#include "err.h"
#include "ids.h"
#include "limits.h"
#include "str.h"

enum { DVT_WIRE_MAJOR = 1, DVT_WIRE_MINOR = 0 };
enum { DVT_KEY_BYTES = 32, DVT_MAC_BYTES = 32 };

enum dvt_msg_type {
    /* control socket */
    DVT_MSG_HELLO = 1,   /* shim or cli -> daemon, first packet */
    DVT_MSG_WELCOME = 2, /* daemon -> peer */
    DVT_MSG_REFUSE = 3,  /* daemon -> peer, then it hangs up */
    DVT_MSG_ARM = 4,     /* shim -> daemon: sample this thread (may be sent by any thread of the process) */
    DVT_MSG_ARMED = 5,   /* daemon -> shim, with the perf event's fd */
    DVT_MSG_DISARM = 6,  /* shim -> daemon: the thread ended */
    DVT_MSG_STATUS_REQ = 7, /* cli -> daemon */
    DVT_MSG_STATUS = 8,     /* daemon -> cli: JSON text in parts */
    DVT_MSG_FLUSH_REQ = 9,  /* cli -> daemon, daemon -> shims: send now what there is */
    DVT_MSG_FLUSHED = 10,   /* daemon -> cli: everything that had arrived is in the store */
    /* ZeroMQ */
    DVT_MSG_THREADS = 16,
    DVT_MSG_SCOPES = 17,
    DVT_MSG_STACKS = 18,
    DVT_MSG_CODE = 19,
    DVT_MSG_DROPPED = 20,
    DVT_MSG_HEARTBEAT = 21,
    DVT_MSG_BYE = 22,
};

enum dvt_role { DVT_ROLE_SHIM = 1, DVT_ROLE_CLI = 2 };

struct dvt_hello {
    uint32_t major, minor;
    uint32_t role; /* enum dvt_role */
    uint32_t pid;  /* as the process itself sees it; the daemon checks it against SO_PEERCRED and NSpid */
    struct dvt_str runtime;         /* "c", "python", "jvm", "node" */
    struct dvt_str runtime_version; /* "3.11.7" */
    struct dvt_str service, program, tag_template;
    /* Address range of the interpreter's evaluation function, or of all code made at run time; 0 0 if none:
     * native frames from the leaf down to the first frame in it lie over the managed stack. */
    uint64_t eval_lo, eval_hi;
    bool has_walker; /* the shim sends STACKS */
};

struct dvt_welcome {
    uint32_t major, minor;
    uint64_t session;
    uint8_t key[DVT_KEY_BYTES];
    struct dvt_str endpoint;  /* ZeroMQ endpoint to connect the PUSH socket to */
    uint64_t period_ns;       /* mean sampling period; 0: event is not time (weights are counts) */
    uint32_t jitter_permille; /* each stratum of period_ns gets a sample, at a place uniform over jitter/1000 of it */
    uint32_t flush_ms;        /* send at least this often while there is something */
    bool use_signal; /* arm SIGURG on the event's fd */
};

struct dvt_refuse {
    int32_t code; /* DVT_E* */
    struct dvt_str text;
};

struct dvt_arm {
    uint32_t tid;   /* as the process itself sees it */
    uint32_t epoch; /* the thread's arming number in this process, from 1; ring offsets restart with each */
};

struct dvt_armed { /* with one fd unless code != 0 */
    uint32_t tid, epoch;
    int32_t code; /* 0 or DVT_E*: why it is not sampled */
    struct dvt_str text;
    uint32_t map_bytes;       /* size of the whole mapping: 1 page + data pages */
    uint64_t first_period_ns; /* the random first period in force now; the shim's handler sets the next */
};

struct dvt_status { /* part of the answer to STATUS_REQ: concatenate until last */
    bool last;
    struct dvt_str json;
};

/* ---- ZeroMQ messages ---- */

struct dvt_thread_info {
    uint32_t tid, epoch;
    struct dvt_str name;
    uint64_t uncovered_ns; /* CPU time from the thread's first scope to its arming */
    bool ended;            /* all of its scopes have been sent */
    uint64_t
        armed_head; /* ring offset when its signal was armed: samples up to here came a first period apart */
};

enum dvt_scope_flags {
    DVT_SCOPE_ALWAYS = 1,        /* kept though no sample fell inside */
    DVT_SCOPE_ROOT = 2,          /* no parent span: the trace's root, as far as the process knows */
    DVT_SCOPE_REMOTE_PARENT = 4, /* the parent span came in by traceparent: the local root */
    DVT_SCOPE_OUT_OF_ORDER = 8,  /* closed while a scope opened later was still open on its thread */
    DVT_SCOPE_CROSS_THREAD = 16, /* closed by another thread: joined by end_ns, not by head_close */
    DVT_SCOPE_OPEN = 32, /* an announcement of a scope that still runs: end and head_close are as of now */
    DVT_SCOPE_UNSAMPLED = 64,   /* traceparent flags 00: the tracer did not sample it */
    DVT_SCOPE_REARMED = 128,    /* the ring was replaced while it was open: head_open is 0 of the new epoch */
    DVT_SCOPE_SHARED = 256,     /* has links: works for several traces at once */
    DVT_SCOPE_LATE_ARMED = 512, /* opened before its thread was armed */
};

/* One scope as the shim reports it. All times CLOCK_MONOTONIC ns, [start_ns, end_ns). Heads are the perf
 * ring's data_head: a sample whose record ends at offset o lies inside iff head_open < o <= head_close. */
struct dvt_scope_rec {
    uint64_t serial;        /* the thread's open counter, from 1 */
    uint64_t parent_serial; /* enclosing scope on the thread, 0 if none */
    uint64_t start_ns, end_ns;
    uint64_t head_open, head_close;
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent_span; /* parent_span zero if none or unknown */
    struct dvt_str name;
    uint32_t flags;
    uint32_t n_labels;                /* <= DVT_MAX_LABELS */
    const struct dvt_label *labels;   /* [n_labels] */
    uint32_t n_links;                 /* <= DVT_MAX_LINKS */
    const struct dvt_trace_id *links; /* [n_links] other traces it works for */
};

/* A column of a batch, read in place; PROTOCOL.md "Columns". Part i is p[i], or its patch; value i is made
 * of it. */
enum dvt_col_kind {
    DVT_COL_PLAIN = 0,  /* base + part */
    DVT_COL_DELTA = 1,  /* the value before it (at first base) + part */
    DVT_COL_SIGNED = 2, /* the same, the part being a signed number of its width */
};
struct dvt_col {
    const uint8_t *p;       /* [n] little-endian, width bytes each */
    const uint8_t *places;  /* [n_patches] 16 bits each, rising: the parts that are replaced */
    const uint8_t *patches; /* [n_patches] by these, patch_width bytes each */
    uint64_t base;
    uint32_t n, n_patches;
    uint8_t width, patch_width; /* 0, 1, 2, 4, 8 */
    uint8_t shift;              /* of parts and patches */
    uint8_t kind;               /* enum dvt_col_kind */
};

/* A batch of one thread's scopes, in the order they closed. */
struct dvt_scopes { /* decoded SCOPES message */
    uint32_t tid, epoch, n;
    uint64_t settled_head; /* every scope holding a sample at or below this offset has been sent (this message
                              included) */
    uint64_t settled_ns;
    struct dvt_col end, dur, head_close, head_span, serial, trace, name, labelset, flags;
    struct dvt_col span, parent_row, parent_back; /* for dvt_wire_parents; span.n 0: scope i has span i */
    const uint8_t *spans;                    /* [n_spans] 8 bytes each */
    const uint8_t *parent_spans;             /* [n_parent_spans] 8 bytes each */
    const uint8_t *traces;                   /* [n_traces] 16 bytes each; column `trace` indexes it */
    uint32_t n_spans, n_parent_spans;
    uint32_t n_traces, n_names, n_labelsets; /* each <= n */
    uint32_t n_labels;                       /* in all label sets together */
    struct dvt_str names_raw;                /* msgpack array of str, validated; see dvt_wire_str_at */
    struct dvt_str labelsets_raw;            /* msgpack array of arrays [k, v, k, v, ...], validated */
    struct dvt_str links_raw;                /* msgpack array of [scope index, bin 16*k], or empty */
};

/* One managed stack taken in the overflow handler. */
struct dvt_stack_rec {
    uint64_t head; /* data_head in the handler: equals the end offset of the kernel's sample */
    uint64_t time_ns;
    uint32_t reason; /* enum dvt_no_stack; 0: frames are good */
    uint32_t truncated;
    uint32_t n_frames;    /* leaf first */
    const uint32_t *code; /* [n_frames] ids of CODE messages sent before */
    const uint32_t *line; /* [n_frames] source line, 0 unknown */
};
enum dvt_no_stack {
    DVT_STACK_OK = 0,
    DVT_STACK_NO_THREAD_STATE = 1, /* a thread without managed frames: native only, no loss */
    DVT_STACK_WINDOW = 2,          /* the frame chain was in motion */
    DVT_STACK_RING_FULL = 3,
    DVT_STACK_FAULT = 4,
    DVT_STACK_NOT_ARMED = 5,
    DVT_STACK_NO_SIGNAL = 6, /* set by the daemon: a sample without a stack record */
    DVT_STACK_CODE_GONE = 7,
    DVT_STACK_LATE = 8, /* the signal came after its sample's scope had been left */
    DVT_N_STACK_REASONS
};

struct dvt_stacks { /* decoded STACKS message of one thread, columns as in SCOPES */
    uint32_t tid, epoch, n, n_frames_total;
    struct dvt_col head, time, reason, depth, truncated; /* [n] */
    struct dvt_col code, line;                           /* [n_frames_total] */
};

struct dvt_code_info {
    uint32_t id;
    struct dvt_str name; /* qualified name */
    struct dvt_str file;
    uint32_t first_line;
};

struct dvt_dropped { /* scopes dropped by rule since the last DROPPED message */
    struct dvt_str name;
    uint64_t count;
};

/* The shim's half of the ledger: totals since the process (or its fork) started. */
struct dvt_shim_counts {
    uint64_t opened, closed, kept, dropped; /* closed = kept + dropped + lost_ring */
    uint64_t lost_ring;                     /* kept by rule, but the ring was full */
    uint64_t lost_send;                     /* in batches dropped because the daemon did not take them */
    uint64_t misuse_order, misuse_thread, misuse_depth,
        misuse_stale; /* stale: closed twice or never opened */
    uint64_t signals, stacks_ok, stacks_none,
        stacks_lost; /* handler runs; none: by reason; lost: ring full */
    uint64_t threads_started, threads_ended, threads_unarmed; /* unarmed: the daemon could not sample them */
    uint64_t uncovered_ns;
    uint64_t labels_cut, names_over, traceparents_bad;
};

/* ---- encoding ---- */

/* A growing output buffer with a cap; every encoder appends or fails with DVT_ENOMEM / DVT_ELIMIT and
 * leaves it as it was. */
struct dvt_buf {
    uint8_t *p;
    size_t n, cap, max;
    void *work; /* [work_cap] the encoders' working memory, kept so that a sender's batches cost no page
                   faults */
    size_t work_cap;
};
void dvt_buf_init(struct dvt_buf *b, size_t max);
void dvt_buf_fini(struct dvt_buf *b);
int dvt_buf_append(struct dvt_buf *b, const void *p, size_t n);
/* Makes room for n more bytes at b->p + b->n; the caller adds to b->n what it wrote there. */
int dvt_buf_reserve(struct dvt_buf *b, size_t n);

int dvt_wire_put_hello(struct dvt_buf *b, const struct dvt_hello *m);
int dvt_wire_put_welcome(struct dvt_buf *b, const struct dvt_welcome *m);
int dvt_wire_put_refuse(struct dvt_buf *b, const struct dvt_refuse *m);
int dvt_wire_put_arm(struct dvt_buf *b, const struct dvt_arm *m);
int dvt_wire_put_armed(struct dvt_buf *b, const struct dvt_armed *m);
int dvt_wire_put_disarm(struct dvt_buf *b, const struct dvt_arm *m);
int dvt_wire_put_status(struct dvt_buf *b, const struct dvt_status *m);
int dvt_wire_put_plain(struct dvt_buf *b,
                       enum dvt_msg_type type); /* STATUS_REQ, FLUSH_REQ, FLUSHED: no payload */

int dvt_wire_put_threads(struct dvt_buf *b, const struct dvt_thread_info *v, size_t n);
int dvt_wire_put_scopes(struct dvt_buf *b, uint32_t tid, uint32_t epoch, uint64_t settled_head,
                        uint64_t settled_ns, const struct dvt_scope_rec *v, size_t n);
int dvt_wire_put_stacks(struct dvt_buf *b, uint32_t tid, uint32_t epoch, const struct dvt_stack_rec *v,
                        size_t n);
int dvt_wire_put_code(struct dvt_buf *b, const struct dvt_code_info *v, size_t n);
int dvt_wire_put_dropped(struct dvt_buf *b, const struct dvt_dropped *v, size_t n, uint64_t start_ns,
                         uint64_t end_ns);
int dvt_wire_put_heartbeat(struct dvt_buf *b, const struct dvt_shim_counts *c, uint64_t now_ns);
int dvt_wire_put_bye(struct dvt_buf *b, const struct dvt_shim_counts *c, uint64_t now_ns);

/* Seals body (n bytes of one put_* above) into an envelope appended to out. */
int dvt_wire_seal(struct dvt_buf *out, uint64_t session, uint64_t seq, const uint8_t key[DVT_KEY_BYTES],
                  const void *body, size_t n);

/* ---- decoding ---- */

struct dvt_envelope {
    uint64_t session, seq;
    const uint8_t *mac;
    struct dvt_str body;
};
/* Splits an envelope without checking the mac. DVT_EVERSION with both versions named for another major. */
int dvt_wire_open(const void *p, size_t n, struct dvt_envelope *ret_env, struct dvt_err *err);
/* 0 or DVT_EAUTH; constant-time compare. */
int dvt_wire_verify(const struct dvt_envelope *env, const uint8_t key[DVT_KEY_BYTES]);
/* The same for two messages, each with its own answer, in little more than half the time where the
 * processor has instructions for SHA. */
void dvt_wire_verify_pair(const struct dvt_envelope env[2], const uint8_t *const key[2], int ret_rc[2]);

/* Reads [type, map]: the type and the map's bytes, for the decoders below. */
int dvt_wire_type(struct dvt_str body, uint32_t *ret_type, struct dvt_str *ret_map, struct dvt_err *err);

int dvt_wire_get_hello(struct dvt_str map, struct dvt_hello *ret, struct dvt_err *err);
int dvt_wire_get_welcome(struct dvt_str map, struct dvt_welcome *ret, struct dvt_err *err);
int dvt_wire_get_refuse(struct dvt_str map, struct dvt_refuse *ret, struct dvt_err *err);
int dvt_wire_get_arm(struct dvt_str map, struct dvt_arm *ret, struct dvt_err *err); /* ARM and DISARM */
int dvt_wire_get_armed(struct dvt_str map, struct dvt_armed *ret, struct dvt_err *err);
int dvt_wire_get_status(struct dvt_str map, struct dvt_status *ret, struct dvt_err *err);

int dvt_wire_get_scopes(struct dvt_str map, struct dvt_scopes *ret, struct dvt_err *err);
int dvt_wire_get_stacks(struct dvt_str map, struct dvt_stacks *ret, struct dvt_err *err);
/* Item iterators: call with *pos = 0 first; 1 = item in *ret, 0 = end, < 0 = error. */
int dvt_wire_next_thread(struct dvt_str map, size_t *pos, struct dvt_thread_info *ret, struct dvt_err *err);
int dvt_wire_next_code(struct dvt_str map, size_t *pos, struct dvt_code_info *ret, struct dvt_err *err);
int dvt_wire_next_dropped(struct dvt_str map, size_t *pos, struct dvt_dropped *ret, struct dvt_err *err);
/* The time that the counts of a DROPPED message stand for. */
int dvt_wire_get_dropped_time(struct dvt_str map, uint64_t *ret_start_ns, uint64_t *ret_end_ns,
                              struct dvt_err *err);
int dvt_wire_get_counts(struct dvt_str map, struct dvt_shim_counts *ret, uint64_t *ret_now_ns,
                        struct dvt_err *err); /* HEARTBEAT and BYE */

/* Expands a column into out[c->n]. Hot: branch on width once. */
void dvt_col_expand_u64(const struct dvt_col *c, uint64_t *out);
/* The same for columns that get_* checked to hold 32 bits or less. */
void dvt_col_expand_u32(const struct dvt_col *c, uint32_t *out);

/* No value of the column has a bit that is not in the result. */
uint64_t dvt_col_bits(const struct dvt_col *c);
/* Bounds of the values; false if they cannot be told without a look at each value. */
bool dvt_col_range(const struct dvt_col *c, uint64_t *ret_min, uint64_t *ret_max);

/* The scopes' own spans, their parents' (zero: none) and the enclosing scopes' serials (0: none), [n] each.
 * serial is that column expanded, work is scratch of [n]. DVT_EFORMAT if a reference leads nowhere. */
int dvt_wire_parents(const struct dvt_scopes *s, const uint64_t *serial, uint32_t *work,
                     struct dvt_span_id *ret_spans, struct dvt_span_id *ret_parent_spans,
                     uint64_t *ret_parent_serial);

/* Walks names_raw / labelsets_raw once: fills ret_names[n_names] / the label sets (ret_labels[cap_labels],
 * with ret_first[n_labelsets + 1] the index of each set's first label). DVT_ELIMIT if cap_labels is too
 * small. */
int dvt_wire_names(const struct dvt_scopes *s, struct dvt_str *ret_names);
int dvt_wire_labelsets(const struct dvt_scopes *s, struct dvt_label *ret_labels, size_t cap_labels,
                       uint32_t *ret_first);
/* Links: *pos = 0 first; 1 = (scope index, ids[n_ids]), 0 = end. ids point into the message. */
int dvt_wire_next_links(const struct dvt_scopes *s, size_t *pos, uint32_t *ret_scope, const uint8_t **ret_ids,
                        uint32_t *ret_n_ids);

#endif
