/*
 * feed: what sampler and ingest hand to the pipeline's thread. Layer 1: plain structs and their end.
 */
#ifndef FEED_H
#define FEED_H

#include "process.h"
#include "sample.h"
#include "switches.h"

#include <stdbool.h>
#include <stddef.h>

enum feed_type {
    FEED_PROCESS_UP,   /* process */
    FEED_PROCESS_DOWN, /* thread.process */
    FEED_THREAD_UP,    /* thread, host_tid */
    FEED_SAMPLE,       /* sample */
    FEED_PROGRESS,     /* thread, head, lost, ended */
    FEED_SWITCHES,     /* thread, switches */
    FEED_SWITCHED,     /* head: CLOCK_MONOTONIC, up to which the switches of all threads are told */
    FEED_MESSAGE,      /* thread.process, body */
    FEED_REPORT,       /* generation: publish a report of at least this number */
    FEED_FLUSH,        /* generation: close all traces and have them written */
};

struct feed {
    enum feed_type type;
    bool ended;
    struct thread_key thread;
    uint32_t host_tid;
    uint64_t head, lost;   /* PROGRESS, SWITCHED */
    uint64_t generation;
    struct process *process; /* one reference */
    struct sample *sample;   /* owned */
    struct switches *switches; /* owned */
    const void *body;        /* into what owner holds */
    size_t n_body;
    void *owner;
    void (*release)(void *owner); /* also frees owner; may be NULL */
};

struct feed *feed_new(enum feed_type type); /* NULL without memory */
void feed_free(void *feed);                 /* with all it owns */

#endif
