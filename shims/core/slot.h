/*
 * slot: everything libdovetail keeps for one thread: its open scopes, its ring of kept scopes, the signal
 * handler's ring, its counts and its arming state.
 *
 * A slot is mapped at a thread's first scope and never unmapped, so that a handle of an ended thread stays
 * safe to use; after its thread's end and a last drain it goes to the next new thread. Serials go on counting
 * over owners: none is used twice. Owned by its thread ("owner") unless a field says otherwise; the SIGURG
 * handler runs on the owner, at any instruction: a frame counts for it only once `depth` includes it, and not
 * while `busy`.
 */
#ifndef DVT_SLOT_H
#define DVT_SLOT_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "ring.h"
#include "runtime.h"

#define DVT_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    DVT_RING_BYTES = 1 << 20,       /* kept scopes of one thread between two drains; lazily touched */
    DVT_RING_SOFT = 8 << 10,
    DVT_HANDLER_RING_BYTES = 256 << 10, /* stacks and announcements */
    DVT_HANDLER_RING_SOFT = 16 << 10,
    DVT_ARENA_BYTES = 64 << 10,     /* names, labels and links of one thread's open scopes */
    DVT_REMOTE_CLOSES = 32,         /* closes by other threads that wait for the owner */
};

/* Internal bits beside enum dvt_scope_flags in a frame and a ring record. */
enum {
    DVT_F_ANNOUNCED = 1 << 30,
    DVT_F_CLOSING = 1 << 29,   /* its record is being made: the handler leaves it alone */
    DVT_F_PENDING = 1 << 28,   /* kept because its thread's arming was under way */
    DVT_F_TICKS = 1 << 27,     /* `start` is in ticks (tick.h); clear: in ns of CLOCK_MONOTONIC */
    DVT_F_END_TICKS = 1 << 26, /* `end` likewise */
    DVT_F_INTERNAL = DVT_F_ANNOUNCED | DVT_F_CLOSING | DVT_F_PENDING | DVT_F_TICKS | DVT_F_END_TICKS,
};

/* epoch_word: the arming number, and whether the daemon may have opened the event while the ring is not yet
 * mapped. Then a scope that closes is kept: only the daemon can say whether a sample fell inside. */
#define DVT_EPOCH_PENDING (1u << 31)
#define DVT_EPOCH_TICKS (1u << 31) /* in root_epoch, which is never pending: root_start is in ticks */
#define DVT_HEAD_UNKNOWN (UINT64_MAX >> 1) /* as an upper bound: beyond any ring offset */

/* In remote_pending: what is open is from before a time in which nothing was recorded. What the thread opened
 * inside it since is not known, so it counts for nothing; the owner removes it before it opens or closes
 * anything. */
#define DVT_REMOTE_VOID (1u << 31)

/* root_head while no scope is open, and while the outermost is being opened. */
#define DVT_ROOT_NONE UINT64_MAX
#define DVT_ROOT_OPENING (UINT64_MAX - 1)

/*
 * One open scope; 128 bytes, two cache lines, so that its index is a shift. A runtime may write frames from
 * its own code (the steps of dvt_frame_begin_plain and dvt_frame_publish, in scope.h), so the layout is held
 * by assertions below. Times say their unit: a writer that has read the clock leaves DVT_F_TICKS clear, and
 * DVT_EPOCH_TICKS in root_epoch.
 */
struct dvt_frame {
    _Alignas(128) uint64_t serial;
    uint64_t parent_serial;
    uint64_t start; /* DVT_F_TICKS */
    uint64_t head_open;
    uint32_t drop_word; /* epoch_word at open, or 0: never drop without a closer look */
    uint32_t epoch;     /* arming number at open, without the pending bit */
    uint32_t flags;
    uint32_t arena_at; /* its region ends where the next frame's begins */
    const struct dvt_name *name;
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent_span;
    uint64_t end, head_close; /* set by dvt_rt_close for dvt_rt_commit; DVT_F_END_TICKS */
};
static_assert(sizeof(struct dvt_frame) == 128, "its index is a shift");
static_assert(offsetof(struct dvt_frame, start) == 16 && offsetof(struct dvt_frame, head_open) == 24 &&
                  offsetof(struct dvt_frame, drop_word) == 32 && offsetof(struct dvt_frame, epoch) == 36 &&
                  offsetof(struct dvt_frame, flags) == 40 && offsetof(struct dvt_frame, arena_at) == 44 &&
                  offsetof(struct dvt_frame, name) == 48 && offsetof(struct dvt_frame, trace) == 56 &&
                  offsetof(struct dvt_frame, span) == 72 && offsetof(struct dvt_frame, parent_span) == 80,
              "runtimes write frames");

/* A record in the rings: this, then `blob_bytes` of arena entries. */
struct dvt_scope_entry {
    uint64_t serial, parent_serial, start, end, head_open, head_close; /* times: as flags say */
    const struct dvt_name *name; /* NULL: in the blob, or none */
    uint32_t epoch, flags, blob_bytes, pad;
    struct dvt_trace_id trace;
    struct dvt_span_id span, parent_span;
};
struct dvt_stack_entry { /* then n frames */
    uint64_t head, time_ns;
    int32_t reason; /* enum dvt_no_stack */
    uint32_t n_frames, truncated, epoch;
};
enum dvt_entry_kind { DVT_ENTRY_SCOPE = 1, DVT_ENTRY_STACK = 2 };

struct dvt_remote_close {
    _Atomic uint32_t state; /* 0 free, 1 being written, 2 ready */
    bool always;
    const struct dvt_name *name; /* from dvt_rt_close, or NULL */
    uint64_t serial, end_ns;
};

/* Written by the owner alone (relaxed), read by the sender. */
struct dvt_slot_counts {
    _Atomic uint64_t kept, lost_ring, misuse_order, misuse_thread, misuse_depth, misuse_stale;
    _Atomic uint64_t signals, stacks_lost, labels_cut, names_over, traceparents_bad;
};

enum dvt_arm_state { /* who may leave it: */
    DVT_ARM_NONE = 0,
    DVT_ARM_WANTED,  /* owner or sender, under the control lock */
    DVT_ARM_SENT,    /* sender */
    DVT_ARM_ARMED,   /* sender */
    DVT_ARM_FAILED,  /* sender: the daemon could not sample it */
};
enum dvt_slot_state { DVT_SLOT_FREE = 0, DVT_SLOT_LIVE, DVT_SLOT_ENDED };

struct dvt_slot {
    /* Hot. */
    /* The ring's data_head, or a word that stays 0; set by the sender. */
    const _Atomic uint64_t *_Atomic head_ptr;
    /* Of the present or next arming; records of others belong to a dead daemon. */
    _Atomic uint32_t epoch_word;
    _Atomic uint32_t depth;                   /* open frames */
    _Atomic uint32_t busy;                    /* frames or arena are being moved: the handler keeps off */
    _Atomic uint32_t remote_pending;          /* ready entries in remote[], and DVT_REMOTE_VOID */
    uint32_t overflow;                        /* open scopes beyond DVT_MAX_DEPTH */
    uint32_t arena_top;
    _Atomic uint64_t serial;                  /* scopes opened so far; the sender reads it */
    uint64_t void_serial;                     /* scopes up to this one were given up, if still open then */
    uint64_t id_base[3];                      /* random: see dvt_new_trace */
    /* The outermost open scope, for the sender's settled_head. */
    _Atomic uint64_t root_head, root_start;
    _Atomic uint32_t root_epoch; /* DVT_EPOCH_TICKS: unit of root_start */
    struct dvt_slot_counts n;

    _Alignas(64) struct dvt_ring ring;  /* producer: owner */
    _Alignas(64) struct dvt_ring stacks; /* producer: the handler */
    _Atomic uint32_t wake_sent;         /* set by the owner at a full quarter, cleared by the sender */
    /* When its ring was there, UINT64_MAX before; set by the sender. A scope opened before it read no head of
     * its own. */
    _Atomic uint64_t armed_ns, armed_ticks;
    _Atomic int fd;                     /* perf event, or -1: set by the sender, read by the handler */
    _Atomic uint64_t handler_rng; /* the sender draws once too, while it arms the signal */
    _Atomic uint64_t plan_ns, due_ns, late_ns; /* struct dvt_plan (handler.h) */
    /* Where the last kept scope ended; read by the handler. Scopes without a sample do not matter to it. */
    _Atomic uint64_t left_head;
    _Atomic uint32_t left_epoch;
    _Atomic uint32_t state;             /* enum dvt_slot_state */
    _Atomic uint32_t arm_state;         /* enum dvt_arm_state */
    _Atomic uint32_t generation;        /* forks before it was taken; older ones belong to the parent */
    uint64_t serial_base;               /* serial when this process took it first */
    pid_t tid;
    clockid_t cpu_clock;
    uint64_t cpu_first_ns, cpu_end_ns; /* thread CPU time when it was to be covered from, and at its end */
    char thread_name[16];

    /* The sender's. */
    void *map;
    size_t map_bytes;
    uint64_t settled_head, settled_ns, seen_serial, arm_sent_ns;
    uint64_t last_end_ns; /* of the records sent; they come in the order of their ends */
    uint64_t uncovered_ns;
    struct dvt_buf announced; /* by the handler: entries as in the ring; under the stacks lock */
    uint32_t held;          /* drains for which stacks could not be resolved */
    bool known;             /* a THREADS entry was sent in this session */
    uint64_t armed_head;    /* ring offset when its signal was armed */
    bool armed_clean;       /* no sample fell while it was armed: scopes kept for that are dropped */
    uint64_t dropped;       /* as collected from dropped_by so far, and undone */
    uint64_t undone;        /* of those: counted as kept, then dropped */

    struct dvt_slot *all_next;  /* immutable once linked */
    struct dvt_slot *free_next; /* under the slots lock */

    struct dvt_remote_close remote[DVT_REMOTE_CLOSES];
    struct dvt_frame frames[DVT_MAX_DEPTH];
    _Atomic uint32_t dropped_by[DVT_MAX_NAMES + 1]; /* by name id, 0 "(other)"; owner writes */
    uint32_t dropped_seen[DVT_MAX_NAMES + 1];       /* the sender's */
};

/* initial-exec: the signal handler reads it, so it must not be allocated lazily. */
extern __thread struct dvt_slot *dvt_tls_slot
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

extern const _Atomic uint64_t dvt_zero_word; /* what head_ptr points to while there is no ring */

/* Makes the calling thread's slot. NULL without memory. Slow path, once per thread. */
struct dvt_slot *dvt_slot_take(void);
/* Arming numbers are unique in the process, so that (tid, epoch) is too. */
uint32_t dvt_slot_next_epoch(void);
/* All slots ever made, for the sender; older generations included. */
struct dvt_slot *dvt_slot_first(void);
/* Whether a thread of this process, not of one it was forked from, has it. */
bool dvt_slot_is_live(const struct dvt_slot *s);
/* Whether this process has ever given it to a thread. */
bool dvt_slot_is_ours(const struct dvt_slot *s);
/* Sender: gives an emptied slot of an ended thread to the next thread. */
void dvt_slot_free(struct dvt_slot *s);
/* When recording has come on: marks what is open on any thread with DVT_REMOTE_VOID; CPU time until now was to be covered by
 * nobody. Not before: a thread that was held up within an open since recording was last on could yet publish it, and its close
 * be passed over. */
void dvt_slot_begin_anew(void);
/* Sums the counts of all slots of this process (after a fork: of the child). */
void dvt_slot_sum(struct dvt_shim_counts *ret);
/* Misuse by a thread without a slot. */
extern _Atomic uint64_t dvt_stale_elsewhere;

void dvt_slot_before_fork(void);
void dvt_slot_after_fork_parent(void);
/* In the child: the parent's threads are gone; closes their perf fds and forgets them. */
void dvt_slot_after_fork_child(void);

static inline uint8_t *dvt_slot_arena(struct dvt_slot *s)
{
    return (uint8_t *)(s + 1);
}
static inline uint32_t dvt_slot_epoch(const struct dvt_slot *s)
{
    return atomic_load_explicit(&s->epoch_word, memory_order_relaxed) & ~DVT_EPOCH_PENDING;
}
/* Async-signal-safe, any thread. */
static inline bool dvt_slot_is_void(const struct dvt_slot *s)
{
    return atomic_load_explicit(&s->remote_pending, memory_order_acquire) & DVT_REMOTE_VOID;
}
static inline void dvt_count(_Atomic uint64_t *c)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_relaxed);
}
static inline uint64_t dvt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline uint64_t dvt_clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
