/*
 * tick_map: see tick_map.h.
 */
#include "tick_map.h"

#include <string.h>

enum { RATE_BITS = 48, SLACK_NS = 1000 };

__extension__ typedef unsigned __int128 u128;

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t to_ns(uint64_t ticks, uint64_t rate)
{
    u128 ns = (u128)ticks * rate >> RATE_BITS;
    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

static uint64_t rate_between(const struct dvt_tick_pair *a, const struct dvt_tick_pair *b)
{
    return (uint64_t)(((u128)(b->ns - a->ns) << RATE_BITS) / (b->ticks - a->ticks));
}

/* The clock at a tick after knot a, if it went on at that rate. */
static uint64_t on_line(const struct dvt_tick_pair *a, uint64_t rate, uint64_t ticks)
{
    return a->ns + to_ns(ticks - a->ticks, rate);
}

/* How far the line through knots a and b may be off at a tick after b, for the errors of their readings
 * alone. */
static uint64_t aim_error(const struct dvt_tick_knot *a, const struct dvt_tick_knot *b, uint64_t ticks)
{
    uint64_t both = a->at.half_ticks + b->at.half_ticks;
    return to_ns((uint64_t)((u128)both * (ticks - b->at.ticks) / (b->at.ticks - a->at.ticks)) + both,
                 b->rate);
}

/* Whether the pair lies where the last full segment leads to. */
static bool is_on_line(const struct dvt_tick_map *m, const struct dvt_tick_pair *p)
{
    const struct dvt_tick_knot *last = &m->knots[m->n - 1];
    if (m->n == 1)
        return true;
    uint64_t off = distance(p->ns, on_line(&last->at, last->rate, p->ticks));
    uint64_t may = to_ns(p->half_ticks, last->rate) + aim_error(last - 1, last, p->ticks) + SLACK_NS;
    return off <= may + (p->ns - last->at.ns) / DVT_TICK_MAX_BEND;
}

/* ---- knots ---- */

/* A clock that changed its rate within the new segment is off the line of the one before at the segment's
 * end, and farther off than it was in between. */
static struct dvt_tick_knot make_knot(const struct dvt_tick_map *m, const struct dvt_tick_pair *p)
{
    const struct dvt_tick_knot *last = &m->knots[m->n - 1];
    struct dvt_tick_knot k = {.at = *p, .rate = rate_between(&last->at, p)};
    k.bend_ns = m->n == 1 ? (p->ns - last->at.ns) / DVT_TICK_UNSEEN_BEND
                          : distance(p->ns, on_line(&last->at, last->rate, p->ticks));
    return k;
}

/* The first segment has none before it: the second, once it is full, tells of it. */
static void see_first_bend(struct dvt_tick_map *m)
{
    struct dvt_tick_knot *k = &m->knots[1];
    if (m->n == 3)
        k->bend_ns = to_ns(k->at.ticks - k[-1].at.ticks, distance(k->rate, k[1].rate));
}

/* What the segment after knot i - 1 would be off by, if knot i went. */
static uint64_t bend_without(const struct dvt_tick_map *m, uint32_t i)
{
    const struct dvt_tick_knot *k = &m->knots[i];
    uint64_t direct = on_line(&k[-1].at, rate_between(&k[-1].at, &k[1].at), k->at.ticks);
    uint64_t most = k->bend_ns > k[1].bend_ns ? k->bend_ns : k[1].bend_ns;
    return most + distance(direct, k->at.ns);
}

static void make_room(struct dvt_tick_map *m)
{
    uint32_t best = 1;
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t i = 1; i + 1 < m->n; i++) {
        uint64_t ns = bend_without(m, i);
        if (ns >= best_ns)
            continue;
        best = i;
        best_ns = ns;
    }
    struct dvt_tick_knot *k = &m->knots[best];
    k[1].bend_ns = best_ns;
    k[1].rate = rate_between(&k[-1].at, &k[1].at);
    memmove(k, k + 1, (m->n - best - 1) * sizeof *k);
    m->n--;
}

static void restart(struct dvt_tick_map *m, const struct dvt_tick_pair *p)
{
    m->knots[0] = (struct dvt_tick_knot){.at = *p};
    m->n = 1;
}

/* The last knot only stands for the present until its second is full. */
static void end_last_segment(struct dvt_tick_map *m)
{
    if (m->n > 1 && m->knots[m->n - 1].at.ns - m->knots[m->n - 2].at.ns < DVT_TICK_SPACING_NS)
        m->n--;
    else
        see_first_bend(m);
}

bool dvt_tick_map_add(struct dvt_tick_map *m, struct dvt_tick_pair pair)
{
    if (m->n == 0) {
        restart(m, &pair);
        return true;
    }
    const struct dvt_tick_pair *last = &m->knots[m->n - 1].at;
    bool fits = pair.ticks >= last->ticks && pair.ns >= last->ns;
    if (fits && pair.ticks == last->ticks)
        return true;
    end_last_segment(m);
    if (!fits || !is_on_line(m, &pair)) {
        restart(m, &pair);
        return false;
    }
    if (m->n == DVT_TICK_KNOTS)
        make_room(m);
    m->knots[m->n] = make_knot(m, &pair);
    m->n++;
    return true;
}

/* ---- reading ---- */

bool dvt_tick_map_is_ahead(const struct dvt_tick_map *m, uint64_t ticks)
{
    return m->n == 0 || ticks > m->knots[m->n - 1].at.ticks;
}

static uint64_t error_before(const struct dvt_tick_knot *k)
{
    uint64_t half = k[-1].at.half_ticks > k->at.half_ticks ? k[-1].at.half_ticks : k->at.half_ticks;
    return to_ns(half, k->rate) + k->bend_ns + 1;
}

/* The first knot at or after a tick that lies between the first and the last. */
static uint32_t knot_after(const struct dvt_tick_map *m, uint64_t ticks)
{
    uint32_t lo = 1, hi = m->n - 1;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (m->knots[mid].at.ticks < ticks)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t dvt_tick_map_ns(const struct dvt_tick_map *m, uint64_t ticks, uint64_t *ret_err_ns)
{
    *ret_err_ns = 0;
    if (m->n == 0)
        return 0;
    if (dvt_tick_map_is_ahead(m, ticks))
        return m->knots[m->n - 1].at.ns;
    if (ticks <= m->knots[0].at.ticks)
        return m->knots[0].at.ns;
    uint32_t i = knot_after(m, ticks);
    *ret_err_ns = error_before(&m->knots[i]);
    return on_line(&m->knots[i - 1].at, m->knots[i].rate, ticks);
}
