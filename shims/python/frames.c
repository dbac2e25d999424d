/*
 * frames: see frames.h.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#endif
#else
#include <frameobject.h>
#endif

#include "frames.h"
#include "guard.h"

#if PY_VERSION_HEX >= 0x030B0000
typedef _PyInterpreterFrame raw_frame;
enum { CODE_BYTES = offsetof(PyCodeObject, co_code_adaptive) };
enum { FRAME_BYTES = offsetof(_PyInterpreterFrame, localsplus) };
#else
typedef PyFrameObject raw_frame;
enum { CODE_BYTES = sizeof(PyCodeObject) };
enum { FRAME_BYTES = offsetof(PyFrameObject, f_blockstack) };
#endif

uintptr_t dvt_py_frames_thread(void)
{
    PyThreadState *mine = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    mine = PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    mine = _PyThreadState_UncheckedGet(); /* before 3.12 this was whoever holds the GIL */
#endif
    return (uintptr_t)(mine ? mine : PyGILState_GetThisThreadState());
}

static bool read_word(uintptr_t at, uintptr_t *ret)
{
    return dvt_guard_read(ret, at, sizeof *ret);
}

/* From 3.11 to 3.12, entering an evaluation loop links a new cframe in before it is filled: for an
 * instruction or two it holds what an earlier loop left on the stack there. A good one is told by its entry
 * frame, whose `previous` is the outer loop's current frame. */
struct dvt_py_top dvt_py_frames_top(uintptr_t thread)
{
    struct dvt_py_top top = {0};
#if PY_VERSION_HEX >= 0x030D0000
    top.is_in_motion = !read_word(thread + offsetof(PyThreadState, current_frame), &top.frame);
#elif PY_VERSION_HEX >= 0x030B0000
    uintptr_t cframe = 0, before = 0;
    top.is_in_motion = !read_word(thread + offsetof(PyThreadState, cframe), &cframe) ||
                       !read_word(cframe + offsetof(_PyCFrame, current_frame), &top.frame) ||
                       !read_word(cframe + offsetof(_PyCFrame, previous), &before) ||
                       (before && !read_word(before + offsetof(_PyCFrame, current_frame), &top.outer)) ||
                       (!top.frame && before);
#else
    top.is_in_motion = !read_word(thread + offsetof(PyThreadState, frame), &top.frame);
#endif
    return top;
}

/* The instruction's byte offset, checked against the code's length; false for what is no code object. */
#if PY_VERSION_HEX >= 0x030B0000
static bool set_offset(struct dvt_py_frame *f, uintptr_t instruction)
{
    struct {
        PyVarObject head;
    } code;
    if (!dvt_guard_read(&code, f->code, sizeof code) || code.head.ob_base.ob_type != &PyCode_Type)
        return false;
    f->offset = (int64_t)instruction - (int64_t)(f->code + offsetof(PyCodeObject, co_code_adaptive));
    return f->offset >= -2 && f->offset < (int64_t)code.head.ob_size * 2;
}

enum dvt_py_frame_is dvt_py_frames_read(uintptr_t frame, struct dvt_py_frame *ret)
{
    union {
        raw_frame f;
        uint8_t bytes[FRAME_BYTES];
    } u;
    if (frame & 7 || !dvt_guard_read(u.bytes, frame, FRAME_BYTES))
        return DVT_PY_FRAME_BAD;
    ret->back = (uintptr_t)u.f.previous;
    ret->is_entry = false;
#if PY_VERSION_HEX >= 0x030E0000
    if (u.f.owner >= FRAME_OWNED_BY_INTERPRETER)
        return DVT_PY_FRAME_SKIP;
    ret->code = u.f.f_executable.bits & ~(uintptr_t)3;
    return set_offset(ret, (uintptr_t)u.f.instr_ptr) ? DVT_PY_FRAME_OK : DVT_PY_FRAME_BAD;
#elif PY_VERSION_HEX >= 0x030D0000
    if (u.f.owner == FRAME_OWNED_BY_CSTACK)
        return DVT_PY_FRAME_SKIP;
    ret->code = (uintptr_t)u.f.f_executable;
    return set_offset(ret, (uintptr_t)u.f.instr_ptr) ? DVT_PY_FRAME_OK : DVT_PY_FRAME_BAD;
#else
#if PY_VERSION_HEX >= 0x030C0000
    ret->is_entry = u.f.owner == FRAME_OWNED_BY_CSTACK;
    if (ret->is_entry)
        return DVT_PY_FRAME_SKIP;
#else
    uint8_t entry = u.bytes[offsetof(raw_frame, is_entry)]; /* not yet known to be a frame: any byte may be there */
    if (entry > 1)
        return DVT_PY_FRAME_BAD;
    ret->is_entry = entry;
#endif
    ret->code = (uintptr_t)u.f.f_code;
    return set_offset(ret, (uintptr_t)u.f.prev_instr) ? DVT_PY_FRAME_OK : DVT_PY_FRAME_BAD;
#endif
}

#else

enum dvt_py_frame_is dvt_py_frames_read(uintptr_t frame, struct dvt_py_frame *ret)
{
    union {
        raw_frame f;
        uint8_t bytes[FRAME_BYTES];
    } u;
    PyObject head;
    if (frame & 7 || !dvt_guard_read(u.bytes, frame, FRAME_BYTES) || Py_TYPE(&u.f) != &PyFrame_Type)
        return DVT_PY_FRAME_BAD;
    ret->back = (uintptr_t)u.f.f_back;
    ret->is_entry = false;
    ret->code = (uintptr_t)u.f.f_code;
    ret->offset = (int64_t)u.f.f_lasti * (PY_VERSION_HEX >= 0x030A0000 ? 2 : 1);
    if (!dvt_guard_read(&head, ret->code, sizeof head) || head.ob_type != &PyCode_Type)
        return DVT_PY_FRAME_BAD;
    return DVT_PY_FRAME_OK;
}

#endif

bool dvt_py_frames_code(uintptr_t code, struct dvt_py_code *ret)
{
    PyCodeObject c;
    if (!dvt_guard_read(&c, code, CODE_BYTES) || Py_TYPE(&c) != &PyCode_Type)
        return false;
#if PY_VERSION_HEX >= 0x030B0000
    ret->name = (uintptr_t)c.co_qualname;
#else
    ret->name = (uintptr_t)c.co_name;
#endif
#if PY_VERSION_HEX >= 0x030A0000
    ret->lines = (uintptr_t)c.co_linetable;
#else
    ret->lines = (uintptr_t)c.co_lnotab;
#endif
    ret->file = (uintptr_t)c.co_filename;
    ret->first_line = c.co_firstlineno > 0 ? (uint32_t)c.co_firstlineno : 0;
    return true;
}

bool dvt_py_frames_bytes(uintptr_t object, uintptr_t *ret_at, size_t *ret_n)
{
    PyVarObject head;
    if (!dvt_guard_read(&head, object, sizeof head) || head.ob_base.ob_type != &PyBytes_Type ||
        head.ob_size < 0)
        return false;
    *ret_at = object + offsetof(PyBytesObject, ob_sval);
    *ret_n = (size_t)head.ob_size;
    return true;
}

/* Appends one code point; false if it does not fit. */
static bool put_utf8(char *out, size_t cap, size_t *n, uint32_t c)
{
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (*n + len > cap)
        return false;
    for (size_t i = len; i-- > 1; c >>= 6)
        out[*n + i] = (char)(0x80 | (c & 63));
    out[*n] = (char)(lead[len] | c);
    *n += len;
    return true;
}

bool dvt_py_frames_text(uintptr_t object, char *out, size_t cap, size_t *ret_n)
{
    PyASCIIObject head;
    if (!dvt_guard_read(&head, object, sizeof head) || Py_TYPE(&head) != &PyUnicode_Type ||
        !head.state.compact)
        return false;
    size_t n = 0, kind = head.state.kind;
    uintptr_t at = object + (head.state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject));
    for (Py_ssize_t i = 0; i < head.length; i++, at += kind) {
        uint8_t b[4] = {0};
        uint32_t c;
        if (kind > 4 || !dvt_guard_read(b, at, kind))
            return false;
        c = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        if (c >= 0xD800 && c <= 0xDFFF)
            c = 0xFFFD; /* a lone surrogate is no UTF-8 */
        if (!put_utf8(out, cap, &n, c))
            break;
    }
    *ret_n = n;
    return true;
}
