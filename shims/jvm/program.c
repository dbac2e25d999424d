/* program: see program.h. */
#include "program.h"

#include <string.h>

/* A jar's path may have blanks: it ends at the first ".jar" before one, or at the end. */
static size_t jar_length(const char *command)
{
    for (const char *p = command; (p = strstr(p, ".jar")) != NULL; p++)
        if (p[4] == 0 || p[4] == ' ')
            return (size_t)(p + 4 - command);
    return 0;
}

/* A class's name has no '/', but for its module's; so what has one in its first word and goes on to a .jar is a path. */
void dvt_jvm_program_of(const char *command, char *out, size_t cap)
{
    size_t word = strcspn(command, " "), jar = jar_length(command);
    size_t n = jar && (jar <= word || memchr(command, '/', word)) ? jar : word;
    const char *begin = command;
    for (size_t i = 0; i < n; i++)
        begin = command[i] == '/' ? command + i + 1 : begin;
    n -= (size_t)(begin - command);
    n = n < cap - 1 ? n : cap - 1;
    memcpy(out, begin, n);
    out[n] = 0;
}
