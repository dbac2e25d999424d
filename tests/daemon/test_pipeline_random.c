/*
 * test_pipeline_random: 10,000 random histories against an oracle.
 *
 * A history is lived by threads that open and close scopes (now and then out of order) while samples fall. The oracle is
 * what was open when a sample fell: the last opened scope. What the pipeline is told arrives in pieces: samples in lumps,
 * scopes in batches with a true settled head, announcements of what is open, requests to write what there is, kills.
 * No sample may ever be in another scope than the oracle says, and none may vanish.
 */
#include <CUnit/Basic.h>

#include "pipeline_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HISTORIES = 1000 }; /* each takes 20 times as long */
#else
enum { HISTORIES = 10000 };
#endif
enum { MAX_THREADS = 3, MAX_SCOPES = 200, MAX_SAMPLES = 200, MAX_OPEN = 8, STEPS = 120 };

struct life { /* of one thread */
    struct dvt_scope_rec open[MAX_OPEN], closed[MAX_SCOPES];
    uint32_t n_open, n_closed, n_told; /* closed[n_told..n_closed) are not sent yet */
    uint64_t offs[MAX_SAMPLES], truth[MAX_SAMPLES], times[MAX_SAMPLES];
    uint32_t n_samples, n_fed;
    uint64_t head, serial;
};

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static void live_open(struct rig *r, struct life *l)
{
    if (l->n_open == MAX_OPEN || l->serial == MAX_SCOPES)
        return;
    struct dvt_scope_rec rec = rig_rec(r, ++l->serial, l->head, l->head, (uint8_t)(1 + below(4)));
    rec.parent_serial = l->n_open ? l->open[l->n_open - 1].serial : 0;
    rec.start_ns = r->now_ns;
    rec.flags = below(8) ? 0 : DVT_SCOPE_ROOT;
    l->open[l->n_open++] = rec;
}

static void live_close(struct rig *r, struct life *l)
{
    if (!l->n_open)
        return;
    uint32_t i = below(6) ? l->n_open - 1 : below(l->n_open);
    struct dvt_scope_rec rec = l->open[i];
    rec.head_close = l->head;
    rec.end_ns = r->now_ns;
    if (i + 1 < l->n_open)
        rec.flags |= DVT_SCOPE_OUT_OF_ORDER;
    memmove(l->open + i, l->open + i + 1, (l->n_open - i - 1) * sizeof rec);
    l->n_open--;
    if (rec.head_open == rec.head_close && below(2))
        return; /* dropped by rule */
    l->closed[l->n_closed++] = rec;
}

static void live_sample(struct rig *r, struct life *l)
{
    if (l->n_samples == MAX_SAMPLES)
        return;
    l->head += 1 + below(50);
    l->offs[l->n_samples] = l->head;
    l->times[l->n_samples] = r->now_ns;
    l->truth[l->n_samples++] = l->n_open ? l->open[l->n_open - 1].serial : 0;
}

/* ---- what the pipeline is told ---- */

static void tell_samples(struct rig *r, uint32_t tid, struct life *l, uint32_t n)
{
    uint64_t head = l->n_fed ? l->offs[l->n_fed - 1] : 0;
    for (; n && l->n_fed < l->n_samples; n--, l->n_fed++) {
        head = l->offs[l->n_fed];
        rig_sample_of(r, rig_key(tid), head, l->times[l->n_fed]);
    }
    rig_drained(r, tid, l->n_fed == l->n_samples ? l->head : head);
}

static void tell_scopes(struct rig *r, uint32_t tid, struct life *l, bool with_open)
{
    struct dvt_scope_rec v[MAX_SCOPES + MAX_OPEN];
    uint64_t settled = l->n_open ? l->open[0].head_open : l->head;
    size_t n = 0;
    for (; l->n_told < l->n_closed; l->n_told++)
        v[n++] = l->closed[l->n_told];
    for (uint32_t i = 0; with_open && i < l->n_open; i++) {
        v[n] = l->open[i];
        v[n].head_close = l->head;
        v[n].end_ns = r->now_ns;
        v[n++].flags |= DVT_SCOPE_OPEN;
    }
    rig_scopes(r, tid, settled, v, n);
}

static void step(struct rig *r, uint32_t tid, struct life *l)
{
    switch (below(16)) {
    case 0:
        tell_scopes(r, tid, l, false);
        break;
    case 1:
        tell_scopes(r, tid, l, true);
        break;
    case 2:
    case 3:
        tell_samples(r, tid, l, 1 + below(10));
        break;
    case 4:
        rig_tick(r, below(3) ? MS : SEC);
        break;
    case 5:
        if (!below(4))
            pipeline_close_all(r->p, r->now_ns);
        break;
    case 6:
    case 7:
    case 8:
        live_open(r, l);
        break;
    case 9:
    case 10:
    case 11:
        live_close(r, l);
        break;
    default:
        live_sample(r, l);
    }
    r->now_ns += MS;
}

/* Tells the rest, properly or by a kill. */
static void end(struct rig *r, struct life *lives, uint32_t n, bool killed)
{
    for (uint32_t i = 0; i < n; i++) {
        while (!killed && lives[i].n_open)
            live_close(r, &lives[i]);
        tell_samples(r, i + 1, &lives[i], MAX_SAMPLES);
        if (!killed)
            tell_scopes(r, i + 1, &lives[i], false);
    }
    rig_tick(r, 0);
    if (killed)
        pipeline_process_down(r->p, 1, r->now_ns);
    for (uint32_t i = 0; i < n; i++)
        pipeline_progress(r->p, rig_key(i + 1), lives[i].head, 0, true);
    rig_tick(r, 0);
    rig_tick(r, r->cfg.settle_cap_ns);
    rig_tick(r, r->cfg.settle_cap_ns);
    pipeline_close_all(r->p, r->now_ns);
}

static uint32_t count_wrong(struct rig *r, const struct life *lives, uint32_t *ret_joined)
{
    uint32_t wrong = 0;
    for (struct trace *t; (t = pipeline_take_closed(r->p)); trace_free(t))
        for (uint32_t i = 0; i < t->n_samples; i++, ++*ret_joined) {
            const struct life *l = &lives[t->samples[i].raw->thread.tid - 1];
            const struct trace_scope *s = &t->scopes[t->samples[i].scope];
            uint32_t k = 0;
            while (l->offs[k] != t->samples[i].raw->end_off)
                k++;
            wrong += s->serial != l->truth[k] || t->threads[s->thread].key.tid != t->samples[i].raw->thread.tid;
        }
    return wrong;
}

static uint32_t count_scoped(const struct life *lives, uint32_t n)
{
    uint32_t scoped = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < lives[i].n_samples; k++)
            scoped += lives[i].truth[k] != 0;
    return scoped;
}

/* Returns how many samples went wrong or missing. */
static uint32_t run_history(uint64_t seed, bool killed)
{
    static struct life lives[MAX_THREADS];
    struct rig r;
    memset(lives, 0, sizeof lives);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    rig_start(&r, NULL, false);
    uint32_t n = 1 + below(MAX_THREADS), joined = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t k = below(n);
        step(&r, k + 1, &lives[k]);
    }
    end(&r, lives, n, killed);
    uint32_t bad = count_wrong(&r, lives, &joined);
    struct ledger l = rig_ledger(&r);
    bool adds_up = rig_adds_up(&r) && l.pending == 0 && l.joined == joined;
    bool complete = killed || (joined == count_scoped(lives, n) && l.lost_end == 0);
    bad += !adds_up;
    bad += !complete;
    rig_stop(&r);
    return bad;
}

static void test_every_sample_of_a_told_history_is_in_its_scope(void)
{
    uint32_t bad = 0;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        if (run_history(seed, false) && bad++ == 0)
            fprintf(stderr, "first bad history: %llu\n", (unsigned long long)seed);
    CU_ASSERT_EQUAL(bad, 0);
}

static void test_no_sample_of_a_killed_history_is_in_a_wrong_scope(void)
{
    uint32_t bad = 0;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        if (run_history(seed, true) && bad++ == 0)
            fprintf(stderr, "first bad history: %llu\n", (unsigned long long)seed);
    CU_ASSERT_EQUAL(bad, 0);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("pipeline_random", NULL, NULL);
    CU_add_test(s, "every sample of a told history is in its scope", test_every_sample_of_a_told_history_is_in_its_scope);
    CU_add_test(s, "no sample of a killed history is in a wrong scope",
                test_no_sample_of_a_killed_history_is_in_a_wrong_scope);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
