/*
 * cli: the exit codes, the commands, and how each reports what went wrong.
 *
 * Results go to standard output; notes, progress and errors to standard error.
 */
#ifndef CLI_H
#define CLI_H

#include "../proto/err.h"
#include "args.h"

enum cli_exit {
    CLI_DONE = 0,
    CLI_NOTHING = 1,     /* nothing matched */
    CLI_USAGE = 2,       /* wrong use */
    CLI_ENVIRONMENT = 3, /* the environment does not allow it */
    CLI_DAMAGED = 4,     /* data is damaged */
};

struct command {
    const char *name;
    const char *synopsis;              /* what follows the name on the usage line */
    const char *summary;               /* one line */
    const char *details;               /* paragraphs of help, or NULL */
    const char *examples;              /* lines, each indented by two */
    const struct args_option *options; /* its own; NULL-name terminated, or NULL */
    bool takes_filter;                 /* the filter's options are its too */
    int (*run)(struct args *args);
};

extern const struct command cmd_run, cmd_attach, cmd_detach, cmd_status, cmd_traces, cmd_trace, cmd_flame,
    cmd_tags, cmd_verify, cmd_doctor;

/* --help and --color, known to all. */
extern const struct args_option cli_options[];
/* args_next, but takes cli_options itself; help ends the program. */
int cli_next(const struct command *c, struct args *a, const char **ret_value, struct dvt_err *err);
void cli_help(const struct command *c);

/* Prints err to standard error and returns the exit code that fits it. */
int cli_report(const struct dvt_err *err);
/* A note on standard error; control characters in its arguments are neutralised. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct catalog_list;
/* Notes the traces that an ambiguous id may mean. */
void cli_candidates(const struct catalog_list *list);
/* Flushes standard output; CLI_ENVIRONMENT if what was written did not get there, else code. */
int cli_finish(int code);

#endif
