/*
 * columns: the samples of one segment in a form that folds fast, derived from its chunks.
 * DIR/columns/NNNNNNNN.col; may be deleted at any time, is made again when needed, and is checked as outside
 * data each time it is opened.
 *
 * Stacks are one trie over the whole segment: a node is (parent, frame), parents before children; the upper
 * nodes are service and thread. A sample is three numbers: its node, its context (which labels, scope names
 * and service hold for it), its weight. Chunks whose trace has several parts have no samples here (labels
 * depend on the other parts): the reader takes those from the segment.
 *
 * The file: header, then the arrays of columns_view in their order, each padded to 8 bytes; the machine's
 * byte order.
 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "parts.h"

#include "../proto/wire.h"

struct columns_label {
    uint32_t key, value; /* strings */
};
struct columns_context {
    uint32_t labels;  /* into label_sets */
    uint32_t names;   /* into name_sets: the innermost scope's and those of all it lies under */
    uint32_t service; /* string */
    uint32_t shared;  /* 1: work for several traces at once */
};
struct columns_frame {
    uint32_t kind;               /* enum tree_kind << 8 | enum dvt_frame_kind */
    uint32_t name, module, file; /* strings */
    uint32_t line;
};
struct columns_node {
    uint32_t parent, frame; /* of node 0, the root: UINT32_MAX, both */
};
struct columns_chunk {       /* ascending by offset */
    uint64_t offset, digest; /* the digest's first 8 bytes */
    int64_t start_ns;        /* UNIX */
    uint64_t duration_ns, period_ns;
    uint64_t ambiguous, lost_samples, uncovered_ns, cut_short;
    uint32_t first_sample, n_samples;
    uint32_t event;    /* string */
    uint32_t is_whole; /* 0: its samples are not here */
};

struct columns_view { /* points into the image */
    uint32_t n_strings, n_labels, n_label_sets, n_label_ids, n_name_sets, n_name_ids, n_contexts, n_frames,
        n_nodes, n_chunks, n_samples, n_text;
    const struct columns_chunk *chunks;
    const uint32_t *string_ends; /* [n_strings] into text */
    const struct columns_label *labels;
    const uint32_t *label_set_ends; /* [n_label_sets] into label_ids */
    const uint32_t *label_ids;
    const uint32_t *name_set_ends; /* [n_name_sets] into name_ids */
    const uint32_t *name_ids;      /* strings */
    const struct columns_context *contexts;
    const struct columns_frame *frames;
    const struct columns_node *nodes;
    const uint32_t *sample_node, *sample_context, *sample_weight; /* [n_samples]; ns */
    const char *text;
};

/* Checks every count, index and order of n bytes at p (8-byte aligned), and the checksum. DVT_EFORMAT,
 * DVT_EVERSION. */
int columns_open(const uint8_t *p, size_t n, struct columns_view *ret, struct dvt_err *err);
struct dvt_str columns_string(const struct columns_view *v, uint32_t i);

/* ---- making one ---- */

struct columns_builder;
struct columns_builder *columns_builder_new(void);
void columns_builder_free(struct columns_builder *b);
/* Adds the one part of a trace that has no other; false: it does not fit, and was added as a chunk without
 * samples. */
bool columns_builder_add(struct columns_builder *b, const struct catalog_chunk *where, struct parts *one);
/* A chunk whose samples the reader must take from the segment. */
void columns_builder_skip(struct columns_builder *b, const struct catalog_chunk *where);
/* The image, for columns_open and for the file. The caller frees. */
uint8_t *columns_builder_finish(struct columns_builder *b, size_t *ret_bytes);

/* ---- files ---- */

struct columns_file {
    uint8_t *image;
    size_t bytes;
    bool is_mapped;
    struct columns_view view;
};
/* Maps DIR/columns/SEGMENT.col. Any error means: make it anew. */
int columns_file_open(const char *dir, uint32_t segment, struct columns_file *ret, struct dvt_err *err);
/* Takes an image; writes it to DIR/columns if that is possible. */
int columns_file_adopt(const char *dir, uint32_t segment, uint8_t *image, size_t bytes,
                       struct columns_file *ret, struct dvt_err *err);
void columns_file_close(struct columns_file *f);

#endif
