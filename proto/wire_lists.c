/*
 * wire_lists: the ZeroMQ messages that are lists of records (THREADS, CODE, DROPPED) and the shim's counts
 * (HEARTBEAT, BYE); PROTOCOL.md has their tables.
 *
 * A list is an array of maps under key 1. The first call of an iterator checks the whole message's shape, so
 * that a caller never applies half of a damaged one's length; each item's fields are checked as it comes.
 */
#include "wire_fields.h"

enum { KEY_ITEMS = 1, KEY_START = 2, KEY_END = 3 };

static const struct dvt_field thread_rows[] = {
    DVT_ROW(struct dvt_thread_info, 1, U32, tid, true, 0),
    DVT_ROW(struct dvt_thread_info, 2, U32, epoch, true, 0),
    DVT_ROW(struct dvt_thread_info, 3, STR, name, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_thread_info, 4, U64, uncovered_ns, false, 0),
    DVT_ROW(struct dvt_thread_info, 5, BOOL, ended, false, 0),
    DVT_ROW(struct dvt_thread_info, 6, U64, armed_head, false, 0),
};
static const struct dvt_fields thread = DVT_FIELDS("THREADS", struct dvt_thread_info, thread_rows);

static const struct dvt_field code_rows[] = {
    DVT_ROW(struct dvt_code_info, 1, U32, id, true, 0),
    DVT_ROW(struct dvt_code_info, 2, STR, name, false, DVT_MAX_FRAME_NAME),
    DVT_ROW(struct dvt_code_info, 3, STR, file, false, DVT_MAX_PATH),
    DVT_ROW(struct dvt_code_info, 4, U32, first_line, false, 0),
};
static const struct dvt_fields code = DVT_FIELDS("CODE", struct dvt_code_info, code_rows);

static const struct dvt_field dropped_rows[] = {
    DVT_ROW(struct dvt_dropped, 1, STR, name, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_dropped, 2, U64, count, true, 0),
};
static const struct dvt_fields dropped = DVT_FIELDS("DROPPED", struct dvt_dropped, dropped_rows);

struct dropped_time {
    uint64_t start_ns, end_ns;
};
static const struct dvt_field dropped_time_rows[] = {
    DVT_ROW(struct dropped_time, KEY_START, U64, start_ns, true, 0),
    DVT_ROW(struct dropped_time, KEY_END, U64, end_ns, true, 0),
};
static const struct dvt_fields dropped_time = DVT_FIELDS("DROPPED", struct dropped_time, dropped_time_rows);

struct counts {
    uint64_t now_ns;
    struct dvt_shim_counts c;
};
#define COUNT(k, member)                                                                                     \
    {                                                                                                        \
        .name = #member, .key = k, .kind = DVT_FIELD_U64, .at = offsetof(struct counts, c.member)            \
    }
static const struct dvt_field counts_rows[] = {
    DVT_ROW(struct counts, 1, U64, now_ns, true, 0),
    COUNT(2, opened),
    COUNT(3, closed),
    COUNT(4, kept),
    COUNT(5, dropped),
    COUNT(6, lost_ring),
    COUNT(7, lost_send),
    COUNT(8, misuse_order),
    COUNT(9, misuse_thread),
    COUNT(10, misuse_depth),
    COUNT(11, misuse_stale),
    COUNT(12, signals),
    COUNT(13, stacks_ok),
    COUNT(14, stacks_none),
    COUNT(15, stacks_lost),
    COUNT(16, threads_started),
    COUNT(17, threads_ended),
    COUNT(18, threads_unarmed),
    COUNT(19, uncovered_ns),
    COUNT(20, labels_cut),
    COUNT(21, names_over),
    COUNT(22, traceparents_bad),
};
static_assert(sizeof counts_rows / sizeof *counts_rows == sizeof(struct counts) / sizeof(uint64_t),
              "a row a count");
static const struct dvt_fields counts = DVT_FIELDS("HEARTBEAT", struct counts, counts_rows);

/* ---- encoding ---- */

static void pack_items(struct dvt_packer *k, const struct dvt_fields *f, const void *v, size_t n)
{
    if (n > DVT_MAX_BATCH && !k->rc)
        k->rc = DVT_ELIMIT;
    msgpack_pack_unsigned_int(&k->pk, KEY_ITEMS);
    msgpack_pack_array(&k->pk, n);
    for (size_t i = 0; i < n && !k->rc; i++)
        dvt_fields_pack(k, f, (const char *)v + i * f->bytes);
}

static int put_items(struct dvt_buf *b, enum dvt_msg_type type, const struct dvt_fields *f, const void *v,
                     size_t n)
{
    struct dvt_packer k;
    dvt_pack_begin(&k, b);
    dvt_pack_message(&k, type, 1);
    pack_items(&k, f, v, n);
    return dvt_pack_end(&k);
}

int dvt_wire_put_threads(struct dvt_buf *b, const struct dvt_thread_info *v, size_t n)
{
    return put_items(b, DVT_MSG_THREADS, &thread, v, n);
}

int dvt_wire_put_code(struct dvt_buf *b, const struct dvt_code_info *v, size_t n)
{
    return put_items(b, DVT_MSG_CODE, &code, v, n);
}

int dvt_wire_put_dropped(struct dvt_buf *b, const struct dvt_dropped *v, size_t n, uint64_t start_ns,
                         uint64_t end_ns)
{
    struct dvt_packer k;
    dvt_pack_begin(&k, b);
    dvt_pack_message(&k, DVT_MSG_DROPPED, 3);
    pack_items(&k, &dropped, v, n);
    dvt_pack_key_uint(&k, KEY_START, start_ns);
    dvt_pack_key_uint(&k, KEY_END, end_ns);
    return dvt_pack_end(&k);
}

int dvt_wire_put_heartbeat(struct dvt_buf *b, const struct dvt_shim_counts *c, uint64_t now_ns)
{
    struct counts m = {now_ns, *c};
    return dvt_fields_put(b, DVT_MSG_HEARTBEAT, &counts, &m);
}

int dvt_wire_put_bye(struct dvt_buf *b, const struct dvt_shim_counts *c, uint64_t now_ns)
{
    struct counts m = {now_ns, *c};
    return dvt_fields_put(b, DVT_MSG_BYE, &counts, &m);
}

/* ---- decoding ---- */

/* An iterator's position: the next item's offset in the map, and how many items are left. 0 is "not begun",
 * since the first item lies behind the map's header. */
static_assert(sizeof(size_t) >= 8, "a position holds two 32-bit numbers");

static size_t pos_of(size_t offset, uint64_t n_left)
{
    return (size_t)n_left << 32 | offset;
}

/* Walks the whole map and finds its items. */
static int find_items(struct dvt_str map, const char *name, size_t *ret_pos, struct dvt_err *err)
{
    struct dvt_cur c = dvt_cur(map);
    uint64_t n_pairs, key, n;
    size_t pos = 0;
    bool ok = dvt_cur_map(&c, &n_pairs);
    for (; ok && n_pairs > 0; n_pairs--) {
        ok = dvt_cur_uint(&c, &key);
        if (ok && key == KEY_ITEMS) {
            struct dvt_cur items = c;
            ok = pos == 0 && dvt_cur_array(&items, &n) && n <= DVT_MAX_BATCH;
            if (ok)
                pos = pos_of((size_t)(items.p - (const uint8_t *)map.p), n);
        }
        ok = ok && dvt_cur_skip(&c);
    }
    if (!ok || pos == 0 || c.p != c.end || map.n > DVT_MAX_MESSAGE)
        return dvt_fail(err, DVT_EFORMAT, 0, "%s message is not a whole list", name);
    *ret_pos = pos;
    return 0;
}

static int next_item(struct dvt_str map, size_t *pos, const struct dvt_fields *f, void *ret,
                     struct dvt_err *err)
{
    size_t at = *pos;
    int rc = at == 0 ? find_items(map, f->name, &at, err) : 0;
    if (rc)
        return rc;
    uint64_t n_left = at >> 32;
    size_t offset = at & UINT32_MAX;
    if (n_left > 0) {
        struct dvt_cur c = dvt_cur((struct dvt_str){map.p + offset, map.n - offset});
        rc = dvt_fields_read(&c, f, ret, err);
        if (rc)
            return rc;
        at = pos_of((size_t)(c.p - (const uint8_t *)map.p), n_left - 1);
    }
    *pos = at;
    return n_left > 0;
}

int dvt_wire_next_thread(struct dvt_str map, size_t *pos, struct dvt_thread_info *ret, struct dvt_err *err)
{
    return next_item(map, pos, &thread, ret, err);
}

int dvt_wire_next_code(struct dvt_str map, size_t *pos, struct dvt_code_info *ret, struct dvt_err *err)
{
    return next_item(map, pos, &code, ret, err);
}

int dvt_wire_next_dropped(struct dvt_str map, size_t *pos, struct dvt_dropped *ret, struct dvt_err *err)
{
    return next_item(map, pos, &dropped, ret, err);
}

int dvt_wire_get_dropped_time(struct dvt_str map, uint64_t *ret_start_ns, uint64_t *ret_end_ns,
                              struct dvt_err *err)
{
    struct dropped_time t;
    int rc = dvt_fields_get(map, &dropped_time, &t, err);
    if (rc)
        return rc;
    *ret_start_ns = t.start_ns;
    *ret_end_ns = t.end_ns;
    return 0;
}

int dvt_wire_get_counts(struct dvt_str map, struct dvt_shim_counts *ret, uint64_t *ret_now_ns,
                        struct dvt_err *err)
{
    struct counts m;
    int rc = dvt_fields_get(map, &counts, &m, err);
    if (rc)
        return rc;
    *ret = m.c;
    *ret_now_ns = m.now_ns;
    return 0;
}
