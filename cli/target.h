/*
 * target: a running process as /proc shows it: whose it is, whether it can act, what it has mapped. Read in
 * one go; every text is bounded. A process may end at any moment and its number go to another:
 * target_is_there says whether it is still the one.
 */
#ifndef TARGET_H
#define TARGET_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct target {
    pid_t pid, inner_pid; /* inner_pid: as the process itself sees it */
    uint64_t start_ticks;
    char state; /* as in /proc/PID/stat: R, S, T, Z, ... */
    uid_t uid, euid;
    gid_t egid;
    uint64_t caught; /* signals with a handler: bit 0 is signal 1 */
    char comm[32];
    char *command, *environment; /* owned; words that end with NUL; NULL where we may not read it */
    size_t n_command, n_environment;
    char *maps; /* owned; /proc/PID/maps, or NULL */
};

/* DVT_ENOENT: there is no such process. The rest of err says why it is of no use. */
int target_read(pid_t pid, struct target *ret, struct dvt_err *err);
void target_fini(struct target *t);

/* Whether it is still the process that was read, and has not ended. */
bool target_is_there(const struct target *t);
bool target_catches(const struct target *t, int signal);
/* The value of an environment variable as it was given at its start, or NULL. */
const char *target_variable(const struct target *t, const char *name);
/* Whether it has a thread of this name, as the kernel keeps it: 15 bytes. */
bool target_has_thread(const struct target *t, const char *comm);
/* The path of the first mapped file whose name begins so ("libjvm.so"), also if it was removed since; NULL:
 * there is none. The caller frees. */
char *target_mapped(const struct target *t, const char *begin);
/* The name of its program: the last part of /proc/PID/exe, else its comm. The caller frees. */
char *target_program(const struct target *t);
/* A folder of its own file system, whatever links it has laid out: an O_PATH descriptor, or -1 with errno. */
int target_open_folder(const struct target *t, const char *path);
/* A file of it likewise, to read. */
int target_open_file(const struct target *t, const char *path);
/* A socket in the target's network, which has loopback and abstract names of its own; we stay in ours. -1 with errno: EPERM without
 * CAP_SYS_ADMIN where that is another one. The program must have one thread. */
int target_socket(const struct target *t, int family, int type);
/* Whether the target sees the same file at this path as we do. */
bool target_sees(const struct target *t, const char *path);

/* ---- pure ---- */

/* Of the text of /proc/PID/status. DVT_EFORMAT. */
int target_parse_status(const char *text, struct target *t);
/* The path of the line of maps whose file's name begins so: *ret points into maps; its length, or 0. */
size_t target_find_mapped(const char *maps, const char *begin, const char **ret);

#endif
