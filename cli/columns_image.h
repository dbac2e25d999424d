/* columns_image: the header of a column file and where its arrays lie; shared by columns.c and
 * columns_build.c. */
#ifndef COLUMNS_IMAGE_H
#define COLUMNS_IMAGE_H

#include "columns.h"

#include <assert.h>

#define COLUMNS_MAGIC "DVTCOL\r\n"
enum { COLUMNS_VERSION = 1, COLUMNS_ARRAYS = 14, COLUMNS_ALIGN = 8 };

struct columns_header {
    char magic[8];
    uint32_t version, n_arrays;
    uint64_t bytes;                  /* of the whole file */
    uint64_t checksum;               /* of all behind the header */
    uint32_t counts[COLUMNS_ARRAYS]; /* of items, in the order of the arrays */
};
static_assert(sizeof(struct columns_header) == 88, "the layout of the file");
static_assert(sizeof(struct columns_chunk) == 88 && sizeof(struct columns_frame) == 20,
              "the layout of the file");

/* Bytes of one item of each array, in the order of the file. */
extern const size_t columns_item_bytes[COLUMNS_ARRAYS];
enum {
    COLUMNS_CHUNKS,
    COLUMNS_STRING_ENDS,
    COLUMNS_LABELS,
    COLUMNS_LABEL_SET_ENDS,
    COLUMNS_LABEL_IDS,
    COLUMNS_NAME_SET_ENDS,
    COLUMNS_NAME_IDS,
    COLUMNS_CONTEXTS,
    COLUMNS_FRAMES,
    COLUMNS_NODES,
    COLUMNS_SAMPLE_NODE,
    COLUMNS_SAMPLE_CONTEXT,
    COLUMNS_SAMPLE_WEIGHT,
    COLUMNS_TEXT
};

uint64_t columns_checksum(const uint8_t *p, size_t n);
static inline uint64_t columns_padded(uint64_t n)
{
    return (n + COLUMNS_ALIGN - 1) / COLUMNS_ALIGN * COLUMNS_ALIGN;
}

#endif
