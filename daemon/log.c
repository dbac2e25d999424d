/*
 * log: see log.h. The only mutable globals are the level and the table of rate limits, under one lock.
 */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_IDS = 64, LINE_BYTES = 1024 };

static int level_max = LOG_LEVEL_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit limits[MAX_IDS]; /* lock */

bool log_limit_allow(struct log_limit *l, uint64_t now_ns, uint64_t *ret_suppressed)
{
    if (now_ns - l->window_start_ns >= LOG_WINDOW_NS) {
        l->window_start_ns = now_ns;
        l->n_in_window = 0;
    }
    if (l->n_in_window >= LOG_BURST) {
        l->n_suppressed++;
        return false;
    }
    l->n_in_window++;
    *ret_suppressed = l->n_suppressed;
    l->n_suppressed = 0;
    return true;
}

void log_set_level(int level)
{
    level_max = level;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ids beyond the table share its last entry. */
static struct log_limit *find_limit(const char *id)
{
    for (int i = 0; i < MAX_IDS - 1; i++) {
        if (!limits[i].id)
            limits[i] = (struct log_limit){.id = id, .window_start_ns = now_ns()};
        if (strcmp(limits[i].id, id) == 0)
            return &limits[i];
    }
    return &limits[MAX_IDS - 1];
}

static bool allowed(const char *id, uint64_t *ret_suppressed)
{
    pthread_mutex_lock(&lock);
    bool ok = log_limit_allow(find_limit(id), now_ns(), ret_suppressed);
    pthread_mutex_unlock(&lock);
    return ok;
}

void log_event(int level, const char *id, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    uint64_t suppressed = 0;
    if (level > level_max || !allowed(id, &suppressed))
        return;

    char line[LINE_BYTES];
    int n = snprintf(line, sizeof line, "%s %s ", id, names[level]);
    va_list args;
    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    va_end(args);
    if (suppressed && n < LINE_BYTES)
        n += snprintf(line + n, sizeof line - (size_t)n, " suppressed=%llu", (unsigned long long)suppressed);
    if (n > LINE_BYTES - 1)
        n = LINE_BYTES - 1;
    line[n] = '\n'; /* over the NUL: one write a line, so that threads do not mix */
    if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
        return; /* nowhere to tell */
}
