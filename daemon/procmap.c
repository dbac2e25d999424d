/*
 * procmap: see procmap.h. Parses /proc/PID/maps, keeps the executable ranges sorted by address and opens each
 * file once.
 *
 * A later reading is laid over the earlier one: ranges that are no longer mapped stay (samples taken before
 * they went may still be on their way), whatever is mapped there now cuts them. The process is known by its
 * start time, so that another one under the same pid is never read into the map.
 */
#include "procmap.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "../proto/limits.h"
#include "procmap_files.h"

enum {
    MAX_LINES = 1 << 16,        /* of one maps file */
    MAX_RANGES = 1 << 14,       /* executable, kept */
    MAX_PATHS = 4096,           /* distinct, of one process */
    REFRESH_MIN_NS = 100000000, /* between readings that were not forced */
    TICK_MIN_NS = 50000000,
};
#define TICK_MAX_NS UINT64_C(10000000000)

struct range {
    uint64_t start, end, offset, dev, ino;
    uint32_t file; /* into files, UINT32_MAX: none */
    bool executable;
    const char *path; /* into paths */
};

struct procmap {
    pthread_mutex_t lock; /* guards all that follows */
    uint32_t pid;
    uint64_t start_ticks, read_at_ns;
    uint64_t tick_ns; /* until the next reading by procmap_tick */
    bool is_gone;
    struct range *ranges; /* [n_ranges], executable, ascending, disjoint */
    uint32_t n_ranges;
    struct procmap_file **files; /* [n_files] */
    uint32_t n_files;
    char **paths; /* [n_paths] */
    uint32_t n_paths;
};

struct ranges {
    struct range *v;
    uint32_t n, cap;
};

static bool ranges_push(struct ranges *l, struct range r)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        struct range *v = realloc(l->v, cap * sizeof *v);
        if (!v)
            return false;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = r;
    return true;
}

/* Field 22 of /proc/PID/stat, counted behind the command name, which may hold anything; 0 if there is no such
 * process. */
static uint64_t read_start_ticks(uint32_t pid)
{
    char path[64], buf[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(buf, 1, sizeof buf - 1, f);
    fclose(f);
    buf[n] = 0;
    char *p = strrchr(buf, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

/* The path is the caller's until m is freed; NULL without memory or above the bound. */
static const char *intern_path(struct procmap *m, const char *path)
{
    for (uint32_t i = 0; i < m->n_paths; i++) {
        if (!strcmp(m->paths[i], path))
            return m->paths[i];
    }
    if (m->n_paths == MAX_PATHS)
        return "[other]";
    char **paths = realloc(m->paths, (m->n_paths + 1) * sizeof *paths);
    if (!paths)
        return NULL;
    m->paths = paths;
    char *copy = strndup(path, DVT_MAX_PATH);
    if (copy)
        m->paths[m->n_paths++] = copy;
    return copy;
}

/* Takes f. */
static uint32_t add_file(struct procmap *m, struct procmap_file *f)
{
    if (!f)
        return UINT32_MAX;
    for (uint32_t i = 0; i < m->n_files; i++) {
        if (m->files[i] == f) {
            procmap_file_unref(f);
            return i;
        }
    }
    struct procmap_file **files = realloc(m->files, (m->n_files + 1) * sizeof *files);
    if (!files) {
        procmap_file_unref(f);
        return UINT32_MAX;
    }
    m->files = files;
    m->files[m->n_files] = f;
    return m->n_files++;
}

static void strip_suffix(char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    if (n > k && !strcmp(s + n - k, suffix))
        s[n - k] = 0;
}

/* A hexadecimal number and the one character behind it; *p goes behind both. */
static bool parse_hex(char **p, char behind, uint64_t *ret)
{
    char *at = *p;
    *ret = strtoull(*p, &at, 16);
    if (at == *p || *at != behind)
        return false;
    *p = at + 1;
    return true;
}

/* One line of maps: "start-end perms offset major:minor inode path". *ret_path points into line. */
static bool parse_line(char *line, struct range *ret, char **ret_path)
{
    uint64_t dev_major, dev_minor;
    char *p = line;
    *ret = (struct range){.file = UINT32_MAX};
    if (!parse_hex(&p, '-', &ret->start) || !parse_hex(&p, ' ', &ret->end) || ret->start >= ret->end ||
        strcspn(p, " ") != 4)
        return false;
    ret->executable = p[2] == 'x';
    p += 5;
    if (!parse_hex(&p, ' ', &ret->offset) || !parse_hex(&p, ':', &dev_major) ||
        !parse_hex(&p, ' ', &dev_minor))
        return false;
    ret->dev = makedev((unsigned)dev_major, (unsigned)dev_minor);
    ret->ino = strtoull(p, &p, 10);
    p += strspn(p, " ");
    p[strcspn(p, "\n")] = 0;
    strip_suffix(p, " (deleted)");
    *ret_path = p;
    return true;
}

static const struct range *find_range(const struct procmap *m, uint64_t addr)
{
    uint32_t lo = 0, hi = m->n_ranges;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->ranges[mid].end <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n_ranges && m->ranges[lo].start <= addr ? &m->ranges[lo] : NULL;
}

/* The range of an earlier reading that r repeats: its file is taken over unopened. */
static const struct range *find_unchanged(const struct procmap *m, const struct range *r, const char *path)
{
    const struct range *old = find_range(m, r->start);
    bool same = old && old->start == r->start && old->end == r->end && old->offset == r->offset &&
                old->dev == r->dev && old->ino == r->ino && !strcmp(old->path, path);
    return same ? old : NULL;
}

static bool fill_executable(struct procmap *m, struct range *r, const char *path)
{
    r->path = intern_path(m, path[0] ? path : "[anon]");
    if (!r->path)
        return false;
    const struct range *old = find_unchanged(m, r, r->path);
    struct procmap_range key = {r->start, r->end, r->offset, r->dev, r->ino, path};
    if (old)
        r->file = old->file;
    else if (r->ino)
        r->file = add_file(m, procmap_file_open(m->pid, &key));
    else if (!strcmp(path, "[vdso]"))
        r->file = add_file(m, procmap_file_open_vdso(m->pid, &key));
    return true;
}

/* All ranges of the maps file, the executable ones with path and file. */
static int read_maps(struct procmap *m, FILE *f, struct ranges *ret)
{
    char *line = NULL, *path;
    size_t cap = 0;
    bool ok = true;
    struct range r;
    while (ok && ret->n < MAX_LINES && getline(&line, &cap, f) > 0) {
        if (!parse_line(line, &r, &path))
            continue;
        ok = (!r.executable || fill_executable(m, &r, path)) && ranges_push(ret, r);
    }
    free(line);
    return ok ? 0 : DVT_ENOMEM;
}

/* Pushes what of old is not covered by now[0..n), which is ascending. */
static bool push_uncovered(struct ranges *out, struct range old, const struct ranges *now)
{
    uint64_t at = old.start;
    for (uint32_t i = 0; i < now->n && at < old.end; i++) {
        const struct range *r = &now->v[i];
        if (r->end <= at || r->start >= old.end)
            continue;
        struct range piece = old;
        piece.start = at;
        piece.end = r->start;
        piece.offset = old.offset + (at - old.start);
        if (r->start > at && !ranges_push(out, piece))
            return false;
        at = r->end;
    }
    struct range rest = old;
    rest.start = at;
    rest.offset = old.offset + (at - old.start);
    return at >= old.end || ranges_push(out, rest);
}

static int by_start(const void *a, const void *b)
{
    uint64_t x = ((const struct range *)a)->start, y = ((const struct range *)b)->start;
    return (x > y) - (x < y);
}

static int lay_over(struct procmap *m, const struct ranges *now)
{
    struct ranges out = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < now->n && out.n < MAX_RANGES; i++)
        ok = !now->v[i].executable || ranges_push(&out, now->v[i]);
    for (uint32_t i = 0; ok && i < m->n_ranges && out.n < MAX_RANGES; i++)
        ok = push_uncovered(&out, m->ranges[i], now);
    if (!ok) {
        free(out.v);
        return DVT_ENOMEM;
    }
    if (out.n)
        qsort(out.v, out.n, sizeof *out.v, by_start);
    free(m->ranges);
    m->ranges = out.v;
    m->n_ranges = out.n;
    return 0;
}

/* Reads the maps and lays them over what is known. Lock held, or not yet shared. */
static int read_again(struct procmap *m, struct dvt_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/maps", m->pid);
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return dvt_fail(err, DVT_ENOENT, errno, "process %u is gone", m->pid);
    if (!f && (errno == EACCES || errno == EPERM))
        return dvt_fail(err, DVT_EPERM, errno,
                        "%s may not be read: run as the process's user, or with CAP_SYS_PTRACE", path);
    if (!f)
        return dvt_fail(err, DVT_EIO, errno, "%s cannot be opened", path);
    struct ranges now = {0};
    int rc = read_maps(m, f, &now);
    fclose(f);
    uint64_t start_ticks = read_start_ticks(m->pid);
    if (!rc && (!now.n || start_ticks != m->start_ticks || !start_ticks))
        rc = dvt_fail(err, DVT_ENOENT, 0, "process %u is gone", m->pid);
    else if (!rc)
        rc = lay_over(m, &now);
    free(now.v);
    return rc == DVT_ENOMEM ? dvt_fail(err, rc, 0, "no memory for the maps of process %u", m->pid) : rc;
}

int procmap_new(uint32_t pid, struct procmap **ret, struct dvt_err *err)
{
    struct procmap *m = calloc(1, sizeof *m);
    if (!m)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for the maps of process %u", pid);
    pthread_mutex_init(&m->lock, NULL);
    m->pid = pid;
    m->tick_ns = TICK_MIN_NS;
    m->start_ticks = read_start_ticks(pid);
    int rc = read_again(m, err);
    if (rc) {
        procmap_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void procmap_free(struct procmap *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->n_files; i++)
        procmap_file_unref(m->files[i]);
    for (uint32_t i = 0; i < m->n_paths; i++)
        free(m->paths[i]);
    free(m->files);
    free(m->paths);
    free(m->ranges);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

bool procmap_refresh(struct procmap *m, uint64_t addr, bool force, uint64_t now_ns)
{
    bool alive = true;
    pthread_mutex_lock(&m->lock);
    bool is_due = !m->read_at_ns || now_ns - m->read_at_ns >= REFRESH_MIN_NS;
    if (force || (is_due && !find_range(m, addr))) {
        m->read_at_ns = now_ns;
        alive = read_again(m, NULL) != DVT_ENOENT;
    }
    pthread_mutex_unlock(&m->lock);
    return alive;
}

static bool same_ranges(const struct range *a, const struct range *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i].start == b[i].start && a[i].end == b[i].end && a[i].file == b[i].file)
        i++;
    return i == n;
}

/* Reads again; says whether the ranges are others than before. Lock held. */
static bool read_changes(struct procmap *m)
{
    uint32_t n = m->n_ranges;
    struct range *before = malloc((n ? n : 1) * sizeof *before);
    if (before && n)
        memcpy(before, m->ranges, n * sizeof *before);
    m->is_gone = read_again(m, NULL) == DVT_ENOENT;
    bool changed = !before || n != m->n_ranges || !same_ranges(before, m->ranges, n);
    free(before);
    return changed;
}

bool procmap_tick(struct procmap *m, uint64_t now_ns)
{
    pthread_mutex_lock(&m->lock);
    if (!m->is_gone && now_ns - m->read_at_ns >= m->tick_ns) {
        m->read_at_ns = now_ns;
        uint64_t slower = 2 * m->tick_ns < TICK_MAX_NS ? 2 * m->tick_ns : TICK_MAX_NS;
        m->tick_ns = read_changes(m) ? TICK_MIN_NS : slower;
    }
    bool alive = !m->is_gone;
    pthread_mutex_unlock(&m->lock);
    return alive;
}

bool procmap_find(struct procmap *m, uint64_t addr, struct procmap_entry *ret)
{
    pthread_mutex_lock(&m->lock);
    const struct range *r = find_range(m, addr);
    if (r)
        *ret = (struct procmap_entry){r->start, r->end, r->offset, r->file, r->executable, r->path};
    pthread_mutex_unlock(&m->lock);
    return r != NULL;
}

int procmap_fd(struct procmap *m, uint32_t file)
{
    pthread_mutex_lock(&m->lock);
    int fd = file < m->n_files ? procmap_file_fd(m->files[file]) : -1;
    pthread_mutex_unlock(&m->lock);
    return fd;
}

uint64_t procmap_fd_id(struct procmap *m, uint32_t file)
{
    pthread_mutex_lock(&m->lock);
    uint64_t id = file < m->n_files ? procmap_file_id(m->files[file]) : 0;
    pthread_mutex_unlock(&m->lock);
    return id;
}
