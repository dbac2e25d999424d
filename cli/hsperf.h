/*
 * hsperf: what a HotSpot JVM tells of itself in its file of performance counters (hsperfdata_USER/PID in its
 * temporary folder), which needs no answer of the JVM: the format of jdk.internal.jvmstat, version 2.0. Its
 * bytes are the target's: they are bounded and copied, and change while they are read.
 */
#ifndef HSPERF_H
#define HSPERF_H

#include "target.h"

#include <stdint.h>

struct hsperf {
    bool is_ready;   /* the JVM has initialised, and an agent may be loaded */
    char *version;   /* java.property.java.version: "25.0.1"; all owned, NULL if not told */
    char *command;   /* sun.rt.javaCommand: main class or jar, and arguments */
    char *arguments; /* java.rt.vmArgs: of the command line, JAVA_TOOL_OPTIONS and option files; the JVM cuts
                        them at 1,024 bytes */
    char *capabilities; /* sun.rt.jvmCapabilities: the first is 1 where the attach mechanism is on */
};

enum { HSPERF_CUT = 1024 };

/* Pure. DVT_EFORMAT: it is no such file, or damaged. Entries not asked for are skipped. */
int hsperf_decode(const uint8_t *p, size_t n, struct hsperf *ret);
/* The target's, looked for in its folder tmp (an O_PATH descriptor). DVT_ENOENT: it keeps none. */
int hsperf_read(const struct target *t, int tmp, struct hsperf *ret);
void hsperf_fini(struct hsperf *h);

#endif
