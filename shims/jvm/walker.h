/*
 * walker: struct dvt_runtime's walk for the JVM: up a thread's stack, from where it was interrupted to its entry into Java.
 *
 * walker_blob finds the code that an address lies in and what its frame looks like, walker_scope the methods that were
 * inlined there, walker_native the way out of C code that Java called without telling where from. All async-signal-safe.
 * A walk is good only if it ends at the thread's entry: where the state of the innermost frame is not certain (in the
 * middle of a prologue, in a stub) the possible ones are tried until one gets there.
 */
#ifndef DVT_JVM_WALKER_H
#define DVT_JVM_WALKER_H

#include "../core/runtime.h"
#include "vmstructs.h"

/* Called once before the first walk; vm must stay. Needs a Java thread's own address to find where threads keep it.
 * 0, or -1 with *ret_why. */
int dvt_jvm_walker_init(const struct dvt_jvm_vm *vm, uintptr_t java_thread, const char **ret_why);

/* As struct dvt_runtime says. A frame's key is a Method's address, its offset the bytecode index (-1: none); or the key
 * is odd: a code id times two, plus one. */
int dvt_jvm_walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated);

/* ---- walker_blob ---- */

enum dvt_jvm_blob_kind { DVT_JVM_NMETHOD, DVT_JVM_INTERPRETER, DVT_JVM_STUB };

struct dvt_jvm_blob {
    uintptr_t at, code, end; /* the CodeBlob, its first instruction, the end of its code */
    int64_t frame_bytes;    /* 0: no frame, or one of unknown size */
    int64_t frame_complete; /* bytes of code until the frame is there; negative: never certain */
    enum dvt_jvm_blob_kind kind;
};

int dvt_jvm_blobs_init(const struct dvt_jvm_vm *vm);
static inline bool dvt_jvm_is_code(const struct dvt_jvm_vm *vm, uintptr_t pc)
{
    return pc >= *vm->code_low && pc < *vm->code_high;
}
/* As dvt_jvm_load, of the code cache: without the guard, which would cost a call into the kernel where another library's
 * fault handler came after ours. What is not of the code cache is loaded with it. */
bool dvt_jvm_code_read(void *to, uintptr_t at, size_t n);
bool dvt_jvm_code_load(uintptr_t obj, struct dvt_jvm_field f, uint64_t *ret);
bool dvt_jvm_code_load_s(uintptr_t obj, struct dvt_jvm_field f, int64_t *ret);
bool dvt_jvm_blob_find(const struct dvt_jvm_vm *vm, uintptr_t pc, struct dvt_jvm_blob *ret);
/* Whether pc is in the interpreter; in its code that makes a called method's frame. */
bool dvt_jvm_is_interpreter(uintptr_t pc);
bool dvt_jvm_is_method_entry(uintptr_t pc);
/* Whether the instruction before pc is a call. */
bool dvt_jvm_is_after_call(uintptr_t pc);

/* ---- walker_scope ---- */

struct dvt_jvm_scope {
    uintptr_t method;
    int32_t bci;
};
/* The chain at pc_offset, innermost first, at most cap; how many. is_leaf: an instruction ended there, else a call. Where the
 * compiler's notes do not tell for sure it is the compiled method alone, its bci -1: never another branch's methods. 0: not
 * even that. The last places asked for are remembered. */
int dvt_jvm_scopes_at(const struct dvt_jvm_vm *vm, const struct dvt_jvm_blob *b, int64_t pc_offset, bool is_leaf,
                      struct dvt_jvm_scope *ret, int cap);

/* HotSpot's UNSIGNED5 at *at in p[0, n); its bytes avoid 0 since JDK 20. False beyond the end. */
bool dvt_jvm_read_u5(int major, const uint8_t *p, size_t n, size_t *at, uint32_t *ret);

/* ---- walker_bytecode ---- */

/* Whether the bytecodes at code[0, n) may come back to bci: a jump from there or behind it leads there or before it. True too
 * where they cannot be read. Guarded. */
bool dvt_jvm_loops_over(uintptr_t code, uint32_t n, uint32_t bci);
bool dvt_jvm_method_loops_over(const struct dvt_jvm_vm *vm, uintptr_t method, int32_t bci);

/* ---- walker_flow ---- */

/* Whether what runs at code[at] comes to the instruction that ends at code[n], without leaving code[0, n). */
bool dvt_jvm_flows_to_end(const uint8_t *code, size_t n, size_t at);
/* Whether what runs at code[to] comes from the instruction before it: that one goes on there and no jump in code[0, n), which
 * begins with an instruction, leads there. Branches of a switch, entered by a table, are taken to follow a jump. */
bool dvt_jvm_is_only_fallen_into(const uint8_t *code, size_t n, size_t to);
/* Whether the instructions from code[at] on take away the compiled method's frame and return: they are no inlined method's. */
bool dvt_jvm_is_way_out(const uint8_t *code, size_t n, size_t at);
/* Where the first indirect jump ends that what runs at code[at] falls into; 0: none near. */
size_t dvt_jvm_next_indirect_jump(const uint8_t *code, size_t n, size_t at);
/* Where the first branch ends that runs after code[from], if code[at] comes before it and no jump in code[from, n) leads there: what
 * a method does first, and once. 0: not so, or not known. */
size_t dvt_jvm_entry_branch(const uint8_t *code, size_t n, size_t from, size_t at);
/* Bytes of the instruction at p[0, n); 0: not known, or longer. */
size_t dvt_jvm_insn_bytes(const uint8_t *p, size_t n);

/* ---- walker_native ---- */

struct dvt_jvm_regs {
    uintptr_t pc, sp, fp;
};

/* Notes the files loaded now: libjvm, libc and what else Java calls directly. */
void dvt_jvm_native_init(void);
enum dvt_jvm_native_step { DVT_JVM_NATIVE_OK, DVT_JVM_NATIVE_END, DVT_JVM_NATIVE_LOST };
/* One frame up by the file's call frame information. is_leaf: regs are those of the interrupted instruction. stack_end: one
 * beyond the last stack byte. */
enum dvt_jvm_native_step dvt_jvm_native_up(struct dvt_jvm_regs *regs, bool is_leaf, uintptr_t stack_end);

#endif
