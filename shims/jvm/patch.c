/* patch: see patch.h. The class is walked once by a bounded cursor; the copy in `out` is changed in place. */
#include "patch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../proto/err.h"

enum { CONST_UTF8 = 1, CONST_LONG = 5, CONST_DOUBLE = 6, CONST_CLASS = 7, CONST_METHOD = 10, CONST_NAME_AND_TYPE = 12 };
enum { OP_TABLESWITCH = 0xaa, OP_LOOKUPSWITCH = 0xab, OP_INVOKEVIRTUAL = 0xb6, OP_INVOKESTATIC = 0xb8, OP_WIDE = 0xc4, OP_IINC = 0x84 };
enum { HEADER = 10, MAX_CONSTANTS = 65535, NEW_CONSTANTS = 14 };

struct cur { /* of the class; bad once anything did not fit */
    const uint8_t *p;
    size_t at, n;
    bool bad;
};

struct patch {
    struct cur in;
    uint32_t *constants; /* [n_constants] offset of each, 0: none there */
    uint32_t n_constants;
    uint16_t set, remove; /* the Methodrefs to replace, or 0 */
    uint16_t enter, restore, clear; /* and what by */
    const struct dvt_jvm_patch *how;
    uint8_t *out;
    size_t shift; /* bytes of new constants: where an offset behind them lies in `out` */
    int sites;
};

static bool has(struct cur *c, size_t n)
{
    if (c->bad || n > c->n - c->at)
        c->bad = true;
    return !c->bad;
}

static void skip(struct cur *c, size_t n)
{
    if (has(c, n))
        c->at += n;
}

static uint16_t u2(struct cur *c)
{
    if (!has(c, 2))
        return 0;
    const uint8_t *p = c->p + c->at;
    c->at += 2;
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t u4(struct cur *c)
{
    uint32_t high = u2(c);
    return high << 16 | u2(c);
}

/* ---- constants ---- */

/* Bytes of a constant behind its tag; 0: unknown. JVMS table 4.4-A. */
static size_t constant_bytes(uint8_t tag)
{
    static const uint8_t bytes[] = {[3] = 4, [4] = 4, [5] = 8, [6] = 8, [7] = 2, [8] = 2, [9] = 4, [10] = 4,
                                    [11] = 4, [12] = 4, [15] = 3, [16] = 2, [17] = 4, [18] = 4, [19] = 2, [20] = 2};
    return tag < sizeof bytes ? bytes[tag] : 0;
}

static int read_constants(struct patch *p)
{
    struct cur *c = &p->in;
    if (u4(c) != 0xcafebabe)
        return DVT_EFORMAT;
    skip(c, 4);
    p->n_constants = u2(c);
    p->constants = calloc(p->n_constants + 1, sizeof *p->constants);
    if (!p->constants)
        return DVT_ENOMEM;
    for (uint32_t i = 1; i < p->n_constants && has(c, 1); i++) {
        uint8_t tag = c->p[c->at];
        p->constants[i] = (uint32_t)c->at;
        skip(c, 1);
        if (tag != CONST_UTF8 && constant_bytes(tag) == 0)
            return DVT_EFORMAT;
        skip(c, tag == CONST_UTF8 ? u2(c) : constant_bytes(tag));
        i += tag == CONST_LONG || tag == CONST_DOUBLE; /* they count twice */
    }
    return c->bad || p->n_constants > MAX_CONSTANTS - NEW_CONSTANTS ? DVT_EFORMAT : 0;
}

/* The two indices in a constant of this tag; read_constants has checked its length. */
static bool constant_refs(const struct patch *p, uint32_t i, uint8_t tag, uint16_t *ret_a, uint16_t *ret_b)
{
    uint32_t at = i < p->n_constants ? p->constants[i] : 0;
    if (!at || p->in.p[at] != tag)
        return false;
    struct cur c = {p->in.p, at + 1, p->in.n, false};
    *ret_a = u2(&c);
    *ret_b = tag == CONST_CLASS ? 0 : u2(&c);
    return !c.bad;
}

static bool is_text(const struct patch *p, uint32_t i, const char *text)
{
    uint32_t at = i < p->n_constants ? p->constants[i] : 0;
    if (!at || p->in.p[at] != CONST_UTF8)
        return false;
    struct cur c = {p->in.p, at + 1, p->in.n, false};
    size_t n = u2(&c);
    return n == strlen(text) && has(&c, n) && memcmp(c.p + c.at, text, n) == 0;
}

static bool is_method(const struct patch *p, uint32_t i, const char *name, const char *descriptor)
{
    uint16_t class, name_and_type, class_name, method_name, type, unused;
    return constant_refs(p, i, CONST_METHOD, &class, &name_and_type) &&
           constant_refs(p, class, CONST_CLASS, &class_name, &unused) && is_text(p, class_name, "java/lang/ThreadLocal") &&
           constant_refs(p, name_and_type, CONST_NAME_AND_TYPE, &method_name, &type) && is_text(p, method_name, name) &&
           is_text(p, type, descriptor);
}

static void find_calls(struct patch *p)
{
    for (uint32_t i = 1; i < p->n_constants; i++)
        if (is_method(p, i, "set", "(Ljava/lang/Object;)V"))
            p->set = (uint16_t)i;
        else if (is_method(p, i, "remove", "()V"))
            p->remove = (uint16_t)i;
}

/* ---- new constants ---- */

struct writer {
    uint8_t *p;
    uint16_t next; /* index of the next constant */
};

static void put_u2(struct writer *w, unsigned v)
{
    *w->p++ = (uint8_t)(v >> 8);
    *w->p++ = (uint8_t)v;
}

static uint16_t put_text(struct writer *w, const char *text)
{
    size_t n = strlen(text);
    *w->p++ = CONST_UTF8;
    put_u2(w, (unsigned)n);
    memcpy(w->p, text, n);
    w->p += n;
    return w->next++;
}

static uint16_t put_refs(struct writer *w, uint8_t tag, uint16_t a, uint16_t b)
{
    *w->p++ = tag;
    put_u2(w, a);
    if (tag != CONST_CLASS)
        put_u2(w, b);
    return w->next++;
}

static uint16_t put_method(struct writer *w, uint16_t class, const char *name, const char *descriptor)
{
    uint16_t n = put_text(w, name), d = put_text(w, descriptor);
    return put_refs(w, CONST_METHOD, class, put_refs(w, CONST_NAME_AND_TYPE, n, d));
}

/* Copies the class with our constants behind its own. */
static void put_class(struct patch *p)
{
    size_t head = p->in.at;
    struct writer w = {p->out + head, (uint16_t)p->n_constants};
    memcpy(p->out, p->in.p, head);
    uint16_t class = put_refs(&w, CONST_CLASS, put_text(&w, p->how->target), 0);
    p->enter = put_method(&w, class, "enter", "(Ljava/lang/ThreadLocal;Ljava/lang/Object;)V");
    p->restore = put_method(&w, class, "restore", "(Ljava/lang/ThreadLocal;Ljava/lang/Object;)V");
    p->clear = put_method(&w, class, "clear", "(Ljava/lang/ThreadLocal;)V");
    p->shift = (size_t)(w.p - (p->out + head));
    memcpy(w.p, p->in.p + head, p->in.n - head);
    struct writer count = {p->out + HEADER - 2, 0};
    put_u2(&count, w.next);
}

/* ---- code ---- */

/* Bytes of each instruction from 0 to 201; 0: depends on what follows, or none. JVMS 6.5. */
static const uint8_t op_bytes[202] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 2, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3,
    3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 0, 0, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 5, 5, 3, 2, 3, 1, 1, 3, 3, 1, 1, 0, 4, 3, 3,
    5, 5,
};

/* Bytes of a switch whose operands begin, aligned from the code's start, at c->at. */
static uint64_t switch_bytes(struct cur c, uint8_t op, size_t code_at)
{
    size_t from = c.at;
    skip(&c, 1);
    skip(&c, (4 - (c.at - code_at) % 4) % 4 + 4);
    int64_t low = (int32_t)u4(&c);
    if (op == OP_LOOKUPSWITCH)
        return c.bad || low < 0 ? 0 : c.at - from + 8 * (uint64_t)low;
    int64_t high = (int32_t)u4(&c);
    return c.bad || high < low ? 0 : c.at - from + 4 * (uint64_t)(high - low + 1);
}

static uint64_t instruction_bytes(const struct cur *c, size_t code_at)
{
    uint8_t op = c->p[c->at];
    if (op == OP_TABLESWITCH || op == OP_LOOKUPSWITCH)
        return switch_bytes(*c, op, code_at);
    if (op == OP_WIDE)
        return c->at + 1 < c->n && c->p[c->at + 1] == OP_IINC ? 6 : 4;
    return op < sizeof op_bytes ? op_bytes[op] : 0;
}

static void replace(struct patch *p, size_t at, bool enters)
{
    struct cur c = {p->in.p, at + 1, p->in.n, false};
    uint16_t target = u2(&c);
    if (!target || (target != p->set && target != p->remove))
        return;
    struct writer w = {p->out + at + p->shift, 0};
    *w.p++ = OP_INVOKESTATIC;
    put_u2(&w, target == p->remove ? p->clear : enters ? p->enter : p->restore);
    p->sites++;
}

/* The cursor is at the instructions; goes to their end. */
static int patch_code(struct patch *p, uint32_t bytes, bool enters)
{
    struct cur *c = &p->in;
    size_t begin = c->at;
    if (!has(c, bytes))
        return DVT_EFORMAT;
    while (c->at < begin + bytes) {
        uint64_t n = instruction_bytes(c, begin);
        if (n == 0 || n > begin + bytes - c->at)
            return DVT_EFORMAT;
        if (c->p[c->at] == OP_INVOKEVIRTUAL)
            replace(p, c->at, enters);
        c->at += n;
    }
    return 0;
}

static int patch_attribute(struct patch *p, bool enters)
{
    struct cur *c = &p->in;
    bool is_code = is_text(p, u2(c), "Code");
    uint32_t bytes = u4(c);
    size_t end = c->at + bytes;
    if (!has(c, bytes))
        return DVT_EFORMAT;
    if (is_code) {
        skip(c, 4);
        uint32_t n = u4(c);
        if (c->bad || n > end - c->at || patch_code(p, n, enters) != 0)
            return DVT_EFORMAT;
    }
    c->at = end;
    return 0;
}

/* Fields or methods; in fields there is no code. */
static int patch_members(struct patch *p)
{
    struct cur *c = &p->in;
    for (uint32_t n = u2(c); n > 0 && !c->bad; n--) {
        skip(c, 2);
        bool enters = is_text(p, u2(c), p->how->enters);
        skip(c, 2);
        for (uint32_t k = u2(c); k > 0 && !c->bad; k--)
            if (patch_attribute(p, enters) != 0)
                return DVT_EFORMAT;
    }
    return c->bad ? DVT_EFORMAT : 0;
}

static int patch(struct patch *p)
{
    int rc = read_constants(p);
    if (rc != 0)
        return rc;
    find_calls(p);
    if (!p->set && !p->remove)
        return 0;
    put_class(p);
    skip(&p->in, 6);
    skip(&p->in, 2 * (size_t)u2(&p->in));
    rc = patch_members(p);
    return rc == 0 ? patch_members(p) : rc;
}

int dvt_jvm_patch(const uint8_t *class, size_t n, const struct dvt_jvm_patch *how, uint8_t *out, size_t *ret_n)
{
    struct patch p = {.in = {class, 0, n, false}, .how = how, .out = out};
    int rc = strlen(how->target) > DVT_JVM_PATCH_TARGET ? DVT_EINVAL : patch(&p);
    free(p.constants);
    if (rc != 0)
        return rc;
    *ret_n = n + p.shift;
    return p.sites;
}
