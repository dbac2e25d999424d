/* places: see places.h. */
#include "places.h"
#include "alloc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DOVETAIL_LIBDIR
#define DOVETAIL_LIBDIR "lib"
#endif

/* The folder of this program, without its last slash. */
static char *own_folder(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) {
        return alloc_text(".", 1);
    }
    path[n] = 0;
    char *slash = strrchr(path, '/');
    return slash ? alloc_text(path, (size_t)(slash - path)) : alloc_text(".", 1);
}

char *places_daemon(void)
{
    char *folder = own_folder(), *path = alloc_printf("%s/dovetaild", folder);
    free(folder);
    if (access(path, X_OK) == 0) {
        return path;
    }
    free(path);
    return alloc_text("dovetaild", strlen("dovetaild"));
}

/* The first of two places, relative to this program's folder, that is there. */
static char *find(const char *built, const char *installed)
{
    const char *const places[] = {built, installed};
    char *folder = own_folder(), *found = NULL;
    for (size_t i = 0; i < 2 && !found; i++) {
        char *path = alloc_printf("%s/%s", folder, places[i]);
        found = realpath(path, NULL);
        free(path);
    }
    free(folder);
    return found;
}

char *places_python_auto(void)
{
    return find("../lib/python/dovetail/_auto", "../" DOVETAIL_LIBDIR "/dovetail/python/dovetail/_auto");
}

char *places_jvm_agent(void)
{
    return find("../lib/libdovetail_jvm.so", "../" DOVETAIL_LIBDIR "/libdovetail_jvm.so");
}

char *places_node_package(void)
{
    return find("../lib/node/dovetail", "../" DOVETAIL_LIBDIR "/dovetail/node/dovetail");
}
