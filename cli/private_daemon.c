/* private_daemon: see private_daemon.h. */
#include "private_daemon.h"
#include "alloc.h"
#include "catalog.h"
#include "cli.h"
#include "control.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_TIMEOUT_MS = 15000, STOP_TIMEOUT_MS = 30000, STEP_MS = 5 };

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static int make_folder(struct private_daemon *d, struct dvt_err *err)
{
    snprintf(d->folder, sizeof d->folder, "/tmp/dovetail-run-XXXXXX");
    if (!mkdtemp(d->folder)) { /* mode 0700 */
        d->folder[0] = 0;
        return dvt_fail(err, DVT_EIO, errno, "cannot make a folder in /tmp: %s", strerror(errno));
    }
    snprintf(d->socket, sizeof d->socket, "%s/control.sock", d->folder);
    snprintf(d->log, sizeof d->log, "%s/log", d->folder);
    return 0;
}

static int make_folders_of(char *path, struct dvt_err *err)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') {
            continue;
        }
        *p = 0;
        int failed = mkdir(path, 0750) && errno != EEXIST;
        *p = '/';
        if (failed) {
            return dvt_fail(err, DVT_EPERM, errno, "cannot make the folder of %s: %s", path, strerror(errno));
        }
    }
    return 0;
}

/* DEFAULT/runs/20261130-211500-4711: the daemon makes the last one. */
static int choose_store(struct private_daemon *d, const char *asked, struct dvt_err *err)
{
    char when[32];
    time_t now = time(NULL);
    struct tm tm;
    if (asked) {
        d->store = alloc_text(asked, strlen(asked));
        return 0;
    }
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    char *base = catalog_default_dir();
    d->store = alloc_printf("%s/runs/%s-%d", base, when, (int)getpid());
    free(base);
    return make_folders_of(d->store, err);
}

/* In the child: never returns. */
static void become_daemon(const struct private_daemon *d, const struct private_daemon_options *o,
                          char *program)
{
    char parent[16];
    int log = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *args[16] = {program, "--store", d->store, "--socket", d->socket, "--exit-with", parent};
    int n = 7;
    sigset_t none;
    snprintf(parent, sizeof parent, "%d", (int)getppid());
    if (o->hz) {
        args[n++] = "--hz";
        args[n++] = o->hz;
    }
    if (o->event) {
        args[n++] = "--event";
        args[n++] = o->event;
    }
    if (o->wall) {
        args[n++] = "--wall";
    }
    setpgid(0, 0); /* Ctrl-C is for the program, not for us */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(program, (char *const *)args);
    dprintf(STDERR_FILENO, "dovetaild: cannot start %s: %s\n", program, strerror(errno));
    _exit(127);
}

/* The last line of its log: why it gave up. */
static int explain(const struct private_daemon *d, int status, struct dvt_err *err)
{
    char line[512], last[512] = "";
    FILE *f = fopen(d->log, "re");
    while (f && fgets(line, sizeof line, f)) {
        snprintf(last, sizeof last, "%s", line);
    }
    if (f) {
        fclose(f);
    }
    last[strcspn(last, "\n")] = 0;
    const char *text = strncmp(last, "dovetaild: ", 11) == 0 ? last + 11 : last;
    int code = WIFEXITED(status) && WEXITSTATUS(status) == 2 ? DVT_EINVAL : DVT_EIO;
    return dvt_fail(err, code, 0, "%s", text[0] ? text : "dovetaild ended at once");
}

static int await_answer(struct private_daemon *d, struct dvt_err *err)
{
    for (int waited = 0; waited < START_TIMEOUT_MS; waited += STEP_MS) {
        struct control c;
        struct dvt_err quiet;
        int status;
        if (control_open(&c, d->socket, &quiet) == 0) {
            control_close(&c);
            return 0;
        }
        if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
            d->pid = 0;
            return explain(d, status, err);
        }
        pause_ms(STEP_MS);
    }
    return dvt_fail(err, DVT_EIO, ETIMEDOUT, "dovetaild does not answer; its log: %s", d->log);
}

int private_daemon_start(struct private_daemon *d, const struct private_daemon_options *o,
                         struct dvt_err *err)
{
    *d = (struct private_daemon){0};
    int rc = make_folder(d, err);
    if (rc == 0) {
        rc = choose_store(d, o->store, err);
    }
    char *program = places_daemon();
    if (rc == 0) {
        d->pid = fork();
        if (d->pid == 0) {
            become_daemon(d, o, program);
        }
        rc = d->pid < 0 ? dvt_fail(err, DVT_EIO, errno, "fork: %s", strerror(errno)) : await_answer(d, err);
    }
    free(program);
    if (rc) {
        private_daemon_stop(d);
    }
    return rc;
}

static int open_to(const struct private_daemon *d, gid_t gid)
{
    char data[112];
    snprintf(data, sizeof data, "%s.data", d->socket);
    return chown(d->socket, (uid_t)-1, gid) || chmod(d->socket, 0660) || chown(data, (uid_t)-1, gid) ||
                   chmod(data, 0660) || chown(d->folder, (uid_t)-1, gid) || chmod(d->folder, 0710)
               ? -1
               : 0;
}

int private_daemon_admit(struct private_daemon *d, uid_t uid, gid_t gid, struct dvt_err *err)
{
    if (uid == geteuid() || uid == 0 || (d->is_open && d->group == gid)) {
        return 0;
    }
    if (d->is_open) {
        return dvt_fail(err, DVT_EPERM, 0,
                        "a private daemon serves one other group only: start dovetaild with --socket-group");
    }
    if (open_to(d, gid)) {
        return dvt_fail(err, DVT_EPERM, errno, "its user cannot be let in at %s: %s", d->folder,
                        strerror(errno));
    }
    d->is_open = true;
    d->group = gid;
    return 0;
}

static void end_process(struct private_daemon *d)
{
    int status;
    if (d->pid <= 0) {
        return;
    }
    kill(d->pid, SIGTERM);
    for (int waited = 0; waitpid(d->pid, &status, WNOHANG) == 0; waited += STEP_MS) {
        if (waited == STOP_TIMEOUT_MS) {
            cli_note("dovetaild (pid %d) does not end: killed", (int)d->pid);
            kill(d->pid, SIGKILL);
        }
        pause_ms(STEP_MS);
    }
    d->pid = 0;
}

void private_daemon_stop(struct private_daemon *d)
{
    end_process(d);
    if (d->folder[0]) {
        unlink(d->log);
        unlink(d->socket); /* the daemon has removed its own, unless it was killed */
        char data[112];
        snprintf(data, sizeof data, "%s.data", d->socket);
        unlink(data);
        rmdir(d->folder);
    }
    free(d->store);
    *d = (struct private_daemon){0};
}
