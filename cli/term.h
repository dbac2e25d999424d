/*
 * term: what the terminal can do (colours, width), and progress on long work.
 */
#ifndef TERM_H
#define TERM_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum term_style {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_HOT,
    TERM_WARM,
    TERM_GOOD,
    TERM_BAD,
    TERM_NAME,
    TERM_PLACE
};

struct term {
    bool colour;
    size_t columns; /* 0: not a terminal, no bound */
};

/* --color=WHEN: "always", "never", "auto". Before term_of. */
int term_set_colour(const char *when, struct dvt_err *err);
/* Of a file descriptor: auto means a terminal, NO_COLOR unset or empty, TERM not "dumb". */
struct term term_of(int fd);
/* The escape sequences that start a style and end it; "" without colours. */
const char *term_on(const struct term *t, enum term_style s);
const char *term_off(const struct term *t, enum term_style s);

/* Progress on standard error: shown only on a terminal and only if the work takes longer than 0.3 s. */
struct term_progress {
    const char *what;
    uint64_t total, started_ns, shown_ns;
    bool is_shown, is_off;
};
void term_progress_start(struct term_progress *p, const char *what, uint64_t total);
void term_progress_at(struct term_progress *p, uint64_t done);
void term_progress_end(struct term_progress *p);

#endif
