/*
 * thread_state: all that waits on one thread: samples for their scopes, scopes for their samples, managed
 * stacks. Layer 3.
 *
 * Samples are kept by their ring offsets in a column beside them, so that the join reads offsets only.
 * Counted by reference: the pipeline's map holds one, each trace with scopes of the thread one. Pipeline
 * thread only.
 */
#ifndef THREAD_STATE_H
#define THREAD_STATE_H

#include "sample.h"
#include "scope.h"
#include "scope_index.h"
#include "stacks.h"
#include "wait_log.h"
#include "watermark.h"

struct scope_list { /* a few scopes; references */
    struct scope **v;
    uint32_t n, cap;
};

struct thread_state {
    struct thread_key key;
    uint32_t refs;
    uint32_t host_tid; /* 0: unknown */
    char *name;        /* owned, cleaned; "" at first */
    uint64_t uncovered_ns;
    struct watermark mark;

    uint64_t *offs;          /* [first, n) ascending */
    struct sample **samples; /* [first, n) owned */
    uint32_t first, n, cap;
    size_t sample_bytes;

    struct scope_index closed;  /* references */
    struct scope_list cross;    /* closed by another thread: their close head alone does not bound them */
    struct scope_list open;     /* announced, not told closed yet */
    size_t scope_bytes;         /* of the scopes in closed */

    struct stacks stacks;
    uint64_t stacks_due;     /* samples at or below it wait for their stack no longer */
    uint64_t wait_head;      /* 0: nothing waits; else the settled samples up to it wait for their stacks */
    uint64_t wait_since_ns;
    uint32_t wait_messages;  /* settled messages since */

    struct wait_log *waits; /* NULL: its switches are not recorded */

    uint64_t first_off;  /* of its first sample; 0 none yet */
    uint64_t armed_head; /* samples up to here, but the first, are repeats of the first period */
    uint64_t lost;       /* the kernel's lost records and our dropped samples */
    uint64_t floor;      /* samples at or below it are dropped: their scopes were given up */
    uint64_t early_head; /* greatest offset joined before it was settled */
    uint64_t born_ns, ended_ns; /* ended_ns 0: lives */
    bool up;        /* the sampler knows it */
    bool is_dirty;  /* in the pipeline's list of threads to join */
    uint32_t place; /* in the pipeline's list of threads */
};

struct thread_state *thread_state_new(struct thread_key key, uint64_t now_ns);
struct thread_state *thread_state_ref(struct thread_state *t);
void thread_state_unref(struct thread_state *t);

/* Takes s; 0 or DVT_ENOMEM (then s is still the caller's). */
int thread_state_put_sample(struct thread_state *t, struct sample *s);
static inline uint32_t thread_state_pending(const struct thread_state *t)
{
    return t->n - t->first;
}
static inline const uint64_t *thread_state_offs(const struct thread_state *t)
{
    return t->first ? t->offs + t->first : t->offs; /* without any sample there is no array yet */
}
/* Drops the oldest k samples, which are freed, or were taken out and set to NULL by the caller. */
void thread_state_drop_samples(struct thread_state *t, uint32_t k);
/* Closes the gaps left by samples taken out (set to NULL) among the first k. */
void thread_state_compact(struct thread_state *t, uint32_t k);

/* The place of the scope with the serial, or l->n. */
uint32_t scope_list_find(const struct scope_list *l, uint64_t serial);
/* Takes a reference of its own; 0, DVT_ENOMEM, or DVT_ELIMIT if it holds max. */
int scope_list_add(struct scope_list *l, struct scope *s, uint32_t max);
void scope_list_remove(struct scope_list *l, uint32_t i);

/* Replaces the name by a cleaned copy; keeps the old one without memory. */
void thread_state_set_name(struct thread_state *t, struct dvt_str name);
/* Takes records of its switches; 0 or DVT_ENOMEM. */
int thread_state_put_switches(struct thread_state *t, const struct switches *s);
/* Sets the scope's waits, once; all of the thread's records up to until_ns are here. */
void thread_state_sum_waits(const struct thread_state *t, struct scope *s, uint64_t until_ns);
/* Memory it holds. */
size_t thread_state_bytes(const struct thread_state *t);

#endif
