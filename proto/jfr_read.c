/*
 * jfr_read: strings, header, metadata tree, plans. See jfr_read.h.
 *
 * The metadata tree is walked without building it: "class" elements open a type, "field" elements within it
 * are its fields, everything else (annotations, settings, regions) is passed over. Its depth is bounded.
 */
#include "jfr_read.h"

#include <stdlib.h>
#include "jfr_write.h"

/* ---- strings ---- */

static bool is_utf8(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c = p[i], more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xc2) || c > 0xf4 || more >= n - i)
            return false;
        uint32_t code = more ? c & (0x3fu >> more) : c;
        for (uint32_t k = 1; k <= more; k++) {
            if ((p[i + k] & 0xc0) != 0x80)
                return false;
            code = code << 6 | (p[i + k] & 0x3f);
        }
        bool is_long = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (is_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (code >= 0x80 && code < 0xa0))
            return false;
        i += more + 1;
    }
    return true;
}

struct dvt_str dvt_jfr_get_string(struct jfr_r *r)
{
    uint8_t encoding = jfr_get_byte(r);
    struct dvt_str s = {"", 0};
    if (encoding <= 1)
        return s;
    uint64_t n = encoding == 3 ? jfr_get(r) : UINT64_MAX;
    if (r->bad || n > (uint64_t)(r->end - r->p) || !is_utf8(r->p, (size_t)n)) {
        jfr_fail(r);
        return s;
    }
    s = (struct dvt_str){(const char *)r->p, (size_t)n};
    r->p += n;
    return s;
}

/* ---- header ---- */

static uint64_t be(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

int dvt_jfr_get_head(const uint8_t *p, size_t n, struct jfr_head *ret)
{
    if (n < JFR_HEADER_BYTES || memcmp(p, "FLR", 4) != 0 || be(p + 4, 2) != 2)
        return DVT_EFORMAT;
    struct jfr_head h = {.bytes = be(p + 8, 8), .checkpoint = be(p + 16, 8), .metadata = be(p + 24, 8)};
    bool is_finished = p[64] == 0 && (p[67] & 1);
    bool is_inside = h.bytes > JFR_HEADER_BYTES && h.bytes <= INT32_MAX && h.checkpoint >= JFR_HEADER_BYTES &&
                     h.checkpoint < h.bytes && h.metadata >= JFR_HEADER_BYTES && h.metadata < h.bytes;
    if (!is_finished || !is_inside || be(p + 56, 8) != 1000000000)
        return DVT_EFORMAT;
    *ret = h;
    return 0;
}

/* ---- metadata ---- */

enum { MAX_DEPTH = 8, MAX_ATTRIBUTES = 16 };

/* What a name or key may be. */
enum word { W_OTHER, W_CLASS, W_FIELD, W_NAME, W_ID, W_CONSTANT_POOL, W_DIMENSION };

struct tree {
    struct jfr_r r;
    struct jfr_meta *m;
    struct dvt_str *strings;
    uint8_t *words; /* enum word of each string: told once, not at each use */
    uint64_t n_strings;
    uint32_t type;         /* of the class element we are in, 0 none */
    bool is_out_of_memory;
};

static bool is(struct dvt_str s, const char *z)
{
    return s.n > 0 && s.p[0] == z[0] && dvt_str_eq(s, dvt_str(z));
}

static struct dvt_str string_at(struct tree *t)
{
    uint64_t i = jfr_get(&t->r);
    if (i < t->n_strings)
        return t->strings[i];
    jfr_fail(&t->r);
    return dvt_str("");
}

static enum word word_at(struct tree *t)
{
    uint64_t i = jfr_get(&t->r);
    if (i < t->n_strings)
        return t->words[i];
    jfr_fail(&t->r);
    return W_OTHER;
}

static uint8_t word_of(struct dvt_str s)
{
    static const char *const texts[] = {[W_CLASS] = "class",
                                        [W_FIELD] = "field",
                                        [W_NAME] = "name",
                                        [W_ID] = "id",
                                        [W_CONSTANT_POOL] = "constantPool",
                                        [W_DIMENSION] = "dimension"};
    for (uint8_t i = W_CLASS; i <= W_DIMENSION; i++)
        if (is(s, texts[i]))
            return i;
    return W_OTHER;
}

static uint8_t type_id(struct tree *t, struct dvt_str s)
{
    uint32_t v = 0;
    for (size_t i = 0; i < s.n && v < JFR_MAX_TYPES; i++)
        v = s.p[i] >= '0' && s.p[i] <= '9' ? v * 10 + (uint32_t)(s.p[i] - '0') : JFR_MAX_TYPES;
    if (v == 0 || v >= JFR_MAX_TYPES)
        jfr_fail(&t->r);
    return (uint8_t)v;
}

struct attributes {
    struct dvt_str name, id, class;
    bool is_pool, is_array;
};

static void read_attributes(struct tree *t, struct attributes *a)
{
    uint64_t n = jfr_get(&t->r);
    if (n > MAX_ATTRIBUTES)
        jfr_fail(&t->r);
    for (uint64_t i = 0; i < n && !t->r.bad; i++) {
        enum word key = word_at(t);
        struct dvt_str v = string_at(t);
        if (key == W_NAME)
            a->name = v;
        else if (key == W_ID)
            a->id = v;
        else if (key == W_CLASS)
            a->class = v;
        else if (key == W_CONSTANT_POOL)
            a->is_pool = is(v, "true");
        else if (key == W_DIMENSION)
            a->is_array = !is(v, "0");
    }
}

static void open_class(struct tree *t, const struct attributes *a)
{
    uint8_t id = type_id(t, a->id);
    struct jfr_rtype *type = &t->m->types[id];
    if (t->r.bad || type->is_known) {
        jfr_fail(&t->r);
        return;
    }
    *type = (struct jfr_rtype){a->name, t->m->n_fields, 0, true};
    t->m->last_type = id > t->m->last_type ? id : t->m->last_type;
    t->type = id;
}

static void add_field(struct tree *t, const struct attributes *a)
{
    struct jfr_meta *m = t->m;
    struct jfr_rtype *type = &m->types[t->type];
    if (!t->type || type->n == JFR_MAX_FIELDS) {
        jfr_fail(&t->r);
        return;
    }
    if (m->n_fields == m->cap_fields) {
        uint32_t cap = m->cap_fields ? m->cap_fields * 2 : 128;
        struct jfr_rfield *f = realloc(m->fields, cap * sizeof *f);
        if (!f) {
            t->is_out_of_memory = true;
            jfr_fail(&t->r);
            return;
        }
        m->fields = f;
        m->cap_fields = cap;
    }
    m->fields[m->n_fields++] = (struct jfr_rfield){a->name, type_id(t, a->class), a->is_pool, a->is_array};
    type->n++;
}

static void read_element(struct tree *t, int depth)
{
    enum word name = word_at(t);
    struct attributes a = {0};
    read_attributes(t, &a);
    if (name == W_CLASS)
        open_class(t, &a);
    else if (name == W_FIELD)
        add_field(t, &a);
    uint64_t children = jfr_get(&t->r);
    if (children && depth == MAX_DEPTH)
        jfr_fail(&t->r);
    for (uint64_t i = 0; i < children && !t->r.bad; i++)
        read_element(t, depth + 1);
    if (name == W_CLASS)
        t->type = 0;
}

static void read_tree(struct tree *t)
{
    jfr_get(&t->r); /* size */
    if (jfr_get(&t->r) != 0)
        jfr_fail(&t->r);
    for (int i = 0; i < 3; i++)
        jfr_get(&t->r); /* ticks, duration, id */
    t->n_strings = jfr_get(&t->r);
    if (t->n_strings > (uint64_t)(t->r.end - t->r.p)) {
        jfr_fail(&t->r);
        return;
    }
    t->strings = calloc(t->n_strings + 1, sizeof *t->strings);
    t->words = calloc(t->n_strings + 1, sizeof *t->words);
    if (!t->strings || !t->words) {
        t->is_out_of_memory = true;
        jfr_fail(&t->r);
        return;
    }
    for (uint64_t i = 0; i < t->n_strings; i++)
        t->words[i] = word_of(t->strings[i] = dvt_jfr_get_string(&t->r));
    read_element(t, 0);
}

int dvt_jfr_meta_read(const uint8_t *p, size_t n, struct jfr_meta *ret, struct dvt_err *err)
{
    struct tree t = {.r = {p, p + n, false}, .m = ret};
    memset(ret, 0, sizeof *ret);
    read_tree(&t);
    free(t.strings);
    free(t.words);
    if (t.is_out_of_memory)
        return dvt_fail(err, DVT_ENOMEM, 0, "chunk: out of memory for its metadata");
    if (t.r.bad)
        return dvt_fail(err, DVT_EFORMAT, 0, "chunk: damaged metadata");
    return 0;
}

void dvt_jfr_meta_fini(struct jfr_meta *m)
{
    free(m->fields);
    m->fields = NULL;
}

uint32_t dvt_jfr_type(const struct jfr_meta *m, const char *name)
{
    for (uint32_t i = 1; i <= m->last_type; i++)
        if (m->types[i].is_known && is(m->types[i].name, name))
            return i;
    return 0;
}

/* ---- plans ---- */

static uint8_t op_of(const struct jfr_meta *m, const struct jfr_rfield *f)
{
    static const struct {
        const char *name;
        uint8_t op;
    } primitives[] = {
        {"boolean", JFR_OP_BYTE}, {"byte", JFR_OP_BYTE},     {"int", JFR_OP_INT},
        {"long", JFR_OP_INT},     {"short", JFR_OP_INT},     {"char", JFR_OP_INT},
        {"float", JFR_OP_FIXED4}, {"double", JFR_OP_FIXED8}, {"java.lang.String", JFR_OP_STRING}};
    if (f->is_array)
        return JFR_OP_ARRAY;
    if (f->is_pool)
        return JFR_OP_INT;
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++)
        if (is(m->types[f->type].name, primitives[i].name))
            return primitives[i].op;
    return JFR_OP_SKIP; /* an inline struct */
}

static bool op_fits(uint8_t op, char wanted)
{
    switch (wanted) {
    case 'i':
        return op == JFR_OP_INT || op == JFR_OP_BYTE;
    case 's':
        return op == JFR_OP_STRING;
    default:
        return op == JFR_OP_ARRAY;
    }
}

int dvt_jfr_plan(const struct jfr_meta *m, uint32_t type, const char *const *names, uint32_t n,
                 struct jfr_plan *ret, struct dvt_err *err)
{
    const struct jfr_rtype *t = &m->types[type];
    *ret = (struct jfr_plan){.n = t->n, .all_ints = true};
    for (uint32_t i = 0; i < t->n; i++) {
        const struct jfr_rfield *f = &m->fields[t->first + i];
        struct jfr_step *step = &ret->steps[i];
        *step = (struct jfr_step){op_of(m, f), JFR_SINK, t->first + i};
        ret->all_ints = ret->all_ints && step->op == JFR_OP_INT;
        for (uint32_t k = 0; k < n; k++) {
            if (!is(f->name, names[k] + 1))
                continue;
            if (!op_fits(step->op, names[k][0]))
                return dvt_fail(err, DVT_EFORMAT, 0, "chunk: field %s has an unexpected type", names[k] + 1);
            step->slot = (uint8_t)k;
        }
    }
    return 0;
}

static void skip_field(const struct jfr_meta *m, uint32_t field, struct jfr_r *r, int depth);

static void skip_value(const struct jfr_meta *m, const struct jfr_rfield *f, uint8_t op, struct jfr_r *r,
                       int depth)
{
    size_t n = op == JFR_OP_FIXED4 ? 4 : op == JFR_OP_FIXED8 ? 8 : op == JFR_OP_BYTE ? 1 : 0;
    if (op == JFR_OP_INT)
        jfr_get(r);
    else if (op == JFR_OP_STRING)
        dvt_jfr_get_string(r);
    else if (n && n <= (size_t)(r->end - r->p))
        r->p += n;
    else if (op == JFR_OP_SKIP && depth < MAX_DEPTH && m->types[f->type].n)
        for (uint32_t i = 0; i < m->types[f->type].n && !r->bad; i++)
            skip_field(m, m->types[f->type].first + i, r, depth + 1);
    else
        jfr_fail(r); /* also a struct without fields: an array of them would cost no bytes */
}

static void skip_field(const struct jfr_meta *m, uint32_t field, struct jfr_r *r, int depth)
{
    struct jfr_rfield f = m->fields[field];
    uint64_t n = f.is_array ? jfr_get(r) : 1;
    f.is_array = false;
    uint8_t op = op_of(m, &f);
    for (uint64_t i = 0; i < n && !r->bad; i++)
        skip_value(m, &f, op, r, depth);
}

void dvt_jfr_run_slow(const struct jfr_meta *m, const struct jfr_plan *plan, struct jfr_r *r,
                      struct jfr_values *v)
{
    for (uint32_t i = 0; i < plan->n && !r->bad; i++) {
        const struct jfr_step *s = &plan->steps[i];
        if (s->op == JFR_OP_INT)
            v->v[s->slot] = jfr_get(r);
        else if (s->op == JFR_OP_BYTE)
            v->v[s->slot] = jfr_get_byte(r);
        else if (s->op == JFR_OP_STRING)
            v->s[s->slot] = dvt_jfr_get_string(r);
        else if (s->op == JFR_OP_ARRAY && s->slot != JFR_SINK && v->array)
            v->array(v->ctx, r);
        else
            skip_field(m, s->field, r, 0);
    }
}
