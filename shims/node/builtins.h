/*
 * builtins: V8's built-in functions are machine code in Node's own file. So that calls to them are short V8 may map that
 * part of the file a second time, among the code it makes, and run it there; in some versions (20) code events know only
 * the first place.
 */
#ifndef DVT_NODE_BUILTINS_H
#define DVT_NODE_BUILTINS_H

#include "codemap.h"
#include "v8.h"

/* Fills the map's copy, original and copy_bytes, or leaves them 0 if there is no second mapping. */
void dvt_node_builtins_find(const struct dvt_v8 *v8, void *isolate, struct dvt_node_codemap *map);

#endif
