/*
 * library: whether a frame is code of the runtime, its standard library or an installed package, and not the application's own.
 * Told by where its file lies or what its class is called; a guess in which nothing but the text output's folding relies.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "tree.h"

bool library_has(const struct tree_node *n);

#endif
