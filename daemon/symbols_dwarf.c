/*
 * symbols_dwarf: see symbols_dwarf.h. The compilation unit of an address comes from .debug_aranges, or where
 * a compiler wrote none (clang) from a table of all units' ranges, made once. Of a unit the functions' ranges
 * are listed at its first use, so that a look-up walks one function and not the whole unit as dwarf_getscopes
 * does (ceval.c: 4 ms an address).
 */
#include "symbols_dwarf.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/limits.h"
#include "demangle.h"
#include "symbols_heap.h"

enum {
    MAX_RANGES = 1 << 20,
    MAX_UNITS = 1 << 16,
    MAX_NESTING = 64,
    MAX_DIES = 1 << 22, /* looked at in one unit: damaged sibling references may go in circles */
};

struct range {
    uint64_t lo, hi; /* [lo, hi) in the debug information's own addresses */
    Dwarf_Off die;
};

struct ranges { /* sorted by lo once complete */
    struct range *v;
    uint32_t n, cap;
};

struct unit {
    Dwarf_Off die;
    struct ranges functions;
};

struct symbols_dwarf {
    Dwarf *dw;
    Dwarf_Addr bias; /* module address = own address + bias */
    struct symbols_names *names;
    struct unit *units;   /* [n_units], those used, by die */
    uint32_t n_units, cap_units;
    struct ranges ranges; /* of all units, made when first missed in .debug_aranges */
    bool ranges_made;
    size_t bytes; /* measured */
};

struct symbols_dwarf *symbols_dwarf_new(Dwfl_Module *mod, struct symbols_names *names)
{
    Dwarf_Addr bias;
    size_t before = symbols_heap_now();
    Dwarf *dw = dwfl_module_getdwarf(mod, &bias);
    struct symbols_dwarf *d = dw ? calloc(1, sizeof *d) : NULL;
    if (d)
        *d = (struct symbols_dwarf){
            .dw = dw, .bias = bias, .names = names, .bytes = symbols_heap_grown(before)};
    return d;
}

void symbols_dwarf_free(struct symbols_dwarf *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->n_units; i++)
        free(d->units[i].functions.v);
    free(d->units);
    free(d->ranges.v);
    free(d);
}

static bool push_range(struct ranges *l, struct range r)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        struct range *v = cap <= MAX_RANGES ? realloc(l->v, cap * sizeof *v) : NULL;
        if (!v)
            return false;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = r;
    return true;
}

/* All ranges of code that die has. */
static bool push_die(struct ranges *l, Dwarf_Die *die)
{
    Dwarf_Addr base, lo, hi;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
        if (lo < hi && !push_range(l, (struct range){lo, hi, dwarf_dieoffset(die)}))
            return false;
    }
    return true;
}

static int by_lo(const void *a, const void *b)
{
    uint64_t x = ((const struct range *)a)->lo, y = ((const struct range *)b)->lo;
    return (x > y) - (x < y);
}

static void sort_ranges(struct ranges *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_lo);
}

static bool find_range(const struct ranges *l, uint64_t addr, Dwarf_Off *ret)
{
    uint32_t lo = 0, hi = l->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (l->v[mid].lo <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || addr >= l->v[lo - 1].hi)
        return false;
    *ret = l->v[lo - 1].die;
    return true;
}

static void list_units(struct symbols_dwarf *d)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    d->ranges_made = true;
    while (!dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL)) {
        if (!push_die(&d->ranges, &die))
            break;
    }
    sort_ranges(&d->ranges);
}

static bool unit_by_ranges(struct symbols_dwarf *d, uint64_t addr, Dwarf_Die *ret)
{
    Dwarf_Off die;
    if (!d->ranges_made)
        list_units(d);
    return find_range(&d->ranges, addr, &die) && dwarf_offdie(d->dw, die, ret);
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

static bool holds_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
           tag == DW_TAG_class_type || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

/* Lists the functions with code below parent, in namespaces and types too. False when a bound ends it. */
static bool list_functions(struct ranges *l, Dwarf_Die *parent, uint32_t nesting, uint32_t *n_dies)
{
    Dwarf_Die die;
    if (nesting == MAX_NESTING || dwarf_child(parent, &die))
        return true;
    do {
        int tag = dwarf_tag(&die);
        if (++*n_dies > MAX_DIES || (tag == DW_TAG_subprogram && !push_die(l, &die)))
            return false;
        if (holds_functions(tag) && !list_functions(l, &die, nesting + 1, n_dies))
            return false;
    } while (!dwarf_siblingof(&die, &die));
    return true;
}

/* Where the unit is, or is to be, among d->units. */
static uint32_t unit_index(const struct symbols_dwarf *d, Dwarf_Off die)
{
    uint32_t lo = 0, hi = d->n_units;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (d->units[mid].die < die)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool units_have_room(struct symbols_dwarf *d)
{
    if (d->n_units < d->cap_units)
        return true;
    uint32_t cap = d->cap_units ? 2 * d->cap_units : 64;
    struct unit *units = cap <= MAX_UNITS ? realloc(d->units, cap * sizeof *units) : NULL;
    if (!units)
        return false;
    d->units = units;
    d->cap_units = cap;
    return true;
}

/* NULL above the bound or without memory. */
static const struct unit *unit_of(struct symbols_dwarf *d, Dwarf_Die *die)
{
    Dwarf_Off offset = dwarf_dieoffset(die);
    uint32_t at = unit_index(d, offset);
    if (at < d->n_units && d->units[at].die == offset)
        return &d->units[at];
    size_t before = symbols_heap_now(), n_lines;
    uint32_t n_dies = 0;
    Dwarf_Lines *lines;
    if (!units_have_room(d))
        return NULL;
    memmove(&d->units[at + 1], &d->units[at], (d->n_units - at) * sizeof *d->units);
    d->units[at] = (struct unit){.die = offset};
    d->n_units++;
    list_functions(&d->units[at].functions, die, 0, &n_dies);
    sort_ranges(&d->units[at].functions);
    dwarf_getsrclines(die, &lines, &n_lines); /* now, so that their memory is counted; libdw keeps them */
    d->bytes += symbols_heap_grown(before);
    return &d->units[at];
}

size_t symbols_dwarf_bytes(const struct symbols_dwarf *d)
{
    return d->bytes;
}

/* The inlined function or block directly below parent that has addr. */
static bool step_in(Dwarf_Die *parent, uint64_t addr, Dwarf_Die *ret)
{
    Dwarf_Die die;
    uint32_t n_dies = 0;
    if (dwarf_child(parent, &die))
        return false;
    do {
        int tag = dwarf_tag(&die);
        bool may_hold = tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
                        tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
        if (may_hold && dwarf_haspc(&die, addr) > 0) {
            *ret = die;
            return true;
        }
    } while (++n_dies < MAX_DIES && !dwarf_siblingof(&die, &die));
    return false;
}

/* The function itself and what is inlined at addr, outermost first; at most SYMBOLS_MAX_INLINED + 1. */
static uint32_t find_nested(Dwarf_Die *function, uint64_t addr, Dwarf_Die *out)
{
    Dwarf_Die die = *function;
    uint32_t n = 1;
    out[0] = *function;
    for (uint32_t i = 0; i < 4 * SYMBOLS_MAX_INLINED && n <= SYMBOLS_MAX_INLINED && step_in(&die, addr, &die);
         i++) {
        if (dwarf_tag(&die) == DW_TAG_inlined_subroutine)
            out[n++] = die;
    }
    return n;
}

uint32_t symbols_dwarf_names(struct symbols_dwarf *d, uint64_t addr, struct symbols_elf_name *out)
{
    Dwarf_Die unit_die, function, nested[SYMBOLS_MAX_INLINED + 1];
    Dwarf_Off offset;
    addr -= d->bias;
    if (!find_unit(d, addr, &unit_die))
        return 0;
    const struct unit *unit = unit_of(d, &unit_die);
    struct place at = place_of(d, &unit_die, addr);
    uint32_t n = 0, n_out = 0;
    if (unit && find_range(&unit->functions, addr, &offset) && dwarf_offdie(d->dw, offset, &function))
        n = find_nested(&function, addr, nested);
    while (n > 1) {
        const char *name = function_name(d, &nested[--n]);
        out[n_out++] = (struct symbols_elf_name){name ? name : "[inlined]", at.file, at.line, true};
        at = call_place(d, &unit_die, &nested[n]);
    }
    out[n_out++] =
        (struct symbols_elf_name){n ? function_name(d, &nested[0]) : NULL, at.file, at.line, false};
    return n_out;
}
