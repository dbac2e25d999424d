/*
 * session: the processes that report, and the keys that prove it. Layer 1.
 *
 * The sampler thread opens a session at the handshake and closes it when the control connection is gone; the
 * ingest thread checks every message against it. One lock, held for look-ups only. A closed session lives on
 * until its goodbye was read, or nothing more came for a while: what was under way when the process ended is
 * still taken.
 */
#ifndef SESSION_H
#define SESSION_H

#include "peer.h"
#include "process.h"

struct sessions;

enum { SESSION_QUIET_MS = 300 }; /* without news after the connection closed: it has said all */

struct sessions *sessions_new(void);
void sessions_free(struct sessions *s);

struct session_keys {
    uint64_t id;
    uint8_t key[DVT_KEY_BYTES];
};

/* Gives proc its daemon-wide index, and makes a random id and key. Not known to sessions_check until
 * published, so that the pipeline can be told first. */
int sessions_prepare(struct sessions *s, struct process *proc, struct session_keys *ret, struct dvt_err *err);
/* Takes a reference of its own. */
int sessions_publish(struct sessions *s, const struct session_keys *k, struct process *proc,
                     struct dvt_err *err);
void sessions_close(struct sessions *s, uint64_t id, uint64_t now_ns);

struct session_answer {
    int code;             /* 0 or DVT_EAUTH, counted */
    struct process *proc; /* with code 0: a new reference */
};
/* Checks mac and sequence of one message or of two, in their order. */
void sessions_check(struct sessions *s, const struct dvt_envelope *env, size_t n, uint64_t now_ns,
                    struct session_answer *ret);
/* The shim's own report of a time: it has sent all up to there. */
void sessions_heard(struct sessions *s, uint64_t id, uint64_t shim_now_ns, bool bye);
/* Every open session has been heard with a time >= since_ns. */
bool sessions_all_heard(struct sessions *s, uint64_t since_ns);

/* Removes a closed session that has said all and returns true with its process's index. */
bool sessions_take_ended(struct sessions *s, uint64_t now_ns, uint32_t *ret_process);
bool sessions_any_closing(struct sessions *s);
/* Counts of messages that belong to no process. */
struct edge_counts *sessions_unknown(struct sessions *s);

#endif
