/*
 * log: one line per event on stderr: level, a stable id, key=value pairs. Layer 0.
 *
 * Log once, where work is dropped or stopped. Each id may write a burst of lines per window; what is beyond
 * it is counted and told with the next line that passes. Thread-safe. Text from outside must be cleaned by
 * the caller.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR = 0, LOG_LEVEL_WARN = 1, LOG_LEVEL_INFO = 2, LOG_LEVEL_DEBUG = 3 };

enum { LOG_BURST = 10 };
#define LOG_WINDOW_NS 10000000000ull

struct log_limit { /* of one id */
    const char *id;
    uint64_t window_start_ns, n_in_window, n_suppressed;
};

/* True if a line may be written now; then *ret_suppressed is how many were not since the last one. Pure. */
bool log_limit_allow(struct log_limit *l, uint64_t now_ns, uint64_t *ret_suppressed);

void log_set_level(int level); /* before threads start */

/* id: a string literal such as "SESSION-UP". */
void log_event(int level, const char *id, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
