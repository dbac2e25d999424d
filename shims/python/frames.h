/*
 * frames: where CPython keeps a thread's frames and a code object's parts, by version. Everything is read
 * through the guard and checked; nothing of the interpreter is called but the look-up of the thread's state.
 * Sources: CPython Include/internal/pycore_frame.h (pycore_interpframe_structs.h since 3.14),
 * Include/cpython/code.h.
 */
#ifndef DVT_PY_FRAMES_H
#define DVT_PY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_py_frame {
    uintptr_t code;
    uintptr_t back; /* 0: the last */
    int64_t offset; /* byte offset of the instruction; -2 before the first */
    bool is_entry;  /* the first of an evaluation loop; only told from 3.11 to 3.12 */
};
enum dvt_py_frame_is { DVT_PY_FRAME_OK, DVT_PY_FRAME_SKIP, DVT_PY_FRAME_BAD };

/* The calling thread's PyThreadState, or 0. */
uintptr_t dvt_py_frames_thread(void);
struct dvt_py_top {
    uintptr_t frame;    /* innermost, or 0 */
    uintptr_t outer;    /* 3.11 and 3.12: what the first entry frame's back must be, see frames.c */
    bool is_in_motion;  /* the chain is just being changed: frame means nothing */
};
struct dvt_py_top dvt_py_frames_top(uintptr_t thread);
enum dvt_py_frame_is dvt_py_frames_read(uintptr_t frame, struct dvt_py_frame *ret);

/* Parts of a code object: addresses of str and bytes objects. */
struct dvt_py_code {
    uintptr_t name, file, lines;
    uint32_t first_line;
};
bool dvt_py_frames_code(uintptr_t code, struct dvt_py_code *ret);
/* The bytes of a bytes object. */
bool dvt_py_frames_bytes(uintptr_t object, uintptr_t *ret_at, size_t *ret_n);
/* UTF-8 of a str object into out[cap], cut at a character; false if it is no str of the usual (compact) form.
 * */
bool dvt_py_frames_text(uintptr_t object, char *out, size_t cap, size_t *ret_n);

#endif
