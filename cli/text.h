/*
 * text: names from traces are hostile. What goes to a terminal or a file as text passes through here: control
 * characters and bytes that are not UTF-8 become \xNN, characters that reorder or hide text become U+FFFD.
 * Numbers for people: durations, counts, shares with their interval; tables.
 */
#ifndef TEXT_H
#define TEXT_H

#include "../proto/str.h"
#include "term.h"

#include <stdio.h>

/* Length in bytes of the UTF-8 character at p[0..n), 0 if it is none. *ret_code: the code point. */
size_t text_decode(const char *p, size_t n, uint32_t *ret_code);

/* Appends s neutralised to out, at most max_columns characters wide (0: no bound), then "…"; returns the
 * columns written. */
size_t text_put(FILE *out, struct dvt_str s, size_t max_columns);
/* The same into memory; the caller frees. */
char *text_safe(struct dvt_str s, size_t max_columns);
/* Columns of a text that is safe already. */
size_t text_columns(const char *safe);

enum { TEXT_NUMBER_MAX = 32 };
/* "812.4 ms", three to four significant digits. */
void text_duration(uint64_t ns, char out[TEXT_NUMBER_MAX]);
void text_bytes(uint64_t bytes, char out[TEXT_NUMBER_MAX]);
/* Digits in groups: 1,234,567. */
void text_count(uint64_t n, char out[TEXT_NUMBER_MAX]);
/* Local time "2026-11-30 21:04:11.123"; iso: UTC "2026-11-30T21:04:11.123456789Z". */
void text_time(int64_t unix_ns, bool iso, char out[40]);

/* The 95% interval of a share seen in n samples, Wilson's: it keeps its promise for few samples and small
 * shares too, where p +- 1.96 sqrt(p (1 - p) / n) does not (n = 20, p = 0.06: it holds the truth 70% of the
 * time). For n = 0 all of [0, 1]. */
struct text_interval {
    double low, high;
};
struct text_interval text_interval95(double share, uint64_t n_samples);
/* " 82.2%  [75.7, 87.3]", always TEXT_SHARE_COLUMNS wide; "?" behind the share where text_too_few says so. */
enum { TEXT_SHARE_COLUMNS = 6 + 1 + 1 + 13, TEXT_SHARE_MAX = 64 };
void text_share(double share, uint64_t part, uint64_t total, char out[TEXT_SHARE_MAX]);
/* Too few samples to say much: fewer than 20 in all, or fewer than 5 in the part. */
bool text_too_few(uint64_t part, uint64_t total);

/* A table; cells are added row by row, left to right. */
struct table;
enum table_align { TABLE_LEFT, TABLE_RIGHT };
struct table *table_new(size_t n_columns);
void table_free(struct table *t);
/* Column heading and alignment, n_columns times, before the first cell. */
void table_heading(struct table *t, const char *name, enum table_align align);
void table_cell(struct table *t, struct dvt_str s); /* neutralised */
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The last column is cut to the terminal's width if there is one. */
void table_print(const struct table *t, const struct term *term, FILE *out);

#endif
