/*
 * got: see got.h. Each loaded object is scanned once: its dynamic section gives the relocations that name the
 * symbols we want, and the slot each fills. A slot inside the RELRO region is made writable for the store.
 * Runs under the GIL. Source: System V gABI, dynamic linking; elf.h.
 */
#include "got.h"
#include "greenlet.h"
#include "hooks.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#else
enum { JUMP_SLOT = -1, GLOB_DAT = -1 }; /* matches no relocation: nothing is patched */
#endif

enum { MAX_OBJECTS = 8192 };

static void *hooked_dlopen(const char *path, int flags);

enum { IN_INTERPRETER = 1, IN_OTHERS = 2 };

static const struct redirect {
    const char *name;
    void *to;
    unsigned where; /* the interpreter's own set and reset are hooked as methods already */
} redirects[] = {
    {"PyContext_Enter", (void *)dvt_py_context_enter, IN_INTERPRETER | IN_OTHERS},
    {"PyContext_Exit", (void *)dvt_py_context_exit, IN_INTERPRETER | IN_OTHERS},
    {"PyContextVar_Set", (void *)dvt_py_contextvar_set, IN_OTHERS},
    {"PyContextVar_Reset", (void *)dvt_py_contextvar_reset, IN_OTHERS},
    {"dlopen", (void *)hooked_dlopen, IN_INTERPRETER},
};

static struct {
    ElfW(Addr) seen[MAX_OBJECTS]; /* load addresses of objects scanned, in the order of loading */
    unsigned n_seen, n_patched;
    ElfW(Addr) self;
} g;

struct object {
    ElfW(Addr) base;
    bool is_interpreter;
    const ElfW(Sym) *symbols;
    const char *strings;
    const ElfW(Rela) *rela[2];
    size_t n_rela[2];
    ElfW(Addr) relro;
    size_t relro_bytes;
};

unsigned dvt_py_got_patched(void)
{
    return g.n_patched;
}

static void read_dynamic(struct object *o, const ElfW(Dyn) *d)
{
    for (; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB:
            o->symbols = (const void *)d->d_un.d_ptr;
            break;
        case DT_STRTAB:
            o->strings = (const void *)d->d_un.d_ptr;
            break;
        case DT_JMPREL:
            o->rela[0] = (const void *)d->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            o->n_rela[0] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            o->rela[1] = (const void *)d->d_un.d_ptr;
            break;
        case DT_RELASZ:
            o->n_rela[1] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        }
    }
}

static const struct redirect *wanted(const char *name, bool is_interpreter)
{
    if (name[0] != 'P' && name[0] != 'd')
        return NULL;
    for (size_t i = 0; i < sizeof redirects / sizeof redirects[0]; i++)
        if (strcmp(name, redirects[i].name) == 0)
            return redirects[i].where & (is_interpreter ? IN_INTERPRETER : IN_OTHERS) ? &redirects[i] : NULL;
    return NULL;
}

static void write_slot(const struct object *o, void **slot, void *to)
{
    uintptr_t at = (uintptr_t)slot, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    bool read_only = at >= o->relro && at < o->relro + o->relro_bytes;
    void *start = (void *)(at & ~(page - 1));
    if (read_only && mprotect(start, page, PROT_READ | PROT_WRITE))
        return;
    __atomic_store_n(slot, to, __ATOMIC_RELEASE);
    g.n_patched++;
    if (read_only)
        (void)mprotect(start, page, PROT_READ); /* a page left writable still works */
}

static void patch_object(const struct object *o)
{
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < o->n_rela[k]; i++) {
            const ElfW(Rela) *r = &o->rela[k][i];
            int type = (int)ELF64_R_TYPE(r->r_info);
            if (type != JUMP_SLOT && type != GLOB_DAT)
                continue;
            const char *name = o->strings + o->symbols[ELF64_R_SYM(r->r_info)].st_name;
            const struct redirect *to = wanted(name, o->is_interpreter);
            void **slot = (void **)(o->base + r->r_offset);
            if (to && *slot != to->to)
                write_slot(o, slot, to->to);
        }
    }
}

/* True the first time; also when the table is full, for patching twice does no harm. */
static bool is_new(ElfW(Addr) base)
{
    for (unsigned i = g.n_seen; i > 0; i--)
        if (g.seen[i - 1] == base)
            return false;
    if (g.n_seen < MAX_OBJECTS)
        g.seen[g.n_seen++] = base;
    return true;
}

static bool is_system(const char *path)
{
    return strstr(path, "linux-vdso") || strstr(path, "ld-linux") || strstr(path, "/libc.so") ||
           strstr(path, "libdovetail.so");
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    struct object o = {.base = info->dlpi_addr, .is_interpreter = !path[0] || strstr(path, "libpython")};
    const ElfW(Dyn) *dynamic = NULL;
    if (info->dlpi_addr == g.self || is_system(path) || !is_new(info->dlpi_addr))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const void *)(o.base + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            o.relro = o.base + p->p_vaddr;
            o.relro_bytes = p->p_memsz;
        }
    }
    if (dynamic)
        read_dynamic(&o, dynamic);
    if (o.symbols && o.strings)
        patch_object(&o);
    return 0;
}

static void *hooked_dlopen(const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    if (handle && dvt_py_enabled) {
        dvt_py_greenlet_dlopened(path);
        dl_iterate_phdr(visit, NULL);
    }
    return handle;
}

void dvt_py_got_install(void)
{
    Dl_info info;
    if (dladdr((void *)dvt_py_got_install, &info))
        g.self = (ElfW(Addr))info.dli_fbase;
    dl_iterate_phdr(visit, NULL);
}
