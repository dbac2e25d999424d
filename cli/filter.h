/*
 * filter: which traces, and which samples of them. The FILTER options of the command line, parsed.
 */
#ifndef FILTER_H
#define FILTER_H

#include "args.h"

#include "../proto/str.h"

#include <stdint.h>

enum { FILTER_MAX_LABELS = 16, FILTER_MAX_STORES = 32 };

struct filter_label {
    struct dvt_str key;
    const char *value; /* glob */
};

/* Pointers are into argv. NULL or 0: not asked for. */
struct filter {
    const char *trace, *span;   /* hex prefixes, checked */
    const char *name, *service; /* globs */
    const char *tag;            /* a prefix, or a glob if it has a star */
    struct filter_label labels[FILTER_MAX_LABELS];
    size_t n_labels;
    int64_t since_ns, until_ns; /* UNIX; of the trace's start */
    uint64_t min_duration_ns;
    const char *stores[FILTER_MAX_STORES];
    size_t n_stores; /* 0: the default store */
};

enum { FILTER_OPTION_FIRST = 1000, FILTER_OPTION_LAST = 1099 };
extern const struct args_option filter_options[];

/* Takes one option of filter_options. now_ns: UNIX time that "10m ago" counts from. */
int filter_take(struct filter *f, int id, const char *value, int64_t now_ns, struct dvt_err *err);
/* One more --store. */
int filter_take_store(struct filter *f, const char *value, struct dvt_err *err);
/* True if the filter picks among the samples of a trace, not only among traces. */
bool filter_picks_samples(const struct filter *f);
/* The filter's times take a trace that began then and lasted so. */
bool filter_takes_trace(const struct filter *f, int64_t start_ns, uint64_t duration_ns);
/* "label tenant=acme, service shop", or "" for no filter; the caller frees. */
char *filter_describe(const struct filter *f);

/* `*` any bytes, `?` one character; everything else is itself. */
bool filter_glob(const char *pattern, struct dvt_str s);
bool filter_has_glob(const char *pattern);
/* Of --tag. */
bool filter_tag_matches(const char *pattern, struct dvt_str tag);

/* "200ms", "1.5s", "1h30m"; DVT_EINVAL. */
int filter_duration(const char *text, uint64_t *ret_ns);
/* RFC 3339 ("2026-11-30T21:04:11.5Z"; without an offset local time, date alone too), "10m ago", "-10m",
 * "now". */
int filter_time(const char *text, int64_t now_ns, int64_t *ret_unix_ns);

#endif
