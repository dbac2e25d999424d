/*
 * arena: names, labels and links of a thread's open scopes, one region a frame, regions in the order of the
 * frames. An entry is: u8 kind, u8 key bytes, u16 value bytes, key, value. Ring records carry a frame's
 * region as it is. Owner's thread only. What does not fit is cut and counted.
 */
#ifndef DVT_ARENA_H
#define DVT_ARENA_H

#include "slot.h"

enum dvt_blob_kind { DVT_BLOB_NAME = 1, DVT_BLOB_LABEL = 2, DVT_BLOB_LINK = 3 };

struct dvt_blob_item {
    enum dvt_blob_kind kind;
    struct dvt_str key, value;
};

/* The region of frame i. */
struct dvt_str dvt_arena_region(struct dvt_slot *s, uint32_t i);
/* Adds an entry to frame i's region. */
void dvt_arena_add(struct dvt_slot *s, uint32_t i, enum dvt_blob_kind kind, struct dvt_str key,
                   struct dvt_str value);
/* Sets a label of frame i: replaces one with the same key. Cut to the limits. */
void dvt_arena_label(struct dvt_slot *s, uint32_t i, const char *key, const char *value);
/* Empties frame i's region. */
void dvt_arena_clear(struct dvt_slot *s, uint32_t i);

/* Bytes an item takes, and the writing and reading of a blob (dvt_blob_next: false at the end). */
size_t dvt_blob_bytes(size_t key_n, size_t value_n);
uint8_t *dvt_blob_put(uint8_t *p, enum dvt_blob_kind kind, struct dvt_str key, struct dvt_str value);
bool dvt_blob_next(const uint8_t **p, const uint8_t *end, struct dvt_blob_item *ret);

#endif
