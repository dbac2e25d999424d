/*
 * peer: who is at the other end, by /proc: pid namespaces, start time, threads. Layer 1.
 *
 * The kernel names the process (SO_PEERCRED, in our pid namespace). What the process says of itself is only
 * checked against that. All text of /proc is parsed by bounded pure functions.
 */
#ifndef PEER_H
#define PEER_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer {
    uint32_t host_pid, ns_pid; /* ns_pid: as the process itself sees it (innermost namespace) */
    uint32_t n_namespaces;     /* pid namespaces from ours down to its own; 1: the same */
    uint64_t start_ticks;
};

/* Field 22 of a /proc/PID/stat line; the name in parentheses may hold anything. 0 or DVT_EFORMAT. */
int peer_parse_stat(const char *text, uint64_t *ret_start_ticks);
/* The NSpid line of a /proc/PID/status text: innermost number and how many there are. 0 or DVT_EFORMAT. */
int peer_parse_nspid(const char *text, uint32_t *ret_innermost, uint32_t *ret_n);

/* DVT_ENOENT if it is gone (or not visible in our /proc). */
int peer_read(uint32_t host_pid, struct peer *ret, struct dvt_err *err);
/* The host's number of a thread that the process calls tid; DVT_ENOENT if the process has no such thread. */
int peer_host_tid(const struct peer *p, uint32_t tid, uint32_t *ret_host_tid, struct dvt_err *err);
bool peer_has_task(uint32_t host_pid, uint32_t host_tid);

#endif
