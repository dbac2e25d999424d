/*
 * chunk_enc: one chunk while it is encoded: what the files of the encoder share. Included by these only:
 *
 *   chunk_encode.c     header, strings, frames, events
 *   chunk_enc_pools.c  the checkpoint with all constant pools
 */
#ifndef DVT_CHUNK_ENC_H
#define DVT_CHUNK_ENC_H

#include "chunk.h"
#include "chunk_intern.h"
#include "jfr_write.h"

enum { STATE_DEFAULT = 1 }; /* the ThreadState of samples on CPU, by jfrconv's convention */

struct enc {
    const struct dvt_chunk *c;
    struct jfr_w w;
    uint64_t base; /* key of index 0 in every pool */
    struct dvt_strings symbols, strings;
    struct dvt_tuples classes; /* name, module, file symbols */
    struct dvt_tuples methods; /* class, name symbol */
    uint32_t *frame_method;    /* [n_frames] */
    struct text { /* copies of strings that the caller's chunk does not hold as they are written */
        struct text *next;
        char b[];
    } * texts;
    uint8_t *event; /* the size byte of the event being written */
    int rc;
};

static inline void put(struct enc *e, uint64_t v)
{
    jfr_put(&e->w, v);
}

static inline uint64_t key(const struct enc *e, uint32_t i)
{
    return e->base + i;
}

/* Writes the checkpoint, after all events: the pools hold what these refer to. Failure is in e->w.rc. */
void dvt_enc_pools(struct enc *e);

#endif
