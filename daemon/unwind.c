/*
 * unwind: see unwind.h. Rows come from files of profiled processes and stacks from their memory: any value
 * may be wrong, so expressions are bounded in length and depth, loads are checked, and the stack must grow
 * with every step, which also bounds the number of steps.
 */
#include "unwind.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 }; /* of an expression's stack */

#if defined(__x86_64__)
#include <asm/perf_regs.h>

/* perf's register number of each DWARF register; 16 is the return address column and holds the instruction
 * pointer. */
static const uint8_t perf_of_dwarf[UNWIND_REGS] = {
    PERF_REG_X86_AX, PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,  PERF_REG_X86_DI,
    PERF_REG_X86_BP, PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,  PERF_REG_X86_R10, PERF_REG_X86_R11,
    PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15, PERF_REG_X86_IP};
enum { PERF_PC = PERF_REG_X86_IP };
#else
/* PERF_REG_ARM64_X0.. are DWARF's numbers; the program counter follows. */
enum { PERF_PC = 32 };
#endif

static unsigned perf_number(unsigned dwarf)
{
#if defined(__x86_64__)
    return perf_of_dwarf[dwarf];
#else
    return dwarf;
#endif
}

static bool pick(uint64_t mask, const uint64_t *regs, unsigned perf, uint64_t *ret)
{
    if (!(mask >> perf & 1))
        return false;
    *ret = regs[__builtin_popcountll(mask & ((UINT64_C(1) << perf) - 1))];
    return true;
}

bool unwind_regs_from_perf(uint64_t mask, const uint64_t *regs, uint32_t n, struct unwind_regs *ret)
{
    memset(ret, 0, sizeof *ret);
    if (n != (uint32_t)__builtin_popcountll(mask) || !pick(mask, regs, PERF_PC, &ret->pc))
        return false;
    for (unsigned i = 0; i < UNWIND_REGS; i++) {
        if (pick(mask, regs, perf_number(i), &ret->r[i]))
            ret->valid |= UINT64_C(1) << i;
    }
    return ret->valid >> UNWIND_SP & 1;
}

/* Pointer authentication puts a code into the upper bits of a return address; user addresses have 48 bits. */
static uint64_t strip_authentication(uint64_t pc)
{
#if defined(__aarch64__)
    return pc & ((UINT64_C(1) << 48) - 1);
#else
    return pc;
#endif
}

static bool load(const struct unwind_stack *s, uint64_t addr, uint64_t *ret)
{
    uint64_t at = addr - s->base;
    if (addr < s->base || s->n < sizeof *ret || at > s->n - sizeof *ret)
        return false;
    memcpy(ret, s->bytes + at, sizeof *ret);
    return true;
}

static bool reg_value(const struct unwind_regs *regs, uint64_t reg, uint64_t *ret)
{
    if (reg >= UNWIND_REGS || !(regs->valid >> reg & 1))
        return false;
    *ret = regs->r[reg];
    return true;
}

/* Binary operators on the two topmost values; a is the lower one. */
static bool binary(uint8_t atom, uint64_t a, uint64_t b, uint64_t *ret)
{
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (atom) {
    case DW_OP_plus: *ret = a + b; return true;
    case DW_OP_minus: *ret = a - b; return true;
    case DW_OP_mul: *ret = a * b; return true;
    case DW_OP_and: *ret = a & b; return true;
    case DW_OP_or: *ret = a | b; return true;
    case DW_OP_xor: *ret = a ^ b; return true;
    case DW_OP_shl: *ret = b < 64 ? a << b : 0; return true;
    case DW_OP_shr: *ret = b < 64 ? a >> b : 0; return true;
    case DW_OP_eq: *ret = a == b; return true;
    case DW_OP_ne: *ret = a != b; return true;
    case DW_OP_ge: *ret = x >= y; return true;
    case DW_OP_gt: *ret = x > y; return true;
    case DW_OP_le: *ret = x <= y; return true;
    case DW_OP_lt: *ret = x < y; return true;
    default: return false;
    }
}

/* What an operator without operands on the stack pushes. */
static bool constant(const Dwarf_Op *op, uint64_t cfa, const struct unwind_regs *regs, uint64_t *ret)
{
    if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
        *ret = (uint64_t)(op->atom - DW_OP_lit0);
        return true;
    }
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
        bool known = reg_value(regs, (uint64_t)(op->atom - DW_OP_breg0), ret);
        *ret += op->number;
        return known;
    }
    switch (op->atom) {
    case DW_OP_bregx: {
        bool known = reg_value(regs, op->number, ret);
        *ret += op->number2;
        return known;
    }
    case DW_OP_call_frame_cfa: *ret = cfa; return true;
    case DW_OP_const1u: case DW_OP_const2u: case DW_OP_const4u: case DW_OP_const8u: case DW_OP_constu:
    case DW_OP_const1s: case DW_OP_const2s: case DW_OP_const4s: case DW_OP_const8s: case DW_OP_consts:
        *ret = op->number;
        return true;
    default: return false;
    }
}

/* Runs ops; *ret_is_value: the result is the value itself (DW_OP_stack_value), not where it lies. False on
 * anything it does not know: then the register is unknown. */
static bool evaluate(const Dwarf_Op *ops, size_t n, uint64_t cfa, const struct unwind_regs *regs,
                     const struct unwind_stack *stack, uint64_t *ret, bool *ret_is_value)
{
    uint64_t v[MAX_DEPTH];
    size_t depth = 0;
    *ret_is_value = false;
    for (size_t i = 0; i < n && i < UNWIND_MAX_OPS; i++) {
        uint64_t x = 0;
        if (constant(&ops[i], cfa, regs, &x)) {
            if (depth == MAX_DEPTH)
                return false;
            v[depth++] = x;
        } else if (ops[i].atom == DW_OP_nop) {
            continue;
        } else if (!depth) {
            return false;
        } else if (ops[i].atom == DW_OP_deref) {
            if (!load(stack, v[depth - 1], &v[depth - 1]))
                return false;
        } else if (ops[i].atom == DW_OP_plus_uconst) {
            v[depth - 1] += ops[i].number;
        } else if (ops[i].atom == DW_OP_stack_value) {
            *ret_is_value = true;
        } else if (depth > 1 && binary(ops[i].atom, v[depth - 2], v[depth - 1], &x)) {
            v[--depth - 1] = x;
        } else {
            return false;
        }
    }
    if (depth)
        *ret = v[depth - 1];
    return depth > 0;
}

static bool find_cfa(const struct unwind_row *row, const struct unwind_regs *regs,
                     const struct unwind_stack *stack, uint64_t *ret)
{
    bool is_value;
    if (row->n_cfa_ops)
        return evaluate(row->cfa_ops, row->n_cfa_ops, 0, regs, stack, ret, &is_value);
    if (!reg_value(regs, row->cfa_reg, ret))
        return false;
    *ret += (uint64_t)(int64_t)row->cfa_offset;
    return true;
}

static bool apply(const struct unwind_rule *rule, uint64_t cfa, const struct unwind_regs *regs,
                  const struct unwind_stack *stack, uint64_t *ret)
{
    uint64_t at = cfa + (uint64_t)(int64_t)rule->offset;
    bool is_value;
    switch (rule->kind) {
    case UNWIND_AT_CFA: return load(stack, at, ret);
    case UNWIND_CFA_PLUS: *ret = at; return true;
    case UNWIND_REGISTER: return reg_value(regs, (uint64_t)rule->offset, ret);
    default:
        if (!evaluate(rule->ops, rule->n_ops, cfa, regs, stack, &at, &is_value))
            return false;
        *ret = at;
        return is_value || load(stack, at, ret);
    }
}

enum unwind_result unwind_step(const struct unwind_row *row, const struct unwind_stack *stack, bool leaf,
                               struct unwind_regs *regs)
{
    uint64_t cfa, value;
    if (row->valid && row->ends)
        return UNWIND_END;
    if (!row->valid || !find_cfa(row, regs, stack, &cfa))
        return UNWIND_LOST;
    struct unwind_regs caller = *regs;
    caller.valid &= row->same;
    caller.r[UNWIND_SP] = cfa;
    caller.valid |= UINT64_C(1) << UNWIND_SP;
    for (uint32_t i = 0; i < row->n_rules; i++) {
        const struct unwind_rule *rule = &row->rules[i];
        caller.valid &= ~(UINT64_C(1) << rule->reg);
        if (apply(rule, cfa, regs, stack, &value)) {
            caller.r[rule->reg] = value;
            caller.valid |= UINT64_C(1) << rule->reg;
        }
    }
    if (!(caller.valid >> UNWIND_RA & 1) || !(caller.valid >> UNWIND_SP & 1))
        return UNWIND_LOST;
    caller.pc = strip_authentication(caller.r[UNWIND_RA]);
    if (!caller.pc)
        return UNWIND_END;
    bool grows = caller.r[UNWIND_SP] > regs->r[UNWIND_SP];
    bool may_stay = row->signal || (leaf && caller.r[UNWIND_SP] == regs->r[UNWIND_SP]);
    if (!grows && !may_stay)
        return UNWIND_LOST;
    *regs = caller;
    return UNWIND_OK;
}

static bool fits_offset(int64_t offset)
{
    return offset >= INT32_MIN && offset <= INT32_MAX;
}

/* libdw's forms of the plain rules (dwarf_frame_register): CFA, CFA + n, the same with stack_value, and a
 * register. */
static void compile_rule(const Dwarf_Op *ops, size_t n, const Dwarf_Op *ops_mem, struct unwind_rule *rule)
{
    bool plain = ops == ops_mem;
    bool from_cfa = plain && ops[0].atom == DW_OP_call_frame_cfa;
    bool is_value = from_cfa && n > 1 && ops[n - 1].atom == DW_OP_stack_value;
    bool has_offset = from_cfa && n > 1 && ops[1].atom == DW_OP_plus_uconst;
    if (plain && ops[0].atom == DW_OP_regx) {
        rule->kind = UNWIND_REGISTER;
        rule->offset = (int32_t)(ops[0].number & 0xff);
    } else if (from_cfa && fits_offset(has_offset ? (int64_t)ops[1].number : 0)) {
        rule->kind = is_value ? UNWIND_CFA_PLUS : UNWIND_AT_CFA;
        rule->offset = has_offset ? (int32_t)(int64_t)ops[1].number : 0;
    } else {
        rule->kind = UNWIND_EXPRESSION;
        rule->n_ops = (uint8_t)n;
        rule->ops = plain ? NULL : ops;
    }
}

/* False if the row cannot hold what CFI says of reg. */
static bool compile_register(Dwarf_Frame *frame, int reg, struct unwind_row *row)
{
    Dwarf_Op ops_mem[3], *ops = NULL;
    size_t n = 0;
    if (dwarf_frame_register(frame, reg, ops_mem, &ops, &n))
        return false;
    if (!n) {
        if (!ops)
            row->same |= UINT64_C(1) << reg;
        else if (reg == UNWIND_RA)
            row->ends = true;
        return true;
    }
    if (row->n_rules == UNWIND_MAX_RULES || n > UNWIND_MAX_OPS)
        return false;
    struct unwind_rule *rule = &row->rules[row->n_rules++];
    rule->reg = (uint8_t)reg;
    compile_rule(ops, n, ops_mem, rule);
    return rule->kind != UNWIND_EXPRESSION || rule->ops;
}

static bool compile_cfa(Dwarf_Frame *frame, struct unwind_row *row)
{
    Dwarf_Op *ops;
    size_t n = 0;
    if (dwarf_frame_cfa(frame, &ops, &n) || !n || n > UNWIND_MAX_OPS)
        return false;
    if (n == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < UNWIND_REGS &&
        fits_offset((int64_t)ops[0].number2)) {
        row->cfa_reg = (uint8_t)ops[0].number;
        row->cfa_offset = (int32_t)(int64_t)ops[0].number2;
        return true;
    }
    row->n_cfa_ops = (uint8_t)n;
    row->cfa_ops = ops; /* operators belong to the CFI, not to the frame (libdw's expression cache) */
    return ops[0].atom != DW_OP_bregx;
}

bool unwind_compile(Dwarf_CFI *cfi, Dwarf_Addr addr, struct unwind_row *row)
{
    Dwarf_Frame *frame = NULL;
    memset(row, 0, sizeof *row);
    if (!cfi || dwarf_cfi_addrframe(cfi, addr, &frame))
        return false;
    int ra = dwarf_frame_info(frame, NULL, NULL, &row->signal);
    bool ok = ra == UNWIND_RA && compile_cfa(frame, row);
    for (int reg = 0; ok && reg < UNWIND_REGS; reg++)
        ok = compile_register(frame, reg, row);
    free(frame);
    row->valid = ok || (ra == UNWIND_RA && row->ends);
    return row->valid;
}
