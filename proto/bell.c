/* bell: see bell.h. */
#include "bell.h"

#include <stddef.h>
#include <stdio.h>

socklen_t dvt_bell_address(pid_t inner_pid, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX}; /* sun_path[0] stays 0: an abstract name */
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "dovetail-bell-%d", (int)inner_pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

size_t dvt_bell_put(const struct dvt_bell *b, char *out)
{
    out[0] = b->op;
    if (b->op != DVT_BELL_WAKE)
        return 1;
    size_t n_socket = strlen(b->socket) + 1, n_service = strlen(b->service) + 1;
    if (n_socket > DVT_BELL_PATH + 1 || n_service > DVT_MAX_SERVICE + 1)
        return 0;
    memcpy(out + 1, b->socket, n_socket);
    memcpy(out + 1 + n_socket, b->service, n_service);
    return 1 + n_socket + n_service;
}

int dvt_bell_get(const char *p, size_t n, struct dvt_bell *ret)
{
    *ret = (struct dvt_bell){.op = n ? p[0] : 0, .socket = "", .service = ""};
    if (n == 1 && (ret->op == DVT_BELL_REPORT || ret->op == DVT_BELL_SLEEP))
        return 0;
    const char *end = n > 1 ? memchr(p + 1, 0, n - 1) : NULL;
    if (ret->op != DVT_BELL_WAKE || !end || p[n - 1] != 0 || end == p + n - 1 || memchr(end + 1, 0, n - (size_t)(end + 1 - p)) != p + n - 1)
        return DVT_EFORMAT;
    ret->socket = p + 1;
    ret->service = end + 1;
    bool fits = ret->socket[0] == '/' && (size_t)(end - ret->socket) <= DVT_BELL_PATH && strlen(ret->service) <= DVT_MAX_SERVICE;
    return fits ? 0 : DVT_EFORMAT;
}
