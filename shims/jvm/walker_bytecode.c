/*
 * walker_bytecode: whether a method has a loop over one of its places: a jump from there or later back to there or before.
 *
 * Lengths: JVM specification, chapter 6, and for what HotSpot rewrites bytecodes to, its bytecodes.hpp. What is not known ends
 * the scan. The interpreter may rewrite them meanwhile; jumps it leaves alone.
 */
#include "walker.h"

#include "../core/guard.h"

enum {
    WINDOW = 64,
    MAX_BYTES = 8000, /* HotSpot does not compile what is longer (HugeMethodLimit) */
    OP_GOTO = 167,
    OP_JSR = 168,
    OP_TABLESWITCH = 170,
    OP_LOOKUPSWITCH = 171,
    OP_IINC = 132,
    OP_WIDE = 196,
    OP_GOTO_W = 200,
    OP_JSR_W = 201,
    OP_LINEARSWITCH = 228, /* rewritten lookupswitches */
    OP_BINARYSWITCH = 229,
};

/* By opcode, from 0; 0: of no fixed length, or not to be there. */
static const char lengths[] = "1111111111111111" "2323322222111111" "1111111111111111" "1111112222211111" "1111111111111111"
                              "1111111111111111" "1111111111111111" "1111111111111111" "1111311111111111" "1111111113333333"
                              "3333333332001111" "1133333335532311" "3311043355033333" "3333333333331444" "2433002313331210";
_Static_assert(sizeof lengths == 0xF0 + 1, "one for each");

struct bytecodes { /* read through a window: handlers have little stack */
    uintptr_t at;
    uint32_t n, lo, hi; /* window[0, hi - lo) holds bytes lo to hi */
    uint8_t window[WINDOW];
    bool is_bad;
};

static uint8_t byte_at(struct bytecodes *b, uint32_t i)
{
    if (b->is_bad || i >= b->n) {
        b->is_bad = true;
        return 0;
    }
    if (i < b->lo || i >= b->hi) {
        b->lo = i;
        b->hi = b->n - i < WINDOW ? b->n : i + WINDOW;
        b->is_bad = !dvt_guard_read(b->window, b->at + b->lo, b->hi - b->lo);
    }
    return b->is_bad ? 0 : b->window[i - b->lo];
}

static int32_t s2_at(struct bytecodes *b, uint32_t i)
{
    return (int16_t)(byte_at(b, i) << 8 | byte_at(b, i + 1));
}

static int32_t s4_at(struct bytecodes *b, uint32_t i)
{
    return (int32_t)((uint32_t)s2_at(b, i) << 16 | ((uint32_t)s2_at(b, i + 2) & 0xFFFF));
}

static bool is_switch(uint8_t op)
{
    return op == OP_TABLESWITCH || op == OP_LOOKUPSWITCH || op == OP_LINEARSWITCH || op == OP_BINARYSWITCH;
}

/* Bytes of the instruction at bci, and how far back it can jump. */
static uint32_t measure_switch(struct bytecodes *b, uint32_t bci, uint8_t op, int32_t *ret_back)
{
    bool is_table = op == OP_TABLESWITCH;
    uint32_t at = (bci + 4) & ~UINT32_C(3), entries = at + (is_table ? 12 : 8), stride = is_table ? 4 : 8;
    int64_t n = is_table ? (int64_t)s4_at(b, at + 8) - s4_at(b, at + 4) + 1 : s4_at(b, at + 4);
    *ret_back = s4_at(b, at);
    b->is_bad |= n < 0 || n > b->n / stride;
    for (uint32_t i = 0; !b->is_bad && i < n; i++) {
        int32_t to = s4_at(b, entries + i * stride + (is_table ? 0 : 4));
        *ret_back = to < *ret_back ? to : *ret_back;
    }
    return b->is_bad ? 0 : entries + (uint32_t)n * stride - bci;
}

static uint32_t measure(struct bytecodes *b, uint32_t bci, int32_t *ret_back)
{
    uint8_t op = byte_at(b, bci);
    bool is_if = (op >= 153 && op <= OP_JSR) || op == 198 || op == 199;
    *ret_back = is_if ? s2_at(b, bci + 1) : op == OP_GOTO_W || op == OP_JSR_W ? s4_at(b, bci + 1) : 0;
    if (is_switch(op))
        return measure_switch(b, bci, op, ret_back);
    if (op == OP_WIDE)
        return byte_at(b, bci + 1) == OP_IINC ? 6 : 4;
    return op < sizeof lengths - 1 ? (uint32_t)(lengths[op] - '0') : 0;
}

bool dvt_jvm_loops_over(uintptr_t code, uint32_t n, uint32_t bci)
{
    struct bytecodes b = {.at = code, .n = n};
    bool is_met = false, loops = n > MAX_BYTES;
    for (uint32_t at = 0; at < n && !loops;) {
        int32_t back;
        uint32_t bytes = measure(&b, at, &back);
        is_met |= at == bci;
        if (b.is_bad || bytes == 0 || bytes > n - at)
            return true;
        loops = at >= bci && (int64_t)at + back <= (int64_t)bci && back < 0;
        at += bytes;
    }
    return loops || !is_met;
}

bool dvt_jvm_method_loops_over(const struct dvt_jvm_vm *vm, uintptr_t method, int32_t bci)
{
    uint64_t constant, n;
    if (bci < 0 || !dvt_jvm_load(method, vm->method_const, &constant) || !dvt_jvm_load(constant, vm->const_code_size, &n))
        return true;
    return dvt_jvm_loops_over(constant + vm->const_method_bytes, (uint32_t)n, (uint32_t)bci);
}
