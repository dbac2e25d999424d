/*
 * tick_map: what CLOCK_MONOTONIC showed at a tick of the processor's counter, for all ticks since the map
 * began.
 *
 * The map is a chain of knots, moments at which both were read; between two knots it is a straight line, as
 * the kernel makes the clock of the counter. It bends a little where the kernel changes the clock's rate
 * (NTP). A knot a second is kept; when there is no room, the one that is missed least goes, so that a map of
 * hours still says what it said, and how far off it may be. A counter that leaves its line (suspended, reset,
 * another machine) is refused, and the map begins anew: what was before is not known any more. Pure; the
 * caller reads counter and clock.
 */
#ifndef DVT_TICK_MAP_H
#define DVT_TICK_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DVT_TICK_KNOTS = 256,
    DVT_TICK_SPACING_NS = 1000000000,
    /* The clock's rate changes by less than this part of it; NTP: 1,000 ppm at most. */
    DVT_TICK_MAX_BEND = 512,
    /* And by less than this part in the first second, which has nothing to be compared with. */
    DVT_TICK_UNSEEN_BEND = 100000,
};

struct dvt_tick_pair { /* the clock showed ns at ticks, give or take half_ticks */
    uint64_t ticks, ns, half_ticks;
};
struct dvt_tick_knot {
    struct dvt_tick_pair at;
    uint64_t rate;   /* ns per tick since the knot before, times 2^48 */
    uint64_t bend_ns; /* how far the clock may have been from that line in between */
};
struct dvt_tick_map { /* one thread's */
    uint32_t n;
    struct dvt_tick_knot knots[DVT_TICK_KNOTS];
};

/* Adds a pair, which is not older than the last. False: the counter has left its line, and the map begins at
 * this pair. */
bool dvt_tick_map_add(struct dvt_tick_map *m, struct dvt_tick_pair pair);
/* What the clock showed at a tick, and by how much that may be wrong. Monotone between two calls of add.
 * Before the first knot: the first knot's time; after the last: the last's. */
uint64_t dvt_tick_map_ns(const struct dvt_tick_map *m, uint64_t ticks, uint64_t *ret_err_ns);
/* Whether a tick lies after the last knot. */
bool dvt_tick_map_is_ahead(const struct dvt_tick_map *m, uint64_t ticks);

#endif
