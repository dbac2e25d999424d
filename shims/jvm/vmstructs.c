/*
 * vmstructs: see vmstructs.h. The tables are arrays of structs whose own layout libjvm exports as numbers.
 */
#include "vmstructs.h"

#include <dlfcn.h>
#include <string.h>

#include "../core/guard.h"

/* ---- libjvm's tables ---- */

struct entry {
    const char *type, *field, *of; /* of: the field's C++ type, as text */
    uint64_t offset;
    void *address; /* of a static field */
    bool is_static;
};

struct table {
    const char *at;
    uint64_t stride, type, field, of, is_static, offset, address;
};

static bool number(const char *name, uint64_t *ret)
{
    const uint64_t *p = dlsym(RTLD_DEFAULT, name);
    if (p)
        *ret = *p;
    return p != NULL;
}

#define NUMBER(name, ret) number("gHotSpotVM" name, ret)

static bool open_structs(struct table *t)
{
    const char *const *at = dlsym(RTLD_DEFAULT, "gHotSpotVMStructs");
    if (!at || !*at)
        return false;
    t->at = *at;
    return NUMBER("StructEntryArrayStride", &t->stride) && NUMBER("StructEntryTypeNameOffset", &t->type) &&
           NUMBER("StructEntryFieldNameOffset", &t->field) && NUMBER("StructEntryTypeStringOffset", &t->of) &&
           NUMBER("StructEntryIsStaticOffset", &t->is_static) && NUMBER("StructEntryOffsetOffset", &t->offset) &&
           NUMBER("StructEntryAddressOffset", &t->address);
}

static const char *text_at(const char *p)
{
    const char *s;
    memcpy(&s, p, sizeof s);
    return s;
}

/* The next entry; false at the end. */
static bool next_struct(struct table *t, struct entry *e)
{
    e->type = text_at(t->at + t->type);
    e->field = text_at(t->at + t->field);
    e->of = text_at(t->at + t->of);
    if (!e->type || !e->field)
        return false;
    int32_t is_static;
    memcpy(&is_static, t->at + t->is_static, sizeof is_static);
    memcpy(&e->offset, t->at + t->offset, sizeof e->offset);
    memcpy(&e->address, t->at + t->address, sizeof e->address);
    e->is_static = is_static != 0;
    t->at += t->stride;
    return true;
}

/* By the names that HotSpot uses; everything else read here is a pointer, an address or a size_t. */
static uint8_t bytes_of(const char *type)
{
    static const struct {
        const char *name;
        uint8_t bytes;
    } known[] = {{"int", 4},     {"uint", 4},    {"u4", 4},      {"jint", 4},    {"int32_t", 4}, {"uint32_t", 4},
                 {"u2", 2},      {"jushort", 2}, {"jshort", 2},  {"int16_t", 2}, {"uint16_t", 2}, {"short", 2},
                 {"unsigned short", 2}, {"u1", 1}, {"bool", 1},  {"uint8_t", 1}, {"char", 1}};
    for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0)
            return known[i].bytes;
    return 8;
}

/* ---- what is looked for ---- */

/* Of rows for one field the JVM's own order decides; it has at most one of them. */
struct want {
    const char *name; /* "Type::field" */
    size_t to;        /* in struct dvt_jvm_vm */
    bool required;
    uint8_t bytes;    /* 0: by its type */
};

#define F(member) offsetof(struct dvt_jvm_vm, member)

static const struct want fields[] = {
    {"JavaThread::_anchor", F(thread_anchor), true, 8},
    {"JavaThread::_stack_base", F(thread_stack_base), true, 8},
    {"JavaThread::_stack_size", F(thread_stack_size), true, 8},
    {"JavaThread::_cont_entry", F(thread_cont_entry), false, 8},
    {"JavaFrameAnchor::_last_Java_sp", F(anchor_sp), true, 8},
    {"JavaFrameAnchor::_last_Java_pc", F(anchor_pc), true, 8},
    {"JavaFrameAnchor::_last_Java_fp", F(anchor_fp), true, 8},
    {"JavaCallWrapper::_anchor", F(wrapper_anchor), true, 8},
    {"CodeBlob::_name", F(blob_name), true, 8},
    {"CodeBlob::_frame_size", F(blob_frame_size), true, 0},
    {"CodeBlob::_frame_complete_offset", F(blob_frame_complete), true, 0},
    {"CodeBlob::_code_begin", F(blob_code_begin), false, 8},
    {"CodeBlob::_code_end", F(blob_code_end), false, 8},
    {"CodeBlob::_code_offset", F(blob_code_offset), false, 0},
    {"CodeBlob::_data_offset", F(blob_data_offset), false, 0},
    {"CodeBlob::_mutable_data", F(blob_mutable_data), false, 8},
    {"CodeBlob::_relocation_size", F(blob_relocation_size), false, 0},
    {"CompiledMethod::_method", F(nm_method), false, 8},
    {"nmethod::_method", F(nm_method), false, 8},
    {"nmethod::_compile_id", F(nm_compile_id), true, 0},
    {"nmethod::_orig_pc_offset", F(nm_orig_pc_offset), true, 0},
    {"nmethod::_scopes_pcs_offset", F(nm_scopes_pcs_offset), true, 0},
    {"nmethod::_scopes_data_offset", F(nm_scopes_data_offset), false, 0},
    {"CompiledMethod::_scopes_data_begin", F(nm_scopes_data_begin), false, 8},
    {"nmethod::_dependencies_offset", F(nm_dependencies_offset), false, 0},
    {"nmethod::_metadata_offset", F(nm_metadata_offset), false, 0},
    {"nmethod::_immutable_data", F(nm_immutable_data), false, 8},
    {"CompiledMethod::_deopt_handler_begin", F(nm_deopt_begin), false, 8},
    {"CompiledMethod::_deopt_mh_handler_begin", F(nm_deopt_mh_begin), false, 8},
    {"nmethod::_deopt_handler_offset", F(nm_deopt_offset), false, 0},
    {"nmethod::_deopt_mh_handler_offset", F(nm_deopt_mh_offset), false, 0},
    {"PcDesc::_pc_offset", F(pc_offset), true, 0},
    {"PcDesc::_scope_decode_offset", F(pc_scope_offset), true, 0},
    {"Method::_constMethod", F(method_const), true, 8},
    {"Method::_access_flags", F(method_access), true, 2}, /* its low half, whatever its size */
    {"ConstMethod::_constants", F(const_pool), true, 8},
    {"ConstMethod::_constMethod_size", F(const_size_words), true, 0},
    {"ConstMethod::_flags", F(const_flags), false, 2},
    {"ConstMethod::_flags._flags", F(const_flags), false, 2},
    {"ConstMethod::_code_size", F(const_code_size), true, 0},
    {"ConstMethod::_name_index", F(const_name), true, 0},
    {"ConstantPool::_pool_holder", F(pool_holder), true, 8},
    {"ConstantPool::_length", F(pool_length), true, 0},
    {"ConstantPool::_source_file_name_index", F(pool_source_file), false, 0},
    {"Klass::_name", F(klass_name), true, 8},
    {"Symbol::_length", F(symbol_length), true, 0},
    {"Symbol::_body", F(symbol_body), true, 1},
    {"CodeHeap::_memory", F(heap_memory), true, 8},
    {"CodeHeap::_segmap", F(heap_segmap), true, 8},
    {"CodeHeap::_log2_segment_size", F(heap_log2_segment), true, 0},
    {"VirtualSpace::_low", F(space_low), true, 8},
    {"VirtualSpace::_high", F(space_high), true, 8},
    {"VirtualSpace::_high_boundary", F(space_high_boundary), true, 8},
    {"GrowableArrayBase::_len", F(array_len), true, 0},
    {"GrowableArray<int>::_data", F(array_data), true, 8},
    {"HeapBlock::Header::_used", F(block_used), true, 1},
    {"StubQueue::_stub_buffer", F(stubs_buffer), true, 8},
    {"StubQueue::_queue_begin", F(stubs_begin), true, 0},
    {"StubQueue::_queue_end", F(stubs_end), true, 0},
    {"InterpreterCodelet::_size", F(codelet_size), true, 0},
    {"InterpreterCodelet::_description", F(codelet_text), true, 8},
    {"JVMFlag::_name", F(flag_name), true, 8},
    {"JVMFlag::_addr", F(flag_addr), true, 8},
};

static const struct want statics[] = {
    {"CodeCache::_heaps", F(heaps), true, 0},
    {"CodeCache::_low_bound", F(code_low), true, 0},
    {"CodeCache::_high_bound", F(code_high), true, 0},
    {"StubRoutines::_call_stub_return_address", F(call_stub_return), true, 0},
    {"AbstractInterpreter::_code", F(interpreter), true, 0},
    {"ContinuationEntry::_return_pc", F(cont_return), false, 0},
    {"JVMFlag::flags", F(flags), true, 0},
    {"JVMFlag::numFlags", F(n_flags), true, 0},
};

static const struct want sizes[] = {
    {"ConstMethod", F(const_method_bytes), true, 0}, {"ConstantPool", F(constant_pool_bytes), true, 0},
    {"PcDesc", F(pc_desc_bytes), true, 0},           {"HeapBlock", F(heap_block_bytes), true, 0},
    {"JVMFlag", F(flag_bytes), true, 0},
};

enum { N_FIELDS = sizeof fields / sizeof *fields, N_STATICS = sizeof statics / sizeof *statics,
       N_SIZES = sizeof sizes / sizeof *sizes };

static bool is_named(const char *name, const char *type, const char *field)
{
    size_t n = strlen(type);
    return strncmp(name, type, n) == 0 && strncmp(name + n, "::", 2) == 0 && strcmp(name + n + 2, field) == 0;
}

static void take_entry(struct dvt_jvm_vm *vm, const struct entry *e)
{
    for (size_t i = 0; !e->is_static && i < N_FIELDS; i++) {
        if (!is_named(fields[i].name, e->type, e->field) || e->offset > UINT16_MAX)
            continue;
        struct dvt_jvm_field f = {(uint16_t)e->offset, fields[i].bytes ? fields[i].bytes : bytes_of(e->of)};
        memcpy((char *)vm + fields[i].to, &f, sizeof f);
    }
    for (size_t i = 0; e->is_static && i < N_STATICS; i++)
        if (is_named(statics[i].name, e->type, e->field))
            memcpy((char *)vm + statics[i].to, &e->address, sizeof e->address);
    if (e->is_static && is_named("Abstract_VM_Version::_vm_major_version", e->type, e->field))
        memcpy(&vm->major, e->address, sizeof vm->major);
}

static bool read_sizes(struct dvt_jvm_vm *vm)
{
    const char *const *at = dlsym(RTLD_DEFAULT, "gHotSpotVMTypes");
    uint64_t stride, name, size;
    if (!at || !*at || !NUMBER("TypeEntryArrayStride", &stride) || !NUMBER("TypeEntryTypeNameOffset", &name) ||
        !NUMBER("TypeEntrySizeOffset", &size))
        return false;
    for (const char *p = *at; text_at(p + name); p += stride)
        for (size_t i = 0; i < N_SIZES; i++)
            if (strcmp(text_at(p + name), sizes[i].name) == 0)
                memcpy((char *)vm + sizes[i].to, p + size, sizeof(uint64_t));
    return true;
}

static const char *missing(const struct dvt_jvm_vm *vm)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        struct dvt_jvm_field f;
        memcpy(&f, (const char *)vm + fields[i].to, sizeof f);
        if (fields[i].required && !f.bytes)
            return fields[i].name;
    }
    for (size_t i = 0; i < N_STATICS + N_SIZES; i++) {
        const struct want *w = i < N_STATICS ? &statics[i] : &sizes[i - N_STATICS];
        uint64_t v;
        memcpy(&v, (const char *)vm + w->to, sizeof v);
        if (w->required && !v)
            return w->name;
    }
    if (!vm->nm_method.bytes || !vm->const_flags.bytes)
        return "nmethod::_method or ConstMethod::_flags";
    if (!(vm->blob_code_begin.bytes && vm->blob_code_end.bytes) && !(vm->blob_code_offset.bytes && vm->blob_data_offset.bytes))
        return "CodeBlob's code";
    if (!(vm->nm_scopes_data_begin.bytes && vm->nm_dependencies_offset.bytes && vm->nm_metadata_offset.bytes) &&
        !(vm->nm_immutable_data.bytes && vm->nm_scopes_data_offset.bytes && vm->blob_mutable_data.bytes &&
          vm->blob_relocation_size.bytes))
        return "nmethod's debug information";
    return NULL;
}

const char *dvt_jvm_vm_read(struct dvt_jvm_vm *vm)
{
    struct table t;
    struct entry e;
    memset(vm, 0, sizeof *vm);
    if (!open_structs(&t) || !read_sizes(vm))
        return "gHotSpotVMStructs";
    while (next_struct(&t, &e))
        take_entry(vm, &e);
    return missing(vm);
}

/* ---- loads ---- */

bool dvt_jvm_load(uintptr_t obj, struct dvt_jvm_field f, uint64_t *ret)
{
    uint64_t v = 0;
    if (!f.bytes || !dvt_guard_read(&v, obj + f.at, f.bytes))
        return false;
    *ret = v; /* little-endian: the low bytes */
    return true;
}

bool dvt_jvm_load_s(uintptr_t obj, struct dvt_jvm_field f, int64_t *ret)
{
    uint64_t v;
    if (!dvt_jvm_load(obj, f, &v))
        return false;
    *ret = dvt_jvm_sign(v, f);
    return true;
}

bool dvt_jvm_vm_set_flag(const struct dvt_jvm_vm *vm, const char *name)
{
    for (uintptr_t i = 0, at = *vm->flags; i < *vm->n_flags; i++, at += vm->flag_bytes) {
        uint64_t text, addr;
        if (!dvt_jvm_load(at, vm->flag_name, &text) || !dvt_jvm_load(at, vm->flag_addr, &addr))
            return false;
        if (text && addr && strcmp((const char *)(uintptr_t)text, name) == 0) {
            *(volatile bool *)(uintptr_t)addr = true;
            return true;
        }
    }
    return false;
}
