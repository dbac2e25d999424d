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

/* Where the innermost scope is: of the first description at or after pc_offset. 0: none. They are sorted; the first and
 * the last are sentinels without scope. */
static uint32_t find(const struct dvt_jvm_vm *vm, const struct tables *t, int64_t pc_offset)
{
    uint64_t n = t->pcs_end > t->pcs ? (t->pcs_end - t->pcs) / vm->pc_desc_bytes : 0, lo = 0, hi = n, scope;
    int64_t offset;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (!dvt_jvm_code_load_s(t->pcs + mid * vm->pc_desc_bytes, vm->pc_offset, &offset))
            return 0;
        if (offset < pc_offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo + 1 >= n || !dvt_jvm_code_load(t->pcs + lo * vm->pc_desc_bytes, vm->pc_scope_offset, &scope))
        return 0;
    return (uint32_t)scope;
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

static int decode(const struct dvt_jvm_vm *vm, uintptr_t nmethod, int64_t pc_offset, struct dvt_jvm_scope *ret, int cap)
{
    struct tables t;
    if (!(vm->nm_immutable_data.bytes ? open_blocks(vm, nmethod, &t) : open_inside(vm, nmethod, &t)))
        return 0;
    uint32_t at = find(vm, &t, pc_offset);
    int n = 0;
    while (at && n < cap && read_scope(vm, &t, at, &ret[n], &at))
        n++;
    return at && n < cap ? 0 : n;
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

int dvt_jvm_scopes_at(const struct dvt_jvm_vm *vm, const struct dvt_jvm_blob *b, int64_t pc_offset,
                      struct dvt_jvm_scope *ret, int cap)
{
    uint64_t compilation, place = b->code + (uint64_t)pc_offset;
    if (!dvt_jvm_code_load(b->at, vm->nm_compile_id, &compilation))
        return 0;
    int n = recall(place, compilation, ret, cap);
    if (n)
        return n;
    n = decode(vm, b->at, pc_offset, ret, cap);
    if (n)
        remember(place, compilation, ret, n);
    return n;
}
