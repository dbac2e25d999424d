/*
 * queue: bounded hand-over between two threads, one producer and one consumer. Layer 0.
 *
 * A linked list with one dummy node: push and pop are wait-free. The bound is in bytes: an ordinary item that
 * would pass it is refused (the producer drops and counts); items that must arrive (something ended) pass the
 * bound, since there is at most a few of them per object alive.
 *
 * wake: a consumer of one or more queues sleeps on an eventfd. Producers pay a system call only if it sleeps.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_node {
    _Atomic(struct queue_node *) next;
    void *item;
    size_t bytes;
};

struct wake {
    int fd;               /* eventfd, non-blocking */
    _Atomic int sleeping; /* 1: the consumer wants a write to fd */
};

int wake_init(struct wake *w); /* 0 or -errno */
void wake_fini(struct wake *w);
/* Any thread. */
void wake_up(struct wake *w);
/* The consumer: announce sleep, then look at the queues once more, then wake_wait (or wake_cancel). */
void wake_prepare(struct wake *w);
void wake_cancel(struct wake *w);
void wake_wait(struct wake *w, int timeout_ms);

struct queue {
    struct queue_node *tail; /* producer */
    struct queue_node *head; /* consumer; the dummy */
    _Atomic size_t bytes;
    size_t max_bytes;
    struct wake *wake;       /* the consumer's, may be NULL */
};

int queue_init(struct queue *q, size_t max_bytes, struct wake *consumer); /* 0 or -ENOMEM */
/* Frees the nodes; free_item (may be NULL) gets what was not taken. Both sides have stopped. */
void queue_fini(struct queue *q, void (*free_item)(void *item));

/* Producer. False: not taken, still the caller's. bytes: what the item holds in memory. */
bool queue_push(struct queue *q, void *item, size_t bytes);
/* Producer: passes the bound; false only without memory. */
bool queue_push_must(struct queue *q, void *item, size_t bytes);

/* Consumer: the oldest item, or NULL. */
void *queue_pop(struct queue *q);
bool queue_is_empty(const struct queue *q); /* consumer */
size_t queue_bytes(const struct queue *q);  /* any thread */

#endif
