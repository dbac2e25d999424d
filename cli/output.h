/*
 * output: the formats a tree can be written in, one file each (out_NAME.c), behind one table.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "tree.h"
#include "../proto/err.h"

#include <stdio.h>

struct output_options {
    double min_share;   /* text: leave out what is below this share of all; negative: so that it fits
                           (outline.h) */
    uint32_t max_depth; /* text: levels shown; 0: all */
    bool folds;  /* text: chains of kernel or library frames are one line */
    bool counts;        /* folded: samples instead of microseconds */
    bool colour;        /* text: escape sequences */
    size_t columns;     /* text: width to fit in; 0: none */
};

/* What the tree is of. Strings are safe to print as text (control characters neutralised), not escaped for
 * HTML or JSON. */
struct tree_meta {
    const char *title;    /* "GET /cart", "label tenant=acme", "all traces" */
    const char *trace_id; /* hex, or NULL for several traces */
    const char *filter;   /* as words, or "" */
    char event[192];      /* name of the sampled event, "" if mixed or unknown; safe */
    const char *service;  /* of one trace, else "": "gateway, orders" */
    bool has_event;       /* private to query: a chunk was seen */
    uint64_t n_traces;
    int64_t start_ns;                 /* UNIX, of the earliest */
    uint64_t duration_ns;             /* of one trace, or the sum over several */
    uint64_t on_cpu_ns;               /* weights of all samples shown */
    uint64_t period_ns;               /* mean CPU time a sample stands for; 0: not time, or unknown */
    bool weights_are_counts;          /* the event is not time: *_ns hold counts of it */
    uint64_t samples;                 /* shown */
    uint64_t no_stack;                /* of them without a managed stack: "[no stack: ...]" */
    uint64_t shared;                  /* of them in scopes that worked for several traces at once */
    uint64_t ambiguous, lost_samples; /* not shown: fit two contexts; lost by the kernel */
    uint64_t uncovered_ns;            /* CPU time in scopes before their thread was sampled */
    uint64_t cut_short;               /* scopes still open when their process ended */
    struct output_options opt;
};

struct output_ops {
    const char *name;      /* of -f */
    const char *extension; /* of -o, with its dot */
    /* Writes the finished tree. 0, or DVT_EIO if out failed. */
    int (*write)(const struct tree *tree, const struct tree_meta *meta, FILE *out);
};

extern const struct output_ops out_text, out_folded, out_html, out_svg, out_json;

/* By name, or by the extension of a file name; NULL if unknown. */
const struct output_ops *output_by_name(const char *name);
const struct output_ops *output_by_file(const char *path);
/* "text, folded, ..." */
const char *output_names(void);

#endif
