/*
 * dovetail.h: the C API of libdovetail. A service marks on which thread it works for which trace, and
 * Dovetail's daemon shows where each trace spent its time, in code.
 *
 *     dvt_start(NULL);
 *     struct dvt_scope s = dvt_scope_open(
 *         &(struct dvt_scope_args){.name = "checkout", .traceparent = header});
 *     ...
 *     dvt_label("tenant", "acme");
 *     dvt_scope_close(s);
 *
 * Every function is safe to call with no daemon running, before dvt_start and after dvt_stop, from any thread
 * and in a forked child: it then does nothing, cheaply. Nothing here blocks, allocates, locks or calls the
 * kernel on the open/close path, except once per thread at its first scope. errno is preserved.
 * Link: pkg-config --cflags --libs dovetail.
 */
#ifndef DOVETAIL_H
#define DOVETAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DVT_API __attribute__((visibility("default")))

struct dvt_options {
    const char *socket;       /* control socket; NULL: $DOVETAIL_SOCKET, else the default places */
    const char *service;      /* NULL: $DOVETAIL_SERVICE, $OTEL_SERVICE_NAME, $OTEL_RESOURCE_ATTRIBUTES, the program */
    const char *tag_template; /* NULL: $DOVETAIL_TAG, else "{trace}/{span}/{name}" */
    bool dormant;             /* record nothing until dvt_wake or dovetail attach */
};

/* Starts the sender thread, which connects to the daemon and reconnects for ever, within a second of its
 * return. options may be NULL. 0, or -1 with errno: EINVAL for a bad template (the reason on dvt_last_error),
 * EAGAIN if the thread could not be made, ECANCELED if DOVETAIL=off. A second start is 0, changes nothing.
 * From then on dovetail detach puts it to sleep and dovetail attach wakes it. A forked child begins with its first scope, a
 * dormant one with a start of its own. */
DVT_API int dvt_start(const struct dvt_options *options);
/* Sends what there is (at most timeout_ms), says goodbye and ends the sender thread. Also runs at exit with
 * 500 ms. */
DVT_API void dvt_stop(int timeout_ms);
DVT_API void dvt_wake(void);
DVT_API const char *dvt_last_error(void);

struct dvt_label_arg {
    const char *key, *value;
};

/* All pointers are borrowed until dvt_scope_open returns. */
struct dvt_scope_args {
    const char *name;         /* cut to 256 bytes; NULL: "" */
    const char *traceparent;  /* W3C header; wins over ids; a bad one is ignored and counted */
    const uint8_t *trace_id;  /* [16], or NULL: the enclosing scope's, else a new random one */
    const uint8_t *span_id;   /* [8], or NULL: a new random one */
    const uint8_t *parent_span_id; /* [8], or NULL: the enclosing scope's */
    const struct dvt_label_arg *labels; /* [n_labels], up to 16 */
    size_t n_labels;
    bool always;                        /* keep even if no sample falls inside */
    const char *const *links; /* [n_links] traceparents of other traces this scope works for (fan-in) */
    size_t n_links;
    const struct dvt_name *interned;    /* instead of name: faster; see dvt_name */
};

/* A name that is used again and again, interned once for the life of the process: dropped scopes are counted
 * by it for free. NULL when the table (4,096) is full; a scope opened with NULL counts under "(other)". */
struct dvt_name;
DVT_API const struct dvt_name *dvt_name(const char *name);

struct dvt_scope { /* a value: copy it freely, close it once */
    void *thread;
    uint64_t serial;
};

/* Opens a scope on the calling thread. It nests in the thread's current scope. */
DVT_API struct dvt_scope dvt_scope_open(const struct dvt_scope_args *args);
/* Closes it. Keeps it only if a sample fell inside (or always). Closing out of order, on another thread, or
 * twice is safe and counted. */
DVT_API void dvt_scope_close(struct dvt_scope scope);
/* Closes it and keeps it in any case. */
DVT_API void dvt_scope_close_always(struct dvt_scope scope);

/* Sets a label on the calling thread's innermost open scope, for its whole length: a tenant learned in the
 * middle of a request counts from its start. Over 16 labels or over-long ones are cut and counted. */
DVT_API void dvt_label(const char *key, const char *value);
DVT_API void dvt_scope_label(struct dvt_scope scope, const char *key, const char *value);

/* Writes the traceparent of the innermost open scope for an outgoing call: 55 bytes and NUL. False without a
 * scope. */
DVT_API bool dvt_traceparent(char out[56]);

/* Optional, at the start of a thread that will soon open a scope: has it armed before its first scope. */
DVT_API void dvt_thread_start(void);

/* Whether scopes are recorded now. Not yours to write: it lets C and C++ code do nothing without a call. */
extern DVT_API uint32_t dvt_recording;

#if defined(__GNUC__) &&                                                                                     \
    !defined(DVT_NO_INLINE) /* the functions above are still there, for other languages and for pointers */
struct dvt_scope dvt_scope_open_called(const struct dvt_scope_args *args) __asm__("dvt_scope_open");
void dvt_scope_close_called(struct dvt_scope scope) __asm__("dvt_scope_close");

extern __inline__ __attribute__((__gnu_inline__)) struct dvt_scope
dvt_scope_open(const struct dvt_scope_args *args)
{
    struct dvt_scope none = {0, 0};
    return __atomic_load_n(&dvt_recording, __ATOMIC_RELAXED) ? dvt_scope_open_called(args) : none;
}

extern __inline__ __attribute__((__gnu_inline__)) void dvt_scope_close(struct dvt_scope scope)
{
    if (scope.thread)
        dvt_scope_close_called(scope);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
