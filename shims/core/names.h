/*
 * names: scope names interned for the life of the process. Lock-free; storage is static and touched as it
 * fills.
 */
#ifndef DVT_NAMES_H
#define DVT_NAMES_H

#include <stdatomic.h>

#include "dovetail.h"
#include "../../proto/limits.h"
#include "../../proto/str.h"

struct dvt_name {
    uint32_t id; /* 1 .. DVT_MAX_NAMES */
    uint32_t hash;
    uint32_t n;
    char text[DVT_MAX_NAME];
};

/* NULL when full. text is cut to DVT_MAX_NAME bytes. Async-signal-safe. */
const struct dvt_name *dvt_name_intern(const char *p, size_t n);
/* Names made so far: ids 1..count may be asked for (one that is just being made gives an empty string). */
uint32_t dvt_name_count(void);
struct dvt_str dvt_name_text(uint32_t id); /* 0: "(other)" */

#endif
