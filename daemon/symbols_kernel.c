/*
 * symbols_kernel: see symbols_kernel.h. Text symbols only, as offsets into one block of names, sorted by
 * address. The file has no sizes: a function reaches to the next one, but never further than MAX_FUNCTION.
 */
#include "symbols_kernel.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SYMBOLS = 1 << 20, MAX_NAMES = 64 << 20, MAX_FUNCTION = 1 << 20 };

struct function {
    uint64_t start;
    uint32_t name; /* into names */
};

struct symbols_kernel {
    struct function *functions; /* [n] ascending */
    char *names;
    uint32_t n, cap, names_used, names_cap;
};

static bool push_name(struct symbols_kernel *k, const char *name, uint32_t *ret)
{
    uint32_t n = (uint32_t)strlen(name) + 1;
    if (k->names_cap - k->names_used < n) {
        uint32_t cap = 2 * k->names_cap + (1 << 20);
        char *names = cap <= MAX_NAMES ? realloc(k->names, cap) : NULL;
        if (!names)
            return false;
        k->names = names;
        k->names_cap = cap;
    }
    *ret = k->names_used;
    memcpy(k->names + k->names_used, name, n);
    k->names_used += n;
    return true;
}

static bool push(struct symbols_kernel *k, uint64_t start, const char *name)
{
    uint32_t at;
    if (k->n == k->cap) {
        uint32_t cap = k->cap ? 2 * k->cap : 1 << 14;
        struct function *v = cap <= MAX_SYMBOLS ? realloc(k->functions, cap * sizeof *v) : NULL;
        if (!v)
            return false;
        k->functions = v;
        k->cap = cap;
    }
    if (!push_name(k, name, &at))
        return false;
    k->functions[k->n++] = (struct function){start, at};
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->name < y->name) -
           (x->name > y->name); /* of aliases the file's first comes last and is found */
}

/* "ffffffff81000000 T name", behind it perhaps a tab and "[module]". */
static bool read_line(struct symbols_kernel *k, char *line)
{
    char *p;
    uint64_t start = strtoull(line, &p, 16);
    if (!start || p[0] != ' ' || !p[1] || !strchr("tTwW", p[1]) || p[2] != ' ')
        return true;
    p += 3;
    p[strcspn(p, " \t\n")] = 0;
    return push(k, start, p);
}

struct symbols_kernel *symbols_kernel_read(FILE *f)
{
    struct symbols_kernel *k = calloc(1, sizeof *k);
    char line[768];
    bool ok = k != NULL;
    while (ok && fgets(line, sizeof line, f))
        ok = read_line(k, line);
    if (!ok || !k->n) {
        symbols_kernel_free(k);
        return NULL;
    }
    qsort(k->functions, k->n, sizeof *k->functions, by_start);
    return k;
}

struct symbols_kernel *symbols_kernel_open(void)
{
    FILE *f = fopen("/proc/kallsyms", "re");
    if (!f)
        return NULL;
    struct symbols_kernel *k = symbols_kernel_read(f);
    fclose(f);
    return k;
}

void symbols_kernel_free(struct symbols_kernel *k)
{
    if (!k)
        return;
    free(k->functions);
    free(k->names);
    free(k);
}

const char *symbols_kernel_find(const struct symbols_kernel *k, uint64_t addr)
{
    uint32_t lo = 0, hi = k->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (k->functions[mid].start <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || addr - k->functions[lo - 1].start >= MAX_FUNCTION)
        return NULL;
    return k->names + k->functions[lo - 1].name;
}

size_t symbols_kernel_bytes(const struct symbols_kernel *k)
{
    return k ? k->cap * sizeof *k->functions + k->names_cap : 0;
}
