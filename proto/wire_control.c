/*
 * wire_control: the messages of the control socket; PROTOCOL.md "Control socket".
 *
 * HELLO and WELCOME begin with the version in every major, so that two sides that do not understand each
 * other can say so: the decoders look at it before at anything else.
 */
#include "wire_fields.h"

static const struct dvt_field hello_rows[] = {
    DVT_ROW(struct dvt_hello, 1, U32, major, true, 0),
    DVT_ROW(struct dvt_hello, 2, U32, minor, true, 0),
    DVT_ROW(struct dvt_hello, 3, U32, role, true, 0),
    DVT_ROW(struct dvt_hello, 4, U32, pid, true, 0),
    DVT_ROW(struct dvt_hello, 5, STR, runtime, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_hello, 6, STR, runtime_version, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_hello, 7, STR, service, false, DVT_MAX_SERVICE),
    DVT_ROW(struct dvt_hello, 8, STR, program, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_hello, 9, TEXT, tag_template, false, DVT_MAX_TAG),
    DVT_ROW(struct dvt_hello, 10, U64, eval_lo, false, 0),
    DVT_ROW(struct dvt_hello, 11, U64, eval_hi, false, 0),
    DVT_ROW(struct dvt_hello, 12, BOOL, has_walker, false, 0),
};
static const struct dvt_fields hello = DVT_FIELDS("HELLO", struct dvt_hello, hello_rows);

static const struct dvt_field welcome_rows[] = {
    DVT_ROW(struct dvt_welcome, 1, U32, major, true, 0),
    DVT_ROW(struct dvt_welcome, 2, U32, minor, true, 0),
    DVT_ROW(struct dvt_welcome, 3, U64, session, true, 0),
    DVT_ROW(struct dvt_welcome, 4, KEY, key, true, DVT_KEY_BYTES),
    DVT_ROW(struct dvt_welcome, 5, TEXT, endpoint, false, DVT_MAX_PATH),
    DVT_ROW(struct dvt_welcome, 6, U64, period_ns, false, 0),
    DVT_ROW(struct dvt_welcome, 7, U32, jitter_permille, false, 1000),
    DVT_ROW(struct dvt_welcome, 8, U32, flush_ms, false, 0),
    DVT_ROW(struct dvt_welcome, 9, BOOL, use_signal, false, 0),
};
static const struct dvt_fields welcome = DVT_FIELDS("WELCOME", struct dvt_welcome, welcome_rows);

static const struct dvt_field refuse_rows[] = {
    DVT_ROW(struct dvt_refuse, 1, I32, code, true, 0),
    DVT_ROW(struct dvt_refuse, 2, STR, text, false, DVT_MAX_NAME),
};
static const struct dvt_fields refuse = DVT_FIELDS("REFUSE", struct dvt_refuse, refuse_rows);

static const struct dvt_field arm_rows[] = {
    DVT_ROW(struct dvt_arm, 1, U32, tid, true, 0),
    DVT_ROW(struct dvt_arm, 2, U32, epoch, true, 0),
};
static const struct dvt_fields arm = DVT_FIELDS("ARM", struct dvt_arm, arm_rows);

static const struct dvt_field armed_rows[] = {
    DVT_ROW(struct dvt_armed, 1, U32, tid, true, 0),
    DVT_ROW(struct dvt_armed, 2, U32, epoch, true, 0),
    DVT_ROW(struct dvt_armed, 3, I32, code, true, 0),
    DVT_ROW(struct dvt_armed, 4, STR, text, false, DVT_MAX_NAME),
    DVT_ROW(struct dvt_armed, 5, U32, map_bytes, false, 0),
    DVT_ROW(struct dvt_armed, 6, U64, first_period_ns, false, 0),
};
static const struct dvt_fields armed = DVT_FIELDS("ARMED", struct dvt_armed, armed_rows);

static const struct dvt_field status_rows[] = {
    DVT_ROW(struct dvt_status, 1, BOOL, last, true, 0),
    DVT_ROW(struct dvt_status, 2, TEXT, json, false, DVT_MAX_STATUS_PART),
};
static const struct dvt_fields status = DVT_FIELDS("STATUS", struct dvt_status, status_rows);

int dvt_wire_put_hello(struct dvt_buf *b, const struct dvt_hello *m)
{
    return dvt_fields_put(b, DVT_MSG_HELLO, &hello, m);
}

int dvt_wire_put_welcome(struct dvt_buf *b, const struct dvt_welcome *m)
{
    return dvt_fields_put(b, DVT_MSG_WELCOME, &welcome, m);
}

int dvt_wire_put_refuse(struct dvt_buf *b, const struct dvt_refuse *m)
{
    return dvt_fields_put(b, DVT_MSG_REFUSE, &refuse, m);
}

int dvt_wire_put_arm(struct dvt_buf *b, const struct dvt_arm *m)
{
    return dvt_fields_put(b, DVT_MSG_ARM, &arm, m);
}

int dvt_wire_put_armed(struct dvt_buf *b, const struct dvt_armed *m)
{
    return dvt_fields_put(b, DVT_MSG_ARMED, &armed, m);
}

int dvt_wire_put_disarm(struct dvt_buf *b, const struct dvt_arm *m)
{
    return dvt_fields_put(b, DVT_MSG_DISARM, &arm, m);
}

int dvt_wire_put_status(struct dvt_buf *b, const struct dvt_status *m)
{
    return dvt_fields_put(b, DVT_MSG_STATUS, &status, m);
}

int dvt_wire_put_plain(struct dvt_buf *b, enum dvt_msg_type type)
{
    struct dvt_packer k;
    dvt_pack_begin(&k, b);
    dvt_pack_message(&k, type, 0);
    return dvt_pack_end(&k);
}

/* The first two pairs of HELLO and WELCOME of any major: 1 major, 2 minor. */
static bool peek_version(struct dvt_str map, uint64_t version[2])
{
    struct dvt_cur c = dvt_cur(map);
    uint64_t n_pairs, key;
    if (!dvt_cur_map(&c, &n_pairs) || n_pairs < 2)
        return false;
    for (unsigned i = 0; i < 2; i++)
        if (!dvt_cur_uint(&c, &key) || key != i + 1 || !dvt_cur_uint(&c, &version[i]))
            return false;
    return true;
}

static int check_version(struct dvt_str map, const char *they, const char *their_part, const char *we,
                         const char *our_part, struct dvt_err *err)
{
    uint64_t v[2];
    if (!peek_version(map, v))
        return dvt_fail(err, DVT_EFORMAT, 0, "%s does not begin with its protocol version", they);
    if (v[0] == DVT_WIRE_MAJOR)
        return 0;
    return dvt_fail(err, DVT_EVERSION, 0, "%s speaks protocol %llu.%llu; %s speaks %d.%d: update %s", they,
                    (unsigned long long)v[0], (unsigned long long)v[1], we, DVT_WIRE_MAJOR, DVT_WIRE_MINOR,
                    v[0] > DVT_WIRE_MAJOR ? our_part : their_part);
}

int dvt_wire_get_hello(struct dvt_str map, struct dvt_hello *ret, struct dvt_err *err)
{
    int rc = check_version(map, "the peer", "the peer's dovetail", "this daemon", "dovetaild", err);
    return rc ? rc : dvt_fields_get(map, &hello, ret, err);
}

int dvt_wire_get_welcome(struct dvt_str map, struct dvt_welcome *ret, struct dvt_err *err)
{
    int rc = check_version(map, "the daemon", "dovetaild", "this program", "the program's dovetail", err);
    return rc ? rc : dvt_fields_get(map, &welcome, ret, err);
}

int dvt_wire_get_refuse(struct dvt_str map, struct dvt_refuse *ret, struct dvt_err *err)
{
    return dvt_fields_get(map, &refuse, ret, err);
}

int dvt_wire_get_arm(struct dvt_str map, struct dvt_arm *ret, struct dvt_err *err)
{
    return dvt_fields_get(map, &arm, ret, err);
}

int dvt_wire_get_armed(struct dvt_str map, struct dvt_armed *ret, struct dvt_err *err)
{
    return dvt_fields_get(map, &armed, ret, err);
}

int dvt_wire_get_status(struct dvt_str map, struct dvt_status *ret, struct dvt_err *err)
{
    return dvt_fields_get(map, &status, ret, err);
}
