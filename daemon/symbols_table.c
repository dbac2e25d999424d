/*
 * symbols_table: see symbols_table.h. Both tables are sorted arrays searched by halves; libdwfl's own look-up
 * walks all symbols each time (100,000 in a JVM).
 */
#include "symbols_table.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_LOCAL = 4 };
enum { MAX_SYMBOLS = 4 << 20, MAX_FDES = 4 << 20, MAX_HEADER_BYTES = 64 << 20, MAX_WALK_BACK = 64 };

struct function {
    uint64_t start, size;
    const char *name; /* libdwfl's */
    uint8_t
        rank; /* of several names for one address the lowest: exported before local, then the plainer name */
};

struct symbols_table {
    struct function *functions; /* [n_functions] ascending */
    uint64_t *starts;           /* [n_starts] of frame descriptions, ascending */
    uint32_t n_functions, n_starts;
};

static uint8_t rank_of(const GElf_Sym *sym, const char *name)
{
    size_t underscores = strspn(name, "_");
    uint8_t by_name = (uint8_t)(underscores < RANK_LOCAL ? underscores : RANK_LOCAL - 1);
    return (uint8_t)(by_name + (GELF_ST_BIND(sym->st_info) == STB_LOCAL ? RANK_LOCAL : 0));
}

static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->size != y->size) /* the widest last, so that it is found first going back */
        return x->size < y->size ? -1 : 1;
    return x->rank != y->rank ? (x->rank > y->rank ? -1 : 1) : strcmp(y->name, x->name);
}

static bool is_function(const GElf_Sym *sym, GElf_Word shndx, const char *name)
{
    int type = GELF_ST_TYPE(sym->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && shndx != SHN_UNDEF && name && name[0];
}

static void read_functions(struct symbols_table *t, Dwfl_Module *mod)
{
    int n = dwfl_module_getsymtab(mod);
    n = n < MAX_SYMBOLS ? n : MAX_SYMBOLS;
    t->functions = n > 0 ? malloc((size_t)n * sizeof *t->functions) : NULL;
    for (int i = 1; t->functions && i < n; i++) {
        GElf_Sym sym;
        GElf_Addr addr;
        GElf_Word shndx;
        const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, &shndx, NULL, NULL);
        if (name && is_function(&sym, shndx, name))
            t->functions[t->n_functions++] = (struct function){addr, sym.st_size, name, rank_of(&sym, name)};
    }
    if (t->n_functions)
        qsort(t->functions, t->n_functions, sizeof *t->functions, by_start);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* .eh_frame_hdr (LSB 10.6.2): version, three encodings, the pointer to .eh_frame, the count and the table of
 * (function, description) pairs relative to the header. Only the encoding every linker writes is read. */
static void read_header(struct symbols_table *t, const uint8_t *p, size_t n, uint64_t vaddr)
{
    enum { FIXED = 4, POINTER = 4, COUNT = 4, PAIR = 8 };
    uint32_t count;
    if (n < FIXED + POINTER + COUNT || p[0] != 1 || p[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) ||
        p[2] != DW_EH_PE_udata4 || p[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
        return;
    memcpy(&count, p + FIXED + POINTER, COUNT);
    const uint8_t *pairs = p + FIXED + POINTER + COUNT;
    size_t room = (n - FIXED - POINTER - COUNT) / PAIR;
    if (!count || count > room || count > MAX_FDES)
        return;
    t->starts = malloc(count * sizeof *t->starts);
    for (uint32_t i = 0; t->starts && i < count; i++) {
        int32_t relative;
        memcpy(&relative, pairs + (size_t)i * PAIR, sizeof relative);
        t->starts[t->n_starts++] = vaddr + (uint64_t)(int64_t)relative;
    }
    if (t->n_starts)
        qsort(t->starts, t->n_starts, sizeof *t->starts, by_value);
}

static void read_starts(struct symbols_table *t, Elf *elf)
{
    size_t n = 0;
    GElf_Phdr ph;
    if (elf_getphdrnum(elf, &n))
        return;
    for (size_t i = 0; i < n && i < 128; i++) {
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME)
            continue;
        if (ph.p_filesz > MAX_HEADER_BYTES)
            return;
        Elf_Data *d = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_BYTE);
        if (d && d->d_buf)
            read_header(t, d->d_buf, d->d_size, ph.p_vaddr);
        return;
    }
}

struct symbols_table *symbols_table_new(Dwfl_Module *mod, Elf *elf)
{
    struct symbols_table *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    read_functions(t, mod);
    read_starts(t, elf);
    return t;
}

void symbols_table_free(struct symbols_table *t)
{
    if (!t)
        return;
    free(t->functions);
    free(t->starts);
    free(t);
}

/* Index behind the last start <= addr. */
static uint32_t starts_until(const struct symbols_table *t, uint64_t addr)
{
    uint32_t lo = 0, hi = t->n_starts;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->starts[mid] <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t functions_until(const struct symbols_table *t, uint64_t addr)
{
    uint32_t lo = 0, hi = t->n_functions;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->functions[mid].start <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct symbols_table_hit symbols_table_find(const struct symbols_table *t, uint64_t addr)
{
    uint32_t before = starts_until(t, addr), end = functions_until(t, addr);
    uint64_t frame_start = before ? t->starts[before - 1] : addr;
    for (uint32_t k = 0; k < MAX_WALK_BACK && k < end; k++) {
        const struct function *f = &t->functions[end - 1 - k];
        bool within = f->size ? addr - f->start < f->size : f->start == addr || f->start == frame_start;
        if (within)
            return (struct symbols_table_hit){f->name, f->rank < RANK_LOCAL, f->start};
    }
    return (struct symbols_table_hit){NULL, false, frame_start};
}
