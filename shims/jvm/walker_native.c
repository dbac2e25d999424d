/*
 * walker_native: up C frames by the .eh_frame of the file that the code is in (Linux Standard Base, 10.6; DWARF 5, 6.4).
 *
 * For code that Java calls without leaving a frame anchor (clock, barriers of a collector, arithmetic): libjvm and the C
 * library have no frame pointers. The files are those loaded when the walker began. Only what finds the stack pointer,
 * the return address and rbp is followed; a rule beyond that loses the stack.
 */
#include "walker.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum {
    MAX_FILES = 128,
    MAX_STATES = 8,
    RED_ZONE = 128, /* what was popped lies there, and rules go on naming it; signal frames leave it alone (psABI 3.2.2) */
    REG_RBP = 6,
    REG_RSP = 7,
    REG_RA = 16,
    HDR_TABLE_AT = 12,
    HDR_ENCODINGS = 0x3B031B01, /* version 1; .eh_frame pc-relative, count udata4, table relative to the header, sdata4 */
};

struct file {
    uintptr_t lo, hi, header; /* of .eh_frame_hdr */
    const char *name;
};
static struct file files[MAX_FILES];
static int n_files;

static int note_file(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct file f = {.name = info->dlpi_name};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            f.lo = f.lo ? f.lo : at;
            f.hi = at + p->p_memsz;
        } else if (p->p_type == PT_GNU_EH_FRAME) {
            f.header = at;
        }
    }
    if (f.lo && f.header && n_files < MAX_FILES)
        files[n_files++] = f;
    return 0;
}

/* The program and the kernel's page cannot be unloaded, the others not from now on: so their frame information is loaded
 * without the guard. */
static bool stays(const struct file *f)
{
    if (!f->name || !f->name[0] || strncmp(f->name, "linux-vdso", 10) == 0)
        return true;
    void *h = dlopen(f->name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (h)
        dlclose(h);
    return h != NULL;
}

void dvt_jvm_native_init(void)
{
    int n = 0;
    n_files = 0;
    dl_iterate_phdr(note_file, NULL);
    for (int i = 0; i < n_files; i++)
        if (stays(&files[i]))
            files[n++] = files[i];
    n_files = n;
}

/* ---- reading ---- */

struct cursor {
    uintptr_t at, end;
    bool is_bad;
};

static uint8_t get_u1(struct cursor *c)
{
    if (c->is_bad || c->at >= c->end) {
        c->is_bad = true;
        return 0;
    }
    return *(const uint8_t *)c->at++;
}

static uint64_t get(struct cursor *c, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)get_u1(c) << (8 * i);
    return v;
}

static uint64_t get_uleb(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = get_u1(c);
        v |= (uint64_t)(b & 0x7F) << shift;
        if (!(b & 0x80))
            return v;
    }
    c->is_bad = true;
    return 0;
}

static int64_t get_sleb(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint8_t b = get_u1(c);
        v |= (uint64_t)(b & 0x7F) << shift;
        shift += 7;
        if (!(b & 0x80))
            return shift < 64 && (b & 0x40) ? (int64_t)(v | ~UINT64_C(0) << shift) : (int64_t)v;
    }
    c->is_bad = true;
    return 0;
}

/* ---- rules ---- */

struct rules {
    uint64_t cfa_reg;
    int64_t cfa_offset;
    int64_t rbp_offset; /* from the CFA, if rbp_saved */
    bool rbp_saved, rbp_lost, cfa_lost, is_outermost;
};

struct program {
    struct rules now, initial, states[MAX_STATES];
    unsigned n_states;
    uint64_t code_align;
    int64_t data_align;
    uintptr_t loc, pc;
};

static void set_offset(struct program *p, uint64_t reg, int64_t factored)
{
    if (reg != REG_RBP)
        return;
    p->now.rbp_saved = true;
    p->now.rbp_lost = false;
    p->now.rbp_offset = factored * p->data_align;
}

static void set_lost(struct program *p, uint64_t reg)
{
    p->now.rbp_lost |= reg == REG_RBP;
    p->now.cfa_lost |= reg == REG_RA || reg == REG_RSP;
}

static void restore(struct program *p, uint64_t reg)
{
    if (reg != REG_RBP)
        return;
    p->now.rbp_saved = p->initial.rbp_saved;
    p->now.rbp_lost = p->initial.rbp_lost;
    p->now.rbp_offset = p->initial.rbp_offset;
}

static void skip_block(struct cursor *c)
{
    uint64_t n = get_uleb(c);
    if (n > c->end - c->at)
        c->is_bad = true;
    else
        c->at += n;
}

/* The one expression that linkers write, for stubs of the procedure linkage table: they push once, at their byte 11
 * (10 with branch tracking): rsp + 8 + ((rip & 15) >= 11) * 8. */
static void cfa_expression(struct program *p, struct cursor *c)
{
    static const uint8_t plt[] = {0x77, 0x08, 0x80, 0x00, 0x3F, 0x1A, 0, 0x2A, 0x33, 0x24, 0x22};
    uint64_t n = get_uleb(c);
    uint8_t is_pushed_at = 0;
    bool is_plt = n == sizeof plt;
    for (uint64_t i = 0; i < n && !c->is_bad; i++) {
        uint8_t b = get_u1(c);
        if (i == 6)
            is_pushed_at = (uint8_t)(b - 0x30); /* DW_OP_lit0 + n */
        else if (is_plt)
            is_plt = b == plt[i];
    }
    p->now.cfa_lost = !is_plt;
    p->now.cfa_reg = REG_RSP;
    p->now.cfa_offset = (p->pc & 15) >= is_pushed_at ? 16 : 8;
}

/* Instructions whose number is not in the low six bits of an opcode. */
static void extended(struct program *p, struct cursor *c, uint8_t op)
{
    uint64_t reg;
    switch (op) {
    case 0x00: break;                                              /* nop */
    case 0x01: p->loc = get(c, 8); break;                          /* set_loc */
    case 0x02: p->loc += get(c, 1) * p->code_align; break;         /* advance_loc1 */
    case 0x03: p->loc += get(c, 2) * p->code_align; break;
    case 0x04: p->loc += get(c, 4) * p->code_align; break;
    case 0x05: reg = get_uleb(c); set_offset(p, reg, (int64_t)get_uleb(c)); break; /* offset_extended */
    case 0x11: reg = get_uleb(c); set_offset(p, reg, get_sleb(c)); break;
    case 0x06: restore(p, get_uleb(c)); break;
    case 0x07: reg = get_uleb(c); p->now.is_outermost |= reg == REG_RA; p->now.rbp_lost |= reg == REG_RBP; break;
    case 0x08: reg = get_uleb(c); p->now.rbp_saved &= reg != REG_RBP; break;       /* same_value */
    case 0x09: reg = get_uleb(c); get_uleb(c); set_lost(p, reg); break;            /* register */
    case 0x0A:                                                                     /* remember_state */
        if (p->n_states == MAX_STATES)
            c->is_bad = true;
        else
            p->states[p->n_states++] = p->now;
        break;
    case 0x0B:
        if (p->n_states == 0)
            c->is_bad = true;
        else
            p->now = p->states[--p->n_states];
        break;
    case 0x0C: p->now.cfa_reg = get_uleb(c); p->now.cfa_offset = (int64_t)get_uleb(c); p->now.cfa_lost = false; break;
    case 0x12: p->now.cfa_reg = get_uleb(c); p->now.cfa_offset = get_sleb(c) * p->data_align; p->now.cfa_lost = false; break;
    case 0x0D: p->now.cfa_reg = get_uleb(c); break;
    case 0x0E: p->now.cfa_offset = (int64_t)get_uleb(c); break;
    case 0x13: p->now.cfa_offset = get_sleb(c) * p->data_align; break;
    case 0x0F: cfa_expression(p, c); break;
    case 0x10: case 0x16: reg = get_uleb(c); skip_block(c); set_lost(p, reg); break;
    case 0x14: reg = get_uleb(c); get_uleb(c); set_lost(p, reg); break;            /* val_offset */
    case 0x15: reg = get_uleb(c); get_sleb(c); set_lost(p, reg); break;
    case 0x2E: get_uleb(c); break;                                                 /* GNU_args_size */
    default: c->is_bad = true;
    }
}

/* Runs instructions until they speak of what lies beyond pc. */
static bool run(struct program *p, struct cursor *c)
{
    while (c->at < c->end && !c->is_bad) {
        uint8_t op = get_u1(c);
        if ((op & 0xC0) == 0x40)
            p->loc += (op & 0x3F) * p->code_align;
        else if ((op & 0xC0) == 0x80)
            set_offset(p, op & 0x3F, (int64_t)get_uleb(c));
        else if ((op & 0xC0) == 0xC0)
            restore(p, op & 0x3F);
        else
            extended(p, c, op);
        if (p->loc > p->pc)
            return !c->is_bad; /* the state before the advance holds: nothing was changed with it */
    }
    return !c->is_bad;
}

/* ---- entries ---- */

/* A CIE or FDE's body; false for the 64-bit form, which no linker makes here. */
static bool open_entry(uintptr_t at, struct cursor *c)
{
    *c = (struct cursor){.at = at, .end = at + 4};
    uint64_t n = get(c, 4);
    if (c->is_bad || n == 0 || n >= 0xFFFFFFF0u)
        return false;
    *c = (struct cursor){.at = at + 4, .end = at + 4 + n};
    return true;
}

/* Version 1 or 3 with the augmentation "zR", "zPLR" and the like; pointers pc-relative sdata4 (0x1B). */
static bool open_cie(uintptr_t at, struct cursor *c, struct program *p)
{
    if (!open_entry(at, c) || get(c, 4) != 0)
        return false;
    uint64_t version = get(c, 1);
    char augmentation[8];
    size_t n = 0;
    while (n < sizeof augmentation && (augmentation[n] = (char)get_u1(c)))
        n++;
    if ((version != 1 && version != 3) || n == sizeof augmentation || augmentation[0] != 'z')
        return false;
    p->code_align = get_uleb(c);
    p->data_align = get_sleb(c);
    if (version == 1)
        get(c, 1); /* return address register */
    else
        get_uleb(c);
    uint64_t skip = get_uleb(c);
    c->at += skip < c->end - c->at ? skip : c->end - c->at;
    return !c->is_bad && !strchr(augmentation, 'S');
}

static bool find_rules(uintptr_t fde, uintptr_t pc, struct rules *ret)
{
    struct cursor c, cie;
    struct program p = {.pc = pc};
    if (!open_entry(fde, &c))
        return false;
    uintptr_t at = c.at;
    uint64_t back = get(&c, 4);
    if (c.is_bad || !open_cie(at - back, &cie, &p))
        return false;
    at = c.at;
    p.loc = at + (uintptr_t)(int64_t)(int32_t)get(&c, 4);
    uint64_t length = get(&c, 4);
    if (c.is_bad || pc < p.loc || pc - p.loc >= length)
        return false;
    skip_block(&c); /* augmentation */
    uintptr_t begin = p.loc;
    if (!run(&p, &cie))
        return false;
    p.initial = p.now;
    p.loc = begin;
    if (!run(&p, &c))
        return false;
    *ret = p.now;
    return true;
}

/* The header's table: pairs of (first address, FDE), sorted, both relative to the header. */
static uintptr_t find_fde(const struct file *f, uintptr_t pc)
{
    uint32_t head[3];
    int32_t row[2];
    memcpy(head, (const void *)f->header, sizeof head);
    if (head[0] != HDR_ENCODINGS)
        return 0;
    uint64_t lo = 0, hi = head[2];
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        memcpy(row, (const void *)(f->header + HDR_TABLE_AT + 8 * mid), sizeof row);
        if (f->header + (uintptr_t)(int64_t)row[0] <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return 0;
    memcpy(row, (const void *)(f->header + HDR_TABLE_AT + 8 * (lo - 1)), sizeof row);
    return f->header + (uintptr_t)(int64_t)row[1];
}

static const struct file *file_of(uintptr_t pc)
{
    for (int i = 0; i < n_files; i++)
        if (pc >= files[i].lo && pc < files[i].hi)
            return &files[i];
    return NULL;
}

/* ---- a step ---- */

static bool load_word(uintptr_t at, uintptr_t lo, uintptr_t hi, uintptr_t *ret)
{
    if (at < lo || at >= hi || hi - at < sizeof *ret)
        return false;
    memcpy(ret, (const void *)at, sizeof *ret);
    return true;
}

enum dvt_jvm_native_step dvt_jvm_native_up(struct dvt_jvm_regs *regs, bool is_leaf, uintptr_t stack_end)
{
    uintptr_t pc = is_leaf ? regs->pc : regs->pc - 1, sp = regs->sp, fde;
    const struct file *f = file_of(pc);
    struct rules r;
    if (!f || !(fde = find_fde(f, pc)) || !find_rules(fde, pc, &r))
        return DVT_JVM_NATIVE_LOST;
    if (r.is_outermost)
        return DVT_JVM_NATIVE_END;
    if (r.cfa_lost || (r.cfa_reg != REG_RSP && r.cfa_reg != REG_RBP))
        return DVT_JVM_NATIVE_LOST;
    uintptr_t cfa = (r.cfa_reg == REG_RSP ? sp : regs->fp) + (uintptr_t)r.cfa_offset;
    if (cfa <= sp || !load_word(cfa - 8, sp, stack_end, &regs->pc) ||
        (r.rbp_saved && !load_word(cfa + (uintptr_t)r.rbp_offset, sp - RED_ZONE, stack_end, &regs->fp)))
        return DVT_JVM_NATIVE_LOST;
    if (r.rbp_lost)
        regs->fp = 0;
    regs->sp = cfa;
    return regs->pc ? DVT_JVM_NATIVE_OK : DVT_JVM_NATIVE_END;
}
