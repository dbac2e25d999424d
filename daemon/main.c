/*
 * dovetaild: reads flags and file, runs the daemon, turns errors into exit codes.
 */
#include "daemon.h"
#include "log.h"

#include <stdio.h>
#include <sys/stat.h>

enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_DAMAGED = 4 };

static int exit_code(int code)
{
    switch (code) {
    case 0:
        return EXIT_DONE;
    case DVT_EINVAL:
        return EXIT_USAGE;
    case DVT_EFORMAT:
    case DVT_EVERSION:
        return EXIT_DAMAGED;
    default:
        return EXIT_ENVIRONMENT;
    }
}

int main(int argc, char **argv)
{
    struct config config;
    struct dvt_err err = {0};
    char cwd[CONFIG_PATH];
    struct config_env env = config_env_here(cwd);
    umask(027); /* SQLite makes its files with what is left of 0644 */
    int r = config_parse(argc, argv, &env, &config, &err);
    if (r) {
        fprintf(stderr, "dovetaild: %s\n", err.text);
        return exit_code(r);
    }
    if (config.help) {
        config_print_help(stdout);
        return EXIT_DONE;
    }
    if (config.version) {
        printf("dovetaild %s\n", DOVETAIL_VERSION);
        return EXIT_DONE;
    }
    log_set_level(LOG_LEVEL_INFO + config.verbose);
    r = daemon_run(&config, &err);
    if (r)
        fprintf(stderr, "dovetaild: %s\n", err.text);
    return exit_code(r);
}
