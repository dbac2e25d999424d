/*
 * json: writes JSON that is valid whatever the strings hold: bytes that are not UTF-8 become U+FFFD.
 */
#ifndef JSON_H
#define JSON_H

#include "../proto/str.h"

#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool needs_comma;
};

void json_string(FILE *out, struct dvt_str s); /* with its quotes */

/* An object or array: open with '{' or '[', close with '}' or ']'. key NULL inside arrays and at the top. */
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, struct dvt_str v);
void json_u64(struct json *j, const char *key, uint64_t v);
void json_i64(struct json *j, const char *key, int64_t v);
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
/* A share: six decimals. */
void json_share(struct json *j, const char *key, double v);

#endif
