/*
 * codetable: see codetable.h. Ids are dense, so the table is an array.
 */
#include "codetable.h"

#include <stdlib.h>

struct code *code_ref(struct code *c)
{
    c->refs++;
    return c;
}

void code_unref(struct code *c)
{
    if (c && --c->refs == 0)
        free(c);
}

void codetable_fini(struct codetable *t)
{
    for (uint32_t i = 0; i < t->cap; i++)
        code_unref(t->by_id[i]);
    free(t->by_id);
    *t = (struct codetable){0};
}

static struct code *code_new(const struct dvt_code_info *info)
{
    char name[DVT_MAX_FRAME_NAME + 1], file[DVT_MAX_PATH + 1];
    size_t n_name = dvt_utf8_clean(info->name.p, info->name.n, true, name, sizeof name);
    size_t n_file = dvt_utf8_clean(info->file.p, info->file.n, true, file, sizeof file);
    size_t bytes = sizeof(struct code) + n_name + n_file + 2;
    struct code *c = malloc(bytes);
    if (!c)
        return NULL;
    char *at = (char *)(c + 1);
    *c = (struct code){
        .refs = 1, .first_line = info->first_line, .name = at, .file = at + n_name + 1, .bytes = bytes};
    memcpy(at, name, n_name + 1);
    memcpy(at + n_name + 1, file, n_file + 1);
    return c;
}

static int make_room(struct codetable *t, uint32_t id)
{
    uint32_t cap = t->cap ? t->cap : 256;
    while (cap <= id)
        cap *= 2;
    if (cap == t->cap)
        return 0;
    struct code **v = realloc(t->by_id, cap * sizeof(*v));
    if (!v)
        return DVT_ENOMEM;
    memset(v + t->cap, 0, (cap - t->cap) * sizeof(*v));
    t->by_id = v;
    t->cap = cap;
    return 0;
}

int codetable_put(struct codetable *t, const struct dvt_code_info *info)
{
    if (info->id == 0)
        return DVT_EINVAL;
    if (info->id >= CODETABLE_MAX_ID || t->bytes > CODETABLE_MAX_BYTES)
        return DVT_ELIMIT;
    struct code *c = make_room(t, info->id) ? NULL : code_new(info);
    if (!c)
        return DVT_ENOMEM;
    struct code **at = &t->by_id[info->id];
    if (*at)
        t->bytes -= (*at)->bytes;
    code_unref(*at);
    *at = c;
    t->bytes += c->bytes;
    return 0;
}

struct code *codetable_get(const struct codetable *t, uint32_t id)
{
    return id < t->cap ? t->by_id[id] : NULL;
}
