/*
 * wire_make: one sample of every message, and a reader that decodes any body and touches all that it got.
 * Shared by the tests of the wire and its fuzzer.
 */
#ifndef DVT_TEST_WIRE_MAKE_H
#define DVT_TEST_WIRE_MAKE_H

#include "../proto/wire.h"

#include <stdlib.h>

static const uint8_t wire_key[DVT_KEY_BYTES] = "a session key of thirty-two byte";

/* The type of the message in body, and its map; type 0 if it is none. */
static inline uint32_t wire_type_of(const struct dvt_buf *body, struct dvt_str *ret_map)
{
    uint32_t type = 0;
    return dvt_wire_type((struct dvt_str){(const char *)body->p, body->n}, &type, ret_map, NULL) ? 0 : type;
}

/* ---- samples ---- */

static inline struct dvt_hello sample_hello(void)
{
    return (struct dvt_hello){.major = DVT_WIRE_MAJOR,
                              .minor = DVT_WIRE_MINOR,
                              .role = DVT_ROLE_SHIM,
                              .pid = 4711,
                              .runtime = dvt_str("python"),
                              .runtime_version = dvt_str("3.11.7"),
                              .service = dvt_str("shop"),
                              .program = dvt_str("app.py"),
                              .tag_template = dvt_str("{trace}/{name}"),
                              .eval_lo = 0x550000001000,
                              .eval_hi = 0x550000002000,
                              .has_walker = true};
}

static inline struct dvt_welcome sample_welcome(void)
{
    struct dvt_welcome m = {.major = DVT_WIRE_MAJOR,
                            .minor = DVT_WIRE_MINOR,
                            .session = UINT64_MAX,
                            .endpoint = dvt_str("ipc:///run/dovetail/in"),
                            .period_ns = 10101010,
                            .jitter_permille = 250,
                            .flush_ms = 1000,
                            .use_signal = true};
    memcpy(m.key, wire_key, sizeof m.key);
    return m;
}

enum { SAMPLE_SCOPES = 12, SAMPLE_STACKS = 3 };

static inline struct dvt_span_id sample_span(size_t i)
{
    return (struct dvt_span_id){{(uint8_t)i, (uint8_t)(1 + i / 256), (uint8_t)(i >> 16)}};
}

/* n scopes, the last of every four around the three before it; some have no parent span, some one that is
 * nobody's. Every third has labels, every fifth links. Free with free(). */
static inline struct dvt_scope_rec *sample_scopes(size_t n)
{
    static const char *const names[] = {"GET /", "db.query", "r\xC3\xA9sum\xC3\xA9", ""};
    static struct dvt_label labels[3];
    static struct dvt_trace_id links[2] = {{{0xAA}}, {{0xBB}}};
    labels[0] = (struct dvt_label){dvt_str("tenant"), dvt_str("acme")};
    labels[1] = (struct dvt_label){dvt_str("region"), dvt_str("eu")};
    labels[2] = (struct dvt_label){dvt_str("tenant"), dvt_str("globex")};
    struct dvt_scope_rec *v = calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        bool is_root = i % 4 == 3;
        v[i] = (struct dvt_scope_rec){.serial = is_root ? i - 2 : i + 2,
                                      .parent_serial = is_root ? 0 : i / 4 * 4 + 1,
                                      .start_ns = 5000000 + 700 * i,
                                      .end_ns = 5000900 + 1000 * i,
                                      .head_open = 48 * i,
                                      .head_close = 48 * i + 96,
                                      .span = sample_span(i),
                                      .name = dvt_str(names[i % 4]),
                                      .flags = (uint32_t)(i % 8)};
        v[i].trace.b[0] = (uint8_t)(1 + i / 4);
        v[i].trace.b[9] = (uint8_t)(i / 1024);
        if (!is_root && i % 3)
            v[i].parent_span = sample_span(i | 3);
        else
            v[i].parent_span.b[7] = (uint8_t)(i % 5);
        v[i].labels = &labels[i % 2];
        v[i].n_labels = i % 3 ? 0 : 2;
        v[i].links = links;
        v[i].n_links = i % 5 ? 0 : 2;
    }
    return v;
}

static const uint32_t sample_code[] = {7, 8, 9, 70000}, sample_lines[] = {10, 0, 300, 12};

static inline void sample_stacks(struct dvt_stack_rec v[SAMPLE_STACKS])
{
    v[0] = (struct dvt_stack_rec){96, 5000100, DVT_STACK_OK, 0, 4, sample_code, sample_lines};
    v[1] = (struct dvt_stack_rec){144, 5000200, DVT_STACK_WINDOW, 0, 0, NULL, NULL};
    v[2] = (struct dvt_stack_rec){192, 5000300, DVT_STACK_OK, 1, 2, sample_code + 1, sample_lines + 1};
}

static inline struct dvt_shim_counts sample_counts(void)
{
    return (struct dvt_shim_counts){.opened = 100,
                                    .closed = 99,
                                    .kept = 9,
                                    .dropped = 90,
                                    .signals = 12,
                                    .uncovered_ns = UINT64_MAX,
                                    .names_over = 1};
}

static inline int put_scopes_sample(struct dvt_buf *b)
{
    struct dvt_scope_rec *v = sample_scopes(SAMPLE_SCOPES);
    int rc = dvt_wire_put_scopes(b, 11, 2, 960, 5011900, v, SAMPLE_SCOPES);
    free(v);
    return rc;
}

static inline int put_lists_sample(struct dvt_buf *b, uint32_t type)
{
    const struct dvt_thread_info threads[] = {{1, 1, dvt_str("main"), 5, false, 960},
                                              {70000, 2, dvt_str(""), 0, true, 0}};
    const struct dvt_code_info code[] = {{7, dvt_str("app.handler"), dvt_str("/srv/app.py"), 31},
                                         {8, {0}, {0}, 0}};
    const struct dvt_dropped dropped[] = {{dvt_str("GET /"), 4000}, {dvt_str("(other)"), UINT64_MAX}};
    const struct dvt_shim_counts counts = sample_counts();
    struct dvt_stack_rec stacks[SAMPLE_STACKS];
    sample_stacks(stacks);
    switch (type) {
    case DVT_MSG_THREADS:
        return dvt_wire_put_threads(b, threads, 2);
    case DVT_MSG_SCOPES:
        return put_scopes_sample(b);
    case DVT_MSG_STACKS:
        return dvt_wire_put_stacks(b, 11, 2, stacks, SAMPLE_STACKS);
    case DVT_MSG_CODE:
        return dvt_wire_put_code(b, code, 2);
    case DVT_MSG_DROPPED:
        return dvt_wire_put_dropped(b, dropped, 2, 1000, 2000);
    case DVT_MSG_HEARTBEAT:
        return dvt_wire_put_heartbeat(b, &counts, 77);
    default:
        return dvt_wire_put_bye(b, &counts, 78);
    }
}

/* Appends the sample of a type; every type of enum dvt_msg_type has one. */
static inline int put_sample(struct dvt_buf *b, uint32_t type)
{
    const struct dvt_hello hello = sample_hello();
    const struct dvt_welcome welcome = sample_welcome();
    const struct dvt_refuse refuse = {DVT_EVERSION, dvt_str("update dovetaild")};
    const struct dvt_arm arm = {4712, 3};
    const struct dvt_armed armed = {4712, 3, 0, dvt_str("ok"), 36864, 1234567};
    const struct dvt_status status = {true, dvt_str("{\"processes\":1}")};
    switch (type) {
    case DVT_MSG_HELLO:
        return dvt_wire_put_hello(b, &hello);
    case DVT_MSG_WELCOME:
        return dvt_wire_put_welcome(b, &welcome);
    case DVT_MSG_REFUSE:
        return dvt_wire_put_refuse(b, &refuse);
    case DVT_MSG_ARM:
        return dvt_wire_put_arm(b, &arm);
    case DVT_MSG_ARMED:
        return dvt_wire_put_armed(b, &armed);
    case DVT_MSG_DISARM:
        return dvt_wire_put_disarm(b, &arm);
    case DVT_MSG_STATUS:
        return dvt_wire_put_status(b, &status);
    case DVT_MSG_STATUS_REQ:
    case DVT_MSG_FLUSH_REQ:
    case DVT_MSG_FLUSHED:
        return dvt_wire_put_plain(b, (enum dvt_msg_type)type);
    default:
        return put_lists_sample(b, type);
    }
}

static const uint32_t sample_types[] = {
    DVT_MSG_HELLO,     DVT_MSG_WELCOME,    DVT_MSG_REFUSE, DVT_MSG_ARM,       DVT_MSG_ARMED,
    DVT_MSG_DISARM,    DVT_MSG_STATUS_REQ, DVT_MSG_STATUS, DVT_MSG_FLUSH_REQ, DVT_MSG_FLUSHED,
    DVT_MSG_THREADS,   DVT_MSG_SCOPES,     DVT_MSG_STACKS, DVT_MSG_CODE,      DVT_MSG_DROPPED,
    DVT_MSG_HEARTBEAT, DVT_MSG_BYE,
};
enum { N_SAMPLE_TYPES = sizeof sample_types / sizeof *sample_types };

/* ---- reading everything; a broken promise of a decoder ends the program ---- */

static inline void must(bool holds)
{
    if (!holds)
        abort();
}

static inline void touch(struct dvt_str s, size_t max)
{
    volatile char sum = 0;
    must(s.n <= max);
    for (size_t i = 0; i < s.n; i++)
        sum = (char)(sum + s.p[i]);
}

/* A column of numbers of any size. */
static inline uint64_t *touch_col(const struct dvt_col *c)
{
    uint64_t *wide = malloc((c->n + 1) * sizeof *wide);
    must(wide);
    dvt_col_expand_u64(c, wide);
    return wide;
}

/* A column of indexes or of small numbers: all below limit. */
static inline void touch_small_col(const struct dvt_col *c, uint64_t limit)
{
    uint64_t *wide = touch_col(c);
    uint32_t *narrow = malloc((c->n + 1) * sizeof *narrow);
    must(narrow);
    dvt_col_expand_u32(c, narrow);
    for (uint32_t i = 0; i < c->n; i++)
        must(narrow[i] == wide[i] && wide[i] < limit);
    free(wide);
    free(narrow);
}

static inline void touch_tables(const struct dvt_scopes *s)
{
    struct dvt_str *names = calloc(s->n_names + 1u, sizeof *names);
    struct dvt_label *labels = calloc(s->n_labels + 1u, sizeof *labels);
    uint32_t *first = calloc(s->n_labelsets + 1u, sizeof *first);
    must(names && labels && first);
    must(dvt_wire_names(s, names) == 0 && dvt_wire_labelsets(s, labels, s->n_labels, first) == 0);
    for (uint32_t i = 0; i < s->n_names; i++)
        touch(names[i], DVT_MAX_NAME);
    must(first[0] == 0 && first[s->n_labelsets] == s->n_labels);
    for (uint32_t i = 0; i < s->n_labels; i++) {
        touch(labels[i].key, DVT_MAX_LABEL_KEY);
        touch(labels[i].value, DVT_MAX_LABEL_VALUE);
    }
    free(names);
    free(labels);
    free(first);
}

/* False if a reference to a parent leads nowhere: that is found only here. */
static inline bool touch_parents(const struct dvt_scopes *s)
{
    struct dvt_span_id *spans = calloc(s->n + 1u, sizeof *spans);
    struct dvt_span_id *parents = calloc(s->n + 1u, sizeof *parents);
    uint64_t *serial = touch_col(&s->serial), *parent_serial = calloc(s->n + 1u, sizeof *parent_serial);
    uint32_t *work = calloc(s->n + 1u, sizeof *work);
    must(spans && parents && parent_serial && work);
    int rc = dvt_wire_parents(s, serial, work, spans, parents, parent_serial);
    must(rc == 0 || rc == DVT_EFORMAT);
    touch((struct dvt_str){(const char *)spans, 8 * (size_t)s->n}, 8 * DVT_MAX_BATCH);
    touch((struct dvt_str){(const char *)parents, 8 * (size_t)s->n}, 8 * DVT_MAX_BATCH);
    void *all[] = {spans, parents, serial, parent_serial, work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return rc == 0;
}

static inline bool touch_scopes(const struct dvt_scopes *s)
{
    const struct dvt_col *cols[] = {&s->end,       &s->dur,    &s->head_close,
                                    &s->head_span, &s->serial, &s->parent_back};
    size_t pos = 0;
    uint32_t scope, n_ids;
    const uint8_t *ids;
    int rc;
    must(s->n <= DVT_MAX_BATCH && s->n_traces <= s->n && s->n_names <= s->n && s->n_labelsets <= s->n);
    must(s->n_spans <= s->n && s->n_parent_spans <= s->n);
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        free(touch_col(cols[i]));
    touch_small_col(&s->trace, s->n_traces);
    touch_small_col(&s->name, s->n_names);
    touch_small_col(&s->labelset, s->n_labelsets);
    touch_small_col(&s->flags, (uint64_t)UINT32_MAX + 1);
    touch_small_col(&s->parent_row, s->n);
    touch_small_col(&s->span, s->n_spans);
    touch((struct dvt_str){(const char *)s->spans, 8 * (size_t)s->n_spans}, 8 * DVT_MAX_BATCH);
    touch((struct dvt_str){(const char *)s->parent_spans, 8 * (size_t)s->n_parent_spans}, 8 * DVT_MAX_BATCH);
    touch((struct dvt_str){(const char *)s->traces, 16 * (size_t)s->n_traces}, 16 * DVT_MAX_BATCH);
    touch_tables(s);
    while ((rc = dvt_wire_next_links(s, &pos, &scope, &ids, &n_ids)) == 1) {
        must(scope < s->n && n_ids >= 1 && n_ids <= DVT_MAX_LINKS);
        touch((struct dvt_str){(const char *)ids, 16 * (size_t)n_ids}, 16 * DVT_MAX_LINKS);
    }
    must(rc == 0);
    return touch_parents(s);
}

static inline void touch_stacks(const struct dvt_stacks *s)
{
    free(touch_col(&s->head));
    free(touch_col(&s->time));
    touch_small_col(&s->reason, DVT_N_STACK_REASONS);
    touch_small_col(&s->depth, DVT_MAX_FRAMES + 1);
    touch_small_col(&s->truncated, 2);
    touch_small_col(&s->code, (uint64_t)UINT32_MAX + 1);
    touch_small_col(&s->line, (uint64_t)UINT32_MAX + 1);
    must(s->code.n == s->n_frames_total && s->line.n == s->n_frames_total && s->depth.n == s->n);
}

static inline int read_hello(struct dvt_str map, struct dvt_err *err)
{
    struct dvt_hello m;
    int rc = dvt_wire_get_hello(map, &m, err);
    if (rc)
        return rc;
    touch(m.runtime, DVT_MAX_NAME);
    touch(m.runtime_version, DVT_MAX_NAME);
    touch(m.service, DVT_MAX_SERVICE);
    touch(m.program, DVT_MAX_NAME);
    touch(m.tag_template, DVT_MAX_TAG);
    return 0;
}

static inline int read_control(uint32_t type, struct dvt_str map, struct dvt_err *err)
{
    struct dvt_welcome welcome = {0};
    struct dvt_refuse refuse = {0};
    struct dvt_arm arm = {0};
    struct dvt_armed armed = {0};
    struct dvt_status status = {0};
    int rc = 0;
    if (type == DVT_MSG_HELLO)
        rc = read_hello(map, err);
    else if (type == DVT_MSG_WELCOME)
        rc = dvt_wire_get_welcome(map, &welcome, err);
    else if (type == DVT_MSG_REFUSE)
        rc = dvt_wire_get_refuse(map, &refuse, err);
    else if (type == DVT_MSG_ARM || type == DVT_MSG_DISARM)
        rc = dvt_wire_get_arm(map, &arm, err);
    else if (type == DVT_MSG_ARMED)
        rc = dvt_wire_get_armed(map, &armed, err);
    else if (type == DVT_MSG_STATUS)
        rc = dvt_wire_get_status(map, &status, err);
    touch(welcome.endpoint, DVT_MAX_PATH);
    touch(refuse.text, DVT_MAX_NAME);
    touch(armed.text, DVT_MAX_NAME);
    touch(status.json, DVT_MAX_STATUS_PART);
    return rc;
}

static inline int read_list(uint32_t type, struct dvt_str map, struct dvt_err *err)
{
    struct dvt_thread_info thread = {0};
    struct dvt_code_info code = {0};
    struct dvt_dropped dropped = {0};
    uint64_t start, end;
    size_t pos = 0;
    int rc;
    do {
        rc = type == DVT_MSG_THREADS ? dvt_wire_next_thread(map, &pos, &thread, err)
             : type == DVT_MSG_CODE  ? dvt_wire_next_code(map, &pos, &code, err)
                                     : dvt_wire_next_dropped(map, &pos, &dropped, err);
        touch(thread.name, DVT_MAX_NAME);
        touch(code.name, DVT_MAX_FRAME_NAME);
        touch(code.file, DVT_MAX_PATH);
        touch(dropped.name, DVT_MAX_NAME);
    } while (rc == 1);
    if (rc == 0 && type == DVT_MSG_DROPPED)
        rc = dvt_wire_get_dropped_time(map, &start, &end, err);
    return rc;
}

/* Decodes a body whatever it is; 0 or the decoder's error. Unknown types are 0: they are skipped. */
static inline int read_body(const void *p, size_t n, struct dvt_err *err)
{
    struct dvt_scopes scopes;
    struct dvt_stacks stacks;
    struct dvt_shim_counts counts;
    struct dvt_str map;
    uint64_t now;
    uint32_t type;
    int rc = dvt_wire_type((struct dvt_str){p, n}, &type, &map, err);
    if (rc)
        return rc;
    switch (type) {
    case DVT_MSG_THREADS:
    case DVT_MSG_CODE:
    case DVT_MSG_DROPPED:
        return read_list(type, map, err);
    case DVT_MSG_SCOPES:
        rc = dvt_wire_get_scopes(map, &scopes, err);
        return rc ? rc : touch_scopes(&scopes) ? 0 : DVT_EFORMAT;
    case DVT_MSG_STACKS:
        rc = dvt_wire_get_stacks(map, &stacks, err);
        if (!rc)
            touch_stacks(&stacks);
        return rc;
    case DVT_MSG_HEARTBEAT:
    case DVT_MSG_BYE:
        return dvt_wire_get_counts(map, &counts, &now, err);
    default:
        return read_control(type, map, err);
    }
}

#endif
