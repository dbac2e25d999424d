/* doctor_places: the daemon, the store, the shims: are they there and usable? See doctor.h. */
#include "alloc.h"
#include "control.h"
#include "doctor.h"
#include "places.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

void doctor_check_daemon(struct doctor_report *r, const char *socket)
{
    struct control c;
    struct dvt_err err = {0};
    char *program = places_daemon();
    if (control_open(&c, socket, &err) == 0) {
        doctor_add(r, DOCTOR_OK, "daemon", NULL, "answers at %s", c.path);
        control_close(&c);
    } else {
        doctor_add(r, DOCTOR_WARN, "daemon", "dovetaild &, or nothing: dovetail run starts one of its own",
                   "%s", err.text);
    }
    bool found = strchr(program, '/') != NULL;
    doctor_add(r, found ? DOCTOR_OK : DOCTOR_WARN, "dovetaild", "put dovetaild beside dovetail, or on PATH",
               found ? "%s" : "%s is not beside this program; PATH is searched", program);
    free(program);
}

/* The nearest folder above that exists. */
static char *existing(const char *dir)
{
    char *path = alloc_text(dir, strlen(dir));
    while (access(path, F_OK) && strrchr(path, '/') && strrchr(path, '/') != path) {
        *strrchr(path, '/') = 0;
    }
    if (access(path, F_OK)) {
        strcpy(path, path[0] == '/' ? "/" : ".");
    }
    return path;
}

void doctor_check_store(struct doctor_report *r, const char *dir)
{
    enum { LOW_BYTES = 256 << 20 };
    struct statvfs fs;
    char bytes[TEXT_NUMBER_MAX], *there = existing(dir);
    bool writable = access(there, W_OK | X_OK) == 0;
    bool made = strcmp(there, dir) == 0;
    doctor_add(r, writable ? DOCTOR_OK : DOCTOR_WARN, "store",
               "choose another with --store DIR (run: -o DIR), or chown it",
               writable ? (made ? "%s can be written" : "%s can be made")
                        : "%s cannot be written by this account",
               dir);
    if (statvfs(there, &fs) == 0) {
        unsigned long long space = (unsigned long long)fs.f_bavail * fs.f_frsize;
        text_bytes(space, bytes);
        doctor_add(r, space < LOW_BYTES ? DOCTOR_WARN : DOCTOR_OK, "free space",
                   "make room, or lower the daemon's --budget", "%s", bytes);
    }
    free(there);
}

/* "_dovetail.cpython-311-x86_64-linux-gnu.so" to "3.11". */
static bool version_of(const char *name, char *out, size_t cap)
{
    static const char before[] = "_dovetail.cpython-3";
    size_t n = strlen(before);
    if (strncmp(name, before, n) != 0) {
        return false;
    }
    snprintf(out, cap, "3.%.*s", (int)strcspn(name + n, "-"), name + n);
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* "3.9 3.10" in the order of names; the caller frees. */
static char *python_versions(const char *folder)
{
    struct dirent **entries;
    char *all = alloc_text("", 0), version[16];
    int n = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (version_of(entries[i]->d_name, version, sizeof version)) {
            char *longer = alloc_printf("%s%s%s", all, all[0] ? " " : "", version);
            free(all);
            all = longer;
        }
        free(entries[i]);
    }
    if (n >= 0) {
        free(entries);
    }
    return all;
}

void doctor_check_python(struct doctor_report *r)
{
    char *automatic = places_python_auto();
    if (!automatic) {
        doctor_add(r, DOCTOR_WARN, "python", "build it: cmake finds every python3 with headers (python3-dev)",
                   "the shim is not built: dovetail run sees no Python scopes");
        return;
    }
    char *folder = alloc_printf("%s/..", automatic), *versions = python_versions(folder);
    doctor_add(r, versions[0] ? DOCTOR_OK : DOCTOR_WARN, "python", "install python3-dev and build again",
               versions[0] ? "shims for CPython %s" : "the package is there, but no extension%s", versions);
    free(versions);
    free(folder);
    free(automatic);
}
