/*
 * walker_scope: what the compiler wrote down about a place in its code: a chain of (method, bytecode index), innermost
 * first (debugInfoRec.cpp, scopeDesc.cpp). The code runs on this thread, so its nmethod stays.
 *
 * Most frames of a sample were in the samples before: answers are remembered by place and compilation, in a table that
 * signal handlers of all threads share. Its entries are versioned: odd while one is written; who meets that goes without.
 */
#include "walker.h"

#include <stdatomic.h>
#include <string.h>

#include "../core/guard.h"

enum {
    U5_LOW = 192,
    U5_MAX_BYTES = 5,
    SCOPE_HEAD_BYTES = 3 * U5_MAX_BYTES,
    MEMO_SLOTS = 1 << 12,
    MEMO_SCOPES = 6,
    MAX_CHAIN = 64, /* C2 stops at about 15, and at 30 for lambdas' own frames */
};

bool dvt_jvm_read_u5(int major, const uint8_t *p, size_t n, size_t *at, uint32_t *ret)
{
    uint32_t excluded = major >= 20, sum = 0;
    for (unsigned i = 0; i < U5_MAX_BYTES; i++) {
        if (*at >= n || p[*at] < excluded)
            return false;
        uint32_t b = p[(*at)++];
        sum += (b - excluded) << (6 * i);
        if (b < U5_LOW || i == U5_MAX_BYTES - 1)
            break;
    }
    *ret = sum;
    return true;
}

/* ---- an nmethod's debug information ---- */

struct tables {
    uintptr_t pcs, pcs_end, data, metadata;
};

/* Since JDK 23 in blocks of its own. */
static bool open_blocks(const struct dvt_jvm_vm *vm, uintptr_t nmethod, struct tables *t)
{
    uint64_t block, pcs, data, metadata, relocations;
    if (!dvt_jvm_code_load(nmethod, vm->nm_immutable_data, &block) ||
        !dvt_jvm_code_load(nmethod, vm->nm_scopes_pcs_offset, &pcs) ||
        !dvt_jvm_code_load(nmethod, vm->nm_scopes_data_offset, &data) ||
        !dvt_jvm_code_load(nmethod, vm->blob_mutable_data, &metadata) ||
        !dvt_jvm_code_load(nmethod, vm->blob_relocation_size, &relocations))
        return false;
    t->pcs = block + pcs;
    t->pcs_end = t->data = block + data;
    t->metadata = metadata + ((relocations + 7) & ~UINT64_C(7));
    return true;
}

/* Up to JDK 22 behind the code. */
static bool open_inside(const struct dvt_jvm_vm *vm, uintptr_t nmethod, struct tables *t)
{
    uint64_t pcs, pcs_end, data, metadata;
    if (!dvt_jvm_code_load(nmethod, vm->nm_scopes_pcs_offset, &pcs) ||
        !dvt_jvm_code_load(nmethod, vm->nm_dependencies_offset, &pcs_end) ||
        !dvt_jvm_code_load(nmethod, vm->nm_scopes_data_begin, &data) ||
        !dvt_jvm_code_load(nmethod, vm->nm_metadata_offset, &metadata))
        return false;
    *t = (struct tables){nmethod + pcs, nmethod + pcs_end, data, nmethod + metadata};
    return true;
}

static bool open_tables(const struct dvt_jvm_vm *vm, uintptr_t nmethod, struct tables *t)
{
    return vm->nm_immutable_data.bytes ? open_blocks(vm, nmethod, t) : open_inside(vm, nmethod, t);
}

struct desc {
    int64_t end; /* of the instructions that it describes, from the code's begin */
    uint64_t scope; /* of the innermost scope; 0: none */
};

static bool read_desc(const struct dvt_jvm_vm *vm, const struct tables *t, uint64_t i, struct desc *ret)
{
    uintptr_t at = t->pcs + i * vm->pc_desc_bytes;
    return dvt_jvm_code_load_s(at, vm->pc_offset, &ret->end) && dvt_jvm_code_load(at, vm->pc_scope_offset, &ret->scope);
}

/* The first description that ends at or after pc_offset, and where the one before it ends. They are sorted; the first and the
 * last are sentinels without scope. */
static bool find(const struct dvt_jvm_vm *vm, const struct tables *t, int64_t pc_offset, struct desc *ret, int64_t *ret_from)
{
    uint64_t n = t->pcs_end > t->pcs ? (t->pcs_end - t->pcs) / vm->pc_desc_bytes : 0, lo = 0, hi = n;
    struct desc before = {.end = 0};
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (!read_desc(vm, t, mid, ret))
            return false;
        if (ret->end < pc_offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo + 1 >= n || !read_desc(vm, t, lo, ret) || (lo > 0 && !read_desc(vm, t, lo - 1, &before)))
        return false;
    *ret_from = before.end > 0 ? before.end : 0;
    return ret->scope != 0;
}

/* sender's place, method's number (0: none), bytecode index + 1 (ScopeDesc::decode_body) */
static bool read_scope(const struct dvt_jvm_vm *vm, const struct tables *t, uint32_t at, struct dvt_jvm_scope *ret,
                       uint32_t *ret_sender)
{
    uint8_t head[SCOPE_HEAD_BYTES];
    size_t pos = 0;
    uint32_t method, bci;
    uint64_t address;
    if (!dvt_jvm_code_read(head, t->data + at, sizeof head) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, ret_sender) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, &method) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, &bci) || method == 0 ||
        !dvt_jvm_code_read(&address, t->metadata + (uint64_t)(method - 1) * sizeof address, sizeof address))
        return false;
    *ret = (struct dvt_jvm_scope){address, (int32_t)bci - 1};
    return *ret_sender < at;
}

static int read_chain(const struct dvt_jvm_vm *vm, const struct tables *t, uint64_t scope, struct dvt_jvm_scope *ret, int cap)
{
    uint32_t at = (uint32_t)scope;
    int n = 0;
    while (at && n < cap && read_scope(vm, t, at, &ret[n], &at))
        n++;
    return at && n < cap ? 0 : n;
}

/* Of the description whose instructions an instruction at pc_offset flows into. 0: none is sure. */
static int chain_of_next(const struct dvt_jvm_vm *vm, const struct tables *t, const struct dvt_jvm_blob *b, int64_t pc_offset,
                         struct dvt_jvm_scope *ret, int cap)
{
    struct desc d;
    int64_t from, end = (int64_t)(b->end - b->code);
    if (!find(vm, t, pc_offset + 1, &d, &from) || d.end > end || from > pc_offset ||
        !dvt_jvm_flows_to_end((const uint8_t *)b->code + from, (size_t)(d.end - from), (size_t)(pc_offset - from)))
        return 0;
    return read_chain(vm, t, d.scope, ret, cap);
}

static bool are_same_methods(const struct dvt_jvm_scope *a, int n_a, const struct dvt_jvm_scope *b, int n_b)
{
    bool same = n_a == n_b;
    for (int i = 0; same && i < n_a; i++)
        same = a[i].method == b[i].method;
    return same;
}

/*
 * A description that ends at a call's return address is the call's. One that ends where a thread was interrupted is that of the
 * instruction that has just ended, to which the time goes; or of one that a jump to here has passed by: where there may be
 * such a jump and what runs next is in other methods, it is what runs next.
 */
static int decode(const struct dvt_jvm_vm *vm, const struct dvt_jvm_blob *b, int64_t pc_offset, bool is_leaf,
                  struct dvt_jvm_scope *ret, int cap)
{
    struct tables t;
    struct desc d;
    struct dvt_jvm_scope next[MAX_CHAIN];
    int64_t from;
    if (!open_tables(vm, b->at, &t) ||
        (is_leaf && dvt_jvm_is_way_out((const uint8_t *)b->code, (size_t)(b->end - b->code), (size_t)pc_offset)))
        return 0;
    int n = find(vm, &t, pc_offset, &d, &from) && d.end == pc_offset ? read_chain(vm, &t, d.scope, ret, cap) : 0;
    if (n && !is_leaf)
        return n;
    int n_next = chain_of_next(vm, &t, b, pc_offset, next, cap < MAX_CHAIN ? cap : MAX_CHAIN);
    if (n && (are_same_methods(ret, n, next, n_next) ||
              dvt_jvm_is_only_fallen_into((const uint8_t *)b->code, (size_t)(b->end - b->code), (size_t)pc_offset)))
        return n;
    memcpy(ret, next, (size_t)n_next * sizeof *ret);
    return n_next;
}

/* ---- what was moved ---- */

/* Whether what is said to run at chain a, inlined, comes before the branch at chain b in a call of the same methods: it cannot
 * have been come to through a's call then. Only where no method around it has a loop there. */
static bool is_before(const struct dvt_jvm_vm *vm, const struct dvt_jvm_scope *a, int n_a, const struct dvt_jvm_scope *b, int n_b)
{
    for (; n_a > 1 && n_b > 0 && a[n_a - 1].method == b[n_b - 1].method; n_a--, n_b--) {
        int32_t at = a[n_a - 1].bci, to = b[n_b - 1].bci;
        if (at < to || dvt_jvm_method_loops_over(vm, b[n_b - 1].method, to))
            return false;
        if (at > to)
            return true;
    }
    return false;
}

/* The end of a branch that nothing inlined behind it comes before: of a switch's jump by a table, or the method's first. Others
 * cannot be told by: notes of those that C2 adds for itself, at the ends of loops, are as often another branch's. */
static size_t sure_branch(const struct dvt_jvm_blob *b, size_t at)
{
    const uint8_t *code = (const uint8_t *)b->code;
    size_t n = (size_t)(b->end - b->code), end = dvt_jvm_next_indirect_jump(code, n, at);
    return end || b->frame_complete < 0 ? end : dvt_jvm_entry_branch(code, n, (size_t)b->frame_complete, at);
}

/* What the methods inlined behind a branch have in common C2 computes once, in front of it, and goes on saying one of them, which
 * may never run (seen: a loop's limit, constants). What runs there is the branch's. */
static int before_branch(const struct dvt_jvm_vm *vm, const struct dvt_jvm_blob *b, int64_t pc_offset, struct dvt_jvm_scope *ret,
                         int n, int cap)
{
    struct tables t;
    struct desc d;
    struct dvt_jvm_scope branch[MAX_CHAIN];
    int64_t from;
    size_t end = sure_branch(b, (size_t)pc_offset);
    if (!end || !open_tables(vm, b->at, &t) || !find(vm, &t, (int64_t)end, &d, &from) || d.end != (int64_t)end)
        return n;
    int n_branch = read_chain(vm, &t, d.scope, branch, cap < MAX_CHAIN ? cap : MAX_CHAIN);
    if (!is_before(vm, ret, n, branch, n_branch))
        return n;
    memcpy(ret, branch, (size_t)n_branch * sizeof *ret);
    return n_branch;
}

/* ---- what is remembered ---- */

static struct memo {
    _Atomic uint32_t version;
    _Atomic uint32_t n;
    _Atomic uint64_t pc, compilation;
    struct {
        _Atomic uint64_t method, bci;
    } scopes[MEMO_SCOPES];
} memos[MEMO_SLOTS];

static struct memo *memo_of(uint64_t pc)
{
    return &memos[(pc * 0x9E3779B97F4A7C15u) >> 52];
}

/* Acquire on each: the version is looked at again after all of them. */
static int recall(uint64_t pc, uint64_t compilation, struct dvt_jvm_scope *ret, int cap)
{
    struct memo *m = memo_of(pc);
    uint32_t version = atomic_load_explicit(&m->version, memory_order_acquire);
    int n = (int)atomic_load_explicit(&m->n, memory_order_acquire);
    if (version & 1 || n > cap || atomic_load_explicit(&m->pc, memory_order_acquire) != pc ||
        atomic_load_explicit(&m->compilation, memory_order_acquire) != compilation)
        return 0;
    for (int i = 0; i < n; i++) {
        ret[i].method = atomic_load_explicit(&m->scopes[i].method, memory_order_acquire);
        ret[i].bci = (int32_t)atomic_load_explicit(&m->scopes[i].bci, memory_order_acquire);
    }
    return atomic_load_explicit(&m->version, memory_order_relaxed) == version ? n : 0;
}

/* Release on each: none is seen before the odd version. */
static void remember(uint64_t pc, uint64_t compilation, const struct dvt_jvm_scope *scopes, int n)
{
    struct memo *m = memo_of(pc);
    uint32_t version = atomic_load_explicit(&m->version, memory_order_relaxed);
    if (n > MEMO_SCOPES || version & 1 ||
        !atomic_compare_exchange_strong_explicit(&m->version, &version, version + 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    atomic_store_explicit(&m->pc, pc, memory_order_release);
    atomic_store_explicit(&m->compilation, compilation, memory_order_release);
    atomic_store_explicit(&m->n, (uint32_t)n, memory_order_release);
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&m->scopes[i].method, scopes[i].method, memory_order_release);
        atomic_store_explicit(&m->scopes[i].bci, (uint64_t)(uint32_t)scopes[i].bci, memory_order_release);
    }
    atomic_store_explicit(&m->version, version + 2, memory_order_release);
}

int dvt_jvm_scopes_at(const struct dvt_jvm_vm *vm, const struct dvt_jvm_blob *b, int64_t pc_offset, bool is_leaf,
                      struct dvt_jvm_scope *ret, int cap)
{
    uint64_t id, method, place = b->code + (uint64_t)pc_offset;
    if (!dvt_jvm_code_load(b->at, vm->nm_compile_id, &id))
        return 0;
    uint64_t compilation = id << 1 | is_leaf;
    int n = recall(place, compilation, ret, cap);
    if (n)
        return n;
    n = decode(vm, b, pc_offset, is_leaf, ret, cap);
    if (is_leaf && n > 1)
        n = before_branch(vm, b, pc_offset, ret, n, cap);
    if (n == 0 && cap > 0 && dvt_jvm_code_load(b->at, vm->nm_method, &method))
        ret[n++] = (struct dvt_jvm_scope){method, -1};
    if (n)
        remember(place, compilation, ret, n);
    return n;
}
