/* json: see json.h. */
#include "json.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>

void json_string(FILE *out, struct dvt_str s)
{
    fputc('"', out);
    for (size_t i = 0; i < s.n;) {
        uint32_t code = 0;
        size_t length = text_decode(s.p + i, s.n - i, &code);
        if (length == 0) {
            fputs("\\ufffd", out);
            i++;
            continue;
        }
        if (code == '"' || code == '\\') {
            fprintf(out, "\\%c", (char)code);
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029) {
            fprintf(out, "\\u%04x", (unsigned)code);
        } else {
            fwrite(s.p + i, 1, length, out);
        }
        i += length;
    }
    fputc('"', out);
}

static void begin(struct json *j, const char *key)
{
    if (j->needs_comma) {
        fputc(',', j->out);
    }
    j->needs_comma = true;
    if (key) {
        json_string(j->out, dvt_str(key));
        fputc(':', j->out);
    }
}

void json_open(struct json *j, const char *key, char bracket)
{
    begin(j, key);
    fputc(bracket, j->out);
    j->needs_comma = false;
}

void json_close(struct json *j, char bracket)
{
    fputc(bracket, j->out);
    j->needs_comma = true;
}

void json_text(struct json *j, const char *key, struct dvt_str v)
{
    begin(j, key);
    json_string(j->out, v);
}

void json_u64(struct json *j, const char *key, uint64_t v)
{
    begin(j, key);
    fprintf(j->out, "%" PRIu64, v);
}

void json_i64(struct json *j, const char *key, int64_t v)
{
    begin(j, key);
    fprintf(j->out, "%" PRId64, v);
}

void json_bool(struct json *j, const char *key, bool v)
{
    begin(j, key);
    fputs(v ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
    begin(j, key);
    fputs("null", j->out);
}

void json_share(struct json *j, const char *key, double v)
{
    begin(j, key);
    fprintf(j->out, "%.6f", isfinite(v) ? v : 0.0);
}
