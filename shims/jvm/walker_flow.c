/*
 * walker_flow: whether compiled code that runs at one place comes to another, by the lengths and jumps of its instructions.
 *
 * HotSpot describes places by where their instructions end and says nothing of where they begin: what no description is meant
 * for (the common way out of a method, ways into loops) lies in front of the next one, which may be another branch's inlined
 * method. Only where control can flow from a place into the description's last instruction is it the place's.
 *
 * Lengths: Intel SDM volume 2, 2.1 to 2.3 and appendix A, of what compilers emit; what is not known ends the search.
 */
#include "walker.h"

#include <string.h>

enum {
    MAX_GAP_BYTES = 4096,
    MAX_CODE_BYTES = 1 << 15, /* some 80 us, once a place */
    MAX_PENDING = 64, /* jumps of one search that are still to be followed */
    MAX_PREFIXES = 6,
    MAX_WAY_OUT = 6,
    MAX_STRAIGHT = 64, /* instructions to an indirect jump */
    REX_W = 8,
};

enum flow { FLOW_NEXT, FLOW_JUMP, FLOW_BRANCH, FLOW_INDIRECT, FLOW_END }; /* indirect: by a table or a register */

struct insn {
    size_t bytes;
    enum flow flow;
    int64_t to; /* of a jump: from the instruction's end */
};

struct bytes {
    const uint8_t *p;
    size_t at, n;
    bool is_bad;
};

static uint8_t take(struct bytes *b)
{
    if (b->at >= b->n) {
        b->is_bad = true;
        return 0;
    }
    return b->p[b->at++];
}

static void skip(struct bytes *b, size_t n)
{
    if (n > b->n - b->at)
        b->is_bad = true;
    else
        b->at += n;
}

/* One bit for each opcode, 16 to a row. */
static bool is_in(const uint16_t rows[16], uint8_t op)
{
    return rows[op >> 4] >> (op & 15) & 1;
}

static uint8_t take_modrm(struct bytes *b)
{
    uint8_t m = take(b), mod = m >> 6, rm = m & 7;
    bool has_wide = mod == 2 || (mod == 0 && rm == 5);
    if (mod != 3 && rm == 4)
        has_wide |= (take(b) & 7) == 5 && mod == 0;
    skip(b, mod == 1 ? 1 : has_wide ? 4 : 0);
    return m;
}

static int64_t take_relative(struct bytes *b, size_t n)
{
    int32_t v = 0;
    int8_t low = 0;
    size_t at = b->at;
    skip(b, n);
    if (b->is_bad)
        return 0;
    memcpy(&v, b->p + at, n);
    memcpy(&low, b->p + at, 1);
    return n == 1 ? low : v;
}

/* ---- opcodes ---- */

static void take_one_byte(struct bytes *b, uint8_t op, bool is_16, bool is_64, struct insn *i)
{
    static const uint16_t modrm[16] = {0x0F0F, 0x0F0F, 0x0F0F, 0x0F0F, 0, 0, 0x0A08, 0,
                                       0xFFFF, 0, 0, 0, 0x00C3, 0xFF0F, 0, 0xC0C0};
    static const uint16_t imm8[16] = {0x1010, 0x1010, 0x1010, 0x1010, 0, 0, 0x0C00, 0,
                                      0x000D, 0, 0x0100, 0x00FF, 0x2043, 0, 0x00F0, 0};
    static const uint16_t imm[16] = {0x2020, 0x2020, 0x2020, 0x2020, 0, 0, 0x0300, 0,
                                     0x0002, 0, 0x0200, 0xFF00, 0x0080, 0, 0, 0};
    static const uint16_t none[16] = {0xC0C0, 0xC0C0, 0x8080, 0x8080, 0xFFFF, 0, 0x00F7, 0,
                                      0, 0x0400, 0x000F, 0, 0xCD30, 0x0070, 0x0400, 0x000F};
    uint8_t m = is_in(modrm, op) ? take_modrm(b) : 0;
    bool is_test = (op == 0xF6 || op == 0xF7) && (m >> 3 & 7) < 2;
    skip(b, is_in(imm8, op) || (is_test && op == 0xF6) ? 1 : 0);
    if (is_in(imm, op) || (is_test && op == 0xF7))
        skip(b, op >= 0xB8 && op <= 0xBF && is_64 ? 8 : is_16 ? 2 : 4);
    if (op >> 4 == 7 || (op >= 0xE0 && op <= 0xE3)) {
        i->flow = FLOW_BRANCH;
        i->to = take_relative(b, 1);
    } else if (op == 0xEB || op == 0xE9) {
        i->flow = FLOW_JUMP;
        i->to = take_relative(b, op == 0xEB ? 1 : 4);
    } else if (op == 0xE8) {
        skip(b, 4);
    } else if (op == 0xC2) {
        skip(b, 2);
    }
    if (op == 0xFF && (m >> 3 & 6) == 4)
        i->flow = FLOW_INDIRECT;
    else if (op == 0xC2 || op == 0xC3 || op == 0xCC || op == 0xF4)
        i->flow = FLOW_END;
    b->is_bad |= is_in(none, op);
}

/* Of the maps 0F, 0F38 and 0F3A, and those of vector prefixes. */
static void take_opcode(struct bytes *b, unsigned map, bool is_vector, struct insn *i)
{
    static const uint16_t bare[16] = {0x4BE0, 0, 0, 0x00FF, 0, 0, 0, 0x0080, 0xFFFF, 0, 0x0707, 0, 0xFF00, 0, 0, 0};
    static const uint16_t imm8[16] = {0, 0, 0, 0, 0, 0, 0, 0x000F, 0, 0, 0x1010, 0x0400, 0x0074, 0, 0, 0};
    uint8_t op = take(b);
    bool is_bare = map == 1 && (is_vector ? op == 0x77 : is_in(bare, op));
    if (!is_bare)
        (void)take_modrm(b);
    if (map == 3 || (map == 1 && is_in(imm8, op)))
        skip(b, 1);
    if (map != 1 || is_vector)
        return;
    if (op >> 4 == 8) {
        i->flow = FLOW_BRANCH;
        i->to = take_relative(b, 4);
    } else if (op == 0x0B) {
        i->flow = FLOW_END;
    }
}

static void take_vector(struct bytes *b, uint8_t op, struct insn *i)
{
    uint8_t first = take(b);
    skip(b, op == 0xC5 ? 0 : op == 0xC4 ? 1 : 2);
    take_opcode(b, op == 0xC5 ? 1 : first & (op == 0xC4 ? 0x1F : 7), true, i);
}

static bool is_prefix(uint8_t b)
{
    return b == 0x66 || b == 0xF2 || b == 0xF3 || b == 0xF0 || b == 0x2E || b == 0x3E || b == 0x26 || b == 0x36 || b == 0x64 ||
           b == 0x65;
}

/* The instruction at p[0, n); false if it is not known or does not end there. */
static bool decode(const uint8_t *p, size_t n, struct insn *ret)
{
    struct bytes b = {.p = p, .n = n};
    bool is_16 = false;
    uint8_t op = take(&b), rex = 0;
    *ret = (struct insn){.flow = FLOW_NEXT};
    for (int i = 0; i < MAX_PREFIXES && is_prefix(op); i++, op = take(&b))
        is_16 |= op == 0x66;
    if (op >> 4 == 4) {
        rex = op;
        op = take(&b);
    }
    if (op == 0xC4 || op == 0xC5 || op == 0x62) {
        take_vector(&b, op, ret);
    } else if (op == 0x0F && b.at < n && (p[b.at] == 0x38 || p[b.at] == 0x3A)) {
        take_opcode(&b, take(&b) == 0x38 ? 2 : 3, false, ret);
    } else if (op == 0x0F) {
        take_opcode(&b, 1, false, ret);
    } else {
        take_one_byte(&b, op, is_16, rex & REX_W, ret);
    }
    ret->bytes = b.at;
    return !b.is_bad;
}

size_t dvt_jvm_insn_bytes(const uint8_t *p, size_t n)
{
    struct insn i;
    return decode(p, n, &i) ? i.bytes : 0;
}

/* ---- flow ---- */

struct search {
    const uint8_t *code; /* [n] */
    size_t n, n_pending;
    uint64_t seen[MAX_GAP_BYTES / 64];
    uint16_t pending[MAX_PENDING];
};

static bool is_new(struct search *s, size_t at)
{
    uint64_t bit = UINT64_C(1) << (at & 63);
    bool was = s->seen[at / 64] & bit;
    s->seen[at / 64] |= bit;
    return !was;
}

/* Along one line of instructions; jumps off it are noted. True if it gets to the end. */
static bool follow(struct search *s, size_t at)
{
    while (at < s->n && is_new(s, at)) {
        struct insn i;
        if (!decode(s->code + at, s->n - at, &i))
            return false;
        at += i.bytes;
        if (at == s->n || i.flow >= FLOW_INDIRECT)
            return at == s->n;
        int64_t to = (int64_t)at + i.to;
        bool is_inside = to >= 0 && to < (int64_t)s->n;
        if (i.flow == FLOW_BRANCH && is_inside && s->n_pending < MAX_PENDING)
            s->pending[s->n_pending++] = (uint16_t)to;
        if (i.flow == FLOW_JUMP)
            at = is_inside ? (size_t)to : s->n;
    }
    return false;
}

bool dvt_jvm_flows_to_end(const uint8_t *code, size_t n, size_t at)
{
    struct search s = {.code = code, .n = n};
    if (n > MAX_GAP_BYTES || at >= n)
        return false;
    bool is_there = follow(&s, at);
    while (!is_there && s.n_pending)
        is_there = follow(&s, s.pending[--s.n_pending]);
    return is_there;
}

bool dvt_jvm_is_only_fallen_into(const uint8_t *code, size_t n, size_t to)
{
    struct insn i;
    bool is_fallen_into = false;
    for (size_t at = 0; at < n; at += i.bytes) {
        if (n > MAX_CODE_BYTES || !decode(code + at, n - at, &i))
            return false;
        size_t next = at + i.bytes;
        is_fallen_into |= next == to && (i.flow == FLOW_NEXT || i.flow == FLOW_BRANCH);
        if ((i.flow == FLOW_BRANCH || i.flow == FLOW_JUMP) && (int64_t)next + i.to == (int64_t)to)
            return false;
    }
    return is_fallen_into;
}

size_t dvt_jvm_next_indirect_jump(const uint8_t *code, size_t n, size_t at)
{
    struct insn i;
    for (int k = 0; k < MAX_STRAIGHT && at < n && decode(code + at, n - at, &i); k++) {
        at += i.bytes;
        if (i.flow == FLOW_INDIRECT)
            return at;
        if (i.flow == FLOW_END || i.flow == FLOW_JUMP)
            break;
    }
    return 0;
}

/* Where the first branch behind code[from] ends, if what runs at code[at] comes before it; else 0. */
static size_t first_branch(const uint8_t *code, size_t n, size_t from, size_t at)
{
    struct insn i;
    bool is_met = false;
    for (int k = 0; k < MAX_STRAIGHT && from < n && decode(code + from, n - from, &i); k++) {
        is_met |= from == at;
        from += i.bytes;
        if (i.flow != FLOW_NEXT)
            return is_met && i.flow == FLOW_BRANCH ? from : 0;
    }
    return 0;
}

size_t dvt_jvm_entry_branch(const uint8_t *code, size_t n, size_t from, size_t at)
{
    size_t end = n > MAX_CODE_BYTES ? 0 : first_branch(code, n, from, at);
    struct insn i;
    for (size_t k = from; end && k < n; k += i.bytes) {
        if (!decode(code + k, n - k, &i))
            return 0;
        int64_t to = (int64_t)(k + i.bytes) + i.to;
        if ((i.flow == FLOW_BRANCH || i.flow == FLOW_JUMP) && to > (int64_t)from && to < (int64_t)end)
            return 0;
    }
    return end;
}

/* add rsp, n; pop rbp; cmp rsp, [r15 + n]; ja; vzeroupper */
static bool is_leaving(const uint8_t *p, size_t n)
{
    return p[0] == 0x5D || (n > 3 && p[0] == 0x48 && (p[1] == 0x83 || p[1] == 0x81) && p[2] == 0xC4) ||
           (n > 3 && p[0] == 0x49 && p[1] == 0x3B && (p[2] == 0x67 || p[2] == 0xA7)) ||
           (n == 6 && p[0] == 0x0F && p[1] == 0x87) || (n == 3 && p[0] == 0xC5 && p[1] == 0xF8 && p[2] == 0x77);
}

bool dvt_jvm_is_way_out(const uint8_t *code, size_t n, size_t at)
{
    for (int k = 0; k < MAX_WAY_OUT && at < n; k++) {
        if (code[at] == 0xC3)
            return true;
        size_t bytes = dvt_jvm_insn_bytes(code + at, n - at);
        if (!bytes || !is_leaving(code + at, bytes))
            return false;
        at += bytes;
    }
    return false;
}
