/*
 * odd_names: scopes with names and labels as hostile as users' data gets: HTML, quotes, newlines, terminal
 * escapes, bytes that are not UTF-8, 10 kB. Burns enough CPU in each to be sampled.
 */
#include <string.h>

#include "../truth/burn.h"
#include "dovetail.h"

static __attribute__((noinline)) void odd_work(void)
{
    burn(60000000);
    STAY();
}

int main(void)
{
    static char long_name[10241];
    memset(long_name, 'x', sizeof long_name - 1);
    const char *const names[] = {
        "<script>alert(1)</script>", "a\"b'c&d</style>",       "line one\nline two\ttab",
        "\033[31mred\033[0m\a",      "bad \xff\xfe utf8 \xc3", long_name,
    };
    dvt_start(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct dvt_label_arg label = {"odd", names[i]};
        uint8_t trace[16] = {0xbb, [15] = (uint8_t)i};
        struct dvt_scope s = dvt_scope_open(&(struct dvt_scope_args){
            .name = names[i], .trace_id = trace, .labels = &label, .n_labels = 1, .always = true});
        odd_work();
        dvt_scope_close(s);
    }
    return 0;
}
