/* hsperf: see hsperf.h. */
#include "hsperf.h"
#include "alloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC = 0xcafec0c0, /* big endian, whatever the rest is */
    LITTLE_ENDIAN_DATA = 1,
    MAJOR = 2,
    READY_AT = 7, /* "accessible" */
    HEAD_BYTES = 32,
    ENTRY_BYTES = 20,
    MAX_ENTRIES = 65536,
    MAX_FILE = 4 << 20,
    MAX_TEXT = 64 << 10,
};

static uint32_t u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- one entry: length, name's offset, vector length, type, flags, unit, variability, data's offset ---- */

static char **field_of(struct hsperf *h, const char *name, size_t n)
{
    static const char *const names[] = {"java.property.java.version", "sun.rt.javaCommand", "java.rt.vmArgs",
                                        "sun.rt.jvmCapabilities"};
    char **const fields[] = {&h->version, &h->command, &h->arguments, &h->capabilities};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) {
            return fields[i];
        }
    }
    return NULL;
}

static int take_entry(struct hsperf *h, const uint8_t *p, uint32_t n)
{
    uint32_t name = u32(p + 4), items = u32(p + 8), data = u32(p + 16);
    if (name >= n || data >= n) {
        return DVT_EFORMAT;
    }
    char **field = field_of(h, (const char *)p + name, strnlen((const char *)p + name, n - name));
    if (!field || *field || p[12] != 'B' || items > n - data || items > MAX_TEXT) {
        return 0;
    }
    *field = alloc_text((const char *)p + data, strnlen((const char *)p + data, items));
    return 0;
}

int hsperf_decode(const uint8_t *p, size_t n, struct hsperf *ret)
{
    struct hsperf h = {.is_ready = n > READY_AT && p[READY_AT] == 1};
    if (n < HEAD_BYTES || n > MAX_FILE || p[0] != MAGIC >> 24 || p[1] != (MAGIC >> 16 & 255) ||
        p[2] != (MAGIC >> 8 & 255) || p[3] != (MAGIC & 255) || p[4] != LITTLE_ENDIAN_DATA || p[5] != MAJOR) {
        return DVT_EFORMAT;
    }
    uint32_t at = u32(p + 24), entries = u32(p + 28);
    int rc = entries > MAX_ENTRIES ? DVT_EFORMAT : 0;
    for (uint32_t i = 0; rc == 0 && i < entries; i++) {
        uint32_t bytes = at <= n && n - at >= ENTRY_BYTES ? u32(p + at) : 0;
        rc = bytes < ENTRY_BYTES || bytes > n - at ? DVT_EFORMAT : take_entry(&h, p + at, bytes);
        at += bytes;
    }
    if (rc) {
        hsperf_fini(&h);
        return rc;
    }
    *ret = h;
    return 0;
}

void hsperf_fini(struct hsperf *h)
{
    free(h->version);
    free(h->command);
    free(h->arguments);
    free(h->capabilities);
    *h = (struct hsperf){0};
}

/* ---- the file ---- */

/* Only a plain file of the target's own user. */
static int read_open(const struct target *t, int fd, struct hsperf *ret)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != t->euid || st.st_size < HEAD_BYTES ||
        st.st_size > MAX_FILE) {
        return DVT_ENOENT;
    }
    uint8_t *copy = alloc_bytes((size_t)st.st_size);
    ssize_t n = pread(fd, copy, (size_t)st.st_size, 0);
    int rc = n < 0 ? DVT_EIO : hsperf_decode(copy, (size_t)n, ret);
    free(copy);
    return rc;
}

static int read_in(const struct target *t, int tmp, const char *folder, struct hsperf *ret)
{
    char path[320];
    int rc = DVT_ENOENT, dir = openat(tmp, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(path, sizeof path, "%d", (int)t->inner_pid);
    int fd = dir < 0 ? -1 : openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        rc = read_open(t, fd, ret);
        close(fd);
    }
    if (dir >= 0) {
        close(dir);
    }
    return rc;
}

int hsperf_read(const struct target *t, int tmp, struct hsperf *ret)
{
    static const char begin[] = "hsperfdata_";
    int fd = openat(tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = DVT_ENOENT;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) {
            close(fd);
        }
        return DVT_ENOENT;
    }
    const struct dirent *e;
    while (rc && (e = readdir(dir)) != NULL) {
        if (strncmp(e->d_name, begin, sizeof begin - 1) == 0) {
            rc = read_in(t, tmp, e->d_name, ret);
        }
    }
    closedir(dir);
    return rc;
}
