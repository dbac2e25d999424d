/*
 * node_signal: see node_signal.h. Sources: libuv's uv/unix.h, whose layouts belong to the interface of
 * libuv 1 (struct uv_signal_s), and src/unix/signal.c: a red-black tree with one node for each handle that listens.
 */
#include "node_signal.h"
#include "elf_symbol.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum { SIGNUM = 104, LEFT = 112, RIGHT = 120, HANDLE_BYTES = 128, MAX_HANDLES = 4096, MAX_PENDING = 128 };

/* ---- the process ---- */

static int find_tree(const struct target *t, uint64_t *ret, struct dvt_err *err)
{
    static const char *const name = "uv__signal_tree";
    int rc = elf_symbol_find(t, NULL, &name, ret, 1, err);
    if (rc == 0 && !*ret) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "whether it has a SIGUSR1 handler of its own cannot be told, since its program has no symbols: "
                      "start it with dovetail run -- COMMAND");
    }
    return rc;
}

static bool read_at(const struct target *t, uint64_t at, void *out, size_t n)
{
    struct iovec local = {out, n}, remote = {(void *)(uintptr_t)at, n};
    return process_vm_readv(t->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* The tree may change under our eyes: what cannot be read, or has no end, is not known. */
static int walk(const struct target *t, uint64_t tree, int signal, bool *ret)
{
    uint64_t pending[MAX_PENDING], left, right;
    int n = 1, seen = 0, number;
    uint8_t handle[HANDLE_BYTES];
    if (!read_at(t, tree, &pending[0], sizeof pending[0])) {
        return -1;
    }
    while (n > 0) {
        uint64_t at = pending[--n];
        if (!at) {
            continue;
        }
        if (++seen > MAX_HANDLES || n + 2 > MAX_PENDING || !read_at(t, at, handle, sizeof handle)) {
            return -1;
        }
        memcpy(&number, handle + SIGNUM, sizeof number);
        memcpy(&left, handle + LEFT, sizeof left);
        memcpy(&right, handle + RIGHT, sizeof right);
        if (number < 1 || number > 64) {
            return -1;
        }
        *ret |= number == signal;
        pending[n++] = left;
        pending[n++] = right;
    }
    return 0;
}

int node_signal_is_taken(const struct target *t, int signal, bool *ret, struct dvt_err *err)
{
    uint64_t tree = 0;
    bool taken = false;
    int rc = find_tree(t, &tree, err);
    if (rc == 0 && walk(t, tree, signal, &taken)) {
        rc = dvt_fail(err, DVT_EPERM, errno,
                      "whether it has a SIGUSR1 handler of its own cannot be told, since its memory cannot be read: run "
                      "dovetail as its user (with kernel.yama.ptrace_scope 0), or as root");
    }
    if (rc == 0) {
        *ret = taken;
    }
    return rc;
}
