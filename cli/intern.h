/*
 * intern: byte strings kept once: equal strings have equal pointers and equal indexes. Single thread.
 */
#ifndef INTERN_H
#define INTERN_H

#include "../proto/str.h"

struct intern;

struct intern *intern_new(void);
void intern_free(struct intern *s); /* NULL is fine */
/* The kept copy; lives until intern_free. The empty string is one string too. */
struct dvt_str intern(struct intern *s, struct dvt_str x);
/* The same as an index, dense from 0 in the order of coming; intern_at gives it back. */
uint32_t intern_index(struct intern *s, struct dvt_str x);
struct dvt_str intern_at(const struct intern *s, uint32_t index);
uint32_t intern_count(const struct intern *s);
size_t intern_bytes(const struct intern *s); /* of all strings */

#endif
