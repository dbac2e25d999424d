/*
 * v8: what is used of V8's own C++ interface, by mangled names looked up at run time, so that one binary in C serves
 * all versions that have them. Sources: v8-unwinder.h, v8-callbacks.h, v8-isolate.h,
 * v8-script.h, v8-local-handle.h of Node.js 18.20, 20.20, 22.23 and
 * 24.22, which agree on all layouts below.
 */
#ifndef DVT_NODE_V8_H
#define DVT_NODE_V8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DVT_V8_CODE_ADDED, DVT_V8_CODE_MOVED, DVT_V8_CODE_REMOVED, DVT_V8_LINE_ADD, DVT_V8_LINE_START, DVT_V8_LINE_END };
enum { DVT_V8_BYTE_CODE, DVT_V8_JIT_CODE, DVT_V8_WASM_CODE };
enum { DVT_V8_STATE_GC = 1 };

struct dvt_v8_code_event { /* JitCodeEvent */
    int type, code_type;
    void *code_start;
    size_t code_len;
    void *script;
    void *user_data;
    void *wasm;
    union {
        struct {
            const char *text; /* not terminated */
            size_t n;
        } name;
        struct {
            size_t offset, pos;
            int kind;
        } line;
        void *new_start;
    };
    void *isolate;
};

struct dvt_v8_registers { /* RegisterState */
    void *pc, *sp, *fp, *lr, *callee_saved;
};

struct dvt_v8_sample { /* SampleInfo */
    size_t n_frames;
    void *callback, *context, *embedder_context;
    int32_t state, embedder_state;
    uint64_t room; /* a later version may be longer */
};

struct dvt_v8_range { /* MemoryRange */
    const void *start;
    size_t n;
};

struct dvt_v8_handle_scope { /* HandleScope */
    void *isolate, *prev_next, *prev_limit;
};

struct dvt_v8 {
    void *(*current)(void);
    void (*sample)(void *isolate, const struct dvt_v8_registers *, void **frames, size_t cap, struct dvt_v8_sample *);
    void (*on_code)(void *isolate, int options, void (*)(const struct dvt_v8_code_event *));
    void (*code_range)(void *isolate, void **start, size_t *n);
    int (*line)(void *script, int pos); /* from 0; -1: unknown. Makes handles */
    void (*open_handles)(struct dvt_v8_handle_scope *, void *isolate);
    void (*close_handles)(struct dvt_v8_handle_scope *);
    /* The callback may run JavaScript. */
    void (*on_microtasks)(void *isolate, void (*)(void *isolate, void *), void *);
    void (*off_microtasks)(void *isolate, void (*)(void *isolate, void *), void *);
    size_t (*code_pages)(void *isolate, size_t cap, struct dvt_v8_range *); /* how many there are, maybe above cap */
};

/* NULL where the version is none of those tested, or lacks a function. */
const struct dvt_v8 *dvt_v8(uint32_t node_major);

#endif
