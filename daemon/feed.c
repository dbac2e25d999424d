/*
 * feed: see feed.h.
 */
#include "feed.h"

#include <stdlib.h>

struct feed *feed_new(enum feed_type type)
{
    struct feed *f = calloc(1, sizeof *f);
    if (f)
        f->type = type;
    return f;
}

void feed_free(void *feed)
{
    struct feed *f = feed;
    process_unref(f->process);
    free(f->sample);
    free(f->switches);
    if (f->release)
        f->release(f->owner);
    free(f);
}
