/*
 * dovetail: the command line. Finds the command, prints help, hands over.
 */
#include "cli.h"
#include "filter.h"

#include <signal.h>
#include <string.h>

static const struct command *const commands[] = {&cmd_run,    &cmd_attach, &cmd_detach, &cmd_status,
                                                 &cmd_traces, &cmd_trace,  &cmd_flame,  &cmd_tags,
                                                 &cmd_verify, &cmd_doctor};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *out)
{
    fputs("dovetail: where did this request spend its time, in code?\n\n"
          "usage: dovetail COMMAND [OPTIONS]\n\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nfor all commands:\n"
          "  --help                      what a command does, with examples\n"
          "  --color WHEN                always, never, auto (NO_COLOR is honoured)\n"
          "  --version                   (alone)\n"
          "\nexamples:\n"
          "  dovetail run -- python app.py          profile a program, then a summary\n"
          "  dovetail attach --duration 60s 4711    the same for one that runs\n"
          "  dovetail traces                        the slowest traces\n"
          "  dovetail flame 4bf92f35                one trace's flame graph; any unique prefix of its id\n"
          "  dovetail flame --label tenant=acme     one tenant's, over all its traces\n"
          "\nexit codes: 0 done, 1 nothing matched, 2 wrong use, 3 the environment does not allow it, 4 data "
          "is damaged\n",
          out);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    const char *near = args_nearest(name, names, N_COMMANDS);
    if (near) {
        cli_note("unknown command \"%.40s\"; did you mean %s?", name, near);
    } else {
        cli_note("unknown command \"%.40s\"; dovetail --help lists them", name);
    }
    return CLI_USAGE;
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct args args = {.argc = argc,
                        .argv = argv,
                        .tables = {c->options, c->takes_filter ? filter_options : NULL, cli_options}};
    return cli_finish(c->run(&args));
}

int main(int argc, char **argv)
{
    signal(
        SIGPIPE,
        SIG_DFL); /* a reader that has seen enough ends us quietly, even if our parent ignored the signal */
    if (argc < 2) {
        print_usage(stdout);
        return cli_finish(CLI_DONE);
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const struct command *c = argc > 2 ? find(argv[2]) : NULL;
        if (c) {
            cli_help(c);
        } else {
            print_usage(stdout);
        }
        return cli_finish(CLI_DONE);
    }
    if (strcmp(name, "--version") == 0) {
        puts("dovetail " DOVETAIL_VERSION);
        return cli_finish(CLI_DONE);
    }
    const struct command *c = find(name);
    return c ? run_command(c, argc - 2, argv + 2) : unknown(name);
}
