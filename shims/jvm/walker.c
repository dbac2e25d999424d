/*
 * walker: see walker.h. Written for x86-64; frames are as HotSpot's frame_x86.hpp draws them:
 *
 *   compiled     [sp + size - 8] return address, [sp + size - 16] the caller's rbp
 *   interpreted  [rbp + 8] return address, [rbp] caller's rbp, [rbp - 8] caller's sp, [rbp - 24] Method, [rbp - 64] place
 *   entry        [rbp - 48] JavaCallWrapper, whose anchor tells of the Java frames before it, if any
 */
#include "walker.h"

#include <pthread.h>
#include <string.h>
#include <ucontext.h>

#include "../core/guard.h"
#include "../core/kept.h"
#include "names.h"

enum {
    MAX_STEPS = 1 << 13,    /* frames of code in one walk; a deeper stack is kept without its root side */
    MAX_NATIVE_STEPS = 128,
    MAX_INLINED = 64,
    SCAN_WORDS = 64,        /* above a stub's stack pointer */
    SCAN_TRIES = 4,
    MAX_MOVED_BYTES = 8192,
    KEYS = 1024,            /* PTHREAD_KEYS_MAX */
};

static const struct dvt_jvm_vm *vm;
static pthread_key_t thread_key; /* of HotSpot's: the value is the thread's own Thread */

#if defined(__x86_64__)

/* frame_x86.hpp, in bytes from rbp */
enum {
    FRAME_RETURN = 8,
    INTERPRETER_SENDER_SP = -8,
    INTERPRETER_METHOD = -24,
    INTERPRETER_BCP = -64,
    INTERPRETER_BOTTOM = -72, /* of its expressions */
    ENTRY_WRAPPER = -48,
};
enum { ACC_NATIVE = 0x100 };

int dvt_jvm_walker_init(const struct dvt_jvm_vm *v, uintptr_t java_thread, const char **ret_why)
{
    vm = v;
    if (dvt_jvm_blobs_init(v)) {
        *ret_why = "CodeCache::_heaps";
        return -1;
    }
    dvt_jvm_native_init();
    for (unsigned key = 0; key < KEYS; key++)
        if ((uintptr_t)pthread_getspecific(key) == java_thread) {
            thread_key = key;
            return 0;
        }
    *ret_why = "the thread-local key of Thread::current";
    return -1;
}

/* A field of this thread's own JavaThread or of an anchor on its stack: they are there. */
static uint64_t own(uintptr_t obj, struct dvt_jvm_field f)
{
    uint64_t v = 0;
    if (f.bytes)
        memcpy(&v, (const void *)(obj + f.at), sizeof v);
    return v;
}

/* ---- a walk ---- */

struct walk {
    uintptr_t thread, sp, stack_end; /* sp: where the thread was interrupted */
    const greg_t *regs;
    struct dvt_kept kept;
    bool is_cut; /* frames beyond are parked on the heap */
};

static bool on_stack(const struct walk *w, uintptr_t at)
{
    return at >= w->sp && at < w->stack_end && w->stack_end - at >= sizeof(uintptr_t) && at % sizeof(uintptr_t) == 0;
}

/* The thread's own stack above its stack pointer is there: no guard. */
static bool load(const struct walk *w, uintptr_t at, uintptr_t *ret)
{
    if (!on_stack(w, at))
        return false;
    memcpy(ret, (const void *)at, sizeof *ret);
    return true;
}

enum step { STEP_OK, STEP_END, STEP_BAD };

/* Java frames below C ones, where an anchor says they begin. */
static enum step from_anchor(const struct walk *w, uintptr_t anchor, struct dvt_jvm_regs *r)
{
    uintptr_t sp = own(anchor, vm->anchor_sp), pc = own(anchor, vm->anchor_pc), fp = own(anchor, vm->anchor_fp);
    if (!sp)
        return STEP_END;
    if (sp <= r->sp || !on_stack(w, sp) || (!pc && !load(w, sp - sizeof pc, &pc)))
        return STEP_BAD;
    *r = (struct dvt_jvm_regs){pc, sp, fp};
    return STEP_OK;
}

/* ---- interpreted frames ---- */

/* The bytecode index, -1 in a native method; false if bcp is not in the method. */
static bool bci_of(uintptr_t method, uintptr_t bcp, int64_t *ret)
{
    uint64_t constant, size, access;
    if (method % sizeof(void *) || !dvt_jvm_load(method, vm->method_const, &constant) || constant % sizeof(void *) ||
        !dvt_jvm_load(constant, vm->const_code_size, &size) || !dvt_jvm_load(method, vm->method_access, &access))
        return false;
    uintptr_t code = constant + vm->const_method_bytes;
    *ret = access & ACC_NATIVE ? -1 : (int64_t)(bcp - code);
    return (access & ACC_NATIVE) || (bcp >= code && bcp - code < size);
}

static enum step up_interpreted(struct walk *w, struct dvt_jvm_regs *r, bool is_leaf)
{
    uintptr_t method, bcp, pc, sender_sp, fp;
    int64_t bci;
    if (!load(w, r->fp + (uintptr_t)INTERPRETER_METHOD, &method) || !load(w, r->fp + (uintptr_t)INTERPRETER_BCP, &bcp) ||
        !load(w, r->fp + FRAME_RETURN, &pc) || !load(w, r->fp + (uintptr_t)INTERPRETER_SENDER_SP, &sender_sp) ||
        !load(w, r->fp, &fp) || sender_sp <= r->fp)
        return STEP_BAD;
    /* The running place is in r13; the frame's copy is from its last call. */
    if (!(is_leaf && bci_of(method, (uintptr_t)w->regs[REG_R13], &bci)) && !bci_of(method, bcp, &bci))
        return STEP_BAD;
    dvt_kept_add(&w->kept, method, bci);
    *r = (struct dvt_jvm_regs){pc, sender_sp, fp};
    return STEP_OK;
}

/* ---- compiled frames ---- */

/* While a method is marked to be left, return addresses into it lead to its deoptimization handler; the true one is kept
 * in its frame. */
static bool is_deopt(uintptr_t nmethod, uintptr_t pc)
{
    const struct {
        struct dvt_jvm_field f;
        uintptr_t base;
    } at[] = {{vm->nm_deopt_begin, 0}, {vm->nm_deopt_mh_begin, 0}, {vm->nm_deopt_offset, nmethod},
              {vm->nm_deopt_mh_offset, nmethod}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        uint64_t v;
        if (dvt_jvm_code_load(nmethod, at[i].f, &v) && at[i].base + v == pc)
            return true;
    }
    return false;
}

static void keep_scopes(struct walk *w, const struct dvt_jvm_blob *b, uintptr_t pc, bool is_leaf)
{
    struct dvt_jvm_scope scopes[MAX_INLINED];
    uint64_t method;
    bool is_entry = is_leaf && b->frame_complete >= 0 && pc < b->code + (uintptr_t)b->frame_complete;
    int n = is_entry ? 0 : dvt_jvm_scopes_at(vm, b, (int64_t)(pc - b->code), is_leaf, scopes, MAX_INLINED);
    for (int i = 0; i < n; i++)
        dvt_kept_add(&w->kept, scopes[i].method, scopes[i].bci);
    if (is_entry && dvt_jvm_code_load(b->at, vm->nm_method, &method))
        dvt_kept_add(&w->kept, method, 0);
}

static enum step up_compiled(struct walk *w, struct dvt_jvm_regs *r, const struct dvt_jvm_blob *b)
{
    uintptr_t pc = r->pc, sender_sp = r->sp + (uintptr_t)b->frame_bytes, to, fp;
    uint64_t orig;
    if (!load(w, sender_sp - 8, &to) || !load(w, sender_sp - 16, &fp))
        return STEP_BAD;
    if (is_deopt(b->at, pc) && (!dvt_jvm_code_load(b->at, vm->nm_orig_pc_offset, &orig) || !load(w, r->sp + orig, &pc)))
        return STEP_BAD;
    keep_scopes(w, b, pc, false);
    *r = (struct dvt_jvm_regs){to, sender_sp, fp};
    return STEP_OK;
}

/* ---- upwards ---- */

static enum step up_native(struct walk *w, struct dvt_jvm_regs *r, bool is_leaf)
{
    for (int i = 0; i < MAX_NATIVE_STEPS; i++, is_leaf = false) {
        enum dvt_jvm_native_step step = dvt_jvm_native_up(r, is_leaf, w->stack_end);
        if (step != DVT_JVM_NATIVE_OK)
            return step == DVT_JVM_NATIVE_END ? STEP_END : STEP_BAD;
        if (dvt_jvm_is_code(vm, r->pc))
            return STEP_OK;
    }
    return STEP_BAD;
}

/* The frame of the call stub, which C code entered Java by. */
static enum step up_entry(const struct walk *w, struct dvt_jvm_regs *r)
{
    uintptr_t wrapper;
    if (!load(w, r->fp + (uintptr_t)ENTRY_WRAPPER, &wrapper) || !on_stack(w, wrapper) ||
        !on_stack(w, wrapper + vm->wrapper_anchor.at + vm->anchor_fp.at))
        return STEP_BAD;
    r->sp = r->fp;
    return from_anchor(w, wrapper + vm->wrapper_anchor.at, r);
}

static bool has_continuation(const struct walk *w)
{
    return own(w->thread, vm->thread_cont_entry) != 0;
}

/* From a call at r->pc to the thread's entry. */
static enum step up_one(struct walk *w, struct dvt_jvm_regs *r)
{
    struct dvt_jvm_blob b;
    if (r->pc == *vm->call_stub_return)
        return up_entry(w, r);
    if (vm->cont_return && r->pc == *vm->cont_return)
        return STEP_END; /* below a virtual thread's first frame is its carrier */
    if (!dvt_jvm_blob_find(vm, r->pc, &b))
        return STEP_BAD;
    if (b.kind == DVT_JVM_INTERPRETER)
        return up_interpreted(w, r, false);
    if (b.kind == DVT_JVM_NMETHOD && b.frame_bytes)
        return up_compiled(w, r, &b);
    if (b.frame_bytes) {
        uintptr_t sender_sp = r->sp + (uintptr_t)b.frame_bytes;
        return load(w, sender_sp - 8, &r->pc) && load(w, sender_sp - 16, &r->fp) && (r->sp = sender_sp) ? STEP_OK : STEP_BAD;
    }
    w->is_cut = has_continuation(w); /* the return barrier: older frames of the virtual thread are not on a stack */
    return w->is_cut ? STEP_END : STEP_BAD;
}

static bool climb(struct walk *w, struct dvt_jvm_regs r)
{
    for (int i = 0; i < MAX_STEPS; i++) {
        uintptr_t sp = r.sp;
        enum step step = up_one(w, &r);
        if (step != STEP_OK)
            return step == STEP_END;
        if (r.sp <= sp)
            return false;
    }
    w->is_cut = true;
    w->kept.n = w->kept.n < w->kept.leaf_cap ? w->kept.n : w->kept.leaf_cap;
    return true;
}

/* ---- the innermost frame ---- */

/* Interpreted code calls by a jump, with the address of what shall follow pushed. */
static bool can_return_to(uintptr_t pc)
{
    return dvt_jvm_is_code(vm, pc) && (dvt_jvm_is_interpreter(pc) || dvt_jvm_is_after_call(pc));
}

/* Climbs from there, if that can be a caller; what was kept for it goes again if it gets nowhere. */
static bool try_caller(struct walk *w, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    int n = w->kept.n;
    if (sp < w->sp || sp > w->stack_end || !can_return_to(pc))
        return false;
    if (climb(w, (struct dvt_jvm_regs){pc, sp, fp}))
        return true;
    w->kept.n = n;
    w->is_cut = false;
    return false;
}

/* The return address is the word at `at`. */
static bool try_return_at(struct walk *w, uintptr_t at, uintptr_t fp)
{
    uintptr_t pc;
    return load(w, at, &pc) && try_caller(w, pc, at + sizeof pc, fp);
}

/* A callee that pushed rbp has the caller's below its return address. */
static bool try_pushed(struct walk *w, uintptr_t at)
{
    uintptr_t fp;
    return load(w, at, &fp) && try_return_at(w, at + sizeof fp, fp);
}

static bool try_framed(struct walk *w, const struct dvt_jvm_blob *b)
{
    return b->frame_bytes && try_pushed(w, w->sp + (uintptr_t)b->frame_bytes - 16);
}

/* How far the prologue has come, by its instructions before pc: [push rbp;] sub rsp, N; [mov [rsp + N - 16], rbp]. */
enum prologue { PROLOGUE_NOTHING, PROLOGUE_PUSHED, PROLOGUE_MADE, PROLOGUE_DONE };

static enum prologue prologue_at(const struct dvt_jvm_blob *b, uintptr_t pc)
{
    uint8_t code[64] = {0}, next[4] = {0};
    size_t n = pc - b->code < sizeof code ? pc - b->code : sizeof code;
    if (!dvt_jvm_code_read(code, pc - n, n) || !dvt_jvm_code_read(next, pc, sizeof next))
        return PROLOGUE_NOTHING;
    for (size_t i = n; i-- > 0;) {
        size_t left = n - i;
        bool is_sub = left >= 4 && code[i] == 0x48 && (code[i + 1] == 0x83 || code[i + 1] == 0x81) && code[i + 2] == 0xEC;
        if (is_sub && left >= (code[i + 1] == 0x83 ? 4u : 7u))
            return next[0] == 0x48 && next[1] == 0x89 && (next[2] == 0x6C || next[2] == 0xAC) && next[3] == 0x24
                       ? PROLOGUE_MADE
                       : PROLOGUE_DONE;
    }
    return n && code[n - 1] == 0x55 ? PROLOGUE_PUSHED : PROLOGUE_NOTHING;
}

static bool from_prologue(struct walk *w, const struct dvt_jvm_blob *b, uintptr_t pc)
{
    uintptr_t fp = (uintptr_t)w->regs[REG_RBP];
    switch (prologue_at(b, pc)) {
    case PROLOGUE_NOTHING: return try_return_at(w, w->sp, fp);
    case PROLOGUE_PUSHED: return try_pushed(w, w->sp);
    case PROLOGUE_MADE: return b->frame_bytes && try_return_at(w, w->sp + (uintptr_t)b->frame_bytes - 8, fp);
    default: return try_framed(w, b);
    }
}

/* pop rbp; then poll: cmp rsp, [r15 + n], ja; ret */
static bool from_epilogue(struct walk *w, uintptr_t pc)
{
    uint8_t code[3] = {0};
    (void)dvt_jvm_code_read(code, pc, sizeof code);
    if (code[0] == 0x5D)
        return try_pushed(w, w->sp);
    bool is_return = code[0] == 0xC3 || (code[0] == 0x0F && code[1] == 0x87) ||
                     (code[0] == 0x49 && code[1] == 0x3B && (code[2] == 0x67 || code[2] == 0xA7));
    return is_return && try_return_at(w, w->sp, (uintptr_t)w->regs[REG_RBP]);
}

/* Some intrinsics move the stack pointer and keep the frame's below it (C2_MacroAssembler::string_indexof). */
static bool try_saved_sp(struct walk *w, const struct dvt_jvm_blob *b)
{
    uintptr_t sp;
    return b->frame_bytes && load(w, w->sp, &sp) && sp > w->sp && sp - w->sp <= MAX_MOVED_BYTES &&
           try_pushed(w, sp + (uintptr_t)b->frame_bytes - 16);
}

/* Near its entry and its return a compiled method has no frame. */
static bool from_compiled(struct walk *w, const struct dvt_jvm_blob *b, uintptr_t pc)
{
    uintptr_t fp = (uintptr_t)w->regs[REG_RBP];
    bool is_entry = b->frame_complete < 0 || pc < b->code + (uintptr_t)b->frame_complete;
    keep_scopes(w, b, pc, true);
    if ((is_entry && from_prologue(w, b, pc)) || from_epilogue(w, pc) || try_framed(w, b))
        return true;
    return try_return_at(w, w->sp, fp) || try_pushed(w, w->sp) || try_saved_sp(w, b);
}

/* Stubs keep what they need on the stack and seldom more than some words. */
static bool scan(struct walk *w, uintptr_t from, uintptr_t fp)
{
    uintptr_t pc, below;
    int tries = 0;
    for (uintptr_t at = from; at < from + SCAN_WORDS * sizeof pc && tries < SCAN_TRIES && load(w, at, &pc); at += sizeof pc) {
        if (!can_return_to(pc))
            continue;
        tries++;
        if (try_return_at(w, at, fp) || (load(w, at - sizeof pc, &below) && below != fp && try_return_at(w, at, below)))
            return true;
    }
    return false;
}

static bool from_stub(struct walk *w, const struct dvt_jvm_blob *b, uintptr_t pc)
{
    uintptr_t fp = (uintptr_t)w->regs[REG_RBP], entry_fp = w->sp;
    uint64_t blob_name = 0;
    (void)dvt_jvm_code_load(b->at, vm->blob_name, &blob_name);
    uint64_t name = dvt_jvm_names_stub(pc, blob_name);
    if (name)
        dvt_kept_add(&w->kept, name << 1 | 1, -1);
    if (b->frame_complete >= 0 && pc >= b->code + (uintptr_t)b->frame_complete && try_framed(w, b))
        return true;
    if (try_return_at(w, entry_fp, fp) || (fp >= w->sp && try_pushed(w, fp)))
        return true;
    /* An adapter between interpreted and compiled code has popped its return address; r13 is the caller's sp. */
    if (try_caller(w, (uintptr_t)w->regs[REG_RAX], (uintptr_t)w->regs[REG_R13], fp))
        return true;
    return try_framed(w, b) || scan(w, w->sp, fp);
}

/* The code that makes a frame is through: the stack pointer is where the frame says its expressions begin. A native
 * method's frame is never below its own entry code, so one that is there is the present one. */
static bool is_frame_made(const struct walk *w, uintptr_t fp)
{
    uintptr_t bottom, method;
    uint64_t access;
    if (!load(w, fp + (uintptr_t)INTERPRETER_BOTTOM, &bottom) || !load(w, fp + (uintptr_t)INTERPRETER_METHOD, &method))
        return false;
    if (w->sp == fp + (uintptr_t)INTERPRETER_BOTTOM || bottom == w->sp || fp + bottom * sizeof bottom == w->sp)
        return true;
    return method % sizeof method == 0 && dvt_jvm_load(method, vm->method_access, &access) && (access & ACC_NATIVE);
}

/* Entering: rbx is the method, r13 the caller's sp, the return address on the stack, or popped for a moment. */
static bool entering(struct walk *w, uintptr_t fp)
{
    uintptr_t method = (uintptr_t)w->regs[REG_RBX], sender_sp = (uintptr_t)w->regs[REG_R13], pc, caller_fp;
    if (dvt_jvm_names_is_method(vm, method))
        dvt_kept_add(&w->kept, method, 0);
    if (fp >= w->sp && fp - w->sp < (uintptr_t)-INTERPRETER_BOTTOM && load(w, fp, &caller_fp) &&
        load(w, fp + FRAME_RETURN, &pc) && try_caller(w, pc, sender_sp, caller_fp))
        return true;
    if (load(w, w->sp, &pc) && try_caller(w, pc, sender_sp, fp))
        return true;
    if (load(w, w->sp, &caller_fp) && load(w, w->sp + 8, &pc) && try_caller(w, pc, sender_sp, caller_fp))
        return true;
    return try_caller(w, (uintptr_t)w->regs[REG_RAX], sender_sp, fp);
}

/* Leaving, once the frame is gone: pop r13; mov rsp, rbx; jmp r13. */
static bool leaving(struct walk *w, uintptr_t pc)
{
    uint8_t code[3] = {0};
    uintptr_t to = (uintptr_t)w->regs[REG_R13], sender_sp = (uintptr_t)w->regs[REG_RBX];
    (void)dvt_jvm_code_read(code, pc, sizeof code);
    if (code[0] == 0x41 && code[1] == 0x5D && !load(w, w->sp, &to))
        return false;
    bool is_leaving = code[0] == 0x41 ? code[1] == 0x5D || (code[1] == 0xFF && code[2] == 0xE5)
                                      : code[0] == 0x48 && (code[1] == 0x8B || code[1] == 0x89) &&
                                            (code[2] == 0xE3 || code[2] == 0xDC);
    return is_leaving && try_caller(w, to, sender_sp, (uintptr_t)w->regs[REG_RBP]);
}

static bool from_interpreter(struct walk *w, uintptr_t pc)
{
    uintptr_t fp = (uintptr_t)w->regs[REG_RBP];
    struct dvt_jvm_regs r = {pc, w->sp, fp};
    if (leaving(w, pc))
        return true;
    if (dvt_jvm_is_method_entry(pc) && !is_frame_made(w, fp) && entering(w, fp))
        return true;
    w->kept.n = 0;
    if (up_interpreted(w, &r, true) == STEP_OK && climb(w, r))
        return true;
    w->kept.n = 0;
    w->is_cut = false;
    return scan(w, w->sp, fp);
}

static bool from_code(struct walk *w, uintptr_t pc)
{
    struct dvt_jvm_blob b;
    if (!dvt_jvm_blob_find(vm, pc, &b))
        return false;
    if (b.kind == DVT_JVM_INTERPRETER)
        return from_interpreter(w, pc);
    return b.kind == DVT_JVM_NMETHOD ? from_compiled(w, &b, pc) : from_stub(w, &b, pc);
}

/* From C code: by the anchor that was left on the way out of Java, else by frame information. */
static enum step from_native(struct walk *w, struct dvt_jvm_regs *r)
{
    enum step step = from_anchor(w, w->thread + vm->thread_anchor.at, r);
    return step == STEP_END ? up_native(w, r, true) : step;
}

/* C code may have been called by a stub without a frame, which called it from Java's own. */
static bool climb_to(struct walk *w, struct dvt_jvm_regs r)
{
    struct dvt_jvm_blob b;
    if (climb(w, r))
        return true;
    w->kept.n = 0;
    w->is_cut = false;
    return dvt_jvm_blob_find(vm, r.pc, &b) && b.kind == DVT_JVM_STUB && !b.frame_bytes && scan(w, r.sp, r.fp);
}

static int walk_all(struct walk *w, uintptr_t pc)
{
    struct dvt_jvm_regs r = {pc, w->sp, (uintptr_t)w->regs[REG_RBP]};
    if (dvt_jvm_is_code(vm, pc) && from_code(w, pc))
        return 0;
    w->kept.n = 0;
    w->is_cut = false;
    enum step step = dvt_jvm_is_code(vm, pc) ? from_anchor(w, w->thread + vm->thread_anchor.at, &r) : from_native(w, &r);
    if (step == STEP_END)
        return dvt_jvm_is_code(vm, pc) ? -DVT_STACK_WINDOW : -DVT_STACK_NO_THREAD_STATE;
    return step == STEP_OK && climb_to(w, r) ? 0 : -DVT_STACK_WINDOW;
}

static bool find_stack(struct walk *w)
{
    uint64_t base; /* guarded: a thread of the collector's is a smaller object */
    if (!w->thread || !dvt_jvm_load(w->thread, vm->thread_stack_base, &base))
        return false;
    w->stack_end = base;
    return w->sp < w->stack_end && w->stack_end - w->sp <= own(w->thread, vm->thread_stack_size);
}

int dvt_jvm_walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    const ucontext_t *uc = ucontext;
    struct walk w = {.regs = uc->uc_mcontext.gregs, .sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP]};
    w.kept = dvt_kept_in(frames, cap);
    w.thread = (uintptr_t)pthread_getspecific(thread_key);
    *ret_truncated = false;
    if (!find_stack(&w))
        return -DVT_STACK_NO_THREAD_STATE;
    int rc = walk_all(&w, (uintptr_t)w.regs[REG_RIP]);
    if (rc)
        return rc;
    *ret_truncated = w.is_cut || w.kept.n > cap;
    return dvt_kept_end(&w.kept);
}

#else

int dvt_jvm_walker_init(const struct dvt_jvm_vm *v, uintptr_t java_thread, const char **ret_why)
{
    (void)v;
    (void)java_thread;
    *ret_why = "frames of this processor are not known";
    return -1;
}

int dvt_jvm_walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    (void)ucontext;
    (void)frames;
    (void)cap;
    *ret_truncated = false;
    return -DVT_STACK_NO_THREAD_STATE;
}

#endif
