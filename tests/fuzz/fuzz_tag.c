/*
 * fuzz_tag: the input is a template, a NUL, and a name which is also a label. What passes the check must
 * render to clean UTF-8 within every bound; what does not pass must still not break the renderer.
 */
#include "../../proto/limits.h"
#include "../../proto/tag.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(struct dvt_str tmpl, const struct dvt_tag_in *in, size_t cap)
{
    char *out = malloc(cap ? cap : 1), *again = malloc(cap ? cap : 1); /* exact, for the sanitizer */
    if (!out || !again)
        abort();
    size_t n = dvt_tag_render(tmpl, in, out, cap);
    if (cap > 0 && (n >= cap || n > DVT_MAX_TAG || out[n] != 0))
        abort();
    if (cap > 0 && (dvt_utf8_clean(out, n, true, again, cap) != n || memcmp(out, again, n) != 0))
        abort(); /* cleaning what is clean changes nothing */
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    struct dvt_str tmpl = {(const char *)data, n}, rest = {(const char *)data + n, size - n};
    struct dvt_label label = {dvt_str("tenant"), rest};
    struct dvt_trace_id trace = {{1}};
    struct dvt_tag_in in = {&trace, NULL, rest, rest, &label, 1};
    struct dvt_err err;
    (void)dvt_tag_check(tmpl, &err);
    render(tmpl, &in, 2 * DVT_MAX_TAG);
    render(tmpl, &in, size % 64);
    return 0;
}
