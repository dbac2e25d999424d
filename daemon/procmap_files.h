/*
 * procmap_files: the files that processes have mapped, each opened once for all of them. Layer 2, internal to
 * procmap.
 *
 * A file is opened through /proc/PID/map_files, which is by construction the mapped one, else (that needs a
 * capability) through /proc/PID/root and its path. A path may name another file by now, so what it gives is
 * accepted only if it is the mapping's inode: symbols of another file are worse than none. Shared by (device,
 * inode, size, mtime).
 */
#ifndef PROCMAP_FILES_H
#define PROCMAP_FILES_H

#include <stdint.h>

struct procmap_file;

struct procmap_range { /* of one mapping, as /proc/PID/maps has it */
    uint64_t start, end, offset;
    uint64_t dev, ino;
    const char *path;
};

/* A reference to the file mapped at r in pid. NULL if it cannot be opened, is not the mapped one, is not
 * regular, or too many are open. Any thread. */
struct procmap_file *procmap_file_open(uint32_t pid, const struct procmap_range *r);
/* The vdso, copied from the process's memory, or this process's own if it is of the same size (the kernel has
 * one image per ABI). */
struct procmap_file *procmap_file_open_vdso(uint32_t pid, const struct procmap_range *r);
void procmap_file_unref(struct procmap_file *f); /* NULL is fine */

int procmap_file_fd(const struct procmap_file *f);
uint64_t procmap_file_id(const struct procmap_file *f); /* never reused, never 0 */

#endif
