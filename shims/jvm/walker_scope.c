/*
 * walker_scope: what the compiler wrote down about a place in its code: a chain of (method, bytecode index), innermost
 * first (debugInfoRec.cpp, scopeDesc.cpp). The code runs on this thread, so its nmethod stays; loads are guarded all the same.
 */
#include "walker.h"

#include <string.h>

#include "../core/guard.h"

enum { U5_LOW = 192, U5_MAX_BYTES = 5, SCOPE_HEAD_BYTES = 3 * U5_MAX_BYTES };

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

/* Up to JDK 22 all of it lies in the nmethod; later in a block of its own, and the methods in another. */
bool dvt_jvm_scopes_open(const struct dvt_jvm_vm *vm, uintptr_t nmethod, struct dvt_jvm_scopes *ret)
{
    uint64_t method, pcs, data, block, metadata;
    if (!dvt_jvm_load(nmethod, vm->nm_method, &method) || !dvt_jvm_load(nmethod, vm->nm_scopes_pcs_offset, &pcs))
        return false;
    ret->method = method;
    if (vm->nm_immutable_data.bytes) {
        if (!dvt_jvm_load(nmethod, vm->nm_immutable_data, &block) ||
            !dvt_jvm_load(nmethod, vm->nm_scopes_data_offset, &data) ||
            !dvt_jvm_load(nmethod, vm->blob_mutable_data, &metadata) ||
            !dvt_jvm_load(nmethod, vm->blob_relocation_size, &method))
            return false;
        ret->pcs = block + pcs;
        ret->pcs_end = ret->data = block + data;
        ret->metadata = metadata + ((method + 7) & ~UINT64_C(7));
        return true;
    }
    if (!dvt_jvm_load(nmethod, vm->nm_scopes_data_begin, &data) ||
        !dvt_jvm_load(nmethod, vm->nm_dependencies_offset, &block) ||
        !dvt_jvm_load(nmethod, vm->nm_metadata_offset, &metadata))
        return false;
    ret->pcs = nmethod + pcs;
    ret->pcs_end = nmethod + block;
    ret->data = data;
    ret->metadata = nmethod + metadata;
    return true;
}

/* They are sorted; the first and the last are sentinels without scope. */
uint32_t dvt_jvm_scopes_find(const struct dvt_jvm_vm *vm, const struct dvt_jvm_scopes *s, int64_t pc_offset)
{
    uint64_t n = s->pcs_end > s->pcs ? (s->pcs_end - s->pcs) / vm->pc_desc_bytes : 0, lo = 0, hi = n;
    int64_t offset;
    uint64_t scope;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (!dvt_jvm_load_s(s->pcs + mid * vm->pc_desc_bytes, vm->pc_offset, &offset))
            return 0;
        if (offset < pc_offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo + 1 >= n || !dvt_jvm_load(s->pcs + lo * vm->pc_desc_bytes, vm->pc_scope_offset, &scope))
        return 0;
    return (uint32_t)scope;
}

/* sender's place, method's number (0: none), bytecode index + 1 (ScopeDesc::decode_body) */
bool dvt_jvm_scope_read(const struct dvt_jvm_vm *vm, const struct dvt_jvm_scopes *s, uint32_t at, struct dvt_jvm_scope *ret)
{
    uint8_t head[SCOPE_HEAD_BYTES];
    size_t pos = 0;
    uint32_t method, bci;
    if (!dvt_guard_read(head, s->data + at, sizeof head) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, &ret->sender) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, &method) ||
        !dvt_jvm_read_u5(vm->major, head, sizeof head, &pos, &bci) || method == 0)
        return false;
    uint64_t address;
    if (!dvt_guard_read(&address, s->metadata + (uint64_t)(method - 1) * sizeof address, sizeof address))
        return false;
    ret->method = address;
    ret->bci = (int32_t)bci - 1;
    return ret->sender < at || ret->sender == 0;
}
