/*
 * hotspot: the attach protocol of HotSpot JVMs, as the client: a trigger file and SIGQUIT make the JVM listen
 * on a socket in its temporary folder, over which it loads an agent. To a JVM that would not listen, SIGQUIT
 * means "print all threads", or death: hotspot_judge decides from facts whether it may be sent.
 */
#ifndef HOTSPOT_H
#define HOTSPOT_H

#include "target.h"

struct hotspot {
    const struct target *target; /* must outlive it */
    int tmp;                     /* its temporary folder, an O_PATH descriptor */
    char version[32];            /* "25.0.1"; "" if it does not tell */
    char *command;               /* owned: main class or jar, with its arguments; NULL if it does not tell */
};

/* What decides; "unknown" where it cannot be told. */
enum hotspot_truth { HOTSPOT_NO, HOTSPOT_YES, HOTSPOT_UNKNOWN };
struct hotspot_facts {
    bool listens;                      /* its socket takes connections already */
    bool is_initialised;               /* else an agent, or the signal, could be its end */
    bool handles_signal;               /* SIGQUIT has a handler */
    bool is_other_user;                /* and we are not root */
    char state;                        /* of struct target */
    int major;                         /* 17; 0: not known */
    enum hotspot_truth attach_is_off;  /* -XX:+DisableAttachMechanism */
    enum hotspot_truth loading_is_off; /* -XX:-EnableDynamicAgentLoading */
};

/* Learns of the target what it can without touching it. ret_facts as of now. DVT_EPERM: may not look into it.
 */
int hotspot_open(const struct target *t, struct hotspot *ret, struct hotspot_facts *ret_facts,
                 struct dvt_err *err);
void hotspot_close(struct hotspot *h);
/* Pure: 0, or why the target must be left alone and what would help. */
int hotspot_judge(const struct hotspot_facts *f, struct dvt_err *err);

struct hotspot_answer {
    int agent;      /* what its Agent_OnAttach returned */
    char text[512]; /* what the JVM said, where there was no such call */
};
/* Has it load an agent (again: the agent is called again). Only where hotspot_judge allows it. Waits,
 * bounded, for the JVM. */
int hotspot_load(const struct hotspot *h, const char *library, const char *options,
                 struct hotspot_answer *ret, struct dvt_err *err);

/* ---- pure ---- */

/* A boolean option -XX:+NAME or -XX:-NAME among options separated by blanks or NULs, the last of which
 * counts. */
enum hotspot_truth hotspot_flag(const char *options, size_t n, const char *name,
                                enum hotspot_truth otherwise);
/* "17.0.15" and "1.8.0_392": the major version; 0: none. */
int hotspot_major(const char *version);
/* The JVM's answer to `load`: true if an agent was called. */
bool hotspot_parse_answer(const char *text, struct hotspot_answer *ret);

#endif
