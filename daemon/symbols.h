/*
 * symbols: raw samples to named frames: unwinding and names by libdw (elfutils). Layer 5; writer thread only.
 *
 * Native frames come from the user registers and stack bytes by DWARF CFI where the sample has them (frame
 * pointers are not to be trusted: Debian's libc and Python have none), else only the leaf. Inlined functions
 * become own frames. Names are demangled (C++, Rust legacy). A symbol is used only if the address lies within
 * its size; else "module+0x1234". Where unwinding stops before the thread's entry the stack is marked
 * truncated. Kernel frames by /proc/kallsyms if readable, else one frame "[kernel]".
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include "../proto/chunk.h"
#include "process.h"
#include "sample.h"

struct symbols;

struct symbols *symbols_new(void);
void symbols_free(struct symbols *s);

/* One resolved native or kernel frame. Strings are interned in symbols and live as long as it. */
struct symbols_frame {
    const char *name, *module, *file;
    uint32_t line, kind; /* enum dvt_frame_kind */
    uint64_t ip;         /* return address or leaf ip; inlined frames share it */
};

/* Unwinds and names raw: fills frames leaf first, at most cap; returns how many. *ret_truncated: the chain
 * ended early. Frames from the leaf down to, not including, the first with ip in [eval_lo, eval_hi), or, in a process with
 * a walker, in code without a file, are counted in *ret_above_eval (= the return value when none is there). */
uint32_t symbols_resolve(struct symbols *s, struct process *proc, const struct sample *raw,
                         struct symbols_frame *frames, uint32_t cap, uint32_t *ret_above_eval,
                         bool *ret_truncated);

/* Memory use in bytes; above its cap (256 MiB unless set) it forgets what is least used between calls. */
uint64_t symbols_bytes(const struct symbols *s);
void symbols_set_cap(struct symbols *s, uint64_t cap_bytes);

#endif
