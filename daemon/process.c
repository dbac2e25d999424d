/*
 * process: see process.h.
 */
#include "process.h"
#include "procmap.h"

#include <stdlib.h>
#include <string.h>

/* Text from a shim, made safe to log and to store. */
static char *clean_copy(struct dvt_str s, size_t cap)
{
    char text[DVT_MAX_PATH + 1];
    size_t n = dvt_utf8_clean(s.p, s.n, true, text, cap + 1);
    char *copy = malloc(n + 1);
    if (copy)
        memcpy(copy, text, n + 1);
    return copy;
}

struct process *process_new(const struct dvt_hello *hello)
{
    struct process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->refs = 1;
    p->ns_pid = hello->pid;
    p->eval_lo = hello->eval_lo;
    p->eval_hi = hello->eval_hi;
    p->has_walker = hello->has_walker;
    p->service = clean_copy(hello->service, DVT_MAX_SERVICE);
    p->program = clean_copy(hello->program, DVT_MAX_PATH);
    p->runtime = clean_copy(hello->runtime, DVT_MAX_SERVICE);
    p->runtime_version = clean_copy(hello->runtime_version, DVT_MAX_SERVICE);
    p->tag_template = clean_copy(hello->tag_template, DVT_MAX_PATH);
    if (p->service && p->program && p->runtime && p->runtime_version && p->tag_template)
        return p;
    process_unref(p);
    return NULL;
}

struct process *process_ref(struct process *p)
{
    __atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

/* acq_rel: the last holder sees all that the others wrote before it frees. */
void process_unref(struct process *p)
{
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (p->map)
        procmap_free(p->map);
    free(p->service);
    free(p->program);
    free(p->runtime);
    free(p->runtime_version);
    free(p->tag_template);
    free(p);
}
