/*
 * listing: traces as a table, for `traces` and for the summary of `run`.
 */
#ifndef LISTING_H
#define LISTING_H

#include "catalog.h"
#include "text.h"

/* True if a trace in it was cut short (marked with "+" at its duration). */
bool listing_print(struct catalog *c, const struct catalog_list *list, const struct term *term, FILE *out);

#endif
