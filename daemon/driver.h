/*
 * driver: the thread that runs the pipeline: takes what sampler and ingest hand over, passes the time, gives
 * closed traces to the writer, reports the ledgers. Layer 6.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include "board.h"
#include "pipeline.h"
#include "queue.h"
#include "writer.h"

struct driver;

struct driver_config {
    struct pipeline_config pipeline;
    size_t queue_bytes; /* of each of the two queues */
    struct board *board;
    struct writer *writer;
    const struct edge_counts *counts; /* the daemon's own, which belong to no process */
};

int driver_new(const struct driver_config *c, struct driver **ret, struct dvt_err *err);
/* Of struct feed. Each has one producer: the main thread, and ingest's. */
struct queue *driver_sampler_queue(struct driver *d);
struct queue *driver_ingest_queue(struct driver *d);

int driver_start(struct driver *d, struct dvt_err *err);
/* Feeds what is there, closes all traces, makes a last report, ends the thread. Producers have stopped. */
void driver_stop(struct driver *d);
void driver_free(struct driver *d);

#endif
