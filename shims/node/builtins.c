/* builtins: see builtins.h. The second mapping is told from /proc/self/maps: the same file and place in it. */
#include "builtins.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

enum { MAX_RANGES = 64 };

struct mapping {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
};

static bool next_mapping(FILE *maps, struct mapping *m)
{
    char line[4352];
    while (fgets(line, sizeof line, maps)) {
        char exec;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c%*c %" SCNx64 " %x:%x %" SCNu64, &m->start, &m->end, &exec,
                   &m->offset, &m->major, &m->minor, &m->inode) == 7 &&
            exec == 'x' && m->inode)
            return true;
    }
    return false;
}

static bool is_same_file(const struct mapping *a, const struct mapping *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* The range that is of a loaded file: the built-in code where the linker put it. */
static bool find_original(const struct dvt_v8_range *ranges, size_t n, struct dvt_v8_range *ret)
{
    Dl_info info;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].n && dladdr(ranges[i].start, &info)) {
            *ret = ranges[i];
            return true;
        }
    }
    return false;
}

static bool is_in(const struct dvt_v8_range *ranges, size_t n, uint64_t addr)
{
    for (size_t i = 0; i < n; i++)
        if (addr - (uintptr_t)ranges[i].start < ranges[i].n)
            return true;
    return false;
}

void dvt_node_builtins_find(const struct dvt_v8 *v8, void *isolate, struct dvt_node_codemap *map)
{
    struct dvt_v8_range ranges[MAX_RANGES], original;
    struct mapping first = {0}, m;
    size_t n = v8->code_pages(isolate, MAX_RANGES, ranges);
    n = n < MAX_RANGES ? n : MAX_RANGES;
    FILE *maps = find_original(ranges, n, &original) ? fopen("/proc/self/maps", "re") : NULL;
    if (!maps)
        return;
    uint64_t blob = (uintptr_t)original.start;
    while (next_mapping(maps, &m)) {
        if (blob - m.start < m.end - m.start)
            first = m;
        uint64_t at = blob - first.start + first.offset - m.offset; /* of the built-in code in mapping m */
        if (first.inode && m.start != first.start && is_same_file(&first, &m) && is_in(ranges, n, m.start) &&
            at < m.end - m.start) {
            map->copy = m.start + at;
            map->original = blob;
            map->copy_bytes = original.n;
        }
    }
    (void)fclose(maps); /* read only */
}
