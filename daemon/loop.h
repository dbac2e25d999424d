/*
 * loop: epoll with callbacks, for one thread. Layer 1.
 *
 * A source may be removed inside any callback, its own included: it is freed after the batch of events at
 * hand, and its callback is not called again.
 */
#ifndef LOOP_H
#define LOOP_H

#include "../proto/err.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_source;
typedef void loop_fn(void *ctx, uint32_t events); /* events: EPOLLIN, ... */

int loop_new(struct loop **ret, struct dvt_err *err);
void loop_free(struct loop *l);
/* fd stays the caller's, who removes the source before closing it. */
int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *ctx, struct loop_source **ret,
             struct dvt_err *err);
void loop_change(struct loop *l, struct loop_source *s, uint32_t events);
void loop_remove(struct loop *l, struct loop_source *s); /* NULL is fine */

/* A timer that calls fn each interval while set; 0 ms stops it. */
struct loop_timer;
int loop_timer_new(struct loop *l, loop_fn *fn, void *ctx, struct loop_timer **ret, struct dvt_err *err);
void loop_timer_set(struct loop_timer *t, uint32_t interval_ms);
void loop_timer_free(struct loop_timer *t);

/* Handles what is ready, waiting at most timeout_ms (-1: for ever) for it. DVT_EIO. */
int loop_turn(struct loop *l, int timeout_ms, struct dvt_err *err);

#endif
