/*
 * config: what the user asked for, from a file and flags of the same names. Layer 1.
 *
 * File: "key = value" lines, # comments, blank lines; a flag wins over the file. A wrong name or value is an
 * error that says where it stands and what is valid.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CONFIG_PATH = 512, CONFIG_SOCKET = 103 }; /* sun_path has 108, ".data" is appended */

struct config {
    char store[CONFIG_PATH];
    char socket[CONFIG_PATH];
    char file[CONFIG_PATH];
    char event[128];
    char socket_group[64]; /* empty: the daemon's own */
    uint32_t hz;
    uint32_t native;       /* enum perf_native */
    uint32_t stack_bytes;
    uint32_t max_threads;
    uint64_t budget_bytes; /* of the store; 0: none */
    uint32_t exit_with;    /* pid; 0: run on */
    int verbose;
    bool wall; /* context switches too */
    bool force, help, version;
};

struct config_env { /* injected for tests */
    const char *home, *xdg_state, *xdg_runtime; /* may be NULL */
    const char *socket; /* $DOVETAIL_SOCKET: shims and CLI look there first, so the daemon listens there */
    const char *cwd; /* relative paths are of it */
    uint32_t uid;
};
/* cwd[CONFIG_PATH] is filled. */
struct config_env config_env_here(char cwd[CONFIG_PATH]);

/* Reads --config's file, if any, then the flags. DVT_EINVAL; DVT_EIO for an unreadable file. */
int config_parse(int argc, char *const argv[], const struct config_env *env, struct config *ret,
                 struct dvt_err *err);
void config_print_help(FILE *out);

/* "512M", "2G", "65536": bytes. Pure. */
int config_parse_size(const char *text, uint64_t *ret_bytes);

#endif
