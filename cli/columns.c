/* columns: opening and checking an image, and its file; see columns.h. */
#include "columns.h"
#include "alloc.h"
#include "columns_image.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const size_t columns_item_bytes[COLUMNS_ARRAYS] = {
    sizeof(struct columns_chunk),
    4,
    sizeof(struct columns_label),
    4,
    4,
    4,
    4,
    sizeof(struct columns_context),
    sizeof(struct columns_frame),
    sizeof(struct columns_node),
    4,
    4,
    4,
    1,
};

/* Four lanes, so that it runs at the speed of memory. Finds torn and rotten files; a forger is not its
 * matter. */
uint64_t columns_checksum(const uint8_t *p, size_t n)
{
    uint64_t lanes[4] = {1, 2, 3, 4}, word, sum = n;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        for (int k = 0; k < 4; k++) {
            memcpy(&word, p + i + 8 * k, 8);
            lanes[k] = (lanes[k] ^ word) * 0x9e3779b97f4a7c15u;
            lanes[k] ^= lanes[k] >> 32;
        }
    }
    for (; i < n; i++) {
        sum = (sum ^ p[i]) * 0x100000001b3u;
    }
    for (int k = 0; k < 4; k++) {
        sum = (sum ^ lanes[k]) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 29;
    }
    return sum;
}

static int bad(struct dvt_err *err, const char *what)
{
    return dvt_fail(err, DVT_EFORMAT, 0, "column file: %s", what);
}

static int check_header(const uint8_t *p, size_t n, struct columns_header *h, struct dvt_err *err)
{
    if (n < sizeof *h) {
        return bad(err, "too short");
    }
    memcpy(h, p, sizeof *h);
    if (memcmp(h->magic, COLUMNS_MAGIC, sizeof h->magic) != 0 || h->n_arrays != COLUMNS_ARRAYS) {
        return bad(err, "not one");
    }
    if (h->version != COLUMNS_VERSION) {
        return dvt_fail(err, DVT_EVERSION, 0, "column file: version %u", h->version);
    }
    uint64_t need = sizeof *h;
    for (int i = 0; i < COLUMNS_ARRAYS; i++) {
        need +=
            columns_padded((uint64_t)h->counts[i] * columns_item_bytes[i]); /* 14 * 2^32 * 88: no overflow */
    }
    if (h->bytes != n || need != n) {
        return bad(err, "its arrays do not fill it");
    }
    return h->checksum == columns_checksum(p + sizeof *h, n - sizeof *h) ? 0 : bad(err, "wrong checksum");
}

static void place(const uint8_t *p, const struct columns_header *h, struct columns_view *v)
{
    const void *at[COLUMNS_ARRAYS];
    const uint8_t *next = p + sizeof *h;
    for (int i = 0; i < COLUMNS_ARRAYS; i++) {
        at[i] = next;
        next += columns_padded((uint64_t)h->counts[i] * columns_item_bytes[i]);
    }
    const uint32_t *c = h->counts;
    *v = (struct columns_view){
        .n_chunks = c[COLUMNS_CHUNKS],
        .chunks = at[COLUMNS_CHUNKS],
        .n_strings = c[COLUMNS_STRING_ENDS],
        .string_ends = at[COLUMNS_STRING_ENDS],
        .n_labels = c[COLUMNS_LABELS],
        .labels = at[COLUMNS_LABELS],
        .n_label_sets = c[COLUMNS_LABEL_SET_ENDS],
        .label_set_ends = at[COLUMNS_LABEL_SET_ENDS],
        .n_label_ids = c[COLUMNS_LABEL_IDS],
        .label_ids = at[COLUMNS_LABEL_IDS],
        .n_name_sets = c[COLUMNS_NAME_SET_ENDS],
        .name_set_ends = at[COLUMNS_NAME_SET_ENDS],
        .n_name_ids = c[COLUMNS_NAME_IDS],
        .name_ids = at[COLUMNS_NAME_IDS],
        .n_contexts = c[COLUMNS_CONTEXTS],
        .contexts = at[COLUMNS_CONTEXTS],
        .n_frames = c[COLUMNS_FRAMES],
        .frames = at[COLUMNS_FRAMES],
        .n_nodes = c[COLUMNS_NODES],
        .nodes = at[COLUMNS_NODES],
        .n_samples = c[COLUMNS_SAMPLE_NODE],
        .sample_node = at[COLUMNS_SAMPLE_NODE],
        .sample_context = at[COLUMNS_SAMPLE_CONTEXT],
        .sample_weight = at[COLUMNS_SAMPLE_WEIGHT],
        .n_text = c[COLUMNS_TEXT],
        .text = at[COLUMNS_TEXT],
    };
}

/* ---- checks: every number that is used as an index ---- */

static bool all_below(const uint32_t *v, size_t n, uint32_t bound)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        max = v[i] > max ? v[i] : max;
    }
    return n == 0 || max < bound;
}

static bool ends_ascend(const uint32_t *ends, uint32_t n, uint32_t last)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ends[i] < before || ends[i] > last) {
            return false;
        }
        before = ends[i];
    }
    return true;
}

static bool contexts_fit(const struct columns_view *v)
{
    for (uint32_t i = 0; i < v->n_contexts; i++) {
        const struct columns_context *c = &v->contexts[i];
        if (c->labels >= v->n_label_sets || c->names >= v->n_name_sets || c->service >= v->n_strings) {
            return false;
        }
    }
    return true;
}

static bool frames_fit(const struct columns_view *v)
{
    for (uint32_t i = 0; i < v->n_frames; i++) {
        const struct columns_frame *f = &v->frames[i];
        bool kind_fits = f->kind >> 8 >= TREE_SERVICE && f->kind >> 8 <= TREE_FRAME;
        if (!kind_fits || f->name >= v->n_strings || f->module >= v->n_strings || f->file >= v->n_strings) {
            return false;
        }
    }
    return true;
}

static bool nodes_fit(const struct columns_view *v)
{
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        if (v->nodes[i].parent >= i || v->nodes[i].frame >= v->n_frames) {
            return false;
        }
    }
    return v->n_nodes > 0;
}

static bool chunks_fit(const struct columns_view *v)
{
    for (uint32_t i = 0; i < v->n_chunks; i++) {
        const struct columns_chunk *c = &v->chunks[i];
        bool in_order = i == 0 || v->chunks[i - 1].offset < c->offset;
        bool inside = c->first_sample <= v->n_samples && c->n_samples <= v->n_samples - c->first_sample;
        if (!in_order || !inside || (c->is_whole && c->event >= v->n_strings)) {
            return false;
        }
    }
    return true;
}

static bool labels_fit(const struct columns_view *v)
{
    for (uint32_t i = 0; i < v->n_labels; i++) {
        if (v->labels[i].key >= v->n_strings || v->labels[i].value >= v->n_strings) {
            return false;
        }
    }
    return ends_ascend(v->label_set_ends, v->n_label_sets, v->n_label_ids) &&
           all_below(v->label_ids, v->n_label_ids, v->n_labels) &&
           ends_ascend(v->name_set_ends, v->n_name_sets, v->n_name_ids) &&
           all_below(v->name_ids, v->n_name_ids, v->n_strings);
}

int columns_open(const uint8_t *p, size_t n, struct columns_view *ret, struct dvt_err *err)
{
    struct columns_header h;
    struct columns_view v;
    int rc = (uintptr_t)p % COLUMNS_ALIGN ? bad(err, "not aligned") : check_header(p, n, &h, err);
    if (rc) {
        return rc;
    }
    if (h.counts[COLUMNS_SAMPLE_CONTEXT] != h.counts[COLUMNS_SAMPLE_NODE] ||
        h.counts[COLUMNS_SAMPLE_WEIGHT] != h.counts[COLUMNS_SAMPLE_NODE]) {
        return bad(err, "columns of different lengths");
    }
    place(p, &h, &v);
    if (!ends_ascend(v.string_ends, v.n_strings, v.n_text) || !labels_fit(&v) || !contexts_fit(&v) ||
        !frames_fit(&v) || !nodes_fit(&v) || !chunks_fit(&v)) {
        return bad(err, "an index out of bounds");
    }
    if (!all_below(v.sample_node, v.n_samples, v.n_nodes) ||
        !all_below(v.sample_context, v.n_samples, v.n_contexts)) {
        return bad(err, "a sample out of bounds");
    }
    *ret = v;
    return 0;
}

struct dvt_str columns_string(const struct columns_view *v, uint32_t i)
{
    uint32_t from = i ? v->string_ends[i - 1] : 0;
    return (struct dvt_str){v->text + from, v->string_ends[i] - from};
}

/* ---- files ---- */

static char *path_of(const char *dir, uint32_t segment)
{
    return alloc_printf("%s/columns/%08u.col", dir, segment);
}

int columns_file_open(const char *dir, uint32_t segment, struct columns_file *ret, struct dvt_err *err)
{
    struct stat st;
    char *path = path_of(dir, segment);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    free(path);
    if (fd < 0) {
        return dvt_fail(err, DVT_ENOENT, errno, "no column file");
    }
    *ret = (struct columns_file){.is_mapped = true};
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        rc = bad(err, "no regular file");
    } else {
        ret->bytes = (size_t)st.st_size; /* replaced by rename, never cut: the mapping stays whole */
        ret->image = mmap(NULL, ret->bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
        rc = ret->image == MAP_FAILED
                 ? dvt_fail(err, DVT_EIO, errno, "mmap of a column file: %s", strerror(errno))
                 : columns_open(ret->image, ret->bytes, &ret->view, err);
        if (rc && ret->image != MAP_FAILED) {
            munmap(ret->image, ret->bytes);
        }
    }
    close(fd);
    return rc;
}

/* Best effort: a store that cannot be written is read all the same. */
static void write_file(const char *dir, uint32_t segment, const uint8_t *image, size_t bytes)
{
    char *folder = alloc_printf("%s/columns", dir), *path = path_of(dir, segment);
    char *partial = alloc_printf("%s.%d", path, (int)getpid());
    mkdir(folder, 0750); /* there already, or the open below fails */
    int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd >= 0) {
        size_t done = 0;
        ssize_t n = 0;
        while (done < bytes && (n = write(fd, image + done, bytes - done)) > 0) {
            done += (size_t)n;
        }
        bool failed = close(fd) != 0 || done < bytes;
        if (failed || rename(partial, path)) {
            unlink(partial);
        }
    }
    free(partial);
    free(path);
    free(folder);
}

int columns_file_adopt(const char *dir, uint32_t segment, uint8_t *image, size_t bytes,
                       struct columns_file *ret, struct dvt_err *err)
{
    *ret = (struct columns_file){.image = image, .bytes = bytes};
    int rc = columns_open(image, bytes, &ret->view, err);
    if (rc) {
        free(image);
        return rc;
    }
    write_file(dir, segment, image, bytes);
    return 0;
}

void columns_file_close(struct columns_file *f)
{
    if (f->is_mapped) {
        munmap(f->image, f->bytes);
    } else {
        free(f->image);
    }
    *f = (struct columns_file){0};
}
