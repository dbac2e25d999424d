/* inject: see inject.h. Signals that would end this program are held back while the target is stopped. */
#include "inject.h"
#include "elf_symbol.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    XSTATE_BYTES = 16 << 10,  /* AVX-512 and AMX need some */
    BELOW_BYTES = 1024,       /* the 128 bytes below the stack pointer are the function's own (x86-64 ABI) */
    FUNCTION_BYTES = 160,     /* of glibc's poll and clock_nanosleep, at least */
    STEP_NS = 100000,
    STOP_NS = 1000000000,     /* longer in an uninterruptible wait: not now */
};

struct stopped {
    pid_t pid;
    struct user_regs_struct regs; /* as it was */
    uint8_t xstate[XSTATE_BYTES];
    size_t n_xstate;
    uint64_t since_ns;
    sigset_t signals; /* ours, before */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
}

/* ---- stopping ---- */

/* 1 stopped, 0 not within the time, -1 it has ended. */
static int await_stop(pid_t pid, uint64_t limit_ns, int *ret_status)
{
    struct timespec step = {0, STEP_NS};
    uint64_t end = now_ns() + limit_ns;
    for (;;) {
        pid_t got = waitpid(pid, ret_status, __WALL | WNOHANG);
        if (got == pid) {
            return WIFSTOPPED(*ret_status) ? 1 : -1;
        }
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        if (now_ns() > end) {
            return 0;
        }
        nanosleep(&step, NULL);
    }
}

static int save_state(struct stopped *s)
{
    struct iovec v = {s->xstate, sizeof s->xstate};
    if (ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs) != 0 ||
        ptrace(PTRACE_GETREGSET, s->pid, (void *)NT_X86_XSTATE, &v) != 0) {
        return -1;
    }
    s->n_xstate = v.iov_len;
    return v.iov_len < sizeof s->xstate ? 0 : -1;
}

static void let_go(struct stopped *s)
{
    (void)ptrace(PTRACE_DETACH, s->pid, NULL, NULL);
    sigprocmask(SIG_SETMASK, &s->signals, NULL);
}

static int refuse_seize(struct stopped *s, struct dvt_err *err)
{
    int no = errno;
    sigprocmask(SIG_SETMASK, &s->signals, NULL);
    if (no == ESRCH) {
        return dvt_fail(err, DVT_ENOENT, no, "it has just ended");
    }
    return dvt_fail(err, DVT_EPERM, no,
                    "it may not be traced: run dovetail as its user with kernel.yama.ptrace_scope 0, or as root "
                    "(CAP_SYS_PTRACE)");
}

/* A signal that it was stopped for beside ours is given back as it is let go. */
static int stop(struct stopped *s, pid_t pid, struct dvt_err *err)
{
    int status;
    s->pid = pid;
    hold_signals(&s->signals);
    s->since_ns = now_ns();
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0) {
        return refuse_seize(s, err);
    }
    int stopped = await_stop(pid, STOP_NS, &status);
    while (stopped == 1 && status >> 16 != PTRACE_EVENT_STOP) { /* a signal came first: it takes it */
        ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status));
        stopped = await_stop(pid, STOP_NS, &status);
    }
    if (stopped == 1 && save_state(s) == 0) {
        return 0;
    }
    let_go(s);
    return stopped < 0 ? dvt_fail(err, DVT_ENOENT, 0, "it has just ended")
                       : dvt_fail(err, DVT_ESTATE, 0, "its main thread waits for a device and cannot be stopped now: try again");
}

static int restore(struct stopped *s)
{
    struct iovec v = {s->xstate, s->n_xstate};
    bool has_vectors = ptrace(PTRACE_SETREGSET, s->pid, (void *)NT_X86_XSTATE, &v) == 0;
    bool has_regs = ptrace(PTRACE_SETREGS, s->pid, NULL, &s->regs) == 0; /* also if the others failed */
    return has_vectors && has_regs ? 0 : -1;
}

/* ---- calling ---- */

static bool write_memory(pid_t pid, uint64_t at, const void *p, size_t n)
{
    struct iovec local = {(void *)(uintptr_t)p, n}, remote = {(void *)(uintptr_t)at, n};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* Runs on until the call returns to address 0. Its signals are delivered meanwhile. -1: it has ended. */
static int await_return(struct stopped *s, struct user_regs_struct *regs)
{
    int status, signal = 0;
    for (;;) {
        if (ptrace(PTRACE_CONT, s->pid, NULL, (void *)(long)signal) != 0 ||
            waitpid(s->pid, &status, __WALL) != s->pid || !WIFSTOPPED(status) ||
            ptrace(PTRACE_GETREGS, s->pid, NULL, regs) != 0) {
            return -1;
        }
        if (WSTOPSIG(status) == SIGSEGV && regs->rip == 0) {
            return 0;
        }
        signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    }
}

static int call(struct stopped *s, uint64_t function, const uint64_t args[6], uint64_t *ret)
{
    struct user_regs_struct r = s->regs;
    uint64_t nowhere = 0;
    r.orig_rax = UINT64_MAX; /* no system call to go on with */
    r.rip = function;
    r.rax = 0;
    r.rdi = args[0], r.rsi = args[1], r.rdx = args[2], r.rcx = args[3], r.r8 = args[4], r.r9 = args[5];
    r.rsp = ((s->regs.rsp - BELOW_BYTES) & ~UINT64_C(15)) - sizeof nowhere;
    r.eflags &= ~UINT64_C(0x400); /* DF: clear at a call */
    if (!write_memory(s->pid, r.rsp, &nowhere, sizeof nowhere) || ptrace(PTRACE_SETREGS, s->pid, NULL, &r) != 0 ||
        await_return(s, &r)) {
        return -1;
    }
    *ret = r.rax;
    return 0;
}

/* ---- where it stands ---- */

static bool is_in_call(const struct stopped *s)
{
    int64_t rax = (int64_t)s->regs.rax; /* the kernel's ERESTART codes, or -EINTR */
    return (int64_t)s->regs.orig_rax >= 0 && ((rax <= -512 && rax >= -516) || rax == -EINTR);
}

/* A call with a timeout that was interrupted before goes on under a name that does not tell which it is: it may be the wait
 * for Python's lock. The function that makes it tells. */
static bool goes_on_waiting(const struct stopped *s, const struct inject_calls *c)
{
    return s->regs.orig_rax == SYS_restart_syscall &&
           (s->regs.rip - c->poll < FUNCTION_BYTES || s->regs.rip - c->clock_nanosleep < FUNCTION_BYTES);
}

/* Calls around which CPython gives its lock away. */
static bool gives_lock_away(uint64_t number)
{
    static const int calls[] = {SYS_read,       SYS_readv,      SYS_recvfrom,        SYS_recvmsg,   SYS_accept, SYS_accept4,
                                SYS_poll,       SYS_ppoll,      SYS_select,          SYS_pselect6,  SYS_wait4,  SYS_waitid,
                                SYS_epoll_wait, SYS_epoll_pwait, SYS_clock_nanosleep, SYS_nanosleep, SYS_sendto, SYS_write,
                                SYS_connect,    SYS_rt_sigtimedwait};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (number == (uint64_t)calls[i]) {
            return true;
        }
    }
    return false;
}

/* ---- running the source ---- */

static int run_now(struct stopped *s, const struct inject_calls *c, uint64_t source)
{
    uint64_t state, ignored;
    if (call(s, c->ensure, (const uint64_t[6]){0}, &state) || call(s, c->run, (const uint64_t[6]){source}, &ignored)) {
        return -1;
    }
    return call(s, c->release, (const uint64_t[6]){state}, &ignored);
}

static int run_later(struct stopped *s, const struct inject_calls *c, uint64_t source, bool *ret_full)
{
    uint64_t rc;
    if (call(s, c->add_pending, (const uint64_t[6]){c->run, source}, &rc)) {
        return -1;
    }
    *ret_full = (int)rc != 0;
    return 0;
}

/* -1: it has ended; else what run_later says. */
static int run(struct stopped *s, const struct inject_calls *c, struct inject_result *r, bool *ret_full)
{
    uint64_t holds_lock = 1;
    bool in_call = is_in_call(s);
    if (in_call && (gives_lock_away(s->regs.orig_rax) || goes_on_waiting(s, c)) &&
        call(s, c->check, (const uint64_t[6]){0}, &holds_lock)) {
        return -1;
    }
    r->is_pending = (int)holds_lock != 0;
    if (!r->is_pending) {
        return run_now(s, c, r->memory);
    }
    if (in_call && s->regs.orig_rax == SYS_futex) { /* waits for a lock: looks for pending calls, then waits again */
        s->regs.rax = (uint64_t)-EINTR;
        s->regs.orig_rax = UINT64_MAX;
    }
    return run_later(s, c, r->memory, ret_full);
}

static int place(struct stopped *s, const struct inject_calls *c, const char *source, struct inject_result *r)
{
    size_t n = strlen(source) + 1;
    r->memory_bytes = (n + 4095) & ~(size_t)4095;
    const uint64_t args[6] = {0, r->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    if (call(s, c->mmap, args, &r->memory)) {
        return -1;
    }
    return r->memory != UINT64_MAX && write_memory(s->pid, r->memory, source, n) ? 0 : 1;
}

static int run_here(const struct target *t, const struct inject_calls *calls, const char *source, struct inject_result *ret,
                    struct dvt_err *err)
{
    static struct stopped s;
    bool full = false;
    int rc = stop(&s, t->pid, err);
    if (rc) {
        return rc;
    }
    int placed = place(&s, calls, source, ret);
    int ran = placed ? placed : run(&s, calls, ret, &full);
    bool lost = ran < 0 || restore(&s) != 0;
    ret->stopped_ns = now_ns() - s.since_ns;
    let_go(&s);
    if (lost) {
        return dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
    }
    return placed || full ? dvt_fail(err, DVT_ESTATE, 0, "it has no memory or too many pending calls: try again") : 0;
}

static int free_here(const struct target *t, const struct inject_calls *calls, struct inject_result *r, struct dvt_err *err)
{
    static struct stopped s;
    uint64_t ignored;
    int rc = stop(&s, t->pid, err);
    if (rc) {
        return rc;
    }
    rc = call(&s, calls->munmap, (const uint64_t[6]){r->memory, r->memory_bytes}, &ignored) || restore(&s) ? DVT_ENOENT : 0;
    r->stopped_ns += now_ns() - s.since_ns;
    let_go(&s);
    return rc ? dvt_fail(err, rc, 0, "it has just ended") : 0;
}

/* ---- a process for it ---- */

struct outcome {
    int rc;
    struct inject_result result;
    struct dvt_err err;
};

static void run_child(int fd, const struct target *t, const struct inject_calls *calls, const char *source,
                      const struct inject_result *before)
{
    struct outcome o = {.result = *before};
    o.rc = source ? run_here(t, calls, source, &o.result, &o.err) : free_here(t, calls, &o.result, &o.err);
    _exit(write(fd, &o, sizeof o) == (ssize_t)sizeof o ? 0 : 1);
}

/* The tracer is a process of its own: whatever it left undone, the kernel lets the target go as it ends. */
static int in_child(const struct target *t, const struct inject_calls *calls, const char *source, struct inject_result *r,
                    struct dvt_err *err)
{
    struct outcome o = {.rc = DVT_EIO};
    int ends[2], status;
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        return dvt_fail(err, DVT_EIO, errno, "cannot start a process: %s", strerror(errno));
    }
    if (child == 0) {
        run_child(ends[1], t, calls, source, r);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &o, sizeof o);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (got != (ssize_t)sizeof o) {
        return dvt_fail(err, DVT_EIO, 0, "the process that traces it failed");
    }
    *r = o.result;
    if (o.rc && err) {
        *err = o.err;
    }
    return o.rc;
}

int inject_run(const struct target *t, const struct inject_calls *calls, const char *source, struct inject_result *ret,
               struct dvt_err *err)
{
    *ret = (struct inject_result){0};
    return in_child(t, calls, source, ret, err);
}

int inject_free(const struct target *t, const struct inject_calls *calls, struct inject_result *r, struct dvt_err *err)
{
    return in_child(t, calls, NULL, r, err);
}

/* ---- symbols ---- */

enum { PYTHON_CALLS = 5 };

static int find_python(const struct target *t, uint64_t at[PYTHON_CALLS], struct dvt_err *err)
{
    static const char *const names[PYTHON_CALLS] = {"PyRun_SimpleString", "Py_AddPendingCall", "PyGILState_Ensure",
                                                    "PyGILState_Release", "PyGILState_Check"};
    char *library = target_mapped(t, "libpython3");
    int rc = elf_symbol_find(t, library ? "libpython3" : NULL, names, at, PYTHON_CALLS, err);
    free(library);
    for (size_t i = 0; rc == 0 && i < PYTHON_CALLS; i++) {
        if (!at[i]) {
            rc = dvt_fail(err, DVT_ESTATE, 0, "its Python has no function %s: it is built in a way of its own", names[i]);
        }
    }
    return rc;
}

int inject_find(const struct target *t, struct inject_calls *ret, struct dvt_err *err)
{
    static const char *const libc[] = {"mmap", "munmap", "poll", "clock_nanosleep"};
    uint64_t python[PYTHON_CALLS], c[4];
    char *found = target_mapped(t, "libc.so.6");
    free(found);
    if (!found) {
        return dvt_fail(err, DVT_ESTATE, 0, "it does not use the GNU C library, for which the shim is built");
    }
    int rc = find_python(t, python, err);
    rc = rc ? rc : elf_symbol_find(t, "libc.so.6", libc, c, 4, err);
    if (rc == 0 && !(c[0] && c[1] && c[2] && c[3])) {
        rc = dvt_fail(err, DVT_ESTATE, 0, "its C library lacks functions: it is not the GNU C library as it is known");
    }
    if (rc == 0) {
        *ret = (struct inject_calls){python[0], python[1], python[2], python[3], python[4], c[0], c[1], c[2], c[3]};
    }
    return rc;
}

#else

static int refuse(struct dvt_err *err)
{
    return dvt_fail(err, DVT_ESTATE, 0, "Python is attached to on x86-64 only: start it with dovetail run -- COMMAND");
}

int inject_find(const struct target *t, struct inject_calls *ret, struct dvt_err *err)
{
    (void)t, (void)ret;
    return refuse(err);
}

int inject_run(const struct target *t, const struct inject_calls *calls, const char *source, struct inject_result *ret,
               struct dvt_err *err)
{
    (void)t, (void)calls, (void)source, (void)ret;
    return refuse(err);
}

int inject_free(const struct target *t, const struct inject_calls *calls, struct inject_result *r, struct dvt_err *err)
{
    (void)t, (void)calls, (void)r;
    return refuse(err);
}

#endif
