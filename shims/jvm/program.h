/*
 * program: what a JVM runs, by the property sun.java.command, which the java command sets: main class or jar, and arguments.
 */
#ifndef DVT_JVM_PROGRAM_H
#define DVT_JVM_PROGRAM_H

#include <stddef.h>

/* "a.b.Main" of "module/a.b.Main arg", "shop.jar" of "/opt/my app/shop.jar arg"; into out[cap], cut if it is longer. */
void dvt_jvm_program_of(const char *command, char *out, size_t cap);

#endif
