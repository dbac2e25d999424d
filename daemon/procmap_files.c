/*
 * procmap_files: see procmap_files.h. One table for the daemon, guarded by one lock; files are looked up by
 * identity before a second descriptor is made, so a hundred workers of one program cost as many descriptors
 * as one.
 *
 * Nothing but regular files is opened: they are opened with O_PATH first, which runs no driver's open, and
 * reopened for reading only when fstat says S_ISREG.
 */
#include "procmap_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MAX_FILES = 4096,
    MAX_VDSO_BYTES = 64 * 1024,
    PROBE_BYTES = 1024, /* compared where the device number alone differs */
};

struct procmap_file {
    uint64_t id;
    uint64_t dev, ino, size, mtime_ns; /* dev 0: a vdso, ino its hash */
    int fd, refs;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct procmap_file *table[MAX_FILES]; /* [n_files] */
static uint32_t n_files;
static uint64_t last_id;

static bool same_file(const struct procmap_file *a, const struct procmap_file *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

static struct procmap_file *find_and_ref(const struct procmap_file *key)
{
    for (uint32_t i = 0; i < n_files; i++) {
        if (same_file(table[i], key)) {
            table[i]->refs++;
            return table[i];
        }
    }
    return NULL;
}

static struct procmap_file *add_locked(const struct procmap_file *key, int fd)
{
    struct procmap_file *f = n_files < MAX_FILES ? malloc(sizeof *f) : NULL;
    if (!f)
        return NULL;
    *f = *key;
    f->id = ++last_id;
    f->fd = fd;
    f->refs = 1;
    table[n_files++] = f;
    return f;
}

/* Takes fd: it is the new file's, or closed. */
static struct procmap_file *share(const struct procmap_file *key, int fd)
{
    pthread_mutex_lock(&table_lock);
    struct procmap_file *f = find_and_ref(key);
    bool shared = f != NULL;
    if (!f)
        f = add_locked(key, fd);
    pthread_mutex_unlock(&table_lock);
    if (shared || !f)
        close(fd);
    return f;
}

void procmap_file_unref(struct procmap_file *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&table_lock);
    bool last = --f->refs == 0;
    for (uint32_t i = 0; last && i < n_files; i++) {
        if (table[i] == f) {
            table[i] = table[--n_files];
            break;
        }
    }
    pthread_mutex_unlock(&table_lock);
    if (last) {
        close(f->fd);
        free(f);
    }
}

int procmap_file_fd(const struct procmap_file *f)
{
    return f->fd;
}

uint64_t procmap_file_id(const struct procmap_file *f)
{
    return f->id;
}

/* A descriptor for naming only, and what it names; -1 unless a regular file. */
static int open_path(const char *path, struct stat *ret)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, ret) || !S_ISREG(ret->st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct procmap_file key_of(const struct stat *st)
{
    return (struct procmap_file){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
    };
}

/* Takes path_fd. Gives the shared file, or reopens path_fd for reading. */
static struct procmap_file *adopt_path_fd(int path_fd, const struct stat *st)
{
    struct procmap_file key = key_of(st);
    pthread_mutex_lock(&table_lock);
    struct procmap_file *f = find_and_ref(&key);
    pthread_mutex_unlock(&table_lock);
    if (!f) {
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", path_fd);
        int fd = open(self, O_RDONLY | O_CLOEXEC);
        f = fd >= 0 ? share(&key, fd) : NULL;
    }
    close(path_fd);
    return f;
}

/* Copies n bytes at addr of pid; false if they cannot all be read. */
static bool read_memory(uint32_t pid, uint64_t addr, void *out, size_t n)
{
    struct iovec local = {out, n}, remote = {(void *)(uintptr_t)addr, n};
    return process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* Does the mapping hold the bytes of the file? Text is not changed after mapping, so its beginning must be
 * equal. */
static bool content_is_mapped(uint32_t pid, const struct procmap_range *r, int path_fd)
{
    char self[64];
    uint8_t in_file[PROBE_BYTES], in_memory[PROBE_BYTES];
    snprintf(self, sizeof self, "/proc/self/fd/%d", path_fd);
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool equal = pread(fd, in_file, sizeof in_file, (off_t)r->offset) == (ssize_t)sizeof in_file &&
                 read_memory(pid, r->start, in_memory, sizeof in_memory) &&
                 memcmp(in_file, in_memory, sizeof in_file) == 0;
    close(fd);
    return equal;
}

/* Overlayfs and btrfs show another device number in maps than fstat does: then the inode number and bytes
 * must agree. */
static bool is_mapped_file(uint32_t pid, const struct procmap_range *r, int path_fd, const struct stat *st)
{
    if (st->st_ino != r->ino)
        return false;
    return st->st_dev == r->dev || content_is_mapped(pid, r, path_fd);
}

struct procmap_file *procmap_file_open(uint32_t pid, const struct procmap_range *r)
{
    char path[4200];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)r->start,
             (unsigned long long)r->end);
    int fd = open_path(path, &st);
    if (fd >= 0)
        return adopt_path_fd(fd, &st);
    if (r->path[0] != '/')
        return NULL;
    int n = snprintf(path, sizeof path, "/proc/%u/root%s", pid, r->path);
    if (n < 0 || (size_t)n >= sizeof path)
        return NULL;
    fd = open_path(path, &st);
    if (fd < 0)
        return NULL;
    if (is_mapped_file(pid, r, fd, &st))
        return adopt_path_fd(fd, &st);
    close(fd);
    return NULL;
}

static size_t own_vdso_bytes(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned long long start, end;
    size_t bytes = 0;
    while (f && !bytes && fgets(line, sizeof line, f)) {
        if (strstr(line, "[vdso]") && sscanf(line, "%llx-%llx", &start, &end) == 2)
            bytes = (size_t)(end - start);
    }
    if (f)
        fclose(f);
    return bytes;
}

static bool copy_vdso(uint32_t pid, const struct procmap_range *r, uint8_t *out, size_t n)
{
    if (read_memory(pid, r->start, out, n))
        return true;
    const void *own = (const void *)getauxval(AT_SYSINFO_EHDR);
    if (!own || own_vdso_bytes() != n)
        return false;
    memcpy(out, own, n);
    return true;
}

static uint64_t fnv1a(const uint8_t *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

struct procmap_file *procmap_file_open_vdso(uint32_t pid, const struct procmap_range *r)
{
    size_t n = (size_t)(r->end - r->start);
    uint8_t *image = n <= MAX_VDSO_BYTES ? malloc(n) : NULL;
    struct procmap_file *f = NULL;
    if (!image)
        return NULL;
    if (copy_vdso(pid, r, image, n)) {
        struct procmap_file key = {.ino = fnv1a(image, n), .size = n};
        int fd = memfd_create("vdso", MFD_CLOEXEC);
        if (fd >= 0 && write(fd, image, n) == (ssize_t)n)
            f = share(&key, fd);
        else if (fd >= 0)
            close(fd);
    }
    free(image);
    return f;
}
