/*
 * wire_stacks: encodes and decodes STACKS, one thread's managed stacks in column form; PROTOCOL.md "STACKS".
 *
 * The frames of all stacks follow each other in two columns; a third says how many belong to each stack. The
 * code column has at least one byte a frame, so that a small message cannot make its reader expand a large
 * array.
 */
#include "wire_cols.h"
#include "wire_fields.h"

enum {
    KEY_TID = 1,
    KEY_EPOCH = 2,
    KEY_N = 3,
    KEY_N_FRAMES = 4,
    KEY_HEAD = 5,
    KEY_TIME = 6,
    KEY_REASON = 7,
    KEY_DEPTH = 8,
    KEY_TRUNCATED = 9,
    KEY_CODE = 10,
    KEY_LINE = 11,
    N_PAIRS = 11,
};

/* ---- encoding ---- */

static int check(const struct dvt_stack_rec *v, size_t n, size_t *ret_n_frames)
{
    size_t n_frames = 0;
    if (n > DVT_MAX_BATCH)
        return DVT_ELIMIT;
    for (size_t i = 0; i < n; i++) {
        if (v[i].n_frames > DVT_MAX_FRAMES)
            return DVT_ELIMIT;
        if (v[i].reason >= DVT_N_STACK_REASONS || v[i].truncated > 1)
            return DVT_EINVAL;
        n_frames += v[i].n_frames;
    }
    if (n_frames > DVT_MAX_MESSAGE)
        return DVT_ELIMIT;
    *ret_n_frames = n_frames;
    return 0;
}

static uint64_t field_of(const struct dvt_stack_rec *s, unsigned key)
{
    switch (key) {
    case KEY_HEAD:
        return s->head;
    case KEY_TIME:
        return s->time_ns;
    case KEY_REASON:
        return s->reason;
    case KEY_DEPTH:
        return s->n_frames;
    default:
        return s->truncated;
    }
}

static void pack_stack_cols(struct dvt_packer *k, const struct dvt_stack_rec *v, size_t n, uint64_t *col)
{
    for (unsigned key = KEY_HEAD; key <= KEY_TRUNCATED; key++) {
        for (size_t i = 0; i < n; i++)
            col[i] = field_of(&v[i], key);
        msgpack_pack_unsigned_int(&k->pk, key);
        dvt_col_pack(k, col, n, key == KEY_HEAD || key == KEY_TIME ? DVT_COL_RISING : DVT_COL_SMALL, 0);
    }
}

static void pack_frame_col(struct dvt_packer *k, const struct dvt_stack_rec *v, size_t n, unsigned key,
                           uint64_t *col)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *from = key == KEY_CODE ? v[i].code : v[i].line;
        for (uint32_t f = 0; f < v[i].n_frames; f++)
            col[at++] = from[f];
    }
    msgpack_pack_unsigned_int(&k->pk, key);
    dvt_col_pack(k, col, at, DVT_COL_NEAR, key == KEY_CODE);
}

int dvt_wire_put_stacks(struct dvt_buf *b, uint32_t tid, uint32_t epoch, const struct dvt_stack_rec *v,
                        size_t n)
{
    struct dvt_packer k;
    size_t n_frames;
    int rc = check(v, n, &n_frames);
    if (rc)
        return rc;
    uint64_t *col = dvt_buf_work(b, (n_frames > n ? n_frames : n + 1) * sizeof *col);
    if (!col)
        return DVT_ENOMEM;
    dvt_pack_begin(&k, b);
    dvt_pack_message(&k, DVT_MSG_STACKS, N_PAIRS);
    dvt_pack_key_uint(&k, KEY_TID, tid);
    dvt_pack_key_uint(&k, KEY_EPOCH, epoch);
    dvt_pack_key_uint(&k, KEY_N, n);
    dvt_pack_key_uint(&k, KEY_N_FRAMES, n_frames);
    pack_stack_cols(&k, v, n, col);
    pack_frame_col(&k, v, n, KEY_CODE, col);
    pack_frame_col(&k, v, n, KEY_LINE, col);
    return dvt_pack_end(&k);
}

/* ---- decoding ---- */

struct stacks_msg {
    uint32_t tid, epoch, n, n_frames_total;
    struct dvt_str head, time, reason, depth, truncated, code, line;
};

static const struct dvt_field stacks_rows[] = {
    DVT_ROW(struct stacks_msg, KEY_TID, U32, tid, true, 0),
    DVT_ROW(struct stacks_msg, KEY_EPOCH, U32, epoch, true, 0),
    DVT_ROW(struct stacks_msg, KEY_N, U32, n, true, DVT_MAX_BATCH),
    DVT_ROW(struct stacks_msg, KEY_N_FRAMES, U32, n_frames_total, true, DVT_MAX_MESSAGE),
    DVT_ROW(struct stacks_msg, KEY_HEAD, BIN, head, true, 0),
    DVT_ROW(struct stacks_msg, KEY_TIME, BIN, time, true, 0),
    DVT_ROW(struct stacks_msg, KEY_REASON, BIN, reason, true, 0),
    DVT_ROW(struct stacks_msg, KEY_DEPTH, BIN, depth, true, 0),
    DVT_ROW(struct stacks_msg, KEY_TRUNCATED, BIN, truncated, true, 0),
    DVT_ROW(struct stacks_msg, KEY_CODE, BIN, code, true, 0),
    DVT_ROW(struct stacks_msg, KEY_LINE, BIN, line, true, 0),
};
static const struct dvt_fields stacks = DVT_FIELDS("STACKS", struct stacks_msg, stacks_rows);

static bool parse_cols(const struct stacks_msg *m, struct dvt_stacks *s)
{
    return dvt_col_parse(m->head, m->n, &s->head) && dvt_col_parse(m->time, m->n, &s->time) &&
           dvt_col_parse(m->reason, m->n, &s->reason) && dvt_col_parse(m->depth, m->n, &s->depth) &&
           dvt_col_parse(m->truncated, m->n, &s->truncated) &&
           dvt_col_parse(m->code, m->n_frames_total, &s->code) &&
           dvt_col_parse(m->line, m->n_frames_total, &s->line);
}

static bool values_are_in_range(const struct dvt_stacks *s)
{
    const uint64_t any_u32 = (uint64_t)UINT32_MAX + 1;
    return dvt_col_is_below(&s->reason, DVT_N_STACK_REASONS) && dvt_col_is_below(&s->depth, DVT_MAX_FRAMES + 1) &&
           s->depth.kind == DVT_COL_PLAIN &&
           dvt_col_is_below(&s->truncated, 2) && dvt_col_is_below(&s->code, any_u32) &&
           dvt_col_is_below(&s->line, any_u32) && (s->n_frames_total == 0 || s->code.width > 0);
}

int dvt_wire_get_stacks(struct dvt_str map, struct dvt_stacks *ret, struct dvt_err *err)
{
    struct stacks_msg m;
    int rc = dvt_fields_get(map, &stacks, &m, err);
    if (rc)
        return rc;
    struct dvt_stacks s = {.tid = m.tid, .epoch = m.epoch, .n = m.n, .n_frames_total = m.n_frames_total};
    if (!parse_cols(&m, &s))
        return dvt_fail(err, DVT_EFORMAT, 0,
                        "STACKS message: a column has a wrong length or an unknown form");
    if (!values_are_in_range(&s))
        return dvt_fail(err, DVT_EFORMAT, 0, "STACKS message: a value is out of range");
    if (dvt_col_sum(&s.depth) != s.n_frames_total)
        return dvt_fail(err, DVT_EFORMAT, 0, "STACKS message: depths and frames do not add up");
    *ret = s;
    return 0;
}
