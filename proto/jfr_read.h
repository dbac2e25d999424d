/*
 * jfr_read: the primitives that a JFR chunk is read with: integers, strings, header, metadata, and plans.
 *
 * All input is outside bytes: a reader never passes its end and turns bad instead. A plan is a type's field
 * list compiled once per chunk for the fields the caller names: values land in slots, unknown fields are
 * skipped by their declared type, known ones that are absent leave their slot alone. So later minor versions
 * stay readable.
 */
#ifndef DVT_JFR_READ_H
#define DVT_JFR_READ_H

#include <stdbool.h>
#include "err.h"
#include "str.h"

struct jfr_r {
    const uint8_t *p, *end;
    bool bad; /* ran out of bytes, or found what cannot be; values read since mean nothing */
};

static inline void jfr_fail(struct jfr_r *r)
{
    r->bad = true;
    r->p = r->end;
}
static inline uint8_t jfr_get_byte(struct jfr_r *r)
{
    if (r->p < r->end)
        return *r->p++;
    jfr_fail(r);
    return 0;
}
static inline uint64_t jfr_get(struct jfr_r *r)
{
    const uint8_t *p = r->p;
    uint64_t v = 0;
    for (unsigned shift = 0; p < r->end; shift += 7) {
        uint64_t b = *p++;
        if (b < 0x80 || shift == 56) { /* the ninth byte is raw */
            r->p = p;
            return v | b << shift;
        }
        v |= (b & 0x7f) << shift;
    }
    jfr_fail(r);
    return 0;
}
/* Null and empty as empty, UTF-8 in place; anything else, ill-formed UTF-8 and control characters are bad. */
struct dvt_str dvt_jfr_get_string(struct jfr_r *r);

struct jfr_head {
    uint64_t bytes, checkpoint, metadata;
};
/* Checks the first 68 bytes: magic, version 2, finished, integers compressed, ticks in ns, offsets inside. */
int dvt_jfr_get_head(const uint8_t *p, size_t n, struct jfr_head *ret);

/* ---- metadata ---- */

struct jfr_rfield {
    struct dvt_str name;
    uint8_t type; /* id */
    bool is_pool, is_array;
};
struct jfr_rtype {
    struct dvt_str name;
    uint32_t first, n; /* into fields */
    bool is_known;
};
enum { JFR_MAX_TYPES = 256, JFR_MAX_FIELDS = 48 }; /* ids below 256; fields of one type */

struct jfr_meta {
    struct jfr_rtype types[JFR_MAX_TYPES]; /* by id */
    struct jfr_rfield *fields;             /* owned */
    uint32_t n_fields, cap_fields, last_type;
};
/* p[n]: the whole metadata event. Free with dvt_jfr_meta_fini, also after an error. Strings point into p. */
int dvt_jfr_meta_read(const uint8_t *p, size_t n, struct jfr_meta *ret, struct dvt_err *err);
void dvt_jfr_meta_fini(struct jfr_meta *m);
/* Id of the type of that name, 0 if there is none. */
uint32_t dvt_jfr_type(const struct jfr_meta *m, const char *name);

/* ---- plans ---- */

enum jfr_op {
    JFR_OP_INT,
    JFR_OP_BYTE,
    JFR_OP_STRING,
    JFR_OP_FIXED4,
    JFR_OP_FIXED8,
    JFR_OP_SKIP,
    JFR_OP_ARRAY
};
enum { JFR_SLOTS = 16, JFR_SINK = JFR_SLOTS }; /* wanted fields of a type at most; the slot nobody reads */

struct jfr_plan {
    uint32_t n;
    bool all_ints;
    struct jfr_step {
        uint8_t op, slot;
        uint32_t field; /* into meta->fields */
    } steps[JFR_MAX_FIELDS];
};
struct jfr_values {
    uint64_t v[JFR_SLOTS + 1];
    struct dvt_str s[JFR_SLOTS + 1];
    /* The array-typed wanted field, read element by element by this call; NULL: skipped. */
    void (*array)(void *ctx, struct jfr_r *r);
    void *ctx;
};
/* names[n], each with its op as the first character: "i" integer, boolean or key; "s" inline string; "a"
 * array. Name k goes to slot k. DVT_EFORMAT if a wanted field is of another sort. */
int dvt_jfr_plan(const struct jfr_meta *m, uint32_t type, const char *const *names, uint32_t n,
                 struct jfr_plan *ret, struct dvt_err *err);
void dvt_jfr_run_slow(const struct jfr_meta *m, const struct jfr_plan *plan, struct jfr_r *r,
                      struct jfr_values *v);
static inline void jfr_run(const struct jfr_meta *m, const struct jfr_plan *plan, struct jfr_r *r,
                           struct jfr_values *v)
{
    if (!plan->all_ints) {
        dvt_jfr_run_slow(m, plan, r, v);
        return;
    }
    for (uint32_t i = 0; i < plan->n; i++)
        v->v[plan->steps[i].slot] = jfr_get(r);
}

#endif
