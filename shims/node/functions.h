/*
 * functions: the functions that code belongs to, by the names V8 gives them ("JS:*checkout /srv/app.js:12:7"), one id
 * for all code of a function, whatever its tier. Shared by all isolates of the process; ids are dense from 1 and live
 * for ever. Locked; not for the signal handler.
 */
#ifndef DVT_NODE_FUNCTIONS_H
#define DVT_NODE_FUNCTIONS_H

#include "../../proto/str.h"
#include "codemap.h"

enum { DVT_NODE_OTHER = 1, DVT_NODE_GC = 2, DVT_NODE_FIRST = 3, DVT_NODE_MAX_FUNCTIONS = 1 << 18 };

struct dvt_node_function_text {
    struct dvt_str name, file;
    uint32_t line, column; /* where it begins, from 1; 0: unknown */
};

/* The id of V8's text, made if it is new. Once there are too many: DVT_NODE_OTHER. */
uint32_t dvt_node_function(struct dvt_str text);
/* Its parts; they stay. */
struct dvt_node_function_text dvt_node_function_text(uint32_t id);
uint32_t dvt_node_functions_count(void);

/* What V8's text is of. */
enum dvt_node_kind dvt_node_kind(struct dvt_str text);
/* V8's text in its parts; they point into it. */
struct dvt_node_function_text dvt_node_parse(struct dvt_str text);

#endif
