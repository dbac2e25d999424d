/*
 * inspector: see inspector.h. Sources: nodejs.org/api/debugger "SIGUSR1"; chromedevtools.github.io/devtools-protocol
 * (/json/list, Runtime.evaluate); RFC 6455. The port need not be 9229: it is the one that was not listened at before.
 */
#include "inspector.h"
#include "alloc.h"
#include "json.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_TIMEOUT_MS = 5000, ANSWER_TIMEOUT_S = 10, STEP_MS = 5, MAX_PORTS = 64, MAX_SOCKETS = 65536 };
enum { MAX_HTTP = 16 << 10, MAX_MESSAGE = 256 << 10, MAX_MESSAGES = 256 };

/* ---- ports ---- */

unsigned inspector_listening(const char *line, unsigned long *ret_inode)
{
    unsigned address, port, state;
    if (sscanf(line, " %*u: %8x:%4x %*8x:%*4x %2x %*s %*s %*s %*u %*d %lu", &address, &port, &state, ret_inode) != 4) {
        return 0;
    }
    return state == 0x0A && address == htonl(INADDR_LOOPBACK) ? port : 0;
}

static bool has_socket(const unsigned long *inodes, size_t n, unsigned long inode)
{
    for (size_t i = 0; i < n; i++) {
        if (inodes[i] == inode) {
            return true;
        }
    }
    return false;
}

static size_t sockets_of(pid_t pid, unsigned long **ret)
{
    char path[64];
    size_t n = 0, cap = 0;
    struct dirent *e;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    *ret = NULL;
    while (d && n < MAX_SOCKETS && (e = readdir(d))) {
        char link[64] = "";
        if (readlinkat(dirfd(d), e->d_name, link, sizeof link - 1) > 0) {
            alloc_grow(ret, &cap, n + 1, sizeof **ret);
            n += sscanf(link, "socket:[%lu]", &(*ret)[n]) == 1;
        }
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* The ports of the loopback at which the process listens. */
static size_t ports_of(pid_t pid, unsigned ports[MAX_PORTS])
{
    char path[64], line[512];
    unsigned long *inodes, inode;
    size_t n_inodes = sockets_of(pid, &inodes), n = 0;
    snprintf(path, sizeof path, "/proc/%d/net/tcp", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && n < MAX_PORTS && fgets(line, sizeof line, f)) {
        unsigned port = inspector_listening(line, &inode);
        if (port && has_socket(inodes, n_inodes, inode)) {
            ports[n++] = port;
        }
    }
    if (f) {
        fclose(f);
    }
    free(inodes);
    return n;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static unsigned new_port(pid_t pid, const unsigned *before, size_t n_before)
{
    unsigned now[MAX_PORTS];
    size_t n = ports_of(pid, now);
    for (size_t i = 0; i < n; i++) {
        bool is_old = false;
        for (size_t k = 0; k < n_before; k++) {
            is_old |= before[k] == now[i];
        }
        if (!is_old) {
            return now[i];
        }
    }
    return 0;
}

static unsigned open_inspector(const struct target *t)
{
    unsigned before[MAX_PORTS], port = 0;
    size_t n = ports_of(t->pid, before);
    if (!target_is_there(t) || kill(t->pid, SIGUSR1) != 0) {
        return 0;
    }
    for (int64_t end = now_ms() + OPEN_TIMEOUT_MS; !port && now_ms() < end;) {
        pause_ms(STEP_MS);
        port = new_port(t->pid, before, n);
    }
    return port;
}

/* Until it is closed: else the next call would take it for another's. */
static bool await_close(const struct target *t, unsigned port)
{
    bool is_open = true;
    for (int64_t end = now_ms() + OPEN_TIMEOUT_MS; is_open && now_ms() < end;) {
        unsigned now[MAX_PORTS];
        size_t n = ports_of(t->pid, now);
        is_open = false;
        for (size_t i = 0; i < n; i++) {
            is_open |= now[i] == port;
        }
        if (is_open) {
            pause_ms(STEP_MS);
        }
    }
    return !is_open;
}

/* ---- HTTP and WebSocket ---- */

static int connect_to(const struct target *t, unsigned port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {ANSWER_TIMEOUT_S, 0};
    int fd = target_socket(t, AF_INET, SOCK_STREAM);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (const struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool send_all(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *p, size_t n)
{
    return recv(fd, p, n, MSG_WAITALL) == (ssize_t)n;
}

/* What comes until `end`, the peer closes, or there is no room; NUL-terminated. */
static void receive_until(int fd, char *out, size_t cap, const char *end)
{
    size_t n = 0;
    while (n + 1 < cap) {
        ssize_t got = recv(fd, out + n, 1, 0);
        if (got <= 0) {
            break;
        }
        out[++n] = 0;
        if (strlen(end) <= n && strcmp(out + n - strlen(end), end) == 0) {
            break;
        }
    }
    out[n] = 0;
}

bool inspector_path(const char *answer, char *out, size_t cap)
{
    const char *key = strstr(answer, "\"webSocketDebuggerUrl\""), *url = key ? strstr(key, "ws://") : NULL;
    const char *path = url ? strchr(url + 5, '/') : NULL;
    size_t n = path ? strspn(path, "/-0123456789abcdefABCDEF") : 0;
    if (n < 2 || n >= cap || path[n] != '"') {
        return false;
    }
    memcpy(out, path, n);
    out[n] = 0;
    return true;
}

/* A connected WebSocket, or -1. */
static int open_socket(const struct target *t, unsigned port)
{
    char text[MAX_HTTP], path[64];
    int fd = connect_to(t, port);
    if (fd < 0) {
        return -1;
    }
    int n = snprintf(text, sizeof text, "GET /json/list HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", port);
    bool good = send_all(fd, text, (size_t)n);
    receive_until(fd, text, sizeof text, "} ]\n");
    close(fd);
    if (!good || !inspector_path(text, path, sizeof path) || (fd = connect_to(t, port)) < 0) {
        return -1;
    }
    n = snprintf(text, sizeof text,
                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 "Sec-WebSocket-Key: ZG92ZXRhaWwgYXR0YWNoIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                 path, port);
    good = send_all(fd, text, (size_t)n);
    receive_until(fd, text, sizeof text, "\r\n\r\n");
    if (!good || strncmp(text, "HTTP/1.1 101", 12) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* One text frame; a mask of zeros is a mask. */
static bool send_message(int fd, const char *text, size_t n)
{
    uint8_t head[14] = {0x81, 0x80 | 127};
    for (int i = 0; i < 8; i++) {
        head[2 + i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
    }
    return send_all(fd, head, sizeof head) && send_all(fd, text, n);
}

/* The next frame's bytes, NUL-terminated (the caller frees); NULL: the end, or too long a frame. */
static char *receive_message(int fd)
{
    uint8_t head[2], more[8];
    uint64_t n = 0;
    if (!receive_all(fd, head, sizeof head)) {
        return NULL;
    }
    size_t length_bytes = (head[1] & 127) == 127 ? 8 : (head[1] & 127) == 126 ? 2 : 0;
    if (length_bytes && !receive_all(fd, more, length_bytes)) {
        return NULL;
    }
    for (size_t i = 0; i < length_bytes; i++) {
        n = n << 8 | more[i];
    }
    n = length_bytes ? n : head[1] & 127u;
    if (n > MAX_MESSAGE) {
        return NULL;
    }
    char *text = alloc_bytes((size_t)n + 1);
    if (n && !receive_all(fd, text, (size_t)n)) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- evaluating ---- */

bool inspector_value(const char *message, char *out, size_t cap, bool *ret_threw)
{
    if (strncmp(message, "{\"id\":1,", 8) != 0) {
        return false;
    }
    *ret_threw = strstr(message, "\"exceptionDetails\"") || strstr(message, "{\"id\":1,\"error\"");
    const char *key = *ret_threw ? "\"description\":\"" : "\"value\":\"", *value = strstr(message, key);
    size_t n = 0;
    for (value = value ? value + strlen(key) : ""; value[n] && value[n] != '"' && value[n] != '\\' && n + 1 < cap; n++) {
        out[n] = value[n];
    }
    out[n] = 0;
    return true;
}

static bool send_expression(int fd, const char *expression)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) {
        alloc_fail();
    }
    fputs("{\"id\":1,\"method\":\"Runtime.evaluate\",\"params\":{\"includeCommandLineAPI\":true,\"returnByValue\":true,"
          "\"silent\":true,\"expression\":",
          out);
    json_string(out, dvt_str(expression));
    fputs("}}", out);
    if (fclose(out) != 0) {
        alloc_fail();
    }
    bool good = send_message(fd, text, n);
    free(text);
    return good;
}

static bool await_value(int fd, char *ret, bool *ret_threw)
{
    for (int i = 0; i < MAX_MESSAGES; i++) {
        char *message = receive_message(fd);
        bool found = message && inspector_value(message, ret, INSPECTOR_MAX_ANSWER, ret_threw);
        bool ended = !message;
        free(message);
        if (found || ended) {
            return found;
        }
    }
    return false;
}

int inspector_evaluate(const struct target *t, const char *expression, char ret[INSPECTOR_MAX_ANSWER],
                       struct dvt_err *err)
{
    bool threw = false;
    unsigned port = open_inspector(t);
    if (!port) {
        return dvt_fail(err, DVT_ESTATE, 0,
                        "its inspector did not open within %d s of SIGUSR1: it is open already, its port is in use, or "
                        "the program was built without",
                        OPEN_TIMEOUT_MS / 1000);
    }
    int fd = open_socket(t, port);
    if (fd < 0) {
        return dvt_fail(err, DVT_EIO, errno, "its inspector at 127.0.0.1:%u is open, but does not answer", port);
    }
    bool answered = send_expression(fd, expression) && await_value(fd, ret, &threw);
    close(fd);
    if (!answered) {
        return dvt_fail(err, DVT_EIO, 0, "its inspector at 127.0.0.1:%u is open, but does not evaluate", port);
    }
    if (!await_close(t, port)) {
        return dvt_fail(err, DVT_EIO, 0, "its inspector at 127.0.0.1:%u does not close", port);
    }
    return threw ? dvt_fail(err, DVT_ESTATE, 0, "it refused what was asked: %.150s", ret) : 0;
}
