/*
 * chunk_check: the rules that hold between the tables of a struct dvt_chunk. Used on both sides of the codec,
 * so that nothing is written that could not be read, and nothing read has an index out of range or an endless
 * parent chain.
 */
#ifndef DVT_CHUNK_CHECK_H
#define DVT_CHUNK_CHECK_H

#include "chunk.h"

enum {
    DVT_CHUNK_MAJOR = 1,
    DVT_CHUNK_MINOR = 0,
    DVT_CHUNK_MAX_STRING = 1024, /* bytes: DVT_MAX_TAG, DVT_MAX_PATH */
    DVT_CHUNK_MAX_LINE = (1 << 28) - 1
};

/* 0; code (DVT_EINVAL or DVT_EFORMAT) for a broken rule; DVT_ENOMEM. */
int dvt_chunk_check(const struct dvt_chunk *c, int code, struct dvt_err *err);

#endif
