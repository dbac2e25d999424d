/* term: see term.h. */
#include "term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER } colour_mode; /* set once by the command line */

int term_set_colour(const char *when, struct dvt_err *err)
{
    if (strcmp(when, "always") == 0) {
        colour_mode = COLOUR_ALWAYS;
    } else if (strcmp(when, "never") == 0) {
        colour_mode = COLOUR_NEVER;
    } else if (strcmp(when, "auto") == 0) {
        colour_mode = COLOUR_AUTO;
    } else {
        return dvt_fail(err, DVT_EINVAL, 0, "--color takes always, never or auto, not \"%.40s\"", when);
    }
    return 0;
}

static bool colour_is_wanted(bool is_tty)
{
    const char *no = getenv("NO_COLOR"), *kind = getenv("TERM");
    if (colour_mode != COLOUR_AUTO) {
        return colour_mode == COLOUR_ALWAYS;
    }
    return is_tty && !(no && *no) && !(kind && strcmp(kind, "dumb") == 0);
}

static size_t columns_of(int fd)
{
    struct winsize w;
    const char *env = getenv("COLUMNS");
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20) {
        return w.ws_col;
    }
    long n = env ? strtol(env, NULL, 10) : 0;
    return n >= 20 && n < 10000 ? (size_t)n : 100;
}

struct term term_of(int fd)
{
    bool is_tty = isatty(fd) == 1;
    return (struct term){.colour = colour_is_wanted(is_tty), .columns = is_tty ? columns_of(fd) : 0};
}

const char *term_on(const struct term *t, enum term_style s)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "",         [TERM_BOLD] = "\033[1m",  [TERM_DIM] = "\033[2m",
        [TERM_HOT] = "\033[1;31m", [TERM_WARM] = "\033[33m", [TERM_GOOD] = "\033[32m",
        [TERM_BAD] = "\033[31m",   [TERM_NAME] = "\033[36m", [TERM_PLACE] = "\033[2m",
    };
    return t->colour ? codes[s] : "";
}

const char *term_off(const struct term *t, enum term_style s)
{
    return t->colour && s != TERM_PLAIN ? "\033[0m" : "";
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void term_progress_start(struct term_progress *p, const char *what, uint64_t total)
{
    *p = (struct term_progress){.what = what, .total = total, .is_off = isatty(STDERR_FILENO) != 1};
    p->started_ns = p->is_off ? 0 : now_ns();
}

void term_progress_at(struct term_progress *p, uint64_t done)
{
    enum { QUIET_NS = 300000000, STEP_NS = 100000000 };
    if (p->is_off || !p->total) {
        return;
    }
    uint64_t now = now_ns();
    if (now - p->started_ns < QUIET_NS || now - p->shown_ns < STEP_NS) {
        return;
    }
    p->shown_ns = now;
    p->is_shown = true;
    fprintf(stderr, "\r%s %3u%%", p->what, (unsigned)(done * 100 / p->total));
    fflush(stderr);
}

void term_progress_end(struct term_progress *p)
{
    if (p->is_shown) {
        fputs("\r\033[K", stderr);
    }
    p->is_shown = false;
}
