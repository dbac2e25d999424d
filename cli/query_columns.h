/* query_columns: query_all's fast way, over column files; see query.h and columns.h. */
#ifndef QUERY_COLUMNS_H
#define QUERY_COLUMNS_H

#include "columns.h"
#include "query.h"

/* True if column files can answer: no condition and no level that only chunks know. */
bool query_columns_can(const struct filter *f, const struct query_options *o);
/* As query_all. */
int query_columns(struct catalog *c, const struct filter *f, const struct query_options *o, struct tree *tree,
                  struct tree_meta *meta, struct dvt_err *err);

/* Adds what f picks of a view. is_live[n_chunks]: chunks that are still in the store and not read another
 * way. */
void query_columns_fold(const struct columns_view *v, const bool *is_live, const struct filter *f,
                        const struct query_options *o, struct tree *tree, struct tree_meta *meta);

#endif
