/*
 * walker: see walker.h. A frame's key is its function's id, its offset the source line, 0 where it is not known; both
 * are found in the handler, since code may have moved before the sender looks.
 */
#include "walker.h"
#include "functions.h"
#include "jit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

enum { MAX_DEPTH = 1024 };

/* The key of a frame that no isolate made: its offset is an address. V8 up to 11 puts the C++ function there that was called
 * from JavaScript and calls back into it. */
static const uint64_t native_key = UINT64_MAX;

static const struct dvt_v8 *v8;
static __thread void *isolate __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)
static struct dvt_v8_registers registers_of(const ucontext_t *uc)
{
    const greg_t *r = uc->uc_mcontext.gregs;
    return (struct dvt_v8_registers){
        .pc = (void *)r[REG_RIP], .sp = (void *)r[REG_RSP], .fp = (void *)r[REG_RBP]};
}
#else
static struct dvt_v8_registers registers_of(const ucontext_t *uc)
{
    (void)uc;
    return (struct dvt_v8_registers){0}; /* v8.c tells that it was not tested */
}
#endif

/* ---- in the handler ---- */

/* addrs[n] leaf first; all but the first of machine code are return addresses, which may be another code's start. */
static int name(const struct dvt_node_codemap *map, void *const *addrs, int n, struct dvt_rt_frame *frames)
{
    for (int i = 0; i < n; i++) {
        uintptr_t addr = (uintptr_t)addrs[i];
        const struct dvt_node_code *c = dvt_node_codemap_find(map, addr);
        frames[i] = c ? (struct dvt_rt_frame){c->id, dvt_node_code_line(c, (uint32_t)(addr - c->start))}
                      : (struct dvt_rt_frame){native_key, (int64_t)addr};
    }
    return n;
}

/* V8 gives the callers of the function that runs; that function itself is told by the program counter, unless it is
 * interpreted. addrs has room for one more. */
static int add_leaf(const struct dvt_node_code *c, uintptr_t pc, void **addrs, int n)
{
    if (!c || c->kind != DVT_NODE_JS)
        return n;
    memmove(addrs + 1, addrs, (size_t)n * sizeof *addrs);
    addrs[0] = (void *)pc;
    return n + 1;
}

/* Leaves out the middle of addrs[n] if there are more than cap. */
static int shorten(void **addrs, int n, int cap, bool *ret_truncated)
{
    int root = cap < 4 ? 1 : cap / 4; /* limits.h: 384 and 128 of 512 */
    *ret_truncated = n > cap;
    if (n <= cap)
        return n;
    memmove(addrs + cap - root, addrs + n - root, (size_t)root * sizeof *addrs);
    return cap;
}

static int walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    void *addrs[MAX_DEPTH + 1];
    struct dvt_v8_sample s = {0};
    uint32_t version;
    const struct dvt_node_codemap *map = dvt_node_jit_map();
    *ret_truncated = false;
    if (!isolate || !map || cap < 1)
        return -DVT_STACK_NO_THREAD_STATE;
    struct dvt_v8_registers r = registers_of(ucontext);
    v8->sample(isolate, &r, addrs, MAX_DEPTH, &s);
    if (s.state == DVT_V8_STATE_GC) {
        frames[0] = (struct dvt_rt_frame){DVT_NODE_GC, 0};
        return 1;
    }
    if (!dvt_node_codemap_enter(map, &version))
        return -DVT_STACK_WINDOW;
    const struct dvt_node_code *c = dvt_node_codemap_find(map, (uintptr_t)r.pc);
    int n = add_leaf(c, (uintptr_t)r.pc, addrs, s.n_frames < MAX_DEPTH ? (int)s.n_frames : MAX_DEPTH);
    n = name(map, addrs, shorten(addrs, n, cap, ret_truncated), frames);
    if (n > 0 && c && c->kind == DVT_NODE_BYTECODE_HANDLER)
        frames[0].offset = 0; /* its place on the stack is that of the last call it made */
    return dvt_node_codemap_leave(map, version) ? n : -DVT_STACK_WINDOW;
}

/* ---- in the sender ---- */

static void announce(uint32_t id)
{
    static uint8_t announced[DVT_NODE_MAX_FUNCTIONS / 8]; /* the sender's own */
    uint8_t bit = (uint8_t)(1 << (id & 7));
    if (announced[id / 8] & bit)
        return;
    struct dvt_node_function_text t = dvt_node_function_text(id);
    dvt_rt_code(id, t.name, t.file, t.line);
    announced[id / 8] |= bit;
}

/* A function of a loaded file, by its exported name if it has one; what is nowhere is unknown. */
static uint32_t native_id(uintptr_t addr)
{
    Dl_info info;
    char text[512];
    if (!dladdr((void *)addr, &info) || !info.dli_fname)
        return DVT_NODE_OTHER;
    const char *slash = strrchr(info.dli_fname, '/'), *module = slash ? slash + 1 : info.dli_fname;
    if ((uintptr_t)info.dli_saddr == addr && info.dli_sname)
        snprintf(text, sizeof text, "C++:%s", info.dli_sname);
    else
        snprintf(text, sizeof text, "C++:(C++ of %s)", module);
    return dvt_node_function(dvt_str(text));
}

static int resolve(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = frames[i].key == native_key ? native_id((uintptr_t)frames[i].offset) : (uint32_t)frames[i].key;
        announce(id);
        ret_code[i] = id;
        bool has_line = frames[i].key != native_key && frames[i].offset > 0;
        ret_line[i] = has_line ? (uint32_t)frames[i].offset : dvt_node_function_text(id).line;
    }
    return 0;
}

/* ---- life ---- */

int dvt_node_walker_init(struct dvt_runtime *rt, uint32_t node_major)
{
    void *start = NULL;
    size_t n = 0;
    v8 = dvt_v8(node_major);
    if (!v8)
        return -1;
    v8->code_range(v8->current(), &start, &n);
    rt->eval_lo = (uint64_t)(uintptr_t)start;
    rt->eval_hi = rt->eval_lo + n;
    rt->walk = walk;
    rt->resolve = resolve;
    return 0;
}

int dvt_node_walker_start_thread(void)
{
    if (!v8 || dvt_node_jit_start(v8))
        return -1;
    isolate = v8->current();
    return 0;
}

void dvt_node_walker_stop_thread(void)
{
    isolate = NULL;
    if (v8)
        dvt_node_jit_stop(v8);
}
