/*
 * bench_join: scopes per second through ingest and join on one core: 10 M scopes, 1 M samples, 64 threads,
 * nested (join_gen.h).
 *
 * Measured in CPU time, best of several rounds each:
 *   core      sealed messages -> MAC, decode, filter by samples, unpack, innermost scope of every sample; and
 *             how far each of these steps comes, so that their cost can be read off the differences
 *   join      filter and innermost scope alone, on columns of times in memory
 *   pipeline  the same messages through pipeline_message and pipeline_tick, with samples, traces and their
 *             closing
 *   DuckDB    the same pairs by ASOF joins on one thread (duckdb_asof.js), tables in memory; and the load of
 *             such tables
 * core and pipeline run the same functions; core leaves out what is done for each surviving scope and sample.
 * The pairs found are compared: the depths of the innermost scopes sum up to DuckDB's pairs.
 *
 *   bench_join [SCOPES] [--no-duckdb]
 * Exits with 1 if core is below 20 M scopes/s, or below 15 times DuckDB's join without its load.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "../../daemon/join.h"
#include "../../daemon/pipeline.h"
#include "../../daemon/scope_batch.h"
#include "../../daemon/scope_index.h"
#include "join_peer.h"

enum { ROUNDS = 3 };
enum { TIME_SCALE = 1000 }; /* the pipeline's clock runs faster than the data's, so that traces close */
#define TARGET_PER_S 20e6
#define TARGET_RATIO 15.0

static uint64_t n_scopes, n_samples;

/* CPU time, so that other work on the machine does not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- core ---- */

struct waiting { /* one thread's samples and scopes not joined yet */
    struct scope_index index;
    uint32_t first;
};
static struct waiting waiting[GEN_THREADS];
static struct scope_batch batch;
static uint32_t *stack, *rows, cap_rows;
static uint64_t joined, parent_sum;

static void fit_rows(uint32_t n)
{
    if (n <= cap_rows)
        return;
    cap_rows = 2 * n;
    stack = realloc(stack, cap_rows * sizeof *stack);
    rows = realloc(rows, cap_rows * sizeof *rows);
    require(stack && rows, "memory");
}

static void join_settled(struct waiting *w, const struct gen_thread *t, uint64_t settled)
{
    const uint64_t *offs = t->offs + w->first;
    uint32_t m = join_count_upto(offs, t->n_samples - w->first, settled);
    fit_rows((w->index.n > m ? w->index.n : m) + 1);
    struct join_scopes columns = {w->index.open, w->index.close, w->index.serial, w->index.n};
    join_innermost(&columns, offs, m, stack, rows);
    for (uint32_t i = 0; i < m; i++) {
        joined += rows[i] < JOIN_AMBIGUOUS;
        parent_sum += rows[i] < JOIN_AMBIGUOUS ? w->index.serial[rows[i]] : 0;
    }
    w->first += m;
    uint32_t n_keep = join_filter(&columns, t->offs + w->first, t->n_samples - w->first, stack);
    scope_index_keep(&w->index, stack, n_keep);
}

enum step { STEP_MAC, STEP_DECODE, STEP_HEADS, STEP_FILTER, STEP_JOIN, N_STEPS };
static enum step last_step;

/* Puts the rows that hold samples into their thread's index. */
static void filter_batch(struct waiting *w, const struct gen_thread *t)
{
    struct join_scopes grown = {batch.grown_open, batch.grown_close, NULL, batch.n_grown};
    uint32_t n = join_filter(&grown, t->offs + w->first, t->n_samples - w->first, batch.keep);
    require(!scope_index_reserve(&w->index, n), "memory");
    scope_batch_serials(&batch);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t row = batch.grown[batch.keep[k]];
        require(!scope_batch_is_bad(&batch, row), "scope");
        scope_index_put(&w->index, scope_batch_open(&batch, row), batch.close[row], batch.serial[row], NULL);
    }
}

static void core_message(const struct dvt_envelope *env)
{
    struct dvt_scopes scopes;
    struct dvt_str map;
    uint32_t type;
    require(!dvt_wire_type(env->body, &type, &map, NULL) && !dvt_wire_get_scopes(map, &scopes, NULL),
            "message");
    if (last_step == STEP_DECODE)
        return;
    require(!scope_batch_load(&batch, &scopes, UINT64_MAX / 2), "batch");
    if (last_step == STEP_HEADS)
        return;
    struct waiting *w = &waiting[scopes.tid];
    const struct gen_thread *t = &threads[scopes.tid];
    filter_batch(w, t);
    if (last_step == STEP_JOIN) {
        join_settled(w, t, scopes.settled_head);
        return;
    }
    w->first += join_count_upto(t->offs + w->first, t->n_samples - w->first, scopes.settled_head);
    w->index.n = 0;
}

/* Two messages are authenticated at once, as ingest does when they queue. */
static void core_pair(const struct message *m)
{
    static const uint8_t *const keys[2] = {key, key};
    struct dvt_envelope env[2];
    int rc[2];
    for (int i = 0; i < 2; i++)
        require(!dvt_wire_open(m[i].p, m[i].n, &env[i], NULL), "envelope");
    dvt_wire_verify_pair(env, keys, rc);
    require(!rc[0] && !rc[1], "mac");
    for (int i = 0; i < 2 && last_step > STEP_MAC; i++)
        core_message(&env[i]);
}

static double run_core(void)
{
    joined = parent_sum = 0;
    for (uint32_t i = 0; i < GEN_THREADS; i++) {
        waiting[i].first = 0;
        waiting[i].index.n = 0;
        waiting[i].index.is_sorted = true;
    }
    double begin = now_s();
    for (size_t i = 0; i < n_messages; i += 2) /* 64 threads send as many each: an even number */
        core_pair(&messages[i]);
    return now_s() - begin;
}

/* ---- join alone ---- */

struct columns {
    uint64_t *open, *close, *serial;
};
static struct columns columns_of[GEN_THREADS];
static uint64_t depth_sum;

static void make_columns(void)
{
    for (uint32_t i = 0; i < GEN_THREADS; i++) {
        const struct gen_thread *t = &threads[i];
        struct columns *c = &columns_of[i];
        c->open = malloc(3 * sizeof *c->open * t->n_scopes);
        require(c->open != NULL, "memory");
        c->close = c->open + t->n_scopes;
        c->serial = c->close + t->n_scopes;
        for (uint32_t k = 0; k < t->n_scopes; k++) {
            c->open[k] = t->scopes[k].open;
            c->close[k] = t->scopes[k].close;
            c->serial[k] = t->scopes[k].serial;
        }
        fit_rows(t->n_scopes + t->n_samples);
    }
}

static double run_join(void)
{
    static uint64_t *kept;
    static uint32_t *keep;
    if (!kept)
        kept = malloc(3 * sizeof *kept * threads[0].n_scopes),
        keep = malloc(sizeof *keep * threads[0].n_scopes);
    require(kept && keep, "memory");
    joined = depth_sum = 0;
    double begin = now_s();
    for (uint32_t i = 0; i < GEN_THREADS; i++) {
        const struct gen_thread *t = &threads[i];
        struct join_scopes all = {columns_of[i].open, columns_of[i].close, columns_of[i].serial, t->n_scopes};
        uint32_t n = join_filter(&all, t->samples, t->n_samples, keep);
        uint64_t *open = kept, *close = kept + n, *serial = close + n;
        for (uint32_t k = 0; k < n; k++)
            open[k] = all.open[keep[k]], close[k] = all.close[keep[k]], serial[k] = all.serial[keep[k]];
        struct join_scopes few = {open, close, serial, n};
        join_innermost(&few, t->samples, t->n_samples, stack, rows);
        for (uint32_t k = 0; k < t->n_samples; k++)
            if (rows[k] < JOIN_AMBIGUOUS)
                joined++, depth_sum += t->scopes[keep[rows[k]]].depth + 1;
    }
    return now_s() - begin;
}

/* ---- the whole pipeline ---- */

static struct sample *make_sample(uint32_t thread, uint64_t time_ns, uint64_t off)
{
    struct sample *s = calloc(1, sizeof *s);
    require(s != NULL, "memory");
    s->thread = (struct thread_key){1, thread, 1};
    s->time_ns = time_ns;
    s->end_off = off;
    s->bytes = sizeof *s;
    return s;
}

/* The sampler is ahead of the shim, as in life: a message finds its samples there. */
static void feed_samples(struct pipeline *p, uint32_t thread, uint32_t *at, uint64_t upto)
{
    const struct gen_thread *t = &threads[thread];
    for (; *at < t->n_samples && t->samples[*at] <= upto; ++*at)
        pipeline_sample(p, make_sample(thread, t->samples[*at], t->offs[*at]));
    pipeline_progress(p, (struct thread_key){1, thread, 1}, gen_head(t, upto), 0, false);
}

static uint64_t last_close(const struct message *m, uint32_t nth)
{
    const struct gen_thread *t = &threads[m->thread];
    uint32_t last = (nth + 1) * BATCH;
    return t->scopes[(last < t->n_scopes ? last : t->n_scopes) - 1].close;
}

static double run_pipeline(uint64_t *ret_joined)
{
    struct pipeline_config cfg;
    struct dvt_hello hello = {.runtime = dvt_str("c"), .service = dvt_str("bench")};
    struct process *proc = process_new(&hello);
    uint32_t at[GEN_THREADS] = {0}, batch_of[GEN_THREADS] = {0};
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = (size_t)4 << 30;
    struct pipeline *p = pipeline_new(&cfg);
    require(p && proc, "memory");
    proc->index = 1;
    pipeline_process_up(p, proc);
    double begin = now_s();
    for (size_t i = 0; i < n_messages; i++) {
        const struct message *m = &messages[i];
        struct dvt_envelope env;
        uint64_t last = last_close(m, batch_of[m->thread]++);
        feed_samples(p, m->thread, &at[m->thread], last);
        require(!dvt_wire_open(m->p, m->n, &env, NULL) && !dvt_wire_verify(&env, key), "envelope");
        uint64_t now_ns = last * TIME_SCALE;
        pipeline_message(p, 1, env.body.p, env.body.n, now_ns);
        pipeline_tick(p, now_ns);
        for (struct trace *t; (t = pipeline_take_closed(p));)
            trace_free(t);
    }
    double seconds = now_s() - begin;
    struct ledger l;
    pipeline_total(p, &l);
    *ret_joined = l.joined;
    pipeline_free(p);
    process_unref(proc);
    return seconds;
}

/* ---- */

static double best_of(double (*run)(void))
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double s = run();
        best = s < best ? s : best;
    }
    return best;
}

static void print_rate(const char *what, double seconds)
{
    printf("%-28s %8.1f M scopes/s  %6.1f ns a scope\n", what, (double)n_scopes / seconds / 1e6,
           seconds / (double)n_scopes * 1e9);
}

static double run_steps(void)
{
    static const char *const names[N_STEPS] = {"core: MAC", "core: and decode", "core: and ring heads",
                                               "core: and filter, unpack", "core: and join (all)"};
    double seconds = 0;
    for (last_step = STEP_MAC; last_step < N_STEPS; last_step++) {
        seconds = best_of(run_core);
        print_rate(names[last_step], seconds);
    }
    return seconds;
}

/* What DuckDB finds must be what we found. */
static bool compare(double core, double join)
{
    struct peer peer = run_peer();
    if (peer.join_s == 0) {
        printf("DuckDB: not run (node or npm's @duckdb/node-api is not there)\n");
        return true;
    }
    print_rate("DuckDB ASOF join", peer.join_s);
    print_rate("DuckDB load and join", peer.load_s + peer.join_s);
    printf("times as fast as DuckDB: join to join %.1f, ingest and join to load and join %.1f; "
           "ingest and join to join %.1f (target %.0f)\n",
           peer.join_s / join, (peer.load_s + peer.join_s) / core, peer.join_s / core, TARGET_RATIO);
    printf("pairs %lu, DuckDB %lu\n", depth_sum, peer.pairs);
    require(peer.pairs == depth_sum, "DuckDB found other pairs");
    return peer.join_s / core >= TARGET_RATIO;
}

static bool parse(int argc, char **argv)
{
    bool with_duckdb = true;
    n_scopes = 10000000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-duckdb"))
            with_duckdb = false;
        else
            n_scopes = strtoull(argv[i], NULL, 10);
    }
    require(n_scopes >= 64000 && n_scopes <= 1000000000, "SCOPES is not a number from 64000 to 1000000000");
    n_scopes -= n_scopes % GEN_THREADS;
    n_samples = n_scopes / 10;
    return with_duckdb;
}

static void make_data(void)
{
    for (uint32_t i = 0; i < GEN_THREADS; i++) {
        gen_fill(&threads[i], (uint32_t)(n_scopes / GEN_THREADS), (uint32_t)(n_samples / GEN_THREADS));
        require(threads[i].scopes && threads[i].samples, "memory");
        scope_index_init(&waiting[i].index);
    }
    make_messages((uint32_t)(n_scopes / GEN_THREADS));
    make_columns();
    scope_batch_init(&batch);
    printf("%lu scopes, %lu samples, %d threads, %.1f bytes a scope in %zu messages\n", n_scopes, n_samples,
           GEN_THREADS, (double)message_bytes / (double)n_scopes, n_messages);
    printf("ids: every span its own, %.1f scopes a trace (trace ids that repeat the one before: %.0f%%)\n",
           (double)n_scopes / gen_traces, 100 - 100.0 * gen_traces / (double)n_scopes);
}

int main(int argc, char **argv)
{
    bool with_duckdb = parse(argc, argv);
    uint64_t pipeline_joined = 0;
    make_data();
    double core = run_steps();
    uint64_t core_joined = joined;
    double join = best_of(run_join);
    print_rate("join alone", join);
    require(core_joined == joined, "core and join differ");
    print_rate("whole pipeline", run_pipeline(&pipeline_joined));
    printf("samples joined: core %lu, pipeline %lu\n", core_joined, pipeline_joined);
    bool ok = !with_duckdb || compare(core, join);
    return ok && (double)n_scopes / core >= TARGET_PER_S ? 0 : 1;
}
