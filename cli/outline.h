/*
 * outline: which lines a tree has as text. Pure: what is printed for each is out_text's.
 *
 * Left out is what lies under a share of all or below a depth; siblings that are left out beside shown ones
 * are one line with their sum. Where one service has most of the samples, the others are there still: each of 1% shows
 * itself, and the way down to where the most of it goes.
 * A chain of single frames is one line, from the first to the last, if they are the kernel's and of little weight (page
 * faults go down ten frames for a sample), or three and more of a library, none of which has samples of its own.
 */
#ifndef OUTLINE_H
#define OUTLINE_H

#include "tree.h"

struct outline_options {
    double min_share; /* negative: the least of 1, 2, 3, 5, 10, 20% that leaves at most OUTLINE_LINES lines */
    uint32_t max_depth; /* 0: all */
    bool folds;
};
enum { OUTLINE_LINES = 60 };

enum outline_stroke { OUTLINE_NONE, OUTLINE_MIDDLE, OUTLINE_LAST };
struct outline_line {
    uint32_t node;     /* of a line of hidden siblings: their parent */
    uint32_t last;     /* of a folded chain; else node */
    uint32_t n_hidden; /* siblings in this line; 0: the line is node's own */
    uint64_t hidden_ns, hidden_samples;
    uint32_t level;             /* strokes of branches further out */
    enum outline_stroke stroke; /* its own: none where its parent has no other line */
};
struct outline {
    struct outline_line *lines; /* [n] */
    size_t n, cap;
    double min_share; /* that was used */
    bool hides;       /* something is under it */
};

void outline_init(struct outline *o, const struct tree *t, const struct outline_options *options);
void outline_fini(struct outline *o);

#endif
