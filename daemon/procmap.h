/*
 * procmap: what a process has mapped, read from /proc, kept so that it outlives the process. Layer 2.
 *
 * Holds for each executable mapping its range, file offset, path, device, inode, and an open fd of the file
 * (through /proc/PID/map_files or /proc/PID/root, so that containers' files are the right ones), shared by
 * (device, inode, size, mtime). Bounded: mappings, fds. Thread-safe (own lock).
 */
#ifndef PROCMAP_H
#define PROCMAP_H

#include <stdbool.h>
#include <stdint.h>
#include "../proto/err.h"

struct procmap;

/* Reads host pid's maps. DVT_ENOENT if it is gone, DVT_EPERM. */
int procmap_new(uint32_t pid, struct procmap **ret, struct dvt_err *err);
void procmap_free(struct procmap *m);
/* Reads the maps again if addr lies in none and the last reading is older than 100 ms, or if force. New
 * mappings are added, replaced ranges cut. False if the process is gone. */
bool procmap_refresh(struct procmap *m, uint64_t addr, bool force, uint64_t now_ns);
/* To be called now and then while the process lives, so that what it loads later is known even if it is gone
 * before its samples are named. Reads the maps again 50 ms after a reading that found something new, then at
 * intervals that double up to 10 s. False if the process is gone. */
bool procmap_tick(struct procmap *m, uint64_t now_ns);

struct procmap_entry {
    uint64_t start, end, offset;
    uint32_t file;  /* index for procmap_fd, UINT32_MAX if anonymous */
    bool executable;
    const char *path; /* as the process sees it; "[vdso]", "[anon]" */
};
/* The mapping of addr; false if none. The entry's path lives as long as m. */
bool procmap_find(struct procmap *m, uint64_t addr, struct procmap_entry *ret);
int procmap_fd(struct procmap *m, uint32_t file); /* borrowed, -1 if it could not be opened */
/* Names the file daemon-wide: equal for two processes that map the same file, never reused; 0 if it could not
 * be opened. */
uint64_t procmap_fd_id(struct procmap *m, uint32_t file);

#endif
