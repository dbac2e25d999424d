/*
 * wire_fields: messages as tables of fields, private to the wire modules.
 *
 * A table row names a struct's member, its key on the wire, its kind and its bound; one encoder and one
 * decoder serve all tables, so that the two cannot drift apart. PROTOCOL.md shows the same tables to people.
 * Encoding leaves out optional fields that are zero or empty; decoding gives those zero. Unknown keys are
 * skipped; a key given twice, a wrong type or a value over its bound is an error.
 */
#ifndef DVT_WIRE_FIELDS_H
#define DVT_WIRE_FIELDS_H

#include "wire_cur.h"
#include "wire_pack.h"

enum dvt_field_kind {
    DVT_FIELD_U32,  /* uint32_t, at most max if that is not 0 */
    DVT_FIELD_U64,  /* uint64_t */
    DVT_FIELD_I32,  /* int32_t */
    DVT_FIELD_BOOL, /* bool */
    DVT_FIELD_STR,  /* struct dvt_str; longer than max is cut at a UTF-8 border by the encoder */
    DVT_FIELD_TEXT, /* struct dvt_str; longer than max is refused by the encoder (half of it would be wrong)
                     */
    DVT_FIELD_KEY,  /* uint8_t[max], a bin of exactly that size */
    DVT_FIELD_BIN,  /* struct dvt_str, the bytes of a bin; decoding only */
    DVT_FIELD_RAW,  /* struct dvt_str, the msgpack bytes of any item; decoding only */
};

struct dvt_field {
    const char *name; /* for error texts */
    uint8_t key, kind;
    bool required;
    uint16_t at; /* offset in the struct */
    uint32_t max;
};

struct dvt_fields {
    const char *name; /* of the message */
    const struct dvt_field *v;
    uint8_t n;
    uint16_t bytes; /* of the struct, at most DVT_FIELDS_MAX_STRUCT */
};
enum { DVT_FIELDS_MAX_STRUCT = 512 };

#define DVT_FIELDS(message, type, table)                                                                     \
    {                                                                                                        \
        .name = message, .v = table, .n = sizeof(table) / sizeof *(table), .bytes = sizeof(type)             \
    }

/* One row: the struct, the key, the kind without its prefix, the member, whether it must be there, the bound.
 */
#define DVT_ROW(type, k, what, member, is_required, bound)                                                   \
    {                                                                                                        \
        .name = #member, .key = k, .kind = DVT_FIELD_##what, .required = is_required,                        \
        .at = offsetof(type, member), .max = bound                                                           \
    }

/* Packs m as one map. */
void dvt_fields_pack(struct dvt_packer *k, const struct dvt_fields *f, const void *m);
/* Appends the whole message [type, map]. */
int dvt_fields_put(struct dvt_buf *b, enum dvt_msg_type type, const struct dvt_fields *f, const void *m);

/* Reads one map at the cursor into *ret (f->bytes), which is untouched on failure. */
int dvt_fields_read(struct dvt_cur *c, const struct dvt_fields *f, void *ret, struct dvt_err *err);
/* The same for a map that must fill its bytes exactly. */
int dvt_fields_get(struct dvt_str map, const struct dvt_fields *f, void *ret, struct dvt_err *err);

#endif
