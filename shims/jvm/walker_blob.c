/*
 * walker_blob: the code cache by address. A code heap's segment map says for each segment how far back its block begins
 * (CodeHeap::find_block_for); maps and blocks only ever grow, so what lies below a heap's present end can be loaded.
 */
#include "walker.h"

#include <stdatomic.h>
#include <string.h>

#include "../core/guard.h"

enum { MAX_HEAPS = 4, SEGMENT_FREE = 0xFF, MAX_ENTRIES = 64 };

static struct heap {
    uintptr_t low; /* of its memory */
    const uintptr_t *high; /* its present end, in the CodeHeap, which stays */
    const uint8_t *segmap;
    uint64_t log2_segment;
} heaps[MAX_HEAPS];
static uint64_t n_heaps;
static struct range {
    uintptr_t lo, hi;
} entries[MAX_ENTRIES], interpreter; /* its method entries, and all of it */
static size_t n_entries;

static bool read_heap(const struct dvt_jvm_vm *vm, uintptr_t at, struct heap *h)
{
    uint64_t low, map;
    if (!dvt_jvm_load(at + vm->heap_memory.at, vm->space_low, &low) ||
        !dvt_jvm_load(at + vm->heap_segmap.at, vm->space_low, &map) ||
        !dvt_jvm_load(at, vm->heap_log2_segment, &h->log2_segment) || h->log2_segment > 20)
        return false;
    h->low = low;
    h->high = (const uintptr_t *)(at + vm->heap_memory.at + vm->space_high.at);
    h->segmap = (const uint8_t *)(uintptr_t)map;
    return true;
}

static bool is_entry_text(uintptr_t text)
{
    static const char want[] = "method entry";
    char have[sizeof want - 1];
    return dvt_guard_read(have, text, sizeof have) && memcmp(have, want, sizeof have) == 0;
}

static bool note_entries(const struct dvt_jvm_vm *vm)
{
    uint64_t buffer, at, end, size, text;
    n_entries = 0;
    if (!dvt_jvm_load(*vm->interpreter, vm->stubs_buffer, &buffer) ||
        !dvt_jvm_load(*vm->interpreter, vm->stubs_begin, &at) || !dvt_jvm_load(*vm->interpreter, vm->stubs_end, &end))
        return false;
    interpreter = (struct range){buffer + at, buffer + end};
    for (; at < end && n_entries < MAX_ENTRIES; at += size) {
        if (!dvt_jvm_load(buffer + at, vm->codelet_size, &size) || !dvt_jvm_load(buffer + at, vm->codelet_text, &text) || !size)
            return false;
        if (is_entry_text(text))
            entries[n_entries++] = (struct range){buffer + at, buffer + at + size};
    }
    return n_entries > 0;
}

bool dvt_jvm_is_interpreter(uintptr_t pc)
{
    return pc >= interpreter.lo && pc < interpreter.hi;
}

bool dvt_jvm_is_method_entry(uintptr_t pc)
{
    for (size_t i = 0; i < n_entries; i++)
        if (pc >= entries[i].lo && pc < entries[i].hi)
            return true;
    return false;
}

int dvt_jvm_blobs_init(const struct dvt_jvm_vm *vm)
{
    uint64_t n, data, at;
    if (!dvt_jvm_load(*vm->heaps, vm->array_len, &n) || !dvt_jvm_load(*vm->heaps, vm->array_data, &data) ||
        n == 0 || n > MAX_HEAPS)
        return -1;
    for (uint64_t i = 0; i < n; i++)
        if (!dvt_guard_read(&at, data + i * sizeof at, sizeof at) || !read_heap(vm, at, &heaps[i]))
            return -1;
    n_heaps = n;
    return note_entries(vm) ? 0 : -1;
}

static uintptr_t high_of(const struct heap *h)
{
    return __atomic_load_n(h->high, __ATOMIC_ACQUIRE);
}

bool dvt_jvm_code_read(void *to, uintptr_t at, size_t n)
{
    for (uint64_t i = 0; i < n_heaps; i++) {
        uintptr_t high = high_of(&heaps[i]);
        if (at >= heaps[i].low && at < high && n <= high - at) {
            memcpy(to, (const void *)at, n);
            return true;
        }
    }
    return dvt_guard_read(to, at, n);
}

bool dvt_jvm_code_load(uintptr_t obj, struct dvt_jvm_field f, uint64_t *ret)
{
    uint64_t v = 0;
    if (!f.bytes || !dvt_jvm_code_read(&v, obj + f.at, f.bytes))
        return false;
    *ret = v;
    return true;
}

bool dvt_jvm_code_load_s(uintptr_t obj, struct dvt_jvm_field f, int64_t *ret)
{
    uint64_t v;
    if (!dvt_jvm_code_load(obj, f, &v))
        return false;
    *ret = dvt_jvm_sign(v, f);
    return true;
}

static bool block_start(const struct dvt_jvm_vm *vm, const struct heap *h, uintptr_t pc, uintptr_t *ret)
{
    if (pc < h->low || pc >= high_of(h))
        return false;
    uint64_t segment = (pc - h->low) >> h->log2_segment, used;
    for (uint8_t back; (back = __atomic_load_n(h->segmap + segment, __ATOMIC_RELAXED)); segment -= back)
        if (back == SEGMENT_FREE || back > segment)
            return false;
    uintptr_t block = h->low + (segment << h->log2_segment);
    *ret = block + vm->heap_block_bytes;
    return dvt_jvm_code_load(block, vm->block_used, &used) && used;
}

/* By the name, whose text is looked at once: HotSpot's names of these kinds are its own constants. */
static enum dvt_jvm_blob_kind kind_of(uintptr_t name)
{
    static _Atomic uintptr_t known[3]; /* "nmethod", "native nmethod", "Interpreter" */
    static const char *const texts[] = {"nmethod", "native nmethod", "Interpreter"};
    static const enum dvt_jvm_blob_kind kinds[] = {DVT_JVM_NMETHOD, DVT_JVM_NMETHOD, DVT_JVM_INTERPRETER};
    char text[16] = "";
    for (int i = 0; i < 3; i++)
        if (atomic_load_explicit(&known[i], memory_order_relaxed) == name)
            return kinds[i];
    for (size_t n = 0; n < sizeof text - 1 && dvt_guard_read(text + n, name + n, 1) && text[n]; n++) {
    }
    for (int i = 0; i < 3; i++)
        if (strcmp(text, texts[i]) == 0) {
            atomic_store_explicit(&known[i], name, memory_order_relaxed);
            return kinds[i];
        }
    return DVT_JVM_STUB;
}

static bool read_code(const struct dvt_jvm_vm *vm, struct dvt_jvm_blob *b)
{
    uint64_t code, end;
    bool by_offset = vm->blob_code_offset.bytes != 0;
    if (!dvt_jvm_code_load(b->at, by_offset ? vm->blob_code_offset : vm->blob_code_begin, &code) ||
        !dvt_jvm_code_load(b->at, by_offset ? vm->blob_data_offset : vm->blob_code_end, &end))
        return false;
    b->code = by_offset ? b->at + code : code;
    b->end = by_offset ? b->at + end : end;
    return true;
}

static bool read_blob(const struct dvt_jvm_vm *vm, uintptr_t pc, struct dvt_jvm_blob *b)
{
    uint64_t name;
    int64_t words;
    if (!read_code(vm, b) || pc < b->code || pc >= b->end || !dvt_jvm_code_load(b->at, vm->blob_name, &name) ||
        !dvt_jvm_code_load_s(b->at, vm->blob_frame_size, &words) ||
        !dvt_jvm_code_load_s(b->at, vm->blob_frame_complete, &b->frame_complete))
        return false;
    b->frame_bytes = words > 0 && words < 1 << 20 ? words * 8 : 0;
    b->kind = kind_of(name);
    return true;
}

bool dvt_jvm_blob_find(const struct dvt_jvm_vm *vm, uintptr_t pc, struct dvt_jvm_blob *ret)
{
    if (!dvt_jvm_is_code(vm, pc))
        return false;
    for (uint64_t i = 0; i < n_heaps; i++)
        if (block_start(vm, &heaps[i], pc, &ret->at))
            return read_blob(vm, pc, ret);
    return false;
}

/* E8 rel32; or FF /2 with a register (41 FF Dx), or with memory by register and displacement (FF 5x d8, FF 9x d32, with a
 * SIB byte one longer), or relative to the instruction (FF 15). */
bool dvt_jvm_is_after_call(uintptr_t pc)
{
    uint8_t b[8]; /* b[8 - i]: the byte i before pc */
    if (!dvt_jvm_code_read(b, pc - sizeof b, sizeof b))
        return false;
    if (b[3] == 0xE8)
        return true;
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    for (size_t i = 0; i < sizeof lengths; i++) {
        unsigned at = 8u - lengths[i];
        if (b[at] == 0xFF && (b[at + 1] & 0x38) == 0x10)
            return true;
    }
    return false;
}
