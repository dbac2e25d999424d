/*
 * vmstructs: where HotSpot keeps what the walker reads, from the tables that libjvm exports for debuggers (vmStructs.cpp).
 * Offsets and sizes differ from one JDK to the next; what has moved or gone is found by its name or told as missing.
 */
#ifndef DVT_JVM_VMSTRUCTS_H
#define DVT_JVM_VMSTRUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_jvm_field { /* bytes 0: this JDK has no such field */
    uint16_t at;
    uint8_t bytes;
};

/* The names in the comments are HotSpot's. */
struct dvt_jvm_vm {
    int major; /* 17, 21, 25 */
    /* JavaThread, JavaFrameAnchor, JavaCallWrapper */
    struct dvt_jvm_field thread_anchor, thread_stack_base, thread_stack_size, thread_cont_entry;
    struct dvt_jvm_field anchor_sp, anchor_pc, anchor_fp, wrapper_anchor;
    /* CodeBlob: its code begins at a pointer (to 22) or at an offset (since 23) */
    struct dvt_jvm_field blob_name, blob_frame_size, blob_frame_complete;
    struct dvt_jvm_field blob_code_begin, blob_code_end, blob_code_offset, blob_data_offset;
    struct dvt_jvm_field blob_mutable_data, blob_relocation_size; /* since 25 */
    /* nmethod: debug information behind the code (to 22), or in a block of its own (since 23) */
    struct dvt_jvm_field nm_method, nm_compile_id, nm_orig_pc_offset, nm_scopes_pcs_offset, nm_scopes_data_offset;
    struct dvt_jvm_field nm_scopes_data_begin, nm_dependencies_offset, nm_metadata_offset, nm_immutable_data;
    struct dvt_jvm_field nm_deopt_begin, nm_deopt_mh_begin, nm_deopt_offset, nm_deopt_mh_offset;
    struct dvt_jvm_field pc_offset, pc_scope_offset; /* PcDesc */
    /* Method, ConstMethod, ConstantPool, Klass, Symbol */
    struct dvt_jvm_field method_const, method_access;
    struct dvt_jvm_field const_pool, const_size_words, const_flags, const_code_size, const_name;
    struct dvt_jvm_field pool_holder, pool_length, pool_source_file, klass_name, symbol_length, symbol_body;
    /* Code heaps, and the flags of the command line */
    struct dvt_jvm_field heap_memory, heap_segmap, heap_log2_segment, space_low, space_high, space_high_boundary;
    struct dvt_jvm_field array_len, array_data, block_used;
    struct dvt_jvm_field stubs_buffer, stubs_begin, stubs_end, codelet_size, codelet_text; /* of the interpreter */
    struct dvt_jvm_field flag_name, flag_addr;
    size_t const_method_bytes, constant_pool_bytes, pc_desc_bytes, heap_block_bytes, flag_bytes;
    /* Static fields' addresses */
    const uintptr_t *heaps, *code_low, *code_high, *call_stub_return, *interpreter, *flags, *n_flags, *cont_return;
};

/* Fills *vm once from the running libjvm; NULL, or what is missing. */
const char *dvt_jvm_vm_read(struct dvt_jvm_vm *vm);

/* A field's value with its sign. */
static inline int64_t dvt_jvm_sign(uint64_t v, struct dvt_jvm_field f)
{
    unsigned unused = 64 - 8u * f.bytes;
    return (int64_t)(v << unused) >> unused;
}

/* obj's field, zero-extended (_s: sign-extended). Guarded. False if it cannot be read or does not exist. */
bool dvt_jvm_load(uintptr_t obj, struct dvt_jvm_field f, uint64_t *ret);
bool dvt_jvm_load_s(uintptr_t obj, struct dvt_jvm_field f, int64_t *ret);

/* Sets a boolean flag of the command line for later readers of it. False if this JVM has it not. */
bool dvt_jvm_vm_set_flag(const struct dvt_jvm_vm *vm, const char *name);

#endif
