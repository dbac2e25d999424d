/*
 * symbols: see symbols.h. A sample's program counters are found one by one (unwind), each is turned into a
 * file and an offset by the process's map, and the file (symbols_elf, shared by all processes) answers what
 * is there and how to go on. Chains end at the thread's entry, or are cut where the stack copy, the map or
 * the file's frame information ends: nothing is guessed beyond.
 */
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../proto/limits.h"
#include "perf_open.h"
#include "procmap.h"
#include "symbols_elf.h"
#include "symbols_kernel.h"
#include "symbols_names.h"
#include "unwind.h"

#define USER_END                                                                                             \
    UINT64_C(0x0100000000000000) /* user addresses end below it, whatever the page table's depth */
#define CONTEXT_MARKER ((uint64_t)-4095)      /* PERF_CONTEXT_*: not addresses */

enum { MAX_FILES = 1024, N_HINTS = 256, DEFAULT_CAP_BYTES = 256 << 20 };

struct file {
    uint64_t id, used_at;
    struct symbols_elf *elf;
    size_t bytes; /* of elf, as last counted */
};

struct symbols {
    struct symbols_names *names;
    struct symbols_kernel *kernel;
    bool kernel_was_read;
    struct file files[MAX_FILES]; /* [n_files] */
    uint32_t n_files;
    uint16_t hints[N_HINTS]; /* file index by id: a guess */
    uint64_t clock;          /* counts calls: the age of files */
    size_t file_bytes;
    uint64_t cap_bytes;
};

/* One call's state. */
struct walk {
    struct symbols *s;
    struct procmap *map; /* NULL: unknown */
    uint64_t eval_lo, eval_hi;
    struct symbols_frame *frames; /* [cap] */
    uint32_t n, cap, above_eval;
    bool in_eval, truncated;
    bool makes_code; /* a walker answers for all code without a file: each isolate of Node.js has its own range */
};

struct symbols *symbols_new(void)
{
    struct symbols *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cap_bytes = DEFAULT_CAP_BYTES;
    s->names = symbols_names_new();
    if (!s->names) {
        free(s);
        return NULL;
    }
    return s;
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n_files; i++)
        symbols_elf_free(s->files[i].elf);
    symbols_kernel_free(s->kernel);
    symbols_names_free(s->names);
    free(s);
}

uint64_t symbols_bytes(const struct symbols *s)
{
    return sizeof *s + s->file_bytes + symbols_names_bytes(s->names) + symbols_kernel_bytes(s->kernel);
}

void symbols_set_cap(struct symbols *s, uint64_t cap_bytes)
{
    s->cap_bytes = cap_bytes;
}

static void drop_file(struct symbols *s, uint32_t i)
{
    symbols_elf_free(s->files[i].elf);
    s->file_bytes -= s->files[i].bytes;
    s->files[i] = s->files[--s->n_files];
}

static void drop_least_used(struct symbols *s)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < s->n_files; i++) {
        if (s->files[i].used_at < s->files[oldest].used_at)
            oldest = i;
    }
    drop_file(s, oldest);
}

static struct file *find_file(struct symbols *s, uint64_t id)
{
    uint16_t *hint = &s->hints[id % N_HINTS];
    if (*hint < s->n_files && s->files[*hint].id == id)
        return &s->files[*hint];
    for (uint32_t i = 0; i < s->n_files; i++) {
        if (s->files[i].id == id) {
            *hint = (uint16_t)i;
            return &s->files[i];
        }
    }
    return NULL;
}

static struct file *add_file(struct symbols *s, uint64_t id, int fd, const char *path)
{
    if (s->n_files == MAX_FILES)
        drop_least_used(s);
    struct symbols_elf *elf = symbols_elf_new(s->names, fd, path);
    if (!elf)
        return NULL;
    s->files[s->n_files] = (struct file){.id = id, .elf = elf};
    return &s->files[s->n_files++];
}

static void recount(struct symbols *s, struct file *f)
{
    size_t bytes = symbols_elf_bytes(f->elf);
    s->file_bytes += bytes - f->bytes;
    f->bytes = bytes;
}

static void emit(struct walk *w, struct symbols_frame f, bool in_eval)
{
    w->in_eval = w->in_eval || in_eval;
    if (w->n == w->cap) {
        w->truncated = true;
        return;
    }
    w->frames[w->n++] = f;
    if (!w->in_eval)
        w->above_eval = w->n;
}

static void emit_plain(struct walk *w, const char *name, const char *module, uint64_t ip,
                       enum dvt_frame_kind kind)
{
    emit(w, (struct symbols_frame){name, module, "", 0, kind, ip}, false);
}

static void emit_kernel(struct walk *w, const uint64_t *ips, uint32_t n)
{
    struct symbols *s = w->s;
    bool hidden = false;
    if (n && !s->kernel_was_read) {
        s->kernel = symbols_kernel_open();
        s->kernel_was_read = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ips[i] >= CONTEXT_MARKER)
            continue;
        const char *name = s->kernel ? symbols_kernel_find(s->kernel, i ? ips[i] - 1 : ips[i]) : NULL;
        if (name)
            name = symbols_names_intern(s->names, name, DVT_MAX_FRAME_NAME);
        if (name || !hidden)
            emit_plain(w, name ? name : "[kernel]", "kernel", ips[i], DVT_FRAME_KERNEL);
        hidden = !name;
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool find_mapping(struct walk *w, uint64_t addr, struct procmap_entry *ret)
{
    if (!w->map)
        return false;
    if (procmap_find(w->map, addr, ret))
        return true;
    procmap_refresh(w->map, addr, false, now_ns());
    return procmap_find(w->map, addr, ret);
}

static bool is_eval(const struct walk *w, uint64_t addr)
{
    return addr >= w->eval_lo && addr < w->eval_hi;
}

static void emit_site(struct walk *w, const struct symbols_elf_site *site, const char *module, uint64_t ip,
                      uint64_t addr)
{
    bool in_eval = is_eval(w, addr);
    for (uint32_t i = 0; i < site->n_names; i++) {
        const struct symbols_elf_name *n = &site->names[i];
        uint32_t kind = n->inlined ? DVT_FRAME_INLINED : DVT_FRAME_NATIVE;
        emit(w, (struct symbols_frame){n->name, module, n->file, n->line, kind, ip}, in_eval);
    }
}

/* An executable mapping without a file that could be opened, as code made at run time is: nothing to go on with. */
static void emit_unknown(struct walk *w, const struct procmap_entry *m, uint64_t ip, uint64_t addr)
{
    bool is_code_of_file = m->path[0] == '/';
    const char *base = is_code_of_file ? strrchr(m->path, '/') + 1 : m->path;
    char text[DVT_MAX_FRAME_NAME + 32];
    const char *module = symbols_names_intern(w->s->names, base, DVT_MAX_FRAME_NAME);
    snprintf(text, sizeof text, is_code_of_file ? "%.*s+0x%llx" : "%.*s", DVT_MAX_FRAME_NAME - 20, base,
             (unsigned long long)(addr - m->start + m->offset));
    const char *name = symbols_names_intern(w->s->names, text, DVT_MAX_FRAME_NAME);
    bool is_made = w->makes_code && strcmp(m->path, "[anon]") == 0;
    emit(w, (struct symbols_frame){name, module, "", 0, DVT_FRAME_NATIVE, ip}, is_made || is_eval(w, addr));
}

/* Emits the frames at ip and gives the row to go on with; NULL if there is no going on. addr: an address
 * inside the instruction that runs or calls. */
static const struct unwind_row *emit_user(struct walk *w, uint64_t ip, uint64_t addr)
{
    struct procmap_entry m;
    struct symbols_elf_site site;
    if (!find_mapping(w, addr, &m)) {
        emit_plain(w, "[unknown]", "", ip, DVT_FRAME_NATIVE);
        return NULL;
    }
    uint64_t id = procmap_fd_id(w->map, m.file);
    struct file *f = id ? find_file(w->s, id) : NULL;
    if (id && !f)
        f = add_file(w->s, id, procmap_fd(w->map, m.file), m.path);
    if (!f || !symbols_elf_site(f->elf, addr - m.start + m.offset, &site)) {
        emit_unknown(w, &m, ip, addr);
        return NULL;
    }
    f->used_at = w->s->clock;
    recount(w->s, f);
    emit_site(w, &site, symbols_elf_module(f->elf), ip, addr);
    return site.row;
}

static void walk_stack(struct walk *w, struct unwind_regs *regs, const struct unwind_stack *stack)
{
    bool exact = true; /* pc is an instruction about to run, not a return address */
    enum unwind_result result = UNWIND_OK;
    for (bool leaf = true; result == UNWIND_OK && w->n < w->cap; leaf = false) {
        const struct unwind_row *row = emit_user(w, regs->pc, exact ? regs->pc : regs->pc - 1);
        result = row ? unwind_step(row, stack, leaf, regs) : UNWIND_LOST;
        exact = row && row->signal;
        if (result == UNWIND_OK && regs->pc >= USER_END)
            result = UNWIND_LOST;
    }
    w->truncated = w->truncated || result != UNWIND_END;
}

static void emit_native(struct walk *w, const struct sample *raw)
{
    struct unwind_regs regs;
    bool has_regs = raw->n_regs && unwind_regs_from_perf(PERF_OPEN_REGS_MASK, raw->regs, raw->n_regs, &regs);
    if (has_regs && regs.pc && regs.pc < USER_END) {
        struct unwind_stack stack = {raw->stack, regs.r[UNWIND_SP], raw->n_stack};
        walk_stack(w, &regs, &stack);
        return;
    }
    w->truncated = true;
    for (uint32_t i = raw->n_kernel; !has_regs && i < raw->n_ips; i++) {
        if (raw->ips[i] < USER_END && raw->ips[i]) {
            emit_user(w, raw->ips[i], raw->ips[i]);
            return; /* the callers came by frame pointers, which most code does not keep */
        }
    }
}

uint32_t symbols_resolve(struct symbols *s, struct process *proc, const struct sample *raw,
                         struct symbols_frame *frames, uint32_t cap, uint32_t *ret_above_eval,
                         bool *ret_truncated)
{
    struct walk w = {.s = s,
                     .map = proc->map,
                     .eval_lo = proc->eval_lo,
                     .eval_hi = proc->eval_hi,
                     .makes_code = proc->has_walker,
                     .frames = frames,
                     .cap = cap};
    s->clock++;
    while (s->n_files && symbols_bytes(s) > s->cap_bytes)
        drop_least_used(s);
    emit_kernel(&w, raw->ips, raw->n_kernel < raw->n_ips ? raw->n_kernel : raw->n_ips);
    emit_native(&w, raw);
    *ret_above_eval = w.above_eval;
    *ret_truncated = w.truncated;
    return w.n;
}
