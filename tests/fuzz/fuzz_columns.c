/*
 * Column files: whatever the bytes, opening refuses or yields a view that folds within bounds. The checksum
 * is set right first, else nothing would get past it.
 */
#include "../../cli/columns_image.h"
#include "../../cli/query_columns.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void fold(const struct columns_view *v)
{
    static const struct filter filters[] = {
        {0}, {.labels = {{{"tenant", 6}, "a*"}}, .n_labels = 1, .name = "*", .service = "*"}};
    static const struct query_options options = {.by = QUERY_BY_NONE, .threads = true};
    bool *is_live = malloc(v->n_chunks + 1u);
    if (!is_live || v->n_nodes > 100000) {
        free(is_live);
        return;
    }
    memset(is_live, 1, v->n_chunks);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        struct tree tree;
        struct tree_meta meta = {0};
        tree_init(&tree);
        query_columns_fold(v, is_live, &filters[i], &options, &tree, &meta);
        tree_finish(&tree);
        tree_fini(&tree);
    }
    free(is_live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct columns_header h;
    struct columns_view v;
    struct dvt_err err;
    uint8_t *image = aligned_alloc(8, columns_padded(n + 8));
    if (!image) {
        return 0;
    }
    memcpy(image, data, n);
    if (n >= sizeof h) {
        memcpy(&h, image, sizeof h);
        h.bytes = n;
        h.checksum = columns_checksum(image + sizeof h, n - sizeof h);
        memcpy(image, &h, sizeof h);
    }
    if (columns_open(image, n, &v, &err) == 0) {
        fold(&v);
    }
    free(image);
    return 0;
}
