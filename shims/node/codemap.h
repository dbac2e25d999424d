/*
 * codemap: which function the code at an address belongs to, for one isolate. Ranges are kept in sorted lists, one for
 * each 256 KiB of addresses. A new range takes the place of all that it overlaps: what lay there is dead.
 *
 * Changed by the isolate's thread, and by its helpers while it collects garbage; they exclude each other. Read by the
 * signal handler on the isolate's thread, which waits for nobody: a change that is under way makes it refuse.
 */
#ifndef DVT_NODE_CODEMAP_H
#define DVT_NODE_CODEMAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dvt_node_line {
    uint32_t offset, line; /* in the code; in the source, from 1 */
};

enum dvt_node_kind { DVT_NODE_BUILTIN, DVT_NODE_BYTECODE_HANDLER, DVT_NODE_JS };

struct dvt_node_code {
    uintptr_t start;
    uint32_t bytes, id;
    struct dvt_node_line *lines; /* [n_lines] by offset, each where another line begins; owned; may be NULL */
    uint32_t n_lines;
    enum dvt_node_kind kind;
};

struct dvt_node_page;
struct dvt_node_codemap {
    pthread_mutex_t lock;
    pthread_t owner;
    _Atomic uint32_t version; /* odd: a change is under way */
    struct dvt_node_page *pages; /* hash table [1 << bits] */
    uint32_t bits, n_pages;
    uintptr_t copy, original; /* [copy, copy + copy_bytes) is a second mapping of code that is known by its first */
    size_t copy_bytes;
    void *retired; /* memory that the handler may still read: freed by the owner's next change */
};

int dvt_node_codemap_init(struct dvt_node_codemap *m); /* by the owner. 0 or -1 without memory */
void dvt_node_codemap_fini(struct dvt_node_codemap *m);

/* Takes over code.lines. Without memory the code stays unknown. */
void dvt_node_codemap_add(struct dvt_node_codemap *m, struct dvt_node_code code);
void dvt_node_codemap_move(struct dvt_node_codemap *m, uintptr_t from, uintptr_t to);
void dvt_node_codemap_remove(struct dvt_node_codemap *m, uintptr_t start);

/* Async-signal-safe, by the owner. What find returns is good until leave, which says whether it was: false if something
 * changed meanwhile. enter is false while a change is under way. */
bool dvt_node_codemap_enter(const struct dvt_node_codemap *m, uint32_t *ret_version);
const struct dvt_node_code *dvt_node_codemap_find(const struct dvt_node_codemap *m, uintptr_t addr);
bool dvt_node_codemap_leave(const struct dvt_node_codemap *m, uint32_t version);

/* The source line of the code at offset; 0 if unknown. Async-signal-safe. */
uint32_t dvt_node_code_line(const struct dvt_node_code *c, uint32_t offset);

#endif
