/*
 * names: see names.h. Writers are signal handlers on any thread, so nothing waits: a lost race costs a second copy of a
 * name, never a wrong one. Publication: an entry's parts are written, then its id is stored with release into a table;
 * readers load the id with acquire.
 */
#include "names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../core/guard.h"

enum {
    ADDRESS_SLOTS = 1 << 16,
    CONTENT_SLOTS = 1 << 19,
    MAX_PROBES = 16,
    TEXT_BYTES = 64 << 20,
    MAX_CLASS = 384, /* of DVT_MAX_FRAME_NAME; longer names are cut */
    MAX_METHOD = 127,
    MAX_FILE = 128,
    MAX_LINES = 4096, /* bytes of a line table; what lies beyond has no line */
    HAS_LINE_TABLE = 1, /* ConstMethod's flag */
    MAX_STUBS = 2048,
    STUB_NAME = 64,
};

struct info {
    uint64_t hash;
    uint32_t text; /* offset of class, method, file, lines */
    uint16_t n_class, n_method, n_file, n_lines;
};

/* tag: number of class loads 24 bits, hash of the address 20, id 20; so a slot that is just being taken by another address
 * is not taken for this one's. 0: none. */
struct address_slot {
    _Atomic uintptr_t method;
    _Atomic uint64_t tag;
};

struct content_slot {
    _Atomic uint64_t hash;
    _Atomic uint32_t id;
};

struct stub {
    uintptr_t lo, hi;
    uint32_t id;
};

static struct {
    const struct dvt_jvm_vm *vm;
    struct address_slot *by_address;
    struct content_slot *by_content;
    struct info *infos;
    char *text;
    _Atomic uint32_t n_infos, n_text;
    _Atomic uint32_t generation;
    struct stub stubs[MAX_STUBS]; /* [n_stubs], sorted; fixed once published */
    size_t n_filled;
    _Atomic size_t n_stubs;
} g;

/* A method's content, on the handler's stack. */
struct content {
    char text[MAX_CLASS + MAX_METHOD + MAX_FILE + MAX_LINES];
    size_t n_class, n_method, n_file, n_lines, n;
    uint64_t hash;
};

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

int dvt_jvm_names_init(const struct dvt_jvm_vm *vm)
{
    g.vm = vm;
    if (g.text)
        return 0; /* begun again: ids stay what they were */
    g.by_address = reserve(sizeof(struct address_slot) * ADDRESS_SLOTS);
    g.by_content = reserve(sizeof(struct content_slot) * CONTENT_SLOTS);
    g.infos = reserve(sizeof(struct info) * DVT_JVM_MAX_CODES);
    g.text = reserve(TEXT_BYTES + sizeof(((struct content *)0)->text));
    if (!g.by_address || !g.by_content || !g.infos || !g.text) {
        g.text = NULL;
        return -1; /* what was reserved costs nothing untouched */
    }
    g.n_infos = DVT_JVM_CODE_OTHER;
    return 0;
}

void dvt_jvm_names_changed(void)
{
    atomic_fetch_add_explicit(&g.generation, 1, memory_order_release);
}

/* ---- reading a method ---- */

/* Appends a symbol's bytes, at most cap. */
static bool read_symbol(uintptr_t symbol, size_t cap, struct content *c, size_t *ret_n)
{
    uint64_t n;
    if (!dvt_jvm_load(symbol, g.vm->symbol_length, &n))
        return false;
    *ret_n = n < cap ? n : cap;
    if (!dvt_guard_read(c->text + c->n, symbol + g.vm->symbol_body.at, *ret_n))
        return false;
    c->n += *ret_n;
    return true;
}

static bool read_pool_symbol(uintptr_t pool, uint64_t index, size_t cap, struct content *c, size_t *ret_n)
{
    uint64_t symbol, n;
    return dvt_jvm_load(pool, g.vm->pool_length, &n) && index > 0 && index < n &&
           dvt_guard_read(&symbol, pool + g.vm->constant_pool_bytes + index * sizeof symbol, sizeof symbol) &&
           read_symbol(symbol & ~UINT64_C(1), cap, c, ret_n);
}

/* The bytes behind the bytecodes, up to the table's end mark. */
static bool read_lines(uintptr_t constant, struct content *c)
{
    uint64_t flags, code_size, words;
    if (!dvt_jvm_load(constant, g.vm->const_flags, &flags) || !dvt_jvm_load(constant, g.vm->const_code_size, &code_size) ||
        !dvt_jvm_load(constant, g.vm->const_size_words, &words))
        return false;
    if (!(flags & HAS_LINE_TABLE))
        return true;
    uint64_t from = g.vm->const_method_bytes + code_size, to = words * sizeof(uint64_t);
    if (from >= to)
        return false;
    size_t n = to - from < MAX_LINES ? to - from : MAX_LINES;
    if (!dvt_guard_read(c->text + c->n, constant + from, n))
        return false;
    c->n_lines = dvt_jvm_line_bytes(g.vm->major, (const uint8_t *)c->text + c->n, n);
    c->n_lines = c->n_lines || to - from <= MAX_LINES ? c->n_lines : n;
    c->n += c->n_lines;
    return true;
}

static uint64_t hash_bytes(const void *p, size_t n)
{
    const uint8_t *b = p;
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001B3u; /* FNV-1a */
    return (h ^ h >> 29) | 1;
}

static bool read_content(uintptr_t method, struct content *c)
{
    uint64_t constant, pool, holder, class_name, name, file = 0;
    c->n = c->n_file = c->n_lines = 0;
    if (method % sizeof method || !dvt_jvm_load(method, g.vm->method_const, &constant) || constant % sizeof constant ||
        !dvt_jvm_load(constant, g.vm->const_pool, &pool) || pool % sizeof pool ||
        !dvt_jvm_load(pool, g.vm->pool_holder, &holder) || !dvt_jvm_load(holder, g.vm->klass_name, &class_name) ||
        !dvt_jvm_load(constant, g.vm->const_name, &name) || !read_symbol(class_name, MAX_CLASS, c, &c->n_class))
        return false;
    c->n = c->n_class = dvt_jvm_stable_length(c->text, c->n_class);
    if (!read_pool_symbol(pool, name, MAX_METHOD, c, &c->n_method))
        return false;
    if (!dvt_jvm_load(pool, g.vm->pool_source_file, &file) || !read_pool_symbol(pool, file, MAX_FILE, c, &c->n_file))
        c->n_file = 0; /* many classes made at run time have none */
    if (c->n_class == 0 || c->n_method == 0 || !read_lines(constant, c))
        return false;
    c->hash = hash_bytes(c->text, c->n);
    return true;
}

bool dvt_jvm_names_is_method(const struct dvt_jvm_vm *vm, uintptr_t method)
{
    uint64_t constant, pool, holder, name, n;
    uint8_t c;
    return method % sizeof method == 0 && dvt_jvm_load(method, vm->method_const, &constant) &&
           constant % sizeof constant == 0 && dvt_jvm_load(constant, vm->const_pool, &pool) && pool % sizeof pool == 0 &&
           dvt_jvm_load(pool, vm->pool_holder, &holder) && dvt_jvm_load(holder, vm->klass_name, &name) &&
           dvt_jvm_load(name, vm->symbol_length, &n) && n > 0 && dvt_guard_read(&c, name + vm->symbol_body.at, 1);
}

/* ---- ids by content ---- */

static uint32_t new_info(const struct content *c)
{
    if (atomic_load_explicit(&g.n_infos, memory_order_relaxed) > DVT_JVM_MAX_CODES ||
        atomic_load_explicit(&g.n_text, memory_order_relaxed) > TEXT_BYTES)
        return DVT_JVM_CODE_OTHER; /* checked before too, that the counters cannot wrap */
    uint32_t text = atomic_fetch_add_explicit(&g.n_text, (uint32_t)c->n, memory_order_relaxed);
    if (text + c->n > TEXT_BYTES)
        return DVT_JVM_CODE_OTHER;
    uint32_t id = 1 + atomic_fetch_add_explicit(&g.n_infos, 1, memory_order_relaxed);
    if (id >= DVT_JVM_MAX_CODES)
        return DVT_JVM_CODE_OTHER;
    memcpy(g.text + text, c->text, c->n);
    g.infos[id] = (struct info){.hash = c->hash, .text = text, .n_class = (uint16_t)c->n_class,
                                .n_method = (uint16_t)c->n_method, .n_file = (uint16_t)c->n_file,
                                .n_lines = (uint16_t)c->n_lines};
    return id;
}

static bool is_same(uint32_t id, const struct content *c)
{
    const struct info *i = &g.infos[id];
    return i->hash == c->hash && i->n_class == c->n_class && i->n_method == c->n_method && i->n_file == c->n_file &&
           i->n_lines == c->n_lines && memcmp(g.text + i->text, c->text, c->n) == 0;
}

static uint32_t id_by_content(const struct content *c)
{
    for (uint32_t k = 0; k < MAX_PROBES; k++) {
        struct content_slot *s = &g.by_content[((c->hash >> 20) + k) & (CONTENT_SLOTS - 1)];
        uint64_t none = 0;
        if (atomic_load_explicit(&s->hash, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&s->hash, &none, c->hash, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            uint32_t id = new_info(c);
            atomic_store_explicit(&s->id, id, memory_order_release); /* pairs with the acquire below */
            return id;
        }
        if (atomic_load_explicit(&s->hash, memory_order_relaxed) != c->hash)
            continue;
        uint32_t id = atomic_load_explicit(&s->id, memory_order_acquire);
        if (id == 0)
            return new_info(c); /* another thread is just writing it: a second copy */
        if (id == DVT_JVM_CODE_OTHER || is_same(id, c))
            return id;
    }
    return DVT_JVM_CODE_OTHER;
}

/* ---- ids by address ---- */

static uint64_t mix(uintptr_t method)
{
    return (uint64_t)(method >> 3) * 0x9E3779B97F4A7C15u;
}

static uint64_t tag_of(uintptr_t method, uint32_t generation, uint32_t id)
{
    return (uint64_t)(generation & 0xFFFFFF) << 40 | (mix(method) >> 8 & 0xFFFFF) << 20 | id;
}

static struct address_slot *slot_of(uintptr_t method, uint32_t probe)
{
    return &g.by_address[((mix(method) >> 48) + probe) & (ADDRESS_SLOTS - 1)];
}

/* Into its own slot, a free one, or, if all near are taken, the first: the others' methods may be long gone. */
static void remember(uintptr_t method, uint64_t tag)
{
    struct address_slot *to = NULL;
    for (uint32_t k = 0; k < MAX_PROBES && !to; k++) {
        struct address_slot *s = slot_of(method, k);
        uintptr_t v = atomic_load_explicit(&s->method, memory_order_relaxed);
        if (v == method || v == 0)
            to = s;
    }
    to = to ? to : slot_of(method, 0);
    atomic_store_explicit(&to->tag, 0, memory_order_relaxed);
    atomic_store_explicit(&to->method, method, memory_order_release);
    atomic_store_explicit(&to->tag, tag, memory_order_release); /* pairs with dvt_jvm_names_id */
}

uint32_t dvt_jvm_names_id(uintptr_t method)
{
    /* Before the content is read: a class loaded in between makes the entry stale, not wrong. */
    uint32_t generation = atomic_load_explicit(&g.generation, memory_order_acquire);
    for (uint32_t k = 0; k < MAX_PROBES; k++) {
        struct address_slot *s = slot_of(method, k);
        uintptr_t v = atomic_load_explicit(&s->method, memory_order_acquire);
        if (v == 0)
            break;
        if (v != method)
            continue;
        uint64_t tag = atomic_load_explicit(&s->tag, memory_order_acquire);
        uint32_t id = (uint32_t)tag & 0xFFFFF;
        if (id && tag == tag_of(method, generation, id))
            return id;
        break;
    }
    struct content c;
    if (!read_content(method, &c))
        return 0;
    uint32_t id = id_by_content(&c);
    remember(method, tag_of(method, generation, id));
    return id;
}

/* ---- stubs ---- */

static uint32_t id_of_text(const char *name, size_t n)
{
    struct content c = {.n_class = 0};
    c.n = c.n_method = n < MAX_METHOD ? n : MAX_METHOD;
    memcpy(c.text, name, c.n);
    c.hash = hash_bytes(c.text, c.n);
    return id_by_content(&c);
}

void dvt_jvm_names_add_stub(uintptr_t at, size_t bytes, const char *name)
{
    if (g.n_filled == MAX_STUBS || atomic_load_explicit(&g.n_stubs, memory_order_relaxed))
        return;
    g.stubs[g.n_filled++] = (struct stub){at, at + bytes, id_of_text(name, strnlen(name, STUB_NAME))};
}

static int by_address(const void *a, const void *b)
{
    const struct stub *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

void dvt_jvm_names_stubs_done(void)
{
    if (atomic_load_explicit(&g.n_stubs, memory_order_relaxed))
        return;
    qsort(g.stubs, g.n_filled, sizeof *g.stubs, by_address);
    atomic_store_explicit(&g.n_stubs, g.n_filled, memory_order_release); /* pairs with find_stub */
}

static uint32_t find_stub(uintptr_t pc)
{
    size_t lo = 0, hi = atomic_load_explicit(&g.n_stubs, memory_order_acquire);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (g.stubs[mid].lo <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && pc < g.stubs[lo - 1].hi ? g.stubs[lo - 1].id : 0;
}

uint32_t dvt_jvm_names_stub(uintptr_t pc, uintptr_t blob_name)
{
    char name[STUB_NAME];
    uint32_t id = find_stub(pc);
    size_t n = 0;
    while (!id && n < sizeof name && dvt_guard_read(name + n, blob_name + n, 1) && name[n])
        n++;
    return id || n == 0 ? id : id_of_text(name, n);
}

/* ---- reading back ---- */

struct dvt_jvm_code dvt_jvm_names_get(uint32_t id)
{
    if (id <= DVT_JVM_CODE_OTHER || id >= DVT_JVM_MAX_CODES)
        return (struct dvt_jvm_code){.method = dvt_str("(other methods)")};
    const struct info *i = &g.infos[id];
    const char *p = g.text + i->text;
    return (struct dvt_jvm_code){.class_name = {p, i->n_class},
                                 .method = {p + i->n_class, i->n_method},
                                 .file = {p + i->n_class + i->n_method, i->n_file},
                                 .lines = {p + i->n_class + i->n_method + i->n_file, i->n_lines}};
}

static void announce(uint32_t id, const struct dvt_jvm_code *c)
{
    char name[DVT_MAX_FRAME_NAME];
    size_t n = dvt_jvm_full_name(c->class_name, c->method, name, sizeof name);
    dvt_rt_code(id, (struct dvt_str){name, n}, c->file, dvt_jvm_line(g.vm->major, c->lines, -1));
}

int dvt_jvm_names_resolve(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line)
{
    static uint8_t announced[DVT_JVM_MAX_CODES / 8]; /* under the lock of core's stacks */
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)frames[i].key;
        struct dvt_jvm_code c = dvt_jvm_names_get(id);
        uint8_t bit = (uint8_t)(1 << (id & 7));
        ret_code[i] = id;
        ret_line[i] = frames[i].offset < 0 ? 0 : dvt_jvm_line(g.vm->major, c.lines, frames[i].offset);
        if (announced[id / 8] & bit)
            continue;
        announce(id, &c);
        announced[id / 8] |= bit;
    }
    return 0;
}
