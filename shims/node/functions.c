/*
 * functions: see functions.h. Source of the texts: V8's src/logging/log.cc (CodeEventLogger): a tag and a colon, for
 * JavaScript a tier's mark (~ interpreted, ^ and = baseline, + and - and * optimised), the name, and after a space
 * the script with line and column. Tags: LazyCompile, Function, Script, Eval up to 10.x, which gives no column; JS since.
 */
#include "functions.h"

#include "../../proto/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 12, MAX_TEXT_BYTES = 64 << 20, MAX_DIGITS = 9 };

struct info {
    const char *text;
    uint32_t n, hash;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct info *infos; /* [n_infos] by id, 0 unused */
static uint32_t n_infos = DVT_NODE_FIRST, cap_infos;
static uint32_t *slots; /* hash table of ids */
static uint32_t n_slots;
static size_t text_bytes;

/* ---- texts ---- */

static struct dvt_str from(struct dvt_str s, size_t at)
{
    return (struct dvt_str){s.p + at, s.n - at};
}

static bool starts(struct dvt_str s, const char *with)
{
    size_t n = strlen(with);
    return s.n >= n && memcmp(s.p, with, n) == 0;
}

static bool is_javascript(struct dvt_str s)
{
    return starts(s, "JS:") || starts(s, "LazyCompile:") || starts(s, "Function:") || starts(s, "Script:") ||
           starts(s, "Eval:");
}

/* Without the tag; for JavaScript without the tier's mark. */
static struct dvt_str without_tag(struct dvt_str s)
{
    const char *colon = memchr(s.p, ':', s.n);
    if (!colon)
        return s;
    bool js = is_javascript(s);
    s = from(s, (size_t)(colon - s.p) + 1);
    while (js && s.n && strchr("~^=+-*'", s.p[0]) && s.p[0])
        s = from(s, 1);
    return s;
}

enum dvt_node_kind dvt_node_kind(struct dvt_str text)
{
    if (is_javascript(text))
        return DVT_NODE_JS;
    return starts(text, "BytecodeHandler:") ? DVT_NODE_BYTECODE_HANDLER : DVT_NODE_BUILTIN;
}

/* Takes ":123" off the end of s; 0 if there is none. */
static uint32_t take_number(struct dvt_str *s)
{
    size_t n = s->n;
    uint32_t value = 0, scale = 1;
    while (n > 0 && s->n - n < MAX_DIGITS && s->p[n - 1] >= '0' && s->p[n - 1] <= '9') {
        value += (uint32_t)(s->p[--n] - '0') * scale;
        scale *= 10;
    }
    if (n == s->n || n == 0 || s->p[n - 1] != ':')
        return 0;
    s->n = n - 1;
    return value;
}

/* Where the script's name begins: both names may hold spaces, a path begins by what paths begin with. */
static size_t find_file(struct dvt_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        struct dvt_str rest = from(s, i + 1);
        if (s.p[i] == ' ' && (starts(rest, "/") || starts(rest, "file:") || starts(rest, "node:")))
            return i;
    }
    for (size_t i = s.n; i > 0; i--)
        if (s.p[i - 1] == ' ')
            return i - 1;
    return s.n;
}

struct dvt_node_function_text dvt_node_parse(struct dvt_str text)
{
    struct dvt_node_function_text t = {.file = {"", 0}};
    bool js = is_javascript(text);
    t.name = without_tag(text);
    if (!js)
        return t;
    struct dvt_str place = t.name;
    uint32_t last = take_number(&place), before = last ? take_number(&place) : 0;
    t.line = before ? before : last;
    t.column = before ? last : 0;
    size_t space = find_file(place);
    t.name = (struct dvt_str){place.p, space};
    if (space < place.n)
        t.file = from(place, space + 1);
    if (starts(t.file, "file://"))
        t.file = from(t.file, strlen("file://"));
    if (!t.name.n)
        t.name = dvt_str(t.line == 1 && t.column == 1 ? "(module)" : "(anonymous)");
    return t;
}

/* ---- ids ---- */

static uint32_t hash_of(struct dvt_str s)
{
    uint32_t h = 0x811C9DC5u; /* FNV-1a */
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (uint8_t)s.p[i]) * 0x01000193u;
    return h;
}

static void put_slot(uint32_t id)
{
    uint32_t at = infos[id].hash & (n_slots - 1);
    while (slots[at])
        at = (at + 1) & (n_slots - 1);
    slots[at] = id;
}

static bool grow(void)
{
    if (n_infos < cap_infos)
        return true;
    uint32_t cap = cap_infos ? 2 * cap_infos : FIRST_SLOTS / 2;
    uint32_t *more_slots = calloc(2 * (size_t)cap, sizeof *more_slots);
    struct info *more = realloc(infos, cap * sizeof *more);
    if (more)
        infos = more;
    if (!more || !more_slots) {
        free(more_slots);
        return false;
    }
    free(slots);
    slots = more_slots;
    n_slots = 2 * cap;
    cap_infos = cap;
    for (uint32_t id = DVT_NODE_FIRST; id < n_infos; id++)
        put_slot(id);
    return true;
}

static uint32_t look_up(struct dvt_str s, uint32_t hash)
{
    for (uint32_t at = hash & (n_slots - 1); n_slots && slots[at]; at = (at + 1) & (n_slots - 1)) {
        const struct info *i = &infos[slots[at]];
        if (i->hash == hash && i->n == s.n && memcmp(i->text, s.p, s.n) == 0)
            return slots[at];
    }
    return 0;
}

static uint32_t add(struct dvt_str s, uint32_t hash)
{
    if (n_infos >= DVT_NODE_MAX_FUNCTIONS || text_bytes + s.n > MAX_TEXT_BYTES || !grow())
        return DVT_NODE_OTHER;
    char *copy = malloc(s.n + 1);
    if (!copy)
        return DVT_NODE_OTHER;
    memcpy(copy, s.p, s.n);
    text_bytes += s.n;
    infos[n_infos] = (struct info){copy, (uint32_t)s.n, hash};
    put_slot(n_infos);
    return n_infos++;
}

/* All tiers under one text: the tag that was first, without a mark. */
static struct dvt_str tierless(struct dvt_str text, char *buffer, size_t cap)
{
    if (!is_javascript(text))
        return text;
    struct dvt_str rest = without_tag(text);
    rest.n = rest.n < cap - 3 ? rest.n : cap - 3;
    memcpy(buffer, "JS:", 3);
    memcpy(buffer + 3, rest.p, rest.n);
    return (struct dvt_str){buffer, rest.n + 3};
}

uint32_t dvt_node_function(struct dvt_str text)
{
    char buffer[DVT_MAX_FRAME_NAME + DVT_MAX_PATH + 64];
    text.n = text.n < sizeof buffer ? text.n : sizeof buffer;
    struct dvt_str key = tierless(text, buffer, sizeof buffer);
    uint32_t hash = hash_of(key);
    pthread_mutex_lock(&lock);
    uint32_t id = look_up(key, hash);
    if (!id)
        id = add(key, hash);
    pthread_mutex_unlock(&lock);
    return id;
}

struct dvt_node_function_text dvt_node_function_text(uint32_t id)
{
    struct dvt_str text = dvt_str(id == DVT_NODE_GC ? "GC" : "(other functions)");
    if (id < DVT_NODE_FIRST)
        return (struct dvt_node_function_text){.name = text, .file = {"", 0}};
    pthread_mutex_lock(&lock);
    if (id < n_infos)
        text = (struct dvt_str){infos[id].text, infos[id].n};
    pthread_mutex_unlock(&lock);
    return dvt_node_parse(text);
}

uint32_t dvt_node_functions_count(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = n_infos - DVT_NODE_FIRST;
    pthread_mutex_unlock(&lock);
    return n;
}
