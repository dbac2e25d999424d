/*
 * codes: see codes.h. Writers are signal handlers on any thread, so nothing here waits: a lost race costs a
 * second copy of a name, never a wrong one. Publication: an entry's parts are written, then its id is stored
 * with release into a table; readers load the id with acquire.
 */
#include "codes.h"
#include "frames.h"
#include "guard.h"
#include "lines.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum {
    ADDRESS_SLOTS = 1 << 16,
    CONTENT_SLOTS = 1 << 19,
    MAX_PROBES = 64,
    LINE_SLOTS = 1 << 15,
    TEXT_BYTES = 64 << 20,
    HASHED_LINE_BYTES = 1024, /* two functions of one name and place differ by their line table */
};
/* The slot of a code object that died: taken again, but not the end of a chain. */
static const uintptr_t gone = 1;

struct info {
    uint64_t hash;
    uint32_t text; /* offset of name, then file */
    uint16_t n_name, n_file;
    uint32_t first_line;
};

struct address_slot {
    _Atomic uintptr_t code;
    _Atomic uint32_t id;
};

struct content_slot {
    _Atomic uint64_t hash;
    _Atomic uint32_t id;
};

static struct {
    struct address_slot *by_address;
    struct content_slot *by_content;
    _Atomic uint64_t *lines; /* id 18 bits, offset 24, line 22; 0: empty */
    struct info *infos;
    char *text;
    _Atomic uint32_t n_infos;
    _Atomic uint32_t n_text;
    destructor real_dealloc;
} g;

/* A code object's strings, on the handler's stack. */
struct content {
    char text[DVT_MAX_FRAME_NAME + DVT_MAX_PATH];
    size_t n_name, n_file;
    uint32_t first_line;
    uint64_t hash;
};

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001B3u; /* FNV-1a */
    return h;
}

static bool read_content(uintptr_t code, struct content *c)
{
    struct dvt_py_code parts;
    uintptr_t at;
    size_t n;
    uint8_t lines[HASHED_LINE_BYTES];
    if (!dvt_py_frames_code(code, &parts) ||
        !dvt_py_frames_text(parts.name, c->text, DVT_MAX_FRAME_NAME, &c->n_name) ||
        !dvt_py_frames_text(parts.file, c->text + c->n_name, DVT_MAX_PATH, &c->n_file) ||
        !dvt_py_frames_bytes(parts.lines, &at, &n))
        return false;
    n = n < sizeof lines ? n : sizeof lines;
    if (!dvt_guard_read(lines, at, n))
        return false;
    c->first_line = parts.first_line;
    c->hash = hash_bytes(0xCBF29CE484222325u, c->text, c->n_name + c->n_file);
    c->hash = hash_bytes(c->hash, &c->first_line, sizeof c->first_line);
    c->hash = hash_bytes(c->hash, lines, n) | 1;
    return true;
}

static uint32_t new_info(const struct content *c)
{
    size_t n = c->n_name + c->n_file;
    if (atomic_load_explicit(&g.n_infos, memory_order_relaxed) > DVT_PY_MAX_CODES ||
        atomic_load_explicit(&g.n_text, memory_order_relaxed) > TEXT_BYTES)
        return DVT_PY_CODE_OTHER; /* checked before too, that the counters cannot wrap */
    uint32_t text = atomic_fetch_add_explicit(&g.n_text, (uint32_t)n, memory_order_relaxed);
    if (text + n > TEXT_BYTES)
        return DVT_PY_CODE_OTHER;
    uint32_t id = 1 + atomic_fetch_add_explicit(&g.n_infos, 1, memory_order_relaxed);
    if (id >= DVT_PY_MAX_CODES)
        return DVT_PY_CODE_OTHER;
    memcpy(g.text + text, c->text, n);
    g.infos[id] = (struct info){.hash = c->hash, .text = text, .n_name = (uint16_t)c->n_name,
                                .n_file = (uint16_t)c->n_file, .first_line = c->first_line};
    return id;
}

static bool is_same(uint32_t id, const struct content *c)
{
    const struct info *i = &g.infos[id];
    return i->n_name == c->n_name && i->n_file == c->n_file && i->first_line == c->first_line &&
           memcmp(g.text + i->text, c->text, c->n_name + c->n_file) == 0;
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
        if (id == DVT_PY_CODE_OTHER || is_same(id, c))
            return id;
    }
    return DVT_PY_CODE_OTHER;
}

static uint32_t slot_of(uintptr_t code)
{
    return (uint32_t)(((uint64_t)(code >> 4) * 0x9E3779B97F4A7C15u) >> 48);
}

/* The first slot of its chain that can be taken gets the address. Without one it is looked up by content each
 * time. */
static void remember(uintptr_t code, uint32_t id)
{
    for (uint32_t k = 0; k < MAX_PROBES; k++) {
        struct address_slot *s = &g.by_address[(slot_of(code) + k) & (ADDRESS_SLOTS - 1)];
        uintptr_t v = atomic_load_explicit(&s->code, memory_order_relaxed);
        if (v > gone || !atomic_compare_exchange_strong_explicit(&s->code, &v, code, memory_order_relaxed,
                                                                 memory_order_relaxed))
            continue;
        atomic_store_explicit(&s->id, id, memory_order_release);
        return;
    }
}

uint32_t dvt_py_codes_id(uintptr_t code)
{
    for (uint32_t k = 0; k < MAX_PROBES; k++) {
        struct address_slot *s = &g.by_address[(slot_of(code) + k) & (ADDRESS_SLOTS - 1)];
        uintptr_t v = atomic_load_explicit(&s->code, memory_order_relaxed);
        if (v == 0)
            break;
        uint32_t id = v == code ? atomic_load_explicit(&s->id, memory_order_acquire) : 0;
        if (id)
            return id;
    }
    struct content c;
    if (!read_content(code, &c))
        return 0;
    uint32_t id = id_by_content(&c);
    remember(code, id);
    return id;
}

/* With the GIL, of a code object that nothing runs any more: no walker can be at it. */
static void forget(uintptr_t code)
{
    for (uint32_t k = 0; k < MAX_PROBES; k++) {
        struct address_slot *s = &g.by_address[(slot_of(code) + k) & (ADDRESS_SLOTS - 1)];
        uintptr_t v = atomic_load_explicit(&s->code, memory_order_relaxed);
        if (v == 0)
            return;
        if (v != code)
            continue;
        atomic_store_explicit(&s->id, 0, memory_order_relaxed);
        atomic_store_explicit(&s->code, gone, memory_order_release);
    }
}

static void on_code_dealloc(PyObject *code)
{
    forget((uintptr_t)code);
    g.real_dealloc(code);
}

uint32_t dvt_py_codes_line(uintptr_t code, uint32_t id, int64_t offset)
{
    struct dvt_py_code parts;
    uintptr_t at;
    size_t n;
    bool fits = offset >= 0 && offset < 1 << 24;
    uint64_t key = (uint64_t)id << 24 | (uint64_t)(offset & 0xFFFFFF);
    _Atomic uint64_t *memo = &g.lines[(key * 0x9E3779B97F4A7C15u) >> 49];
    uint64_t known = atomic_load_explicit(memo, memory_order_relaxed);
    if (fits && known >> 22 == key)
        return (uint32_t)known & 0x3FFFFF;
    if (!dvt_py_frames_code(code, &parts) || !dvt_py_frames_bytes(parts.lines, &at, &n))
        return 0;
    uint32_t line = dvt_py_line(at, n, parts.first_line, offset);
    if (fits && line <= 0x3FFFFF && id != DVT_PY_CODE_OTHER)
        atomic_store_explicit(memo, key << 22 | line, memory_order_relaxed);
    return line;
}

struct dvt_py_code_text dvt_py_codes_text(uint32_t id)
{
    if (id == DVT_PY_CODE_OTHER || id >= DVT_PY_MAX_CODES)
        return (struct dvt_py_code_text){.name = dvt_str("(other functions)"), .file = {"", 0}};
    const struct info *i = &g.infos[id];
    return (struct dvt_py_code_text){.name = {g.text + i->text, i->n_name},
                                     .file = {g.text + i->text + i->n_name, i->n_file},
                                     .first_line = i->first_line};
}

uint32_t dvt_py_codes_count(void)
{
    return atomic_load_explicit(&g.n_infos, memory_order_relaxed);
}

int dvt_py_codes_init(void)
{
    if (g.real_dealloc) /* attached again */
        return 0;
    g.by_address = reserve(sizeof(struct address_slot) * ADDRESS_SLOTS);
    g.by_content = reserve(sizeof(struct content_slot) * CONTENT_SLOTS);
    g.lines = reserve(sizeof(uint64_t) * LINE_SLOTS);
    g.infos = reserve(sizeof(struct info) * DVT_PY_MAX_CODES);
    g.text = reserve(TEXT_BYTES + sizeof(((struct content *)0)->text));
    if (!g.by_address || !g.by_content || !g.lines || !g.infos || !g.text)
        return -1; /* what was reserved costs nothing untouched */
    g.n_infos = DVT_PY_CODE_OTHER;
    g.real_dealloc = PyCode_Type.tp_dealloc;
    PyCode_Type.tp_dealloc = on_code_dealloc;
    return 0;
}
