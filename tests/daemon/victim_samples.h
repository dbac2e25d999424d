/*
 * victim_samples: starts a program and takes samples of it by perf, without the daemon's own sampler. For
 * test_symbols and bench_symbols. Cpu-clock, user registers and stack bytes, kernel call chain.
 */
#ifndef VICTIM_SAMPLES_H
#define VICTIM_SAMPLES_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../daemon/perf_open.h"
#include "../../daemon/procmap.h"
#include "../../daemon/process.h"
#include "../../daemon/sample.h"

enum { RING_PAGES = 128, PAGE_BYTES = 4096, VICTIM_MAX_SAMPLES = 4000 };

struct victim {
    pid_t pid;
    struct process process;
    struct sample *samples[VICTIM_MAX_SAMPLES];
    uint32_t n_samples;
    int perf_errno; /* why it could not be sampled */
};

/* Layout of REGS_USER and STACK_USER behind CALLCHAIN: <linux/perf_event.h>. */
static struct sample *victim_decode(const uint64_t *p)
{
    struct sample *s = calloc(1, sizeof *s + 512 * 8 + SAMPLE_MAX_REGS * 8 + 65536);
    uint64_t n_chain = *p++;
    s->ips = (uint64_t *)(s + 1);
    s->regs = s->ips + 512;
    s->stack = (uint8_t *)(s->regs + SAMPLE_MAX_REGS);
    for (uint64_t i = 0; i < n_chain && i < 512; i++)
        s->ips[s->n_ips++] = p[i];
    s->n_kernel = s->n_ips; /* the user part is not asked for */
    p += n_chain;
    if (*p++ != PERF_SAMPLE_REGS_ABI_NONE) {
        s->n_regs = (uint32_t)__builtin_popcountll(PERF_OPEN_REGS_MASK);
        memcpy(s->regs, p, s->n_regs * sizeof *p);
        p += s->n_regs;
    }
    uint64_t n_stack = *p++;
    memcpy(s->stack, p, n_stack);
    s->n_stack = n_stack ? (uint32_t)p[n_stack / 8] : 0;
    return s;
}

static int victim_open_event(pid_t pid, uint32_t stack_bytes, bool kernel, bool on_exec)
{
    struct perf_event_attr a = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof a,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 1000000,
        .sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = PERF_OPEN_REGS_MASK,
        .sample_stack_user = stack_bytes,
        .exclude_callchain_user = 1,
        .exclude_kernel = !kernel,
        .disabled = on_exec,
        .enable_on_exec = on_exec,
        .wakeup_events = 8,
    };
    return (int)syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Takes what the ring holds, until n samples are there. */
static void victim_drain(struct victim *v, struct perf_event_mmap_page *ring, uint32_t n)
{
    const uint8_t *data = (const uint8_t *)ring + PAGE_BYTES;
    uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE), tail = ring->data_tail;
    static uint64_t record[8192 + 65536 / 8];
    while (tail < head) {
        struct perf_event_header h;
        for (size_t i = 0; i < sizeof h; i++)
            ((uint8_t *)&h)[i] = data[(tail + i) % (RING_PAGES * PAGE_BYTES)];
        for (size_t i = 0; i < h.size; i++)
            ((uint8_t *)record)[i] = data[(tail + i) % (RING_PAGES * PAGE_BYTES)];
        if (h.type == PERF_RECORD_SAMPLE && v->n_samples < n)
            v->samples[v->n_samples++] = victim_decode(record + 1);
        tail += h.size;
    }
    __atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
}

static void victim_collect(struct victim *v, int fd, uint32_t n)
{
    struct perf_event_mmap_page *ring =
        mmap(NULL, (RING_PAGES + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) {
        v->perf_errno = errno;
        return;
    }
    struct pollfd p = {fd, POLLIN, 0};
    while (v->n_samples < n && poll(&p, 1, 10000) > 0 && !(p.revents & POLLHUP))
        victim_drain(v, ring, n);
    munmap(ring, (RING_PAGES + 1) * PAGE_BYTES);
}

/* A thread of the process other than its first; 0 while there is none. */
static pid_t victim_second_thread(pid_t pid)
{
    char path[64];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        pid_t tid = (pid_t)atoi(e->d_name);
        if (tid > 0 && tid != pid)
            found = tid;
    }
    if (d)
        closedir(d);
    return found;
}

/* Starts argv, samples its main thread (or, second_thread, the one it makes) n times, reads its map. The
 * program runs until victim_stop. */
static void victim_start(struct victim *v, char *const argv[], uint32_t stack_bytes, bool kernel,
                         bool second_thread, uint32_t n)
{
    int go[2], exec[2];
    memset(v, 0, sizeof *v);
    if (pipe(go) || pipe2(exec, O_CLOEXEC))
        abort();
    v->pid = fork();
    if (v->pid == 0) {
        char byte;
        if (read(go[0], &byte, 1) == 1)
            execvp(argv[0], argv);
        _exit(127);
    }
    int fd = second_thread ? -1 : victim_open_event(v->pid, stack_bytes, kernel, true);
    if (fd < 0 && !second_thread)
        v->perf_errno = errno;
    close(exec[1]);
    /* Closed by the exec: before it the process may have threads of this program (a sanitizer's). */
    if (write(go[1], "g", 1) != 1 || read(exec[0], &(char){0}, 1) != 0)
        abort();
    close(exec[0]);
    close(go[0]);
    close(go[1]);
    while (second_thread && fd < 0 && !v->perf_errno && !waitpid(v->pid, NULL, WNOHANG)) {
        pid_t tid = victim_second_thread(v->pid);
        fd = tid ? victim_open_event(tid, stack_bytes, kernel, false) : -1;
        v->perf_errno = tid && fd < 0 ? errno : 0;
    }
    if (fd >= 0)
        victim_collect(v, fd, n);
    if (fd >= 0)
        close(fd);
    v->process.host_pid = (uint32_t)v->pid;
    if (procmap_new((uint32_t)v->pid, &v->process.map, NULL))
        v->process.map = NULL;
}

static void victim_stop(struct victim *v)
{
    kill(v->pid, SIGKILL);
    waitpid(v->pid, NULL, 0);
}

static void victim_free(struct victim *v)
{
    for (uint32_t i = 0; i < v->n_samples; i++)
        free(v->samples[i]);
    procmap_free(v->process.map);
}

#endif
