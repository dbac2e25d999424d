/*
 * tag: renders a scope to one prefix-searchable string by a template; tag.h has the template's language.
 *
 * Check and render read the template with the same scanner. Values come from other people's programs; what is
 * written is valid UTF-8 without control characters, so a tag is safe on a terminal. Quoting for HTML, JSON
 * or SQL is the business of whoever writes those.
 */
#include "tag.h"
#include "limits.h"

enum piece_kind {
    PIECE_END,
    PIECE_TEXT,
    PIECE_TRACE,
    PIECE_SPAN,
    PIECE_NAME,
    PIECE_SERVICE,
    PIECE_LABEL,
    PIECE_UNKNOWN, /* a field that is none of these; text is what stands between the braces */
    PIECE_BRACE,   /* a brace without its partner; text is the rest */
};

struct piece {
    enum piece_kind kind;
    struct dvt_str text; /* TEXT: the text; LABEL: the key */
};

#define LABEL_PREFIX "label:"

static struct piece field_piece(struct dvt_str field)
{
    static const struct {
        const char *name;
        enum piece_kind kind;
    } fields[] = {
        {"trace", PIECE_TRACE}, {"span", PIECE_SPAN}, {"name", PIECE_NAME}, {"service", PIECE_SERVICE}};
    const size_t prefix = sizeof LABEL_PREFIX - 1;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (dvt_str_eq(field, dvt_str(fields[i].name)))
            return (struct piece){.kind = fields[i].kind};
    if (dvt_str_eq(field, dvt_str("tenant")))
        return (struct piece){PIECE_LABEL, field};
    if (field.n > prefix && field.n - prefix <= DVT_MAX_LABEL_KEY &&
        memcmp(field.p, LABEL_PREFIX, prefix) == 0)
        return (struct piece){PIECE_LABEL, {field.p + prefix, field.n - prefix}};
    return (struct piece){PIECE_UNKNOWN, field};
}

/* At a brace: "{{" and "}}" are one literal brace, "{...}" is a field. */
static struct piece brace_piece(struct dvt_str rest, size_t *pos)
{
    if (rest.n > 1 && rest.p[1] == rest.p[0]) {
        *pos += 2;
        return (struct piece){PIECE_TEXT, {rest.p, 1}};
    }
    const char *close = rest.p[0] == '{' ? memchr(rest.p, '}', rest.n) : NULL;
    if (!close) {
        *pos += rest.n;
        return (struct piece){PIECE_BRACE, rest};
    }
    size_t n = (size_t)(close - rest.p);
    *pos += n + 1;
    return field_piece((struct dvt_str){rest.p + 1, n - 1});
}

static struct piece next_piece(struct dvt_str tmpl, size_t *pos)
{
    struct dvt_str rest = {tmpl.p + *pos, tmpl.n - *pos};
    size_t n = 0;
    if (rest.n == 0)
        return (struct piece){.kind = PIECE_END};
    while (n < rest.n && rest.p[n] != '{' && rest.p[n] != '}')
        n++;
    if (n == 0)
        return brace_piece(rest, pos);
    *pos += n;
    return (struct piece){PIECE_TEXT, {rest.p, n}};
}

int dvt_tag_check(struct dvt_str tmpl, struct dvt_err *err)
{
    if (tmpl.n == 0)
        return dvt_fail(err, DVT_EINVAL, 0, "tag template is empty; the default is %s", DVT_TAG_DEFAULT);
    if (tmpl.n > DVT_MAX_TAG)
        return dvt_fail(err, DVT_ELIMIT, 0, "tag template of %zu bytes is longer than %d", tmpl.n,
                        DVT_MAX_TAG);
    size_t pos = 0;
    for (;;) {
        struct piece p = next_piece(tmpl, &pos);
        int n = (int)(p.text.n < 60 ? p.text.n : 60);
        if (p.kind == PIECE_END)
            return 0;
        if (p.kind == PIECE_UNKNOWN)
            return dvt_fail(
                err, DVT_EINVAL, 0,
                "tag template: no field {%.*s}; there are {trace} {span} {name} {service} {tenant} "
                "{label:KEY}",
                n, p.text.p);
        if (p.kind == PIECE_BRACE)
            return dvt_fail(err, DVT_EINVAL, 0,
                            "tag template: single brace at '%.*s'; write {{ or }} for a literal one", n,
                            p.text.p);
    }
}

/* ---- rendering ---- */

/* One character more than the longest tag: what did not fit leaves n above DVT_MAX_TAG, so an end is always
 * noticed. */
struct out {
    char p[DVT_MAX_TAG + 4 + 1];
    size_t n;
};

static bool is_full(const struct out *o)
{
    return o->n > DVT_MAX_TAG;
}

static void append(struct out *o, struct dvt_str s)
{
    o->n += dvt_utf8_clean(s.p, s.n, true, o->p + o->n, sizeof o->p - o->n);
}

static void append_value(struct out *o, struct dvt_str s)
{
    append(o, s.n > 0 ? s : dvt_str("-"));
}

/* The last of a key's values: a later label replaces an earlier one. */
static struct dvt_str label_value(const struct dvt_tag_in *in, struct dvt_str key)
{
    for (size_t i = in->n_labels; i-- > 0;)
        if (dvt_str_eq(in->labels[i].key, key))
            return in->labels[i].value;
    return (struct dvt_str){0};
}

static void append_trace(struct out *o, const struct dvt_trace_id *id)
{
    char hex[DVT_TRACE_HEX + 1] = "";
    if (id && !dvt_trace_id_is_zero(id))
        dvt_trace_id_format(id, hex);
    append_value(o, dvt_str(hex));
}

static void append_span(struct out *o, const struct dvt_span_id *id)
{
    char hex[DVT_SPAN_HEX + 1] = "";
    if (id && !dvt_span_id_is_zero(id))
        dvt_span_id_format(id, hex);
    append_value(o, dvt_str(hex));
}

static void append_piece(struct out *o, const struct piece *p, const struct dvt_tag_in *in)
{
    switch (p->kind) {
    case PIECE_TRACE:
        append_trace(o, in->trace);
        break;
    case PIECE_SPAN:
        append_span(o, in->span);
        break;
    case PIECE_NAME:
        append_value(o, in->name);
        break;
    case PIECE_SERVICE:
        append_value(o, in->service);
        break;
    case PIECE_LABEL:
        append_value(o, label_value(in, p->text));
        break;
    default: /* text; of a template that was not checked, its faults as they stand */
        append(o, p->text);
    }
}

size_t dvt_tag_render(struct dvt_str tmpl, const struct dvt_tag_in *in, char *out, size_t cap)
{
    struct out o;
    size_t pos = 0;
    o.n = 0;
    if (cap == 0)
        return 0;
    for (struct piece p = next_piece(tmpl, &pos); p.kind != PIECE_END && !is_full(&o);
         p = next_piece(tmpl, &pos))
        append_piece(&o, &p, in);
    size_t n = dvt_utf8_cut(o.p, o.n, cap - 1 < DVT_MAX_TAG ? cap - 1 : DVT_MAX_TAG);
    memcpy(out, o.p, n);
    out[n] = 0;
    return n;
}
