/* relocate: see relocate.h. Source: JVMS 4.4, the constant pool. */
#include "relocate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../proto/err.h"

enum { CONST_UTF8 = 1, CONST_LONG = 5, CONST_DOUBLE = 6, HEADER = 10, MAX_TEXT = 65535 };

struct copy {
    const uint8_t *in, *end;
    uint8_t *out;
};

static uint16_t u2(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static void take(struct copy *c, size_t n)
{
    memcpy(c->out, c->in, n);
    c->in += n;
    c->out += n;
}

static bool starts_moved(const uint8_t *p, size_t n)
{
    static const char *const moved[] = {"io/opentelemetry/api/", "io/opentelemetry/context/"};
    for (size_t i = 0; i < 2; i++)
        if (n >= strlen(moved[i]) && memcmp(p, moved[i], strlen(moved[i])) == 0)
            return true;
    return false;
}

static int take_text(struct copy *c)
{
    size_t room = (size_t)(c->end - c->in), n = room < 3 ? 0 : u2(c->in + 1);
    uint8_t *head = c->out;
    if (room < 3 || n > room - 3)
        return DVT_EFORMAT;
    take(c, 3);
    for (const uint8_t *text_end = c->in + n; c->in < text_end;) {
        if (starts_moved(c->in, (size_t)(text_end - c->in))) {
            memcpy(c->out, DVT_JVM_SHADED, strlen(DVT_JVM_SHADED));
            c->out += strlen(DVT_JVM_SHADED);
        }
        take(c, 1);
    }
    size_t now = (size_t)(c->out - head) - 3;
    if (now > MAX_TEXT)
        return DVT_EFORMAT;
    head[1] = (uint8_t)(now >> 8);
    head[2] = (uint8_t)now;
    return 0;
}

static int take_constant(struct copy *c, bool *ret_is_double)
{
    static const uint8_t bytes[] = {[3] = 5, [4] = 5, [5] = 9, [6] = 9, [7] = 3, [8] = 3, [9] = 5, [10] = 5,
                                    [11] = 5, [12] = 5, [15] = 4, [16] = 3, [17] = 5, [18] = 5, [19] = 3, [20] = 3};
    if (c->in == c->end)
        return DVT_EFORMAT;
    uint8_t tag = *c->in;
    *ret_is_double = tag == CONST_LONG || tag == CONST_DOUBLE; /* they count twice */
    if (tag == CONST_UTF8)
        return take_text(c);
    size_t n = tag < sizeof bytes ? bytes[tag] : 0;
    if (n == 0 || n > (size_t)(c->end - c->in))
        return DVT_EFORMAT;
    take(c, n);
    return 0;
}

static int relocate(struct copy *c)
{
    if ((size_t)(c->end - c->in) < HEADER)
        return DVT_EFORMAT;
    unsigned count = u2(c->in + HEADER - 2);
    take(c, HEADER);
    for (unsigned i = 1; i < count; i++) {
        bool is_double;
        if (take_constant(c, &is_double) != 0)
            return DVT_EFORMAT;
        i += is_double;
    }
    take(c, (size_t)(c->end - c->in));
    return 0;
}

int dvt_jvm_relocate(const uint8_t *class, size_t n, uint8_t **ret_class, size_t *ret_n)
{
    /* 21 bytes or more become 34 more at a time: no text more than trebles. */
    uint8_t *out = malloc(3 * n + HEADER);
    struct copy c = {class, class + n, out};
    if (!out)
        return DVT_ENOMEM;
    if (relocate(&c) != 0) {
        free(out);
        return DVT_EFORMAT;
    }
    *ret_class = out;
    *ret_n = (size_t)(c.out - out);
    return 0;
}
