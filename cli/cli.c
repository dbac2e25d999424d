/* cli: how commands report; see cli.h. */
#include "cli.h"
#include "catalog.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPT_HELP = 2000, OPT_COLOR };

const struct args_option cli_options[] = {
    {OPT_COLOR, 0, "--color", "WHEN", "always, never or auto"},
    {OPT_HELP, 'h', "--help", NULL, "this text"},
    {0},
};

void cli_help(const struct command *c)
{
    printf("dovetail %s: %s\n\nusage: dovetail %s%s%s\n", c->name, c->summary, c->name,
           c->synopsis[0] ? " " : "", c->synopsis);
    if (c->details) {
        printf("\n%s\n", c->details);
    }
    puts("\noptions:");
    args_print(c->options, stdout);
    args_print(cli_options, stdout);
    if (c->takes_filter) {
        puts("\nfilter:");
        args_print(filter_options, stdout);
    }
    printf("\nexamples:\n%s\n", c->examples);
}

int cli_next(const struct command *c, struct args *a, const char **ret_value, struct dvt_err *err)
{
    for (;;) {
        int id = args_next(a, ret_value, err);
        if (id == OPT_HELP) {
            cli_help(c);
            exit(cli_finish(CLI_DONE));
        }
        if (id != OPT_COLOR) {
            return id;
        }
        int rc = term_set_colour(*ret_value, err);
        if (rc) {
            return rc;
        }
    }
}

static int exit_of(int code)
{
    switch (code) {
    case 0:
        return CLI_DONE;
    case DVT_ENOENT:
        return CLI_NOTHING;
    case DVT_EINVAL:
        return CLI_USAGE;
    case DVT_EFORMAT:
        return CLI_DAMAGED;
    default:
        return CLI_ENVIRONMENT;
    }
}

void cli_note(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0) {
        fputs("dovetail: ", stderr);
        text_put(stderr, (struct dvt_str){text, (size_t)n}, 0);
        fputc('\n', stderr);
        free(text);
    }
}

int cli_report(const struct dvt_err *err)
{
    fflush(stdout);
    cli_note("%s", err->text);
    return exit_of(err->code);
}

int cli_finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    if (errno != EPIPE) {
        cli_note("cannot write the output: %s", errno == ENOSPC ? "the disk is full" : "write failed");
    }
    return CLI_ENVIRONMENT;
}

void cli_candidates(const struct catalog_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        char id[DVT_TRACE_HEX + 1], duration[TEXT_NUMBER_MAX];
        dvt_trace_id_format(&list->traces[i].id, id);
        text_duration(list->traces[i].duration_ns, duration);
        cli_note("  %s  %9s  %s", id, duration, list->traces[i].root_name);
    }
}
