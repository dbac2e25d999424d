/* library: see library.h. */
#include "library.h"
#include "query.h"

#include "../proto/chunk.h"

#include <string.h>

static bool begins_with(struct dvt_str s, const char *const *prefixes)
{
    for (; *prefixes; prefixes++) {
        size_t n = strlen(*prefixes);
        if (s.n >= n && memcmp(s.p, *prefixes, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_folder(struct dvt_str path)
{
    static const char *const folders[] = {"/lib/python3", "/dist-packages/", "/site-packages/", "/node_modules/", NULL};
    for (const char *const *f = folders; path.n && *f; f++) {
        if (memmem(path.p, path.n, *f, strlen(*f))) {
            return true;
        }
    }
    return false;
}

/* Without a file it is a stub or a builtin of the virtual machine. */
static bool has_managed(const struct tree_node *n)
{
    static const char *const classes[] = {"java.", "javax.", "jdk.", "sun.", "com.sun.", NULL};
    static const char *const modules[] = {"node:", "<frozen ", NULL};
    return n->module.n == 0 || begins_with(n->name, classes) || begins_with(n->module, modules) || has_folder(n->module);
}

bool library_has(const struct tree_node *n)
{
    static const char *const engines[] = {"v8::", "icu_", "node::", "Builtins_", NULL};
    if (n->kind != TREE_FRAME) {
        return false;
    }
    return query_is_managed(n->frame_kind) ? has_managed(n)
                                           : n->frame_kind == DVT_FRAME_NATIVE && begins_with(n->name, engines);
}
