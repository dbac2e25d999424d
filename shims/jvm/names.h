/*
 * names: Method addresses to code ids, and ids to names and lines.
 *
 * In the SIGURG handler, while the frame keeps its class alive: name, file and line table of a method seen for the first
 * time are copied; the same content has the same id, so that a class loaded again and again has one. An address is
 * trusted as long as no class was loaded since it was last read. Ids are dense from 1 and never reused. Bounded: what does not fit
 * is the id DVT_JVM_CODE_OTHER.
 */
#ifndef DVT_JVM_NAMES_H
#define DVT_JVM_NAMES_H

#include "../core/runtime.h"
#include "vmstructs.h"

enum { DVT_JVM_MAX_CODES = 1 << 18, DVT_JVM_CODE_OTHER = 1 };

int dvt_jvm_names_init(const struct dvt_jvm_vm *vm);
/* Classes were loaded: addresses are read anew. Any thread. */
void dvt_jvm_names_changed(void);

/* 0 if it is no method. Async-signal-safe, as all here but the last. */
uint32_t dvt_jvm_names_id(uintptr_t method);
bool dvt_jvm_names_is_method(const struct dvt_jvm_vm *vm, uintptr_t method);
/* The id of the stub that pc is in; else of its blob by the blob's name (a C string). 0 without memory. */
uint32_t dvt_jvm_names_stub(uintptr_t pc, uintptr_t blob_name);

/* Stubs by address; all before the first walk, or none. The text is copied. */
void dvt_jvm_names_add_stub(uintptr_t at, size_t bytes, const char *name);
void dvt_jvm_names_stubs_done(void);

struct dvt_jvm_code {
    struct dvt_str class_name, method, file; /* as in the class file: '/' and modified UTF-8 */
    struct dvt_str lines;                    /* the compressed line table */
};
struct dvt_jvm_code dvt_jvm_names_get(uint32_t id);

/* struct dvt_runtime's resolve: keys are ids, offsets bytecode indexes. */
int dvt_jvm_names_resolve(struct dvt_rt_frame *frames, size_t n, uint32_t *ret_code, uint32_t *ret_line);

/* ---- names_text: pure ---- */

/* The line of a bytecode index by a compressed line table (JDK version major); 0: unknown. bci < 0: the first entry's. */
uint32_t dvt_jvm_line(int major, struct dvt_str table, int64_t bci);
/* Bytes of the line table at the start of p[0, n), with its end mark; 0: it does not end there. */
size_t dvt_jvm_line_bytes(int major, const uint8_t *p, size_t n);
/* "a.b.C.method" in UTF-8 into out[cap]; its length. */
size_t dvt_jvm_full_name(struct dvt_str class_name, struct dvt_str method, char *out, size_t cap);
/* A class's name without what is new at each run: "a/B$$Lambda+0x00007f01" is "a/B$$Lambda". */
size_t dvt_jvm_stable_length(const char *class_name, size_t n);

#endif
