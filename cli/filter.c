/* filter: see filter.h. */
#include "filter.h"
#include "alloc.h"
#include "text.h"

#include "../proto/ids.h"
#include "../proto/limits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    OPT_TRACE = FILTER_OPTION_FIRST,
    OPT_SPAN,
    OPT_NAME,
    OPT_LABEL,
    OPT_TAG,
    OPT_SERVICE,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_MIN_DURATION,
    OPT_STORE
};

const struct args_option filter_options[] = {
    {OPT_TRACE, 0, "--trace", "ID", "trace id, or its first digits"},
    {OPT_SPAN, 0, "--span", "ID", "span id, or its first digits: what ran under it"},
    {OPT_NAME, 0, "--name", "GLOB", "scopes of that name and what ran under them"},
    {OPT_LABEL, 'l', "--label", "K=V", "label; V may be a glob; repeat to narrow"},
    {OPT_TAG, 0, "--tag", "PREFIX", "tag that begins so; '*part*' for any part of it"},
    {OPT_SERVICE, 0, "--service", "GLOB", "service"},
    {OPT_SINCE, 0, "--since", "T", "started at or after T: RFC 3339, \"10m ago\" or -10m"},
    {OPT_UNTIL, 0, "--until", "T", "started before T"},
    {OPT_MIN_DURATION, 0, "--min-duration", "D", "lasted at least D: 200ms, 1.5s"},
    {OPT_STORE, 0, "--store", "DIR", "read this store; repeat to merge several"},
    {0},
};

/* ---- globs ---- */

bool filter_has_glob(const char *pattern)
{
    return strpbrk(pattern, "*?") != NULL;
}

/* A byte that is no UTF-8 counts as one character. */
static size_t character_bytes(struct dvt_str s, size_t at)
{
    uint32_t code;
    size_t length = text_decode(s.p + at, s.n - at, &code);
    return length ? length : 1;
}

bool filter_glob(const char *pattern, struct dvt_str s)
{
    const char *star = NULL;
    size_t i = 0, star_at = 0;
    while (i < s.n || *pattern) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = i;
        } else if (i < s.n && *pattern == '?') {
            pattern++;
            i += character_bytes(s, i);
        } else if (i < s.n && *pattern && *pattern == s.p[i]) {
            pattern++;
            i++;
        } else if (star &&
                   star_at <
                       s.n) { /* let the last star eat one byte more: linear times the stars, no recursion */
            pattern = star + 1;
            i = ++star_at;
        } else {
            return false;
        }
    }
    return true;
}

bool filter_tag_matches(const char *pattern, struct dvt_str tag)
{
    size_t n = strlen(pattern);
    if (strchr(pattern, '*')) {
        return filter_glob(pattern, tag);
    }
    return tag.n >= n && memcmp(tag.p, pattern, n) == 0;
}

/* ---- times ---- */

static double unit_ns(const char **text)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},  {"us", 1e3}, {"\xc2\xb5s", 1e3}, {"ms", 1e6},   {"min", 60e9},
                 {"s", 1e9}, {"m", 60e9}, {"h", 3600e9},      {"d", 86400e9}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(*text, units[i].name, n) == 0 && !isalpha((unsigned char)(*text)[n])) {
            *text += n;
            return units[i].ns;
        }
    }
    return 0;
}

int filter_duration(const char *text, uint64_t *ret_ns)
{
    double sum = 0;
    if (!*text) {
        return DVT_EINVAL;
    }
    while (*text) {
        char *end;
        double v = strtod(text, &end);
        if (!isdigit((unsigned char)*text) ||
            end != text + strspn(text, "0123456789.")) { /* no sign, hex, exponent, inf */
            return DVT_EINVAL;
        }
        text = end;
        double unit = unit_ns(&text);
        if (unit == 0 || v > 1e12) {
            return DVT_EINVAL;
        }
        sum += v * unit;
    }
    if (sum > 3e18) {
        return DVT_EINVAL;
    }
    *ret_ns = (uint64_t)sum;
    return 0;
}

/* Two to four digits of a fixed field; moves *text behind them and behind `after` (if not 0). */
static bool field(const char **text, int digits, int min, int max, char after, int *ret)
{
    int v = 0;
    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)**text)) {
            return false;
        }
        v = v * 10 + (*(*text)++ - '0');
    }
    if (v < min || v > max || (after && *(*text)++ != after)) {
        return false;
    }
    *ret = v;
    return true;
}

static int fraction_ns(const char **text)
{
    int ns = 0;
    if (**text != '.') {
        return 0;
    }
    (*text)++;
    for (int unit = 100000000; isdigit((unsigned char)**text); (*text)++, unit /= 10) {
        ns += (**text - '0') * unit;
    }
    return ns;
}

/* "Z", "+01:00"; *ret_is_local without one. */
static bool offset_seconds(const char **text, int *ret, bool *ret_is_local)
{
    int sign = **text == '-' ? -1 : 1, h, m;
    *ret = 0;
    *ret_is_local = **text == 0;
    if (**text == 'Z' || **text == 'z') {
        (*text)++;
        return true;
    }
    if (**text != '+' && **text != '-') {
        return *ret_is_local;
    }
    (*text)++;
    if (!field(text, 2, 0, 23, ':', &h) || !field(text, 2, 0, 59, 0, &m)) {
        return false;
    }
    *ret = sign * (h * 3600 + m * 60);
    return true;
}

static int absolute_time(const char *text, int64_t *ret_unix_ns)
{
    struct tm tm = {.tm_isdst = -1};
    int ns = 0, offset = 0;
    bool is_local = false;
    if (!field(&text, 4, 1970, 2261, '-', &tm.tm_year) || !field(&text, 2, 1, 12, '-', &tm.tm_mon) ||
        !field(&text, 2, 1, 31, 0, &tm.tm_mday)) {
        return DVT_EINVAL;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (*text == 'T' || *text == 't' || *text == ' ') {
        text++;
        if (!field(&text, 2, 0, 23, ':', &tm.tm_hour) || !field(&text, 2, 0, 59, 0, &tm.tm_min)) {
            return DVT_EINVAL;
        }
        if (*text == ':') {
            text++;
            if (!field(&text, 2, 0, 60, 0, &tm.tm_sec)) {
                return DVT_EINVAL;
            }
            ns = fraction_ns(&text);
        }
    }
    if (!offset_seconds(&text, &offset, &is_local) || *text) {
        return DVT_EINVAL;
    }
    time_t t = is_local ? mktime(&tm) : timegm(&tm) - offset;
    *ret_unix_ns = (int64_t)t * 1000000000 + ns;
    return 0;
}

int filter_time(const char *text, int64_t now_ns, int64_t *ret_unix_ns)
{
    char copy[64];
    uint64_t back;
    size_t n = strlen(text);
    if (n >= sizeof copy) {
        return DVT_EINVAL;
    }
    if (strcmp(text, "now") == 0) {
        *ret_unix_ns = now_ns;
        return 0;
    }
    memcpy(copy, text, n + 1);
    bool ago = n > 4 && strcmp(copy + n - 4, " ago") == 0;
    if (ago) {
        copy[n - 4] = 0;
    }
    if ((ago || text[0] == '-') && filter_duration(copy + (text[0] == '-'), &back) == 0) {
        *ret_unix_ns = now_ns - (int64_t)back;
        return 0;
    }
    return ago ? DVT_EINVAL : absolute_time(text, ret_unix_ns);
}

/* ---- options ---- */

static int take_id(const char *value, size_t max_digits, const char *what, const char **ret,
                   struct dvt_err *err)
{
    size_t n = strspn(value, "0123456789abcdefABCDEF");
    if (value[n] || n == 0 || n > max_digits) {
        return dvt_fail(err, DVT_EINVAL, 0, "\"%.40s\" is no %s id: give its first hex digits, at most %zu",
                        value, what, max_digits);
    }
    *ret = value;
    return 0;
}

static int take_label(struct filter *f, const char *value, struct dvt_err *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value) {
        return dvt_fail(err, DVT_EINVAL, 0, "--label takes KEY=VALUE, not \"%.60s\"; KEY='*' for any value",
                        value);
    }
    if (f->n_labels == FILTER_MAX_LABELS) {
        return dvt_fail(err, DVT_EINVAL, 0, "at most %d --label", FILTER_MAX_LABELS);
    }
    f->labels[f->n_labels++] = (struct filter_label){{value, (size_t)(equals - value)}, equals + 1};
    return 0;
}

int filter_take_store(struct filter *f, const char *value, struct dvt_err *err)
{
    if (f->n_stores == FILTER_MAX_STORES) {
        return dvt_fail(err, DVT_EINVAL, 0, "at most %d --store", FILTER_MAX_STORES);
    }
    f->stores[f->n_stores++] = value;
    return 0;
}

static int take_time(const char *option, const char *value, int64_t now_ns, int64_t *ret, struct dvt_err *err)
{
    if (filter_time(value, now_ns, ret)) {
        return dvt_fail(err, DVT_EINVAL, 0,
                        "%s takes a time such as 2026-01-31T12:00:00Z, \"10m ago\" or -10m, not \"%.40s\"",
                        option, value);
    }
    return 0;
}

int filter_take(struct filter *f, int id, const char *value, int64_t now_ns, struct dvt_err *err)
{
    switch (id) {
    case OPT_TRACE:
        return take_id(value, DVT_TRACE_HEX, "trace", &f->trace, err);
    case OPT_SPAN:
        return take_id(value, DVT_SPAN_HEX, "span", &f->span, err);
    case OPT_NAME:
        f->name = value;
        return 0;
    case OPT_LABEL:
        return take_label(f, value, err);
    case OPT_TAG:
        f->tag = value;
        return 0;
    case OPT_SERVICE:
        f->service = value;
        return 0;
    case OPT_SINCE:
        return take_time("--since", value, now_ns, &f->since_ns, err);
    case OPT_UNTIL:
        return take_time("--until", value, now_ns, &f->until_ns, err);
    case OPT_MIN_DURATION:
        if (filter_duration(value, &f->min_duration_ns)) {
            return dvt_fail(err, DVT_EINVAL, 0,
                            "--min-duration takes a time such as 200ms or 1.5s, not \"%.40s\"", value);
        }
        return 0;
    case OPT_STORE:
        return filter_take_store(f, value, err);
    default:
        return dvt_fail(err, DVT_EINVAL, 0, "unknown filter option");
    }
}

bool filter_picks_samples(const struct filter *f)
{
    return f->span || f->name || f->tag || f->service || f->n_labels;
}

bool filter_takes_trace(const struct filter *f, int64_t start_ns, uint64_t duration_ns)
{
    return (!f->since_ns || start_ns >= f->since_ns) && (!f->until_ns || start_ns < f->until_ns) &&
           duration_ns >= f->min_duration_ns;
}

static void describe(FILE *out, const char *what, const char *value)
{
    if (value) {
        fprintf(out, "%s%s %s", ftell(out) > 0 ? ", " : "", what, value);
    }
}

static void describe_time(FILE *out, const char *what, int64_t unix_ns)
{
    char text[40];
    if (unix_ns) {
        text_time(unix_ns, false, text);
        describe(out, what, text);
    }
}

char *filter_describe(const struct filter *f)
{
    char *text = NULL, duration[TEXT_NUMBER_MAX];
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) {
        return alloc_text("", 0);
    }
    for (size_t i = 0; i < f->n_labels; i++) {
        fprintf(out, "%slabel %.*s=%s", i ? ", " : "", (int)f->labels[i].key.n, f->labels[i].key.p,
                f->labels[i].value);
    }
    fflush(out);
    describe(out, "trace", f->trace);
    describe(out, "span", f->span);
    describe(out, "name", f->name);
    describe(out, "tag", f->tag);
    describe(out, "service", f->service);
    describe_time(out, "since", f->since_ns);
    describe_time(out, "until", f->until_ns);
    text_duration(f->min_duration_ns, duration);
    describe(out, "lasting at least", f->min_duration_ns ? duration : NULL);
    fclose(out); /* a memory stream */
    return text ? text : alloc_text("", 0);
}
