/*
 * cmd_flame: the flame graph of one trace, or of all that match, merged: text at a terminal, or a file format
 * by -o or -f.
 */
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "output.h"
#include "query.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    OPT_OUTPUT = 1,
    OPT_FORMAT,
    OPT_BY,
    OPT_NATIVE,
    OPT_THREADS,
    OPT_NO_THREADS,
    OPT_FULL,
    OPT_MIN_SHARE,
    OPT_DEPTH,
    OPT_SAMPLES,
    OPT_ON_CPU,
    OPT_OFF_CPU,
    OPT_WALL
};

static const struct args_option options[] = {
    {OPT_OUTPUT, 'o', "--output", "FILE",
     "write FILE; its extension is the format (.html .svg .folded .jfr .json .txt)"},
    {OPT_FORMAT, 'f', "--format", "FORMAT",
     "format, on standard output without -o: text, folded, html, svg, json, jfr"},
    {OPT_BY, 0, "--by", "LEVEL", "level above stacks: tag (of the root, default for one trace), scope, none"},
    {OPT_THREADS, 0, "--threads", NULL, "a level for threads (default for one trace and folded)"},
    {OPT_NO_THREADS, 0, "--no-threads", NULL, "none"},
    {OPT_NATIVE, 0, "--native", NULL, "keep the native frames of the interpreter and of Dovetail in it"},
    {OPT_FULL, 0, "--full", NULL,
     "leave nothing out: --native, --min-share 0, each frame on its line"},
    {OPT_MIN_SHARE, 0, "--min-share", "PERCENT",
     "text: leave out what is smaller (default: so that 60 lines are enough)"},
    {OPT_DEPTH, 0, "--depth", "N", "text: at most N levels"},
    {OPT_SAMPLES, 0, "--samples", NULL, "folded: counts of samples instead of microseconds"},
    {OPT_ON_CPU, 0, "--on-cpu", NULL, "time on a CPU (the default)"},
    {OPT_OFF_CPU, 0, "--off-cpu", NULL, "not in this version"},
    {OPT_WALL, 0, "--wall", NULL, "not in this version"},
    {0},
};

struct request {
    struct filter filter;
    const char *id, *output, *format, *by;
    int threads; /* 1, 0, or -1: the default */
    bool native, full, samples, jfr;
    double min_share;
    unsigned long depth;
    const struct output_ops *ops; /* NULL with jfr */
};

/* ---- the command line ---- */

static int take_share(const char *value, double *ret, struct dvt_err *err)
{
    char *end;
    double v = strtod(value, &end);
    if (end == value || (*end && strcmp(end, "%") != 0) || !(v >= 0 && v <= 100)) {
        return dvt_fail(err, DVT_EINVAL, 0, "--min-share takes percents from 0 to 100, not \"%.40s\"", value);
    }
    *ret = v / 100;
    return 0;
}

static int take_by(const char *value, const char **ret, struct dvt_err *err)
{
    if (strcmp(value, "tag") && strcmp(value, "scope") && strcmp(value, "none")) {
        return dvt_fail(err, DVT_EINVAL, 0, "--by takes tag, scope or none, not \"%.40s\"", value);
    }
    *ret = value;
    return 0;
}

static int take_trace(struct request *r, const char *value, struct dvt_err *err)
{
    if (r->id) {
        return dvt_fail(err, DVT_EINVAL, 0,
                        "one trace at a time: \"%.40s\" is one too many; a filter merges several", value);
    }
    r->id = value;
    return 0;
}

static int take_option(struct request *r, int id, const char *value, int64_t now_ns, struct dvt_err *err)
{
    switch (id) {
    case OPT_OUTPUT:
        r->output = value;
        return 0;
    case OPT_FORMAT:
        r->format = value;
        return 0;
    case OPT_BY:
        return take_by(value, &r->by, err);
    case OPT_THREADS:
    case OPT_NO_THREADS:
        r->threads = id == OPT_THREADS;
        return 0;
    case OPT_NATIVE:
        r->native = true;
        return 0;
    case OPT_FULL:
        r->full = r->native = true;
        return 0;
    case OPT_SAMPLES:
        r->samples = true;
        return 0;
    case OPT_MIN_SHARE:
        return take_share(value, &r->min_share, err);
    case OPT_DEPTH:
        return args_number(value, 1, UINT16_MAX, "--depth", &r->depth, err);
    case OPT_ON_CPU:
        return 0;
    case OPT_OFF_CPU:
    case OPT_WALL:
        return dvt_fail(err, DVT_EINVAL, 0,
                        "wall-clock mode is not in this version: --on-cpu is what there is");
    case ARGS_OTHER:
        return take_trace(r, value, err);
    default:
        return id < 0 ? id : filter_take(&r->filter, id, value, now_ns, err);
    }
}

static int unknown_format(const char *given, struct dvt_err *err)
{
    return dvt_fail(err, DVT_EINVAL, 0, "no output format for \"%.60s\": there are %s, jfr", given,
                    output_names());
}

static int choose_format(struct request *r, struct dvt_err *err)
{
    const char *dot = r->output ? strrchr(r->output, '.') : NULL;
    if (r->format) {
        r->jfr = strcmp(r->format, "jfr") == 0;
        r->ops = r->jfr ? NULL : output_by_name(r->format);
    } else if (r->output && strcmp(r->output, "-") != 0) {
        r->jfr = dot && strcmp(dot, ".jfr") == 0;
        r->ops = r->jfr ? NULL : output_by_file(r->output);
    } else {
        r->ops = &out_text;
    }
    return r->jfr || r->ops ? 0 : unknown_format(r->format ? r->format : r->output, err);
}

static int parse(struct request *r, struct args *a, struct dvt_err *err)
{
    const char *value = NULL;
    int id, rc = 0;
    int64_t now_ns = (int64_t)time(NULL) * 1000000000;
    *r = (struct request){.threads = -1, .min_share = -1};
    while (rc == 0 && (id = cli_next(&cmd_flame, a, &value, err)) != ARGS_END) {
        rc = take_option(r, id, value, now_ns, err);
    }
    if (rc == 0 && !r->id) {
        r->id = r->filter.trace; /* --trace ID is the same question */
    }
    return rc ? rc : choose_format(r, err);
}

/* ---- output ---- */

/* Writes beside the file and renames, so that a failure leaves no half file; "-" and NULL: standard output.
 */
struct sink {
    FILE *out;
    char *partial;
    const char *path;
};

static int sink_open(struct sink *s, const char *path, struct dvt_err *err)
{
    *s = (struct sink){.out = stdout};
    if (!path || strcmp(path, "-") == 0) {
        return 0;
    }
    struct stat st;
    bool special =
        stat(path, &st) == 0 && !S_ISREG(st.st_mode); /* a device or pipe must not be replaced by a file */
    s->path = path;
    s->partial = special ? alloc_text(path, strlen(path)) : alloc_printf("%s.partial", path);
    s->out = fopen(s->partial, "we");
    if (!s->out) {
        int code = dvt_fail(err, DVT_EIO, errno, "cannot write %s: %s", path, strerror(errno));
        free(s->partial);
        return code;
    }
    return 0;
}

static int sink_close(struct sink *s, int rc, struct dvt_err *err)
{
    if (!s->partial) {
        return rc;
    }
    bool failed = ferror(s->out) != 0;
    failed = fclose(s->out) != 0 || failed;
    bool beside = strcmp(s->partial, s->path) != 0;
    if (rc == 0 && (failed || (beside && rename(s->partial, s->path)))) {
        rc = dvt_fail(err, DVT_EIO, errno, "cannot write %s: %s", s->path, strerror(errno));
    }
    if (rc && beside) {
        unlink(s->partial);
    }
    free(s->partial);
    return rc;
}

struct copy {
    struct catalog *c;
    FILE *out;
    uint8_t *buf;
    size_t cap;
};

static int copy_chunk(void *ctx, const struct catalog_chunk *chunk, struct dvt_err *err)
{
    struct copy *copy = ctx;
    int rc = catalog_read(copy->c, chunk, &copy->buf, &copy->cap, err);
    if (rc == 0 && fwrite(copy->buf, 1, chunk->bytes, copy->out) != chunk->bytes) {
        rc = dvt_fail(err, DVT_EIO, errno, "cannot write the recording: %s", strerror(errno));
    }
    return rc;
}

/* The chunks as they were recorded: whole traces, whatever the filter picks within them. */
static int write_jfr(struct catalog *c, const struct catalog_list *list, const char *path,
                     struct dvt_err *err)
{
    struct sink sink;
    struct copy copy = {.c = c};
    int rc = sink_open(&sink, path, err);
    if (rc) {
        return rc;
    }
    copy.out = sink.out;
    for (size_t i = 0; i < list->n && rc == 0; i++) {
        rc = catalog_trace_chunks(c, &list->traces[i], copy_chunk, &copy, err);
    }
    free(copy.buf);
    return sink_close(&sink, rc, err);
}

static void add_service(void *ctx, struct dvt_str service)
{
    char **text = ctx, *safe = text_safe(service, 100);
    char *joined = alloc_printf("%s%s%s", *text ? *text : "", *text ? ", " : "", safe);
    free(safe);
    free(*text);
    *text = joined;
}

static char *services_of(struct catalog *c, const struct catalog_trace *one)
{
    char *text = NULL;
    if (one) {
        catalog_services(c, one, add_service, &text);
    }
    return text ? text : alloc_text("", 0);
}

static void describe(struct tree_meta *meta, struct catalog *c, const struct request *r, const struct catalog_list *list,
                     char *id, char **texts)
{
    const struct catalog_trace *one = r->id ? &list->traces[0] : NULL;
    char *filter = filter_describe(&r->filter);
    texts[0] = text_safe(dvt_str(filter), 0);
    texts[1] = text_safe(dvt_str(one ? one->root_name : filter[0] ? filter : "all traces"), 200);
    texts[2] = services_of(c, one);
    meta->filter = texts[0];
    meta->title = texts[1];
    meta->service = texts[2];
    if (one) {
        dvt_trace_id_format(&one->id, id);
        meta->trace_id = id;
    }
    free(filter);
}

static struct query_options query_options_of(const struct request *r)
{
    bool folded = r->ops == &out_folded;
    struct query_options o = {.processes = r->id && !folded, .tids = r->id, .native = r->native};
    o.threads = r->threads >= 0 ? r->threads == 1 : r->id || folded;
    o.by = r->by ? (r->by[0] == 't'   ? QUERY_BY_TAG
                    : r->by[0] == 's' ? QUERY_BY_SCOPE
                                      : QUERY_BY_NONE)
                 : (r->id && !folded ? QUERY_BY_TAG : QUERY_BY_NONE);
    return o;
}

static struct output_options output_options_of(const struct request *r)
{
    bool to_stdout = !r->output || strcmp(r->output, "-") == 0;
    struct term term = to_stdout ? term_of(STDOUT_FILENO) : (struct term){0};
    return (struct output_options){.min_share = r->full && r->min_share < 0 ? 0 : r->min_share,
                                   .max_depth = (uint32_t)r->depth,
                                   .folds = !r->native,
                                   .counts = r->samples,
                                   .colour = term.colour,
                                   .columns = term.columns};
}

static int write_tree(const struct request *r, const struct tree *tree, const struct tree_meta *meta,
                      struct dvt_err *err)
{
    struct sink sink;
    int rc = sink_open(&sink, r->output, err);
    if (rc == 0) {
        rc = r->ops->write(tree, meta, sink.out);
        if (rc) {
            dvt_fail(err, rc, errno, "cannot write %s: %s", r->output ? r->output : "the output",
                     strerror(errno));
        }
        rc = sink_close(&sink, rc, err);
    }
    return rc;
}

/* ---- all of it ---- */

static int no_match(struct catalog *c, struct dvt_err *err)
{
    return dvt_fail(err, DVT_ENOENT, 0, "no trace matches in %s", catalog_dir(c, 0));
}

/* list: the one trace of r->id, or empty. */
static int query(struct catalog *c, const struct request *r, const struct catalog_list *list,
                 struct tree *tree, struct tree_meta *meta, struct dvt_err *err)
{
    struct query_options o = query_options_of(r);
    bool found = true;
    int rc = r->id ? query_one(c, &r->filter, &list->traces[0], &o, tree, meta, err)
                   : query_all(c, &r->filter, &o, tree, meta, &found, err);
    if (rc || meta->samples) {
        return rc;
    }
    if (r->id) {
        cli_note("no sample fell into this trace: it was too short on the CPU, or waited");
        return 0;
    }
    return found ? dvt_fail(err, DVT_ENOENT, 0, "traces match, but no sample in them does")
                 : no_match(c, err);
}

static int render(struct catalog *c, const struct request *r, const struct catalog_list *list,
                  struct dvt_err *err)
{
    char id[DVT_TRACE_HEX + 1], *texts[3];
    struct tree tree;
    struct tree_meta meta = {.opt = output_options_of(r)};
    describe(&meta, c, r, list, id, texts);
    tree_init(&tree);
    int rc = query(c, r, list, &tree, &meta, err);
    if (rc == 0) {
        rc = write_tree(r, &tree, &meta, err);
    }
    tree_fini(&tree);
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
    }
    return rc;
}

/* What has to be known before: the one trace, or for a recording all that match. */
static int choose_traces(struct catalog *c, const struct request *r, struct catalog_list *ret,
                         struct dvt_err *err)
{
    if (r->id) {
        return catalog_find(c, r->id, ret, err);
    }
    int rc = r->jfr ? catalog_traces(c, &r->filter, 0, ret, err) : 0;
    return rc == 0 && r->jfr && ret->n == 0 ? no_match(c, err) : rc;
}

static int run(struct args *a)
{
    struct request r;
    struct dvt_err err = {0};
    struct catalog *c = NULL;
    struct catalog_list list = {0};
    int rc = parse(&r, a, &err);
    if (rc == 0) {
        rc = catalog_open(r.filter.stores, r.filter.n_stores, &c, &err);
    }
    if (rc == 0) {
        rc = choose_traces(c, &r, &list, &err);
    }
    if (rc == 0) {
        rc = r.jfr ? write_jfr(c, &list, r.output, &err) : render(c, &r, &list, &err);
    }
    int code = rc ? cli_report(&err) : CLI_DONE;
    if (rc && list.n > 1 && r.id) {
        cli_candidates(&list);
    }
    catalog_list_fini(&list);
    catalog_close(c);
    return code;
}

const struct command cmd_flame = {
    .name = "flame",
    .synopsis = "[ID] [FILTER] [-o FILE] [-f FORMAT]",
    .summary = "flame graph of one trace, or of all that match",
    .details =
        "Levels: service (process), thread, the root scope's tag, then stacks, root to leaf. Without an ID "
        "all traces\n"
        "that match are merged by service. Folded lines are service;thread;frame;...;leaf and a weight; a "
        "thread of\n"
        "one trace is \"name (tid)\", as threads often share a name.\n"
        "Every share has a 95% interval; \"?\" marks what too few samples support.",
    .examples = "  dovetail flame 4bf92f35\n"
                "  dovetail flame --label tenant=acme --since -1h -o acme.html\n"
                "  dovetail flame --name 'GET /cart' -f folded | flamegraph.pl > cart.svg",
    .options = options,
    .takes_filter = true,
    .run = run,
};
