/*
 * walker: see walker.h. A walk follows the frames from the innermost outwards, keeps the leaf side and, of
 * deeper stacks, the root side, then turns each kept frame into (function id, line). A chain that cannot be
 * read to its end is refused whole.
 */
#include "walker.h"
#include "codes.h"
#include "frames.h"
#include "guard.h"
#include "kept.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

enum { MAX_DEPTH = 100000 };

static atomic_bool running;

static int collect(const struct dvt_py_top *top, struct dvt_kept *k)
{
    struct dvt_py_frame f;
    bool entry_is_good = false;
    uintptr_t frame = top->frame;
    for (int depth = 0; frame; depth++, frame = f.back) {
        enum dvt_py_frame_is is = depth < MAX_DEPTH ? dvt_py_frames_read(frame, &f) : DVT_PY_FRAME_BAD;
        if (is == DVT_PY_FRAME_BAD)
            return depth == 0 ? -DVT_STACK_WINDOW : -DVT_STACK_FAULT;
        if (f.is_entry && !entry_is_good && f.back != top->outer)
            return -DVT_STACK_WINDOW;
        entry_is_good |= f.is_entry;
        if (is == DVT_PY_FRAME_OK)
            dvt_kept_add(k, f.code, f.offset);
    }
    return 0;
}

static int name_frames(struct dvt_rt_frame *frames, int n)
{
    for (int i = 0; i < n; i++) {
        uintptr_t code = (uintptr_t)frames[i].key;
        uint32_t id = dvt_py_codes_id(code);
        if (id == 0)
            return -DVT_STACK_CODE_GONE;
        frames[i].offset = dvt_py_codes_line(code, id, frames[i].offset);
        frames[i].key = id;
    }
    return n;
}

static int walk(void *ucontext, struct dvt_rt_frame *frames, int cap, bool *ret_truncated)
{
    (void)ucontext;
    struct dvt_kept k = dvt_kept_in(frames, cap);
    *ret_truncated = false;
    if (cap < 1 || !atomic_load_explicit(&running, memory_order_relaxed))
        return -DVT_STACK_NO_THREAD_STATE;
    uintptr_t thread = dvt_py_frames_thread();
    if (!thread)
        return -DVT_STACK_NO_THREAD_STATE;
    dvt_guard_check();
    struct dvt_py_top top = dvt_py_frames_top(thread);
    if (top.is_in_motion || !top.frame)
        return top.is_in_motion ? -DVT_STACK_WINDOW : -DVT_STACK_NO_THREAD_STATE;
    int rc = collect(&top, &k);
    if (rc)
        return rc;
    *ret_truncated = k.n > cap;
    return name_frames(frames, dvt_kept_end(&k));
}

/* In the sender thread: the walk has done all but announce the functions. */
static int resolve(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line)
{
    static uint8_t announced[DVT_PY_MAX_CODES / 8]; /* the sender's own */
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)frames[i].key;
        uint8_t bit = (uint8_t)(1 << (id & 7));
        ret_code[i] = id;
        ret_line[i] = (uint32_t)frames[i].offset;
        if (announced[id / 8] & bit)
            continue;
        struct dvt_py_code_text t = dvt_py_codes_text(id);
        dvt_rt_code(id, t.name, t.file, t.first_line);
        announced[id / 8] |= bit;
    }
    return 0;
}

/* The evaluation function's address range, from its ELF symbol. */
static void find_eval(struct dvt_runtime *rt)
{
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    void *eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    if (!eval || !dladdr1(eval, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    rt->eval_lo = (uint64_t)(uintptr_t)eval;
    rt->eval_hi = rt->eval_lo + symbol->st_size;
}

void dvt_py_walker_init(struct dvt_runtime *rt)
{
    if (dvt_guard_init() || dvt_py_codes_init())
        return;
    find_eval(rt);
    rt->walk = walk;
    rt->resolve = resolve;
    atomic_store_explicit(&running, true, memory_order_relaxed);
}

void dvt_py_walker_stop(void)
{
    atomic_store_explicit(&running, false, memory_order_relaxed);
}

struct dvt_py_walker_counts dvt_py_walker_counts(void)
{
    return (struct dvt_py_walker_counts){.codes = dvt_py_codes_count(), .faults = dvt_guard_faults()};
}

PyObject *dvt_py_walker_now(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct dvt_rt_frame frames[DVT_MAX_FRAMES];
    bool truncated;
    int n = walk(NULL, frames, DVT_MAX_FRAMES, &truncated);
    if (n < 0)
        return PyLong_FromLong(n);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        struct dvt_py_code_text t = dvt_py_codes_text((uint32_t)frames[i].key);
        PyObject *item = Py_BuildValue("(s#s#iL)", t.name.p, (Py_ssize_t)t.name.n, t.file.p,
                                       (Py_ssize_t)t.file.n, (int)t.first_line, (long long)frames[i].offset);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list ? Py_BuildValue("(NO)", list, truncated ? Py_True : Py_False) : NULL;
}

PyObject *dvt_py_walker_line(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *code;
    long long offset;
    if (!PyArg_ParseTuple(args, "O!L", &PyCode_Type, &code, &offset))
        return NULL;
    uint32_t id = dvt_py_codes_id((uintptr_t)code);
    return PyLong_FromUnsignedLong(dvt_py_codes_line((uintptr_t)code, id, offset));
}
