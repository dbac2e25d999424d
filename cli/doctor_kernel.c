/* doctor_kernel: what the kernel lets us sample; see doctor.h. Facts: perf_event_open(2), capabilities(7). */
#include "alloc.h"
#include "doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CAP_SYS_PTRACE_BIT = 19, CAP_SYS_ADMIN_BIT = 21, CAP_IPC_LOCK_BIT = 14, CAP_PERFMON_BIT = 38 };

void doctor_add(struct doctor_report *r, enum doctor_verdict verdict, const char *name, const char *remedy,
                const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    alloc_grow(&r->findings, &r->cap, r->n + 1, sizeof *r->findings);
    r->findings[r->n++] =
        (struct doctor_finding){verdict, name, n < 0 ? alloc_text("", 0) : text,
                                remedy && verdict != DOCTOR_OK ? alloc_text(remedy, strlen(remedy)) : NULL};
}

void doctor_fini(struct doctor_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->findings[i].text);
        free(r->findings[i].remedy);
    }
    free(r->findings);
    *r = (struct doctor_report){0};
}

/* The first number in a file, or fallback. */
static int64_t read_number(const char *path, int64_t fallback)
{
    char text[64];
    FILE *f = fopen(path, "re");
    if (!f) {
        return fallback;
    }
    int64_t v = fgets(text, sizeof text, f) ? strtoll(text, NULL, 10) : fallback;
    fclose(f);
    return v;
}

static void read_word(const char *path, char *out, size_t cap)
{
    FILE *f = fopen(path, "re");
    out[0] = 0;
    if (f && !fgets(out, (int)cap, f)) {
        out[0] = 0;
    }
    out[strcspn(out, "\n")] = 0;
    if (f) {
        fclose(f);
    }
}

static uint64_t effective_capabilities(void)
{
    char line[256];
    uint64_t caps = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "CapEff:", 7) == 0) {
            caps = strtoull(line + 7, NULL, 16);
        }
    }
    if (f) {
        fclose(f);
    }
    return caps;
}

static bool has(uint64_t caps, int bit)
{
    return (caps >> bit & 1) != 0;
}

/* Tries an event on our own thread; 0 or errno. */
static int try_event(uint32_t type, uint64_t config, bool kernel)
{
    struct perf_event_attr a = {.type = type,
                                .size = sizeof a,
                                .config = config,
                                .sample_period = 10000000,
                                .disabled = 1,
                                .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
                                .exclude_hv = 1};
    a.exclude_kernel = !kernel;
    long fd = syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    close((int)fd);
    return 0;
}

enum doctor_verdict doctor_judge_paranoid(int paranoid, bool has_perfmon, bool opens)
{
    if (!opens) {
        return DOCTOR_BAD;
    }
    return paranoid > 2 && !has_perfmon ? DOCTOR_WARN : DOCTOR_OK;
}

static void check_events(struct doctor_report *r, uint64_t caps)
{
    bool perfmon = has(caps, CAP_PERFMON_BIT) || has(caps, CAP_SYS_ADMIN_BIT);
    int paranoid = (int)read_number("/proc/sys/kernel/perf_event_paranoid", 99);
    int clock = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false);
    doctor_add(r, doctor_judge_paranoid(paranoid, perfmon, clock == 0), "perf_event_paranoid",
               "sudo sysctl kernel.perf_event_paranoid=2",
               paranoid == 99 ? "the kernel has no perf events" : "is %d", paranoid);
    doctor_add(
        r, clock ? DOCTOR_BAD : DOCTOR_OK, "cpu-clock",
        clock == ENOSYS
            ? "a kernel with CONFIG_PERF_EVENTS; in a container: a seccomp profile that allows "
              "perf_event_open"
            : "sudo sysctl kernel.perf_event_paranoid=2; in a container: --cap-add PERFMON and a seccomp "
              "profile that allows perf_event_open",
        clock ? "cannot be opened: %s" : "opens", strerror(clock));
    int kernel = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true);
    doctor_add(r, kernel ? DOCTOR_WARN : DOCTOR_OK, "kernel code",
               "sudo sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON for the daemon",
               kernel ? "cannot be sampled: system calls show as their caller" : "can be sampled");
    int cycles = try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false);
    doctor_add(r, cycles ? DOCTOR_WARN : DOCTOR_OK, "PMU",
               "nothing, unless --event cycles is wanted: then a machine, or a virtual one, with a PMU",
               cycles ? "has no cycles event (%s); cpu-clock serves" : "counts cycles", strerror(cycles));
}

static void check_capabilities(struct doctor_report *r, uint64_t caps)
{
    static const struct {
        int bit;
        const char *name, *without;
    } wanted[] = {
        {CAP_PERFMON_BIT, "CAP_PERFMON", "only processes of the same user can be sampled"},
        {CAP_SYS_PTRACE_BIT, "CAP_SYS_PTRACE",
         "only files of processes of the same user can be read for names"},
        {CAP_IPC_LOCK_BIT, "CAP_IPC_LOCK", "locked memory bounds how many threads are sampled"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        bool there = has(caps, wanted[i].bit);
        doctor_add(r, there ? DOCTOR_OK : DOCTOR_WARN, wanted[i].name,
                   "nothing for your own processes; else the systemd unit gives the daemon what it needs",
                   there ? "is there" : "is missing: %s", wanted[i].without);
    }
}

static void check_names(struct doctor_report *r, uint64_t caps)
{
    int kptr = (int)read_number("/proc/sys/kernel/kptr_restrict", 0),
        scope = (int)read_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    bool hidden = kptr >= 2 || (kptr == 1 && geteuid() != 0);
    doctor_add(r, hidden ? DOCTOR_WARN : DOCTOR_OK, "kptr_restrict", "sudo sysctl kernel.kptr_restrict=0",
               hidden ? "is %d: kernel functions have no names" : "is %d", kptr);
    bool strict = scope >= 2 && !has(caps, CAP_SYS_PTRACE_BIT);
    doctor_add(r, strict ? DOCTOR_WARN : DOCTOR_OK, "ptrace_scope", "sudo sysctl kernel.yama.ptrace_scope=1",
               strict ? "is %d: the memory of other processes cannot be read" : "is %d", scope);
}

void doctor_check_kernel(struct doctor_report *r)
{
    struct utsname u;
    uint64_t caps = effective_capabilities();
    char clock[64];
    if (uname(&u) == 0) {
        unsigned major = 0, minor = 0;
        bool parsed = sscanf(u.release, "%u.%u", &major, &minor) == 2;
        bool old = parsed && (major < 5 || (major == 5 && minor < 13)); /* remove_on_exec: 5.13 */
        doctor_add(r, old ? DOCTOR_WARN : DOCTOR_OK, "kernel", "Linux 5.13 or newer",
                   old ? "%s is older than 5.13" : "%s", u.release);
    }
    check_events(r, caps);
    check_capabilities(r, caps);
    check_names(r, caps);
    read_word("/sys/devices/system/clocksource/clocksource0/current_clocksource", clock, sizeof clock);
    bool slow = strcmp(clock, "hpet") == 0 || strcmp(clock, "acpi_pm") == 0 || strcmp(clock, "xen") == 0;
    doctor_add(r, slow ? DOCTOR_WARN : DOCTOR_OK, "clocksource",
               "boot with clocksource=tsc if the machine's TSC is stable",
               slow ? "%s makes every clock read a system call: scopes cost more" : "%s",
               clock[0] ? clock : "unknown");
}

static void check_locked_memory(struct doctor_report *r)
{
    enum { THREAD_KIB = 36 }; /* a page and 8 data pages: what a thread's ring takes */
    struct rlimit memlock = {0};
    int64_t perf_kib = read_number("/proc/sys/kernel/perf_event_mlock_kb", 516),
            cpus = sysconf(_SC_NPROCESSORS_ONLN);
    bool unlimited = has(effective_capabilities(), CAP_IPC_LOCK_BIT);
    getrlimit(RLIMIT_MEMLOCK, &memlock);
    unlimited = unlimited || memlock.rlim_cur == RLIM_INFINITY;
    int64_t kib = perf_kib * cpus + (unlimited ? 0 : (int64_t)(memlock.rlim_cur / 1024));
    if (unlimited) {
        doctor_add(r, DOCTOR_OK, "locked memory", NULL, "is not bounded");
        return;
    }
    int64_t threads = kib / THREAD_KIB;
    doctor_add(r, threads < 64 ? DOCTOR_WARN : DOCTOR_OK, "locked memory",
               "sudo sysctl kernel.perf_event_mlock_kb=16384, or ulimit -l, or CAP_IPC_LOCK for the daemon",
               "%" PRId64 " KiB: about %" PRId64 " threads with full rings", kib, threads);
}

void doctor_check_limits(struct doctor_report *r)
{
    struct rlimit files = {0};
    check_locked_memory(r);
    getrlimit(RLIMIT_NOFILE, &files);
    bool few = files.rlim_max != RLIM_INFINITY && files.rlim_max < 4096;
    doctor_add(r, few ? DOCTOR_WARN : DOCTOR_OK, "open files",
               "ulimit -Hn 65536 (each sampled thread takes one)",
               "up to %llu (each sampled thread takes one)", (unsigned long long)files.rlim_max);
}
