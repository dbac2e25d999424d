/* args: see args.h. */
#include "args.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR_MAX_EDITS = 2, WORD_MAX = 48, KNOWN_MAX = 64 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, replace) from a to b; SIZE_MAX for words too long to be ours. */
static size_t edits(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[WORD_MAX + 1];
    if (n > WORD_MAX || m > WORD_MAX) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j];
            row[j] = smallest(up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[m];
}

const char *args_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t best_edits = SIZE_MAX, length = strlen(word);
    for (size_t i = 0; i < n; i++) {
        bool begins = length >= 2 && strncmp(names[i], word, length) == 0;
        size_t d = begins ? 1 : edits(word, names[i]);
        if (d < best_edits) {
            best = names[i];
            best_edits = d;
        }
    }
    return best_edits <= NEAR_MAX_EDITS ? best : NULL;
}

static int unknown(const struct args *a, const char *word, struct dvt_err *err)
{
    const char *names[KNOWN_MAX];
    size_t n = 0;
    for (int t = 0; t < ARGS_TABLES; t++) {
        for (const struct args_option *o = a->tables[t]; o && o->name && n < KNOWN_MAX; o++) {
            names[n++] = o->name;
        }
    }
    const char *near = args_nearest(word, names, n);
    if (near) {
        return dvt_fail(err, DVT_EINVAL, 0, "unknown option %s; did you mean %s?", word, near);
    }
    return dvt_fail(err, DVT_EINVAL, 0, "unknown option %s; --help lists them", word);
}

static const struct args_option *find(const struct args *a, const char *name, size_t length, char letter)
{
    for (int t = 0; t < ARGS_TABLES; t++) {
        for (const struct args_option *o = a->tables[t]; o && o->name; o++) {
            bool by_name = name && strlen(o->name) == length && strncmp(o->name, name, length) == 0;
            if (by_name || (!name && o->letter == letter)) {
                return o;
            }
        }
    }
    return NULL;
}

/* attached: the value in the same word, or NULL. */
static int take_value(struct args *a, const struct args_option *o, const char *attached,
                      const char **ret_value, struct dvt_err *err)
{
    if (!o->argument) {
        *ret_value = NULL;
        return attached ? dvt_fail(err, DVT_EINVAL, 0, "%s takes no value", o->name) : o->id;
    }
    if (!attached && a->at >= a->argc) {
        return dvt_fail(err, DVT_EINVAL, 0, "%s needs a value: %s %s", o->name, o->name, o->argument);
    }
    *ret_value = attached ? attached : a->argv[a->at++];
    return o->id;
}

static int long_option(struct args *a, const char *word, const char **ret_value, struct dvt_err *err)
{
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct args_option *o = find(a, word, length, 0);
    return o ? take_value(a, o, equals ? equals + 1 : NULL, ret_value, err) : unknown(a, word, err);
}

static int short_option(struct args *a, const char *word, const char **ret_value, struct dvt_err *err)
{
    const struct args_option *o = find(a, NULL, 0, word[1]);
    return o ? take_value(a, o, word[2] ? word + 2 : NULL, ret_value, err) : unknown(a, word, err);
}

int args_next(struct args *a, const char **ret_value, struct dvt_err *err)
{
    if (a->at >= a->argc) {
        return ARGS_END;
    }
    const char *word = a->argv[a->at++];
    if (!a->only_other && strcmp(word, "--") == 0) {
        a->only_other = true;
        return args_next(a, ret_value, err);
    }
    if (a->only_other || word[0] != '-' || !word[1]) {
        a->only_other = a->only_other || a->stop_at_other;
        *ret_value = word;
        return ARGS_OTHER;
    }
    return word[1] == '-' ? long_option(a, word, ret_value, err) : short_option(a, word, ret_value, err);
}

void args_print(const struct args_option *table, FILE *out)
{
    for (const struct args_option *o = table; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%s %s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? "," : " ", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        fprintf(out, "  %-26s  %s\n", left, o->help);
    }
}

int args_number(const char *text, unsigned long min, unsigned long max, const char *what, unsigned long *ret,
                struct dvt_err *err)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || v < min || v > max) {
        return dvt_fail(err, DVT_EINVAL, 0, "%s takes a number from %lu to %lu, not \"%.40s\"", what, min,
                        max, text);
    }
    *ret = v;
    return 0;
}
