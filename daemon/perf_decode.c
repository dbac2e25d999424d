/*
 * perf_decode: see perf_decode.h. A cursor that cannot leave the record, one function per part of it.
 */
#include "perf_decode.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

struct cursor {
    const uint8_t *p;
    size_t n;
    bool bad; /* something was asked that is not there; then all reads give 0 */
};

static const uint8_t *take(struct cursor *c, uint64_t n)
{
    if (c->bad || n > c->n) {
        c->bad = true;
        return NULL;
    }
    const uint8_t *at = c->p;
    c->p += n;
    c->n -= (size_t)n;
    return at;
}

static uint64_t take_u64(struct cursor *c)
{
    uint64_t v = 0;
    const uint8_t *at = take(c, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return v;
}

struct parts { /* of a sample, pointing into the record (unaligned) */
    uint64_t time_ns, period, ip;
    const uint8_t *chain, *regs, *stack;
    uint64_t n_chain; /* entries, context markers included */
    uint32_t n_regs, n_stack;
};

static void read_chain(struct cursor *c, struct parts *ret)
{
    ret->n_chain = take_u64(c);
    if (ret->n_chain > c->n / 8)
        c->bad = true;
    ret->chain = take(c, c->bad ? 0 : ret->n_chain * 8);
}

/* The thread was in user mode (or entered the kernel from it) only if abi is not NONE; 32-bit code is not
 * unwound. */
static void read_regs(struct cursor *c, uint64_t mask, struct parts *ret)
{
    uint64_t abi = take_u64(c);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    uint32_t n = (uint32_t)__builtin_popcountll(mask);
    ret->regs = take(c, (uint64_t)n * 8);
    if (ret->regs && abi == PERF_SAMPLE_REGS_ABI_64 && n <= SAMPLE_MAX_REGS)
        ret->n_regs = n;
}

/* u64 size, bytes[size], u64 dyn_size (only if size > 0): dyn_size is how many of them were filled. */
static void read_stack(struct cursor *c, struct parts *ret)
{
    uint64_t size = take_u64(c);
    if (size == 0)
        return;
    ret->stack = take(c, size);
    uint64_t filled = take_u64(c);
    if (filled > size)
        c->bad = true;
    ret->n_stack = c->bad ? 0 : (uint32_t)filled;
}

static bool read_parts(const struct perf_layout *l, struct cursor *c, struct parts *ret)
{
    if (l->native == PERF_NATIVE_LEAF)
        ret->ip = take_u64(c);
    take(c, 8); /* pid, tid: known from the ring */
    ret->time_ns = take_u64(c);
    ret->period = take_u64(c);
    if (l->native != PERF_NATIVE_LEAF)
        read_chain(c, ret);
    if (l->native == PERF_NATIVE_DWARF) {
        read_regs(c, l->regs_mask, ret);
        read_stack(c, ret);
    }
    return !c->bad;
}

/* Splits the chain at its context markers. Guest and other contexts are left out. Order: kernel, then
 * user. */
static void fill_ips(const struct parts *p, struct sample *s)
{
    bool in_kernel = false, in_user = true; /* no marker yet: an address of user code */
    for (uint64_t i = 0; i < p->n_chain && s->n_ips < PERF_DECODE_MAX_IPS; i++) {
        uint64_t ip;
        memcpy(&ip, p->chain + i * 8, sizeof ip);
        if (ip >= (uint64_t)PERF_CONTEXT_MAX) {
            in_kernel = ip == (uint64_t)PERF_CONTEXT_KERNEL;
            in_user = ip == (uint64_t)PERF_CONTEXT_USER;
        } else if (in_user) {
            s->ips[s->n_ips++] = ip;
        } else if (in_kernel && s->n_kernel == s->n_ips) {
            s->ips[s->n_ips++] = ip;
            s->n_kernel++;
        }
    }
}

static struct sample *sample_new(uint64_t cap_ips, const struct parts *p)
{
    size_t bytes = sizeof(struct sample) + ((size_t)cap_ips + p->n_regs) * 8 + p->n_stack;
    struct sample *s = malloc(bytes);
    if (!s)
        return NULL;
    *s = (struct sample){.bytes = bytes, .n_regs = p->n_regs, .n_stack = p->n_stack};
    s->ips = (uint64_t *)(s + 1);
    s->regs = s->ips + cap_ips;
    s->stack = (uint8_t *)(s->regs + p->n_regs);
    if (p->n_regs)
        memcpy(s->regs, p->regs, (size_t)p->n_regs * 8);
    if (p->n_stack)
        memcpy(s->stack, p->stack, p->n_stack);
    return s;
}

static int decode_sample(const struct perf_layout *l, bool kernel_ip, struct cursor c, struct sample **ret)
{
    struct parts p = {0};
    if (!read_parts(l, &c, &p))
        return DVT_EFORMAT;
    bool leaf = l->native == PERF_NATIVE_LEAF;
    uint64_t cap = leaf ? 1 : p.n_chain < PERF_DECODE_MAX_IPS ? p.n_chain : PERF_DECODE_MAX_IPS;
    struct sample *s = sample_new(cap, &p);
    if (!s)
        return DVT_ENOMEM;
    s->time_ns = p.time_ns;
    s->period = l->period_is_true ? p.period : 0;
    if (leaf) {
        s->ips[0] = p.ip;
        s->n_ips = 1;
        s->n_kernel = kernel_ip;
    } else {
        fill_ips(&p, s);
    }
    *ret = s;
    return 0;
}

int perf_decode(const struct perf_layout *l, const uint8_t *rec, size_t n, enum perf_kind *ret_kind,
                struct sample **ret_sample, uint64_t *ret_lost)
{
    struct perf_event_header h;
    if (n < sizeof h)
        return DVT_EFORMAT;
    memcpy(&h, rec, sizeof h);
    if (h.size != n)
        return DVT_EFORMAT;

    struct cursor c = {rec + sizeof h, n - sizeof h, false};
    if (h.type == PERF_RECORD_SAMPLE) {
        bool kernel_ip = (h.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
        int r = decode_sample(l, kernel_ip, c, ret_sample);
        if (r == 0)
            *ret_kind = PERF_KIND_SAMPLE;
        return r;
    }
    if (h.type != PERF_RECORD_LOST) {
        *ret_kind = PERF_KIND_OTHER;
        return 0;
    }
    take(&c, 8); /* event id */
    uint64_t lost = take_u64(&c);
    if (c.bad)
        return DVT_EFORMAT;
    *ret_kind = PERF_KIND_LOST;
    *ret_lost = lost;
    return 0;
}

int perf_decode_switch(const uint8_t *rec, size_t n, struct switch_rec *ret)
{
    struct perf_event_header h;
    if (n < sizeof h)
        return DVT_EFORMAT;
    memcpy(&h, rec, sizeof h);
    if (h.size != n)
        return DVT_EFORMAT;
    if (h.type == PERF_RECORD_LOST || h.type == PERF_RECORD_LOST_SAMPLES) {
        *ret = (struct switch_rec){0, SWITCH_GAP};
        return 0;
    }
    if (h.type != PERF_RECORD_SWITCH)
        return DVT_ENOENT;
    struct cursor c = {rec + sizeof h, n - sizeof h, false};
    take(&c, 8); /* pid, tid: known from the ring */
    uint64_t time_ns = take_u64(&c);
    if (c.bad)
        return DVT_EFORMAT;
    bool out = h.misc & PERF_RECORD_MISC_SWITCH_OUT, preempted = h.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
    *ret = (struct switch_rec){time_ns, !out ? SWITCH_IN : preempted ? SWITCH_OUT_PREEMPTED : SWITCH_OUT};
    return 0;
}
