/* text: see text.h. */
#include "text.h"
#include "alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* RFC 3629: no overlong forms, no surrogates, at most U+10FFFF. */
size_t text_decode(const char *text, size_t n, uint32_t *ret_code)
{
    const uint8_t *p = (const uint8_t *)text;
    if (n == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        *ret_code = p[0];
        return 1;
    }
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < length) {
        return 0;
    }
    uint32_t code = p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    *ret_code = code;
    return length;
}

/* Characters that change the order of others or cannot be seen. */
static bool hides_or_reorders(uint32_t c)
{
    return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) ||
           c == 0xfeff || c == 0x061c || (c >= 0xe0000 && c <= 0xe007f);
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* How many bytes from p on are plain printable ASCII: most of what there is. */
static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] >= 0x20 && p[i] < 0x7f) {
        i++;
    }
    return i;
}

size_t text_put(FILE *out, struct dvt_str s, size_t max_columns)
{
    size_t plain = plain_run(s.p, s.n), columns = plain;
    if (max_columns && plain > max_columns - 1) {
        columns = plain = plain == s.n && plain == max_columns ? plain : max_columns - 1;
    }
    if (plain) { /* an empty text may have no address */
        fwrite(s.p, 1, plain, out);
    }
    for (size_t i = plain; i < s.n;) {
        uint32_t code = 0;
        size_t length = text_decode(s.p + i, s.n - i, &code);
        bool escaped = length == 0 || is_control(code);
        size_t width = escaped ? 4 : 1;
        if (max_columns && columns + width > max_columns - 1 &&
            !(i + (length ? length : 1) == s.n && width == 1)) {
            fputs("…", out);
            return columns + 1;
        }
        if (escaped) {
            fprintf(out, "\\x%02x", (unsigned)(length ? code : (uint8_t)s.p[i]));
        } else if (hides_or_reorders(code)) {
            fputs("\xef\xbf\xbd", out);
        } else {
            fwrite(s.p + i, 1, length, out);
        }
        columns += width;
        i += length ? length : 1;
    }
    return columns;
}

char *text_safe(struct dvt_str s, size_t max_columns)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) {
        return alloc_text("", 0);
    }
    text_put(out, s, max_columns);
    fclose(out); /* a memory stream fails only without memory, and then text is NULL */
    return text ? text : alloc_text("", 0);
}

size_t text_columns(const char *safe)
{
    size_t n = 0;
    for (; *safe; safe++) {
        n += ((uint8_t)*safe & 0xc0) != 0x80;
    }
    return n;
}

/* Four digits or fewer: 1.234, 12.34, 123.4, 1234. */
static void scaled(double v, const char *unit, char out[TEXT_NUMBER_MAX])
{
    int decimals = v >= 100 ? 1 : 2;
    snprintf(out, TEXT_NUMBER_MAX, "%.*f %s", decimals, v, unit);
}

void text_duration(uint64_t ns, char out[TEXT_NUMBER_MAX])
{
    double v = (double)ns;
    if (ns < 1000) {
        snprintf(out, TEXT_NUMBER_MAX, "%" PRIu64 " ns", ns);
    } else if (ns < 1000000) {
        scaled(v / 1e3, "us", out);
    } else if (ns < 1000000000) {
        scaled(v / 1e6, "ms", out);
    } else if (v < 120e9) {
        scaled(v / 1e9, "s", out);
    } else {
        uint64_t s = ns / 1000000000;
        snprintf(out, TEXT_NUMBER_MAX, "%" PRIu64 "m%02us", s / 60, (unsigned)(s % 60));
    }
}

void text_bytes(uint64_t bytes, char out[TEXT_NUMBER_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u + 1 < sizeof units / sizeof *units) {
        v /= 1024;
        u++;
    }
    snprintf(out, TEXT_NUMBER_MAX, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void text_count(uint64_t n, char out[TEXT_NUMBER_MAX])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) {
            out[at++] = ',';
        }
        out[at++] = digits[i];
    }
    out[at] = 0;
}

void text_time(int64_t unix_ns, bool iso, char out[40])
{
    int64_t second = unix_ns / 1000000000, rest = unix_ns % 1000000000;
    if (rest < 0) {
        second--;
        rest += 1000000000;
    }
    time_t t = (time_t)second;
    struct tm tm;
    char date[24] = "?";
    if (iso ? gmtime_r(&t, &tm) != NULL : localtime_r(&t, &tm) != NULL) {
        strftime(date, sizeof date, iso ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
    }
    snprintf(out, 40, iso ? "%s.%09dZ" : "%s.%03d", date, iso ? (int)rest : (int)(rest / 1000000));
}

/* E. B. Wilson, JASA 22 (1927): the shares p0 for which the seen one lies within 1.96 of their standard
 * errors. */
struct text_interval text_interval95(double share, uint64_t n_samples)
{
    if (n_samples == 0) {
        return (struct text_interval){0, 1};
    }
    double p = share < 0 ? 0 : share > 1 ? 1 : share, z = 1.96, n = (double)n_samples;
    double scale = 1 / (1 + z * z / n), centre = (p + z * z / (2 * n)) * scale;
    double half = z * scale * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    /* Rounding must not leave 0 outside the interval of 0, or 1 outside that of 1. */
    return (struct text_interval){p > 0 ? fmax(centre - half, 0) : 0, p < 1 ? fmin(centre + half, 1) : 1};
}

void text_share(double share, uint64_t part, uint64_t total, char out[TEXT_SHARE_MAX])
{
    struct text_interval i = text_interval95(share, total);
    char interval[32];
    snprintf(interval, sizeof interval, "[%4.1f, %4.1f]", i.low * 100, i.high * 100);
    snprintf(out, TEXT_SHARE_MAX, "%5.1f%%%c %-13s", share * 100, text_too_few(part, total) ? '?' : ' ',
             interval);
}

bool text_too_few(uint64_t part, uint64_t total)
{
    return total < 20 || part < 5;
}
