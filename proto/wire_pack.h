/*
 * wire_pack: writing msgpack into a struct dvt_buf with msgpack-c's packer, private to the wire modules.
 *
 * The first failure sticks, so that an encoder packs item after item and asks once, at dvt_pack_end; the
 * buffer is then as it was. That is why the results of msgpack_pack_* are ignored in these modules.
 */
#ifndef DVT_WIRE_PACK_H
#define DVT_WIRE_PACK_H

#include "wire.h"

#include <msgpack.h>

struct dvt_packer {
    msgpack_packer pk;
    struct dvt_buf *b;
    size_t start; /* of the message in b */
    int rc;
};

/* Starts a message or a part of one at the end of b. */
void dvt_pack_begin(struct dvt_packer *k, struct dvt_buf *b);
/* 0, or the first failure after taking back what was written. */
int dvt_pack_end(struct dvt_packer *k);

/* Working memory of n bytes, valid until the next call with the same buffer; NULL if there is none. */
void *dvt_buf_work(struct dvt_buf *b, size_t n);

/* The frame of a message: [type, map of n_pairs]; the pairs follow. */
void dvt_pack_message(struct dvt_packer *k, enum dvt_msg_type type, size_t n_pairs);
/* A pair's key followed by an integer. */
void dvt_pack_key_uint(struct dvt_packer *k, unsigned key, uint64_t value);
void dvt_pack_str(struct dvt_packer *k, struct dvt_str s);
/* The header of a bin of n bytes and room for them; NULL after a failure. */
uint8_t *dvt_pack_bin_room(struct dvt_packer *k, size_t n);

#endif
