/*
 * symbols_elf: see symbols_elf.h. Opens the file as a libdwfl module at its own addresses and answers site by
 * site, from a table of what was asked before. Symbols and functions are found here, lines and inlining in
 * symbols_dwarf.c.
 *
 * A file that root owns and only root may write is mapped; any other is read, since whoever can truncate a
 * mapped file would kill the daemon with SIGBUS.
 */
#include "symbols_elf.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "../proto/limits.h"
#include "demangle.h"
#include "symbols_dwarf.h"
#include "symbols_heap.h"
#include "symbols_table.h"

enum {
    MAX_SEGMENTS = 16,
    MAX_SITES = 1 << 16,
    FIRST_SLOTS = 256,
    MAX_READ_BYTES = 1 << 30,
    CFI_BYTES = 256, /* what libdw keeps of the frame information of one site, about */
};

struct site {
    uint64_t key; /* offset + 1; 0: free */
    uint32_t row, first_name, n_names;
};

struct segment { /* executable */
    uint64_t offset, vaddr, bytes;
};

struct symbols_elf {
    struct symbols_names *names;
    const char *module;
    int fd;
    Elf *elf; /* NULL: not ELF */
    Dwfl *dwfl;
    Dwfl_Module *mod;
    struct segment segments[MAX_SEGMENTS];
    uint32_t n_segments;
    struct symbols_table *table; /* made at the first name */
    struct symbols_dwarf *dwarf; /* likewise; NULL: no debug information */
    bool dwarf_was_tried;

    struct site *slots; /* [n_slots] */
    struct unwind_row *rows;
    struct symbols_elf_name *site_names;
    uint32_t n_slots, n_sites, cap_rows, n_site_names, cap_site_names;
    size_t heap_bytes; /* of libdw and the table, measured */
};

static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, char **file_name,
                    Elf **elfp)
{
    (void)mod, (void)name, (void)base, (void)file_name;
    struct symbols_elf *e = *userdata;
    *elfp = elf_begin(e->fd, ELF_C_READ, e->elf); /* a second reference, for libdwfl to end */
    return -1;
}

static bool has_build_id(int fd, const unsigned char *bits, int n)
{
    const void *found;
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    bool same = elf && dwelf_elf_gnu_build_id(elf, &found) == n && !memcmp(found, bits, (size_t)n);
    elf_end(elf);
    return same;
}

/* Debug information of the same build-id only: first below /usr/lib/debug/.build-id, then as .gnu_debuglink
 * says. */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **ret_name)
{
    int fd = dwfl_build_id_find_debuginfo(mod, userdata, name, base, file, link, crc, ret_name);
    const unsigned char *bits;
    GElf_Addr vaddr;
    int n = dwfl_module_build_id(mod, &bits, &vaddr);
    if (fd >= 0 || !link || n <= 0 || strchr(link, '/'))
        return fd;
    char path[DVT_MAX_PATH];
    snprintf(path, sizeof path, "/usr/lib/debug/%s", link);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && has_build_id(fd, bits, n))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* NULL for a file that would have to be read, and is so large that its maker wants our memory. */
static Elf *begin_elf(int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return NULL;
    if (st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
    return st.st_size <= MAX_READ_BYTES ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
}

/* Fills segments and the file's range of addresses. */
static bool read_segments(struct symbols_elf *e, uint64_t *ret_lo, uint64_t *ret_hi)
{
    size_t n = 0;
    GElf_Phdr ph;
    *ret_lo = UINT64_MAX;
    *ret_hi = 0;
    if (elf_kind(e->elf) != ELF_K_ELF || gelf_getclass(e->elf) != ELFCLASS64 || elf_getphdrnum(e->elf, &n))
        return false;
    for (size_t i = 0; i < n && i < 128; i++) {
        if (!gelf_getphdr(e->elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
            ph.p_vaddr + ph.p_memsz < ph.p_vaddr)
            continue;
        uint64_t align = ph.p_align && !(ph.p_align & (ph.p_align - 1)) ? ph.p_align : 1;
        uint64_t lo = ph.p_vaddr & -align, hi = ph.p_vaddr + ph.p_memsz;
        *ret_lo = lo < *ret_lo ? lo : *ret_lo;
        *ret_hi = hi > *ret_hi ? hi : *ret_hi;
        if ((ph.p_flags & PF_X) && e->n_segments < MAX_SEGMENTS)
            e->segments[e->n_segments++] = (struct segment){ph.p_offset, ph.p_vaddr, ph.p_filesz};
    }
    return e->n_segments > 0;
}

static void open_elf(struct symbols_elf *e, int fd)
{
    uint64_t lo, hi;
    e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    e->elf = begin_elf(e->fd);
    if (!e->elf || !read_segments(e, &lo, &hi))
        return;
    e->dwfl = dwfl_begin(&callbacks);
    if (!e->dwfl)
        return;
    dwfl_report_begin(e->dwfl);
    Dwfl_Module *mod = dwfl_report_module(e->dwfl, e->module, lo, hi);
    if (mod) {
        void **userdata;
        dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
        *userdata = e;
    }
    GElf_Addr bias;
    if (!dwfl_report_end(e->dwfl, NULL, NULL) && mod && dwfl_module_getelf(mod, &bias) && !bias)
        e->mod = mod;
}

struct symbols_elf *symbols_elf_new(struct symbols_names *names, int fd, const char *path)
{
    struct symbols_elf *e = calloc(1, sizeof *e);
    size_t before = symbols_heap_now();
    if (!e)
        return NULL;
    elf_version(EV_CURRENT);
    e->names = names;
    e->module = symbols_names_intern(names, base_name(path), DVT_MAX_FRAME_NAME);
    e->n_slots = FIRST_SLOTS;
    e->slots = calloc(e->n_slots, sizeof *e->slots);
    if (!e->slots) {
        free(e);
        return NULL;
    }
    open_elf(e, fd);
    e->heap_bytes = symbols_heap_grown(before);
    return e;
}

void symbols_elf_free(struct symbols_elf *e)
{
    if (!e)
        return;
    symbols_dwarf_free(e->dwarf);
    symbols_table_free(e->table);
    if (e->dwfl)
        dwfl_end(e->dwfl);
    elf_end(e->elf);
    if (e->fd >= 0)
        close(e->fd);
    free(e->slots);
    free(e->rows);
    free(e->site_names);
    free(e);
}

const char *symbols_elf_module(const struct symbols_elf *e)
{
    return e->module;
}

size_t symbols_elf_bytes(const struct symbols_elf *e)
{
    return sizeof *e + e->heap_bytes + (e->dwarf ? symbols_dwarf_bytes(e->dwarf) : 0) +
           e->n_slots * sizeof *e->slots + e->cap_rows * (sizeof *e->rows + CFI_BYTES) +
           e->cap_site_names * sizeof *e->site_names;
}

static bool offset_to_vaddr(const struct symbols_elf *e, uint64_t offset, uint64_t *ret)
{
    for (uint32_t i = 0; i < e->n_segments; i++) {
        const struct segment *s = &e->segments[i];
        if (offset >= s->offset && offset - s->offset < s->bytes) {
            *ret = offset - s->offset + s->vaddr;
            return true;
        }
    }
    return false;
}

static struct site *find_slot(struct site *slots, uint32_t n_slots, uint64_t key)
{
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (n_slots - 1);
    while (slots[i].key && slots[i].key != key)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static bool grow_slots(struct symbols_elf *e)
{
    uint32_t n = 2 * e->n_slots;
    struct site *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        if (e->slots[i].key)
            *find_slot(slots, n, e->slots[i].key) = e->slots[i];
    }
    free(e->slots);
    e->slots = slots;
    e->n_slots = n;
    return true;
}

/* Room for one more site with up to SYMBOLS_MAX_INLINED + 1 names. A full table is emptied: it fills up again
 * with what is still asked for. */
static bool make_room(struct symbols_elf *e)
{
    if (e->n_sites == MAX_SITES) {
        memset(e->slots, 0, e->n_slots * sizeof *e->slots);
        e->n_sites = e->n_site_names = 0;
    }
    if (2 * e->n_sites >= e->n_slots && !grow_slots(e))
        return false;
    if (e->n_sites == e->cap_rows) {
        uint32_t cap = e->cap_rows ? 2 * e->cap_rows : 64;
        struct unwind_row *rows = realloc(e->rows, cap * sizeof *rows);
        if (!rows)
            return false;
        e->rows = rows;
        e->cap_rows = cap;
    }
    if (e->cap_site_names - e->n_site_names < SYMBOLS_MAX_INLINED + 1) {
        uint32_t cap = 2 * e->cap_site_names + 4 * (SYMBOLS_MAX_INLINED + 1);
        struct symbols_elf_name *v = realloc(e->site_names, cap * sizeof *v);
        if (!v)
            return false;
        e->site_names = v;
        e->cap_site_names = cap;
    }
    return true;
}

static void compile_row(struct symbols_elf *e, uint64_t vaddr, struct unwind_row *row)
{
    Dwarf_Addr bias;
    Dwarf_CFI *cfi = dwfl_module_eh_cfi(e->mod, &bias);
    if (cfi && unwind_compile(cfi, vaddr - bias, row))
        return;
    cfi = dwfl_module_dwarf_cfi(e->mod, &bias);
    if (!cfi || !unwind_compile(cfi, vaddr - bias, row))
        memset(row, 0, sizeof *row);
}

static const char *name_by_address(struct symbols_elf *e, uint64_t addr)
{
    char text[DVT_MAX_FRAME_NAME + 32];
    snprintf(text, sizeof text, "%.*s+0x%llx", DVT_MAX_FRAME_NAME - 20, e->module, (unsigned long long)addr);
    return symbols_names_intern(e->names, text, DVT_MAX_FRAME_NAME);
}

static struct symbols_table_hit find_symbol(struct symbols_elf *e, uint64_t vaddr)
{
    if (!e->table) {
        size_t before = symbols_heap_now();
        e->table = symbols_table_new(e->mod, e->elf);
        e->heap_bytes += symbols_heap_grown(before);
    }
    return e->table ? symbols_table_find(e->table, vaddr) : (struct symbols_table_hit){NULL, false, vaddr};
}

/* Without the version, as in "read@@GLIBC_2.2.5". */
static const char *intern_symbol(struct symbols_elf *e, const char *symbol)
{
    char text[DVT_MAX_FRAME_NAME + 1], plain[4096];
    int n = (int)strcspn(symbol, "@");
    snprintf(plain, sizeof plain, "%.*s", n ? n : INT_MAX, symbol);
    demangle(plain, text, sizeof text);
    return symbols_names_intern(e->names, text, DVT_MAX_FRAME_NAME);
}

/* The name the function is exported by, which is what callers know it as; else that of the debug information,
 * which has no ".constprop.0"; else a local symbol; else module+offset of its start, so that one function
 * stays one frame. */
static const char *choose_name(struct symbols_elf *e, uint64_t vaddr, const char *by_dwarf)
{
    struct symbols_table_hit hit = find_symbol(e, vaddr);
    if (by_dwarf && !hit.exported)
        return by_dwarf;
    return hit.name ? intern_symbol(e, hit.name) : name_by_address(e, hit.start);
}

static uint32_t fill_names(struct symbols_elf *e, uint64_t vaddr, struct symbols_elf_name *out)
{
    if (!e->dwarf_was_tried)
        e->dwarf = symbols_dwarf_new(e->mod, e->names);
    e->dwarf_was_tried = true;
    uint32_t n = e->dwarf ? symbols_dwarf_names(e->dwarf, vaddr, out) : 0;
    if (!n)
        out[n++] = (struct symbols_elf_name){NULL, "", 0, false};
    out[n - 1].name = choose_name(e, vaddr, out[n - 1].name);
    return n;
}

static void fill_site(struct symbols_elf *e, uint64_t offset, struct site *site)
{
    uint64_t vaddr;
    struct symbols_elf_name *out = &e->site_names[e->n_site_names];
    struct unwind_row *row = &e->rows[e->n_sites];
    memset(row, 0, sizeof *row);
    *site = (struct site){offset + 1, e->n_sites, e->n_site_names, 1};
    if (e->mod && offset_to_vaddr(e, offset, &vaddr)) {
        compile_row(e, vaddr, row);
        if (row->signal)
            *out = (struct symbols_elf_name){"[signal]", "", 0, false};
        else
            site->n_names = fill_names(e, vaddr, out);
    } else {
        *out = (struct symbols_elf_name){name_by_address(e, offset), "", 0, false};
    }
    e->n_site_names += site->n_names;
    e->n_sites++;
}

bool symbols_elf_site(struct symbols_elf *e, uint64_t offset, struct symbols_elf_site *ret)
{
    struct site *site = find_slot(e->slots, e->n_slots, offset + 1);
    if (!site->key) {
        if (!make_room(e))
            return false;
        site = find_slot(e->slots, e->n_slots, offset + 1);
        fill_site(e, offset, site);
    }
    *ret = (struct symbols_elf_site){&e->rows[site->row], &e->site_names[site->first_name], site->n_names};
    return true;
}
