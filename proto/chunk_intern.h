/*
 * chunk_intern: tables of distinct strings and distinct number tuples while one chunk is encoded or built.
 * An index is given in order of first use. Memory grows with what is put in; the caller bounds that.
 */
#ifndef DVT_CHUNK_INTERN_H
#define DVT_CHUNK_INTERN_H

#include "str.h"

struct dvt_intern { /* hash table of indexes; what they stand for lies with the owner */
    uint32_t *slots; /* index + 1 */
    uint32_t mask, n;
};

struct dvt_strings {
    struct dvt_intern table;
    struct dvt_str *items; /* [table.n] borrowed */
    uint32_t cap;
};
/* Index of s, put in if new; UINT32_MAX out of memory. */
uint32_t dvt_strings_put(struct dvt_strings *t, struct dvt_str s);
void dvt_strings_fini(struct dvt_strings *t);

enum { DVT_TUPLE = 4 };
struct dvt_tuples {
    struct dvt_intern table;
    uint32_t (*items)[DVT_TUPLE]; /* [table.n] */
    uint32_t cap;
};
uint32_t dvt_tuples_put(struct dvt_tuples *t, const uint32_t v[DVT_TUPLE]);
void dvt_tuples_fini(struct dvt_tuples *t);

/* Sequences of numbers (stacks), laid one after the other. */
struct dvt_seqs {
    struct dvt_intern table;
    struct dvt_seq {
        uint32_t first, n, extra;
    } * items; /* [table.n] */
    uint32_t cap;
    uint32_t *values; /* [n_values] */
    uint32_t n_values, cap_values;
};
/* Index of the sequence v[n] together with extra. */
uint32_t dvt_seqs_put(struct dvt_seqs *t, const uint32_t *v, uint32_t n, uint32_t extra);
void dvt_seqs_fini(struct dvt_seqs *t);

#endif
