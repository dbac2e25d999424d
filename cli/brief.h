/*
 * brief: the name of a C++ function without its parameters, template arguments and return type: what tells it to a reader, in a
 * tenth of the columns. "void v8::String::Write<char>(v8::String, int)" is "v8::String::Write".
 */
#ifndef BRIEF_H
#define BRIEF_H

#include "../proto/str.h"

/* The caller frees. NULL: nothing is to be left out, or it cannot be told what (operators, brackets without partner). */
char *brief_name(struct dvt_str name);

#endif
