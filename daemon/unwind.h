/*
 * unwind: one step up a stack by a row of DWARF call frame information. Layer 5, internal to symbols. Pure.
 *
 * libdw gives, for an address, how the caller's registers are found; that is compiled once into a row (kept
 * per address by symbols_elf), so that a step of a sample is a few loads. Memory is the sample's copy of the
 * stack and nothing else: what lies outside of it ends the chain.
 *
 * Registers have their DWARF numbers (x86-64 psABI figure 3.36; AArch64 DWARF table 1).
 */
#ifndef UNWIND_H
#define UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include <elfutils/libdw.h>

#if defined(__x86_64__)
enum { UNWIND_REGS = 17, UNWIND_SP = 7, UNWIND_RA = 16 };
#elif defined(__aarch64__)
enum { UNWIND_REGS = 32, UNWIND_SP = 31, UNWIND_RA = 30 };
#else
#error "stack unwinding is written for x86-64 and AArch64"
#endif

struct unwind_regs {
    uint64_t r[UNWIND_REGS];
    uint64_t valid; /* bit i: r[i] is known */
    uint64_t pc;
};

/* From the user registers of a sample, in the order of mask (enum perf_event_x86_regs or
 * perf_event_arm_regs). False if n does not fit the mask, or instruction or stack pointer is missing. */
bool unwind_regs_from_perf(uint64_t mask, const uint64_t *regs, uint32_t n, struct unwind_regs *ret);

struct unwind_stack { /* bytes[0] lay at address base */
    const uint8_t *bytes;
    uint64_t base;
    uint32_t n;
};

enum { UNWIND_MAX_RULES = 20, UNWIND_MAX_OPS = 32 };

enum unwind_rule_kind {
    UNWIND_AT_CFA,     /* saved at CFA + offset */
    UNWIND_CFA_PLUS,   /* is CFA + offset */
    UNWIND_REGISTER,   /* is in register number offset */
    UNWIND_EXPRESSION, /* what ops say */
};

struct unwind_rule {
    uint8_t reg, kind, n_ops;
    int32_t offset;
    const Dwarf_Op *ops; /* live as long as the CFI they came from */
};

struct unwind_row {
    bool valid;   /* false: no call frame information here */
    bool ends;    /* the outermost frame: the return address is undefined */
    bool signal;  /* a signal handler's trampoline: the caller was interrupted, not calling */
    uint8_t n_rules;
    uint8_t cfa_reg, n_cfa_ops; /* n_cfa_ops 0: CFA = cfa_reg + cfa_offset */
    int32_t cfa_offset;
    const Dwarf_Op *cfa_ops;
    uint64_t same; /* bit i: register i is unchanged in the caller; others without rule are unknown there */
    struct unwind_rule rules[UNWIND_MAX_RULES];
};

/* Compiles the row of addr, an address in cfi's own terms. False, and row->valid false, if there is none or
 * it is beyond what a row holds. */
bool unwind_compile(Dwarf_CFI *cfi, Dwarf_Addr addr, struct unwind_row *row);

enum unwind_result {
    UNWIND_OK,   /* regs are the caller's */
    UNWIND_END,  /* that was the outermost frame */
    UNWIND_LOST, /* the caller cannot be known */
};
/* leaf: regs are those of the interrupted instruction itself, where a frame need not have any size yet. */
enum unwind_result unwind_step(const struct unwind_row *row, const struct unwind_stack *stack, bool leaf,
                               struct unwind_regs *regs);

#endif
