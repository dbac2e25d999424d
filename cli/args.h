/*
 * args: command lines by tables of options.
 *
 * `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`; `--` ends the options; options and other arguments
 * may be mixed. An unknown name gets the nearest known one suggested.
 */
#ifndef ARGS_H
#define ARGS_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stdio.h>

struct args_option {
    int id;               /* > 0, distinct in all tables of one command */
    char letter;          /* 0: none */
    const char *name;     /* with its dashes: "--store"; NULL ends the table */
    const char *argument; /* what its value is called in the help; NULL: it has none */
    const char *help;
};

enum { ARGS_END = 0, ARGS_OTHER = -1000 }; /* beside option ids and negative DVT_E* */
enum { ARGS_TABLES = 3 };

struct args {
    int argc;
    char **argv;
    int at;             /* next to read; the caller starts it behind the command's name */
    bool only_other;    /* after "--" */
    bool stop_at_other; /* the first other argument ends the options (for `run CMD --flags`) */
    const struct args_option *tables[ARGS_TABLES]; /* NULL entries are skipped */
};

/* The next option's id (its value, if it takes one, in *ret_value), ARGS_OTHER (the argument in *ret_value),
 * ARGS_END, or DVT_EINVAL. */
int args_next(struct args *a, const char **ret_value, struct dvt_err *err);

/* The one of names[n] nearest to word, or NULL if none is near. */
const char *args_nearest(const char *word, const char *const *names, size_t n);

/* Prints a table for the help. */
void args_print(const struct args_option *table, FILE *out);

/* An unsigned integer within [min, max]; `what` names the option in the error. */
int args_number(const char *text, unsigned long min, unsigned long max, const char *what, unsigned long *ret,
                struct dvt_err *err);

#endif
