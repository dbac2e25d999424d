/*
 * node_signal: see node_signal.h. Sources: elf(5); libuv's uv/unix.h, whose layouts belong to the interface of
 * libuv 1 (struct uv_signal_s), and src/unix/signal.c: a red-black tree with one node for each handle that listens.
 */
#include "node_signal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIGNUM = 104, LEFT = 112, RIGHT = 120, HANDLE_BYTES = 128, MAX_HANDLES = 4096, MAX_PENDING = 128 };

/* ---- the symbol ---- */

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

uint64_t node_signal_symbol(const void *file, size_t n, const char *name, bool *ret_is_relative)
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
        if (section(file, n, &h, i, &symbols) && symbols.sh_type == SHT_SYMTAB &&
            section(file, n, &h, symbols.sh_link, &names) && names.sh_type == SHT_STRTAB) {
            found = look_up(file, &symbols, &names, name);
        }
    }
    return found;
}

/* ---- the process ---- */

/* Where the program's file begins in its memory: the first line of maps that has it. */
static uint64_t program_base(const struct target *t)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)t->pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || !t->maps) {
        return 0;
    }
    path[n] = 0;
    for (const char *line = t->maps; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = strchr(line, '/');
        size_t rest = strcspn(line, "\n");
        if (at && at < line + rest && (size_t)(line + rest - at) == (size_t)n && memcmp(at, path, (size_t)n) == 0) {
            return strtoull(line, NULL, 16);
        }
    }
    return 0;
}

static int find_tree(const struct target *t, uint64_t *ret, struct dvt_err *err)
{
    char path[64];
    struct stat st;
    bool is_relative = false;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)t->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0) {
        int no = errno;
        if (fd >= 0) {
            close(fd);
        }
        return dvt_fail(err, DVT_EPERM, no, "its program cannot be read: run dovetail as its user, or as root");
    }
    size_t n = (size_t)st.st_size;
    void *file = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    uint64_t symbol = file == MAP_FAILED ? 0 : node_signal_symbol(file, n, "uv__signal_tree", &is_relative);
    uint64_t base = is_relative ? program_base(t) : 0;
    if (file != MAP_FAILED) {
        munmap(file, n);
    }
    if (!symbol || (is_relative && !base)) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "whether it has a SIGUSR1 handler of its own cannot be told, since its program has no symbols: "
                        "start it with dovetail run -- COMMAND");
    }
    *ret = base + symbol;
    return 0;
}

static bool read_at(const struct target *t, uint64_t at, void *out, size_t n)
{
    struct iovec local = {out, n}, remote = {(void *)(uintptr_t)at, n};
    return process_vm_readv(t->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* The tree may change under our eyes: what cannot be read, or has no end, is not known. */
static int walk(const struct target *t, uint64_t tree, int signal, bool *ret)
{
    uint64_t pending[MAX_PENDING], left, right;
    int n = 1, seen = 0, number;
    uint8_t handle[HANDLE_BYTES];
    if (!read_at(t, tree, &pending[0], sizeof pending[0])) {
        return -1;
    }
    while (n > 0) {
        uint64_t at = pending[--n];
        if (!at) {
            continue;
        }
        if (++seen > MAX_HANDLES || n + 2 > MAX_PENDING || !read_at(t, at, handle, sizeof handle)) {
            return -1;
        }
        memcpy(&number, handle + SIGNUM, sizeof number);
        memcpy(&left, handle + LEFT, sizeof left);
        memcpy(&right, handle + RIGHT, sizeof right);
        if (number < 1 || number > 64) {
            return -1;
        }
        *ret |= number == signal;
        pending[n++] = left;
        pending[n++] = right;
    }
    return 0;
}

int node_signal_is_taken(const struct target *t, int signal, bool *ret, struct dvt_err *err)
{
    uint64_t tree = 0;
    bool taken = false;
    int rc = find_tree(t, &tree, err);
    if (rc == 0 && walk(t, tree, signal, &taken)) {
        rc = dvt_fail(err, DVT_EPERM, errno,
                      "whether it has a SIGUSR1 handler of its own cannot be told, since its memory cannot be read: run "
                      "dovetail as its user (with kernel.yama.ptrace_scope 0), or as root");
    }
    if (rc == 0) {
        *ret = taken;
    }
    return rc;
}
