/*
 * ingest: the ZeroMQ PULL socket: frames in, verified message bodies out to the pipeline's queue. Layer 1,
 * own thread.
 *
 * Refuses, and counts: what is no envelope, of a newer major version, of an unknown session, with a wrong mac
 * or an old sequence number. Also tells the pipeline that a process is down, behind its last message.
 */
#ifndef INGEST_H
#define INGEST_H

#include "feed.h"
#include "queue.h"
#include "session.h"

struct ingest;

struct ingest_config {
    const char *endpoint; /* "ipc:///..." */
    struct sessions *sessions;
    struct queue *out;    /* of struct feed */
};

/* Binds and starts the thread. DVT_EIO. */
int ingest_start(const struct ingest_config *c, struct ingest **ret, struct dvt_err *err);
/* Has the thread look at the sessions again. Any thread. */
void ingest_poke(struct ingest *i);
/* Takes what has arrived, then ends the thread. */
void ingest_stop(struct ingest *i);

/* A frame from the network and what became of it. */
struct ingest_frame {
    const void *p;
    size_t n;
    int code;             /* 0 or DVT_E*, counted */
    struct process *proc; /* with code 0: a new reference */
    struct dvt_str body;  /* ... which points into p */
};
/* Two are authenticated in little more than the time of one. */
enum { INGEST_AT_ONCE = 2 };
/* Checks one frame or two, in their order. */
void ingest_check(struct sessions *s, struct ingest_frame *f, size_t n, uint64_t now_ns);

#endif
