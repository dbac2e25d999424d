/* elf_symbol: see elf_symbol.h. Source: elf(5). Nothing in a file is believed that its size does not bear out. */
#include "elf_symbol.h"
#include "alloc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool lies_in(uint64_t at, uint64_t bytes, size_t n)
{
    return at <= n && bytes <= n - at;
}

static bool section(const uint8_t *file, size_t n, const Elf64_Ehdr *h, uint64_t i, Elf64_Shdr *ret)
{
    uint64_t at = h->e_shoff + i * sizeof *ret;
    if (i >= h->e_shnum || h->e_shentsize != sizeof *ret || at < h->e_shoff || !lies_in(at, sizeof *ret, n)) {
        return false;
    }
    memcpy(ret, file + at, sizeof *ret);
    return lies_in(ret->sh_offset, ret->sh_type == SHT_NOBITS ? 0 : ret->sh_size, n);
}

static uint64_t look_up(const uint8_t *file, const Elf64_Shdr *symbols, const Elf64_Shdr *names, const char *name)
{
    size_t bytes = strlen(name) + 1;
    for (uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        memcpy(&s, file + symbols->sh_offset + i * sizeof s, sizeof s);
        if (lies_in(s.st_name, bytes, names->sh_size) && memcmp(file + names->sh_offset + s.st_name, name, bytes) == 0) {
            return s.st_value;
        }
    }
    return 0;
}

uint64_t elf_symbol(const void *file, size_t n, const char *name, bool *ret_is_relative)
{
    Elf64_Ehdr h;
    Elf64_Shdr symbols, names;
    uint64_t found = 0;
    if (n < sizeof h) {
        return 0;
    }
    memcpy(&h, file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64) {
        return 0;
    }
    *ret_is_relative = h.e_type == ET_DYN;
    for (uint64_t i = 0; !found && i < h.e_shnum; i++) {
        if (section(file, n, &h, i, &symbols) && (symbols.sh_type == SHT_SYMTAB || symbols.sh_type == SHT_DYNSYM) &&
            section(file, n, &h, symbols.sh_link, &names) && names.sh_type == SHT_STRTAB) {
            found = look_up(file, &symbols, &names, name);
        }
    }
    return found;
}

/* ---- the process ---- */

struct image {
    const void *p; /* NULL: none */
    size_t n;
    uint64_t base; /* where it begins in the target's memory */
};

/* The first line of maps that has this path. */
static uint64_t base_of(const struct target *t, const char *path)
{
    size_t n = strlen(path);
    for (const char *line = t->maps; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = strchr(line, '/');
        size_t rest = strcspn(line, "\n");
        if (at && at < line + rest && (size_t)(line + rest - at) == n && memcmp(at, path, n) == 0) {
            return strtoull(line, NULL, 16);
        }
    }
    return 0;
}

static char *program_path(const struct target *t)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)t->pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return alloc_text(path, n > 0 ? (size_t)n : 0);
}

static int open_program(const struct target *t)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)t->pid);
    return open(link, O_RDONLY | O_CLOEXEC);
}

static int map_image(const struct target *t, const char *begin, struct image *ret, struct dvt_err *err)
{
    char *path = begin ? target_mapped(t, begin) : program_path(t);
    int fd = !path ? -1 : begin ? target_open_file(t, path) : open_program(t), no = errno;
    struct stat st;
    *ret = (struct image){.base = path ? base_of(t, path) : 0};
    free(path);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ret->p = p == MAP_FAILED ? NULL : p;
        ret->n = (size_t)st.st_size;
        no = errno;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ret->p ? 0
                  : dvt_fail(err, DVT_EPERM, no, "%s cannot be read: run dovetail as its user, or as root",
                             begin ? "a library of it" : "its program");
}

int elf_symbol_find(const struct target *t, const char *begin, const char *const *names, uint64_t *ret, size_t n,
                    struct dvt_err *err)
{
    struct image image;
    int rc = map_image(t, begin, &image, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool is_relative = false;
        uint64_t value = elf_symbol(image.p, image.n, names[i], &is_relative);
        ret[i] = !value || (is_relative && !image.base) ? 0 : is_relative ? image.base + value : value;
    }
    if (image.p) {
        munmap((void *)(uintptr_t)image.p, image.n);
    }
    return rc;
}
