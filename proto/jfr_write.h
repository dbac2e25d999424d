/*
 * jfr_write: the primitives that a JFR chunk is written with: LEB128 integers, strings, headers, the metadata
 * event.
 *
 * A writer appends to a struct dvt_buf, growing it up to its max. Writing functions need room reserved before
 * (jfr_room); a failed reservation is kept in rc and everything after is the caller's to skip.
 * Source of the layout: jdk/src/jdk.jfr (ChunkHeader, MetadataReader, ChunkParser) of JDK 17 to 25.
 */
#ifndef DVT_JFR_WRITE_H
#define DVT_JFR_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "str.h"
#include "wire.h"

enum { JFR_HEADER_BYTES = 68, JFR_VARINT_MAX = 9, JFR_SIZE_PADDED = 5 };

struct jfr_w {
    uint8_t *p, *end;   /* next byte, end of what is reserved */
    struct dvt_buf *b;
    int rc;             /* 0, DVT_ENOMEM, DVT_ELIMIT */
};

void dvt_jfr_open(struct jfr_w *w, struct dvt_buf *b);
/* Makes b hold what was written. */
void dvt_jfr_close(struct jfr_w *w);
bool dvt_jfr_grow(struct jfr_w *w, size_t n);
static inline bool jfr_room(struct jfr_w *w, size_t n)
{
    return (size_t)(w->end - w->p) >= n || dvt_jfr_grow(w, n);
}
static inline size_t jfr_at(const struct jfr_w *w) /* offset in the buffer */
{
    return (size_t)(w->p - w->b->p);
}

/* At most JFR_VARINT_MAX bytes: the ninth holds eight bits raw. */
static inline void jfr_put(struct jfr_w *w, uint64_t v)
{
    uint8_t *p = w->p;
    for (int i = 0; i < 8 && v >= 0x80; i++, v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    w->p = p;
}
static inline void jfr_put_byte(struct jfr_w *w, uint8_t v)
{
    *w->p++ = v;
}
/* Encoding 3 (UTF-8); needs room for s.n + 10. An empty string too: jdk.types.Symbol allows no other
 * encoding. */
static inline void jfr_put_utf8(struct jfr_w *w, struct dvt_str s)
{
    jfr_put_byte(w, 3);
    jfr_put(w, s.n);
    if (s.n)
        memcpy(w->p, s.p, s.n);
    w->p += s.n;
}
/* v in exactly JFR_SIZE_PADDED bytes at p. */
void dvt_jfr_padded(uint8_t *p, uint32_t v);

/* Metadata and checkpoint events: reserves the size field; end fills it. Returns the event's offset. */
size_t dvt_jfr_big_begin(struct jfr_w *w, uint32_t type);
void dvt_jfr_big_end(struct jfr_w *w, size_t at);

/* Appends the metadata event of dvt_jfr_types, those of wall mode only with_wall. */
void dvt_jfr_metadata(struct jfr_w *w, bool with_wall);

struct jfr_header { /* offsets and size count from the chunk's start */
    uint64_t bytes, checkpoint, metadata;
    int64_t start_unix_ns;
    uint64_t start_ticks, duration_ns;
};
/* A tick is a nanosecond. The JDK (25) converts the ticks of a whole file by its first chunk's origin, so
 * unix - ticks must be the same in all chunks of a file. */
void dvt_jfr_header(uint8_t out[JFR_HEADER_BYTES], const struct jfr_header *h);

#endif
