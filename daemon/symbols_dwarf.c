/*
 * symbols_dwarf: see symbols_dwarf.h. The compilation unit of an address comes from .debug_aranges, or where a compiler
 * wrote none (clang) from a table of all units' ranges, made once.
 */
#include "symbols_dwarf.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/limits.h"
#include "demangle.h"

enum { MAX_RANGES = 1 << 20 };

struct unit_range {
    uint64_t lo, hi; /* [lo, hi) in the debug information's own addresses */
    Dwarf_Off unit;  /* offset of its DIE */
};

struct symbols_dwarf {
    Dwfl_Module *mod;
    Dwarf *dw;
    Dwarf_Addr bias; /* module address = own address + bias */
    struct symbols_names *names;
    struct unit_range *ranges; /* [n_ranges] by lo, made when first missed in .debug_aranges */
    uint32_t n_ranges, cap_ranges;
    bool ranges_made;
};

struct symbols_dwarf *symbols_dwarf_new(Dwfl_Module *mod, struct symbols_names *names)
{
    Dwarf_Addr bias;
    Dwarf *dw = dwfl_module_getdwarf(mod, &bias);
    struct symbols_dwarf *d = dw ? calloc(1, sizeof *d) : NULL;
    if (d)
        *d = (struct symbols_dwarf){.mod = mod, .dw = dw, .bias = bias, .names = names};
    return d;
}

void symbols_dwarf_free(struct symbols_dwarf *d)
{
    if (!d)
        return;
    free(d->ranges);
    free(d);
}

static bool push_range(struct symbols_dwarf *d, struct unit_range r)
{
    if (d->n_ranges == d->cap_ranges) {
        uint32_t cap = d->cap_ranges ? 2 * d->cap_ranges : 256;
        struct unit_range *v = cap <= MAX_RANGES ? realloc(d->ranges, cap * sizeof *v) : NULL;
        if (!v)
            return false;
        d->ranges = v;
        d->cap_ranges = cap;
    }
    d->ranges[d->n_ranges++] = r;
    return true;
}

static int by_lo(const void *a, const void *b)
{
    uint64_t x = ((const struct unit_range *)a)->lo, y = ((const struct unit_range *)b)->lo;
    return (x > y) - (x < y);
}

static void make_ranges(struct symbols_dwarf *d)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    bool ok = true;
    d->ranges_made = true;
    while (ok && !dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL)) {
        Dwarf_Addr base, lo, hi;
        ptrdiff_t at = 0;
        while (ok && (at = dwarf_ranges(&die, at, &base, &lo, &hi)) > 0)
            ok = lo >= hi || push_range(d, (struct unit_range){lo, hi, dwarf_dieoffset(&die)});
    }
    if (d->n_ranges)
        qsort(d->ranges, d->n_ranges, sizeof *d->ranges, by_lo);
}

static bool unit_by_ranges(struct symbols_dwarf *d, uint64_t addr, Dwarf_Die *ret)
{
    if (!d->ranges_made)
        make_ranges(d);
    uint32_t lo = 0, hi = d->n_ranges;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (d->ranges[mid].lo <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && addr < d->ranges[lo - 1].hi && dwarf_offdie(d->dw, d->ranges[lo - 1].unit, ret);
}

static bool find_unit(struct symbols_dwarf *d, uint64_t addr, Dwarf_Die *ret)
{
    return dwarf_addrdie(d->dw, addr, ret) || unit_by_ranges(d, addr, ret);
}

static const char *intern_path(struct symbols_dwarf *d, const char *path)
{
    return path ? symbols_names_intern(d->names, path, DVT_MAX_PATH) : "";
}

/* The linkage name is the qualified one; plain C has only the other. NULL if neither. */
static const char *function_name(struct symbols_dwarf *d, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    char text[DVT_MAX_FRAME_NAME + 1];
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
    if (!name)
        name = dwarf_diename(die);
    if (!name)
        return NULL;
    demangle(name, text, sizeof text);
    return symbols_names_intern(d->names, text, DVT_MAX_FRAME_NAME);
}

struct place {
    const char *file;
    uint32_t line;
};

static struct place place_of(struct symbols_dwarf *d, Dwarf_Die *unit, uint64_t addr)
{
    int line = 0;
    Dwarf_Line *found = dwarf_getsrc_die(unit, addr);
    if (!found || dwarf_lineno(found, &line) || line < 0)
        return (struct place){"", 0};
    return (struct place){intern_path(d, dwarf_linesrc(found, NULL, NULL)), (uint32_t)line};
}

/* Where the inlined function was called from. */
static struct place call_place(struct symbols_dwarf *d, Dwarf_Die *unit, Dwarf_Die *inlined)
{
    Dwarf_Attribute attr;
    Dwarf_Word file, line;
    Dwarf_Files *files;
    struct place place = {"", 0};
    if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attr), &line) && line <= INT32_MAX)
        place.line = (uint32_t)line;
    if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attr), &file) &&
        !dwarf_getsrcfiles(unit, &files, NULL))
        place.file = intern_path(d, dwarf_filesrc(files, (size_t)file, NULL, NULL));
    return place;
}

static bool is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram || tag == DW_TAG_entry_point;
}

/* scopes[0..n) from the innermost out. Stops at the function that has code of its own. */
static uint32_t walk(struct symbols_dwarf *d, Dwarf_Die *unit, Dwarf_Die *scopes, int n, uint64_t addr,
                     struct symbols_elf_name *out)
{
    struct place at = place_of(d, unit, addr);
    uint32_t n_out = 0;
    for (int i = 0; i < n; i++) {
        if (!is_function(&scopes[i]))
            continue;
        const char *name = function_name(d, &scopes[i]);
        if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine || n_out == SYMBOLS_MAX_INLINED) {
            out[n_out++] = (struct symbols_elf_name){name, at.file, at.line, false};
            return n_out;
        }
        out[n_out++] = (struct symbols_elf_name){name ? name : "[inlined]", at.file, at.line, true};
        at = call_place(d, unit, &scopes[i]);
    }
    out[n_out++] = (struct symbols_elf_name){NULL, at.file, at.line, false};
    return n_out;
}

uint32_t symbols_dwarf_names(struct symbols_dwarf *d, uint64_t addr, struct symbols_elf_name *out)
{
    Dwarf_Die unit, *scopes = NULL, *nested = NULL;
    addr -= d->bias;
    if (!find_unit(d, addr, &unit))
        return 0;
    int n = dwarf_getscopes(&unit, addr, &scopes), n_nested = 0;
    int first = 0;
    while (first < n && !is_function(&scopes[first]))
        first++;
    /* Above an inlined function dwarf_getscopes goes on with where it was written; where it was inlined is wanted. */
    if (first < n)
        n_nested = dwarf_getscopes_die(&scopes[first], &nested);
    uint32_t n_out = walk(d, &unit, nested, n_nested, addr, out);
    free(nested);
    free(scopes);
    return n_out;
}
