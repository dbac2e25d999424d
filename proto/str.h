/*
 * str: borrowed byte strings and labels, UTF-8 checks and cuts.
 */
#ifndef DVT_STR_H
#define DVT_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes, not NUL-terminated. */
struct dvt_str {
    const char *p;
    size_t n;
};

struct dvt_label {
    struct dvt_str key, value;
};

static inline struct dvt_str dvt_str(const char *z)
{
    return (struct dvt_str){z, z ? strlen(z) : 0};
}

bool dvt_str_eq(struct dvt_str a, struct dvt_str b);
/* n, or less if the n bytes end inside a character: where that character begins. */
size_t dvt_utf8_border(const char *p, size_t n);
/* The longest prefix of at most cap bytes that ends at a UTF-8 border. */
size_t dvt_utf8_cut(const char *p, size_t n, size_t cap);
/* Copies into out[cap] (NUL-terminated), replacing bytes that are not UTF-8 and, if strip_control, C0, DEL
 * and C1 control characters with U+FFFD; cut at a UTF-8 border. Returns the length without the NUL. */
size_t dvt_utf8_clean(const char *p, size_t n, bool strip_control, char *out, size_t cap);

#endif
