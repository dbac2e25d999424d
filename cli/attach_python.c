/*
 * attach_python: attacher of CPython: has its main thread import the package "dovetail" and tell how that went, by inject.
 *
 * The answer comes in a file of a folder of ours, which belongs to the target's user; it is gone afterwards. Source that
 * could not run in time does nothing when its turn comes.
 */
#include "alloc.h"
#include "attacher.h"
#include "inject.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 5000, STEP_MS = 5, MAX_ANSWER = 200, TRIES = 20, AGAIN_MS = 100 };

static bool is_it(const struct target *t)
{
    char *library = target_mapped(t, "libpython3"), *program = target_program(t);
    bool is_python = library || strncmp(program, "python", strlen("python")) == 0;
    free(library);
    free(program);
    return is_python;
}

/* The script or module: the first word after the program that is no option. */
static void describe(const struct target *t, char *out, size_t cap)
{
    const char *p = t->command, *end = p ? p + t->n_command : NULL, *script = "";
    char *program = target_program(t);
    for (p = p ? p + strnlen(p, (size_t)(end - p)) + 1 : end; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
        if (strcmp(p, "-c") == 0) {
            break;
        }
        if (*p && *p != '-') {
            const char *slash = strrchr(p, '/');
            script = slash ? slash + 1 : p;
            break;
        }
    }
    snprintf(out, cap, "%.60s%s%.80s", program, *script ? ", " : "", script);
    free(program);
}

/* ---- may it be ---- */

static pid_t tracer_of(const struct target *t)
{
    char path[64], line[128];
    int tracer = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)t->pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "TracerPid: %d", &tracer) != 1) {
    }
    if (f) {
        fclose(f);
    }
    return tracer;
}

static int check(const struct target *t, struct dvt_err *err)
{
    struct inject_calls calls;
    const char *dovetail = target_variable(t, "DOVETAIL");
    if (dovetail && strcmp(dovetail, "off") == 0) {
        return dvt_fail(err, DVT_ESTATE, 0, "it runs with DOVETAIL=off in its environment: start it without");
    }
    if (!t->maps) {
        return dvt_fail(err, DVT_EPERM, 0, "its memory map cannot be read: run dovetail as its user, or as root");
    }
    pid_t tracer = tracer_of(t);
    if (tracer) {
        return dvt_fail(err, DVT_ESTATE, 0, "process %d traces it already, a debugger or strace: end that first", (int)tracer);
    }
    if (t->state == 'T' || t->state == 't' || t->state == 'Z') {
        return dvt_fail(err, DVT_ESTATE, 0, "it is stopped, and would not answer");
    }
    return inject_find(t, &calls, err);
}

/* ---- asking ---- */

/* Where it answers. */
struct answer {
    char folder[64], file[80];
};

static int make_answer(const struct target *t, struct answer *a, struct dvt_err *err)
{
    snprintf(a->folder, sizeof a->folder, "/tmp/dovetail-attach-XXXXXX");
    if (!mkdtemp(a->folder)) {
        return dvt_fail(err, DVT_EIO, errno, "cannot make a folder in /tmp: %s", strerror(errno));
    }
    snprintf(a->file, sizeof a->file, "%s/answer", a->folder);
    int fd = open(a->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool mine = t->euid == geteuid();
    bool good = fd >= 0 && (mine || (fchown(fd, t->euid, t->egid) == 0 && chmod(a->folder, 0711) == 0));
    int no = errno;
    if (fd >= 0) {
        close(fd);
    }
    return good ? 0 : dvt_fail(err, DVT_EPERM, no, "a file cannot be given to its user: run dovetail as its user, or as root");
}

static void remove_answer(const struct answer *a)
{
    unlink(a->file);
    rmdir(a->folder);
}

/* Text in Python's quotes. */
static void put_text(FILE *out, const char *text)
{
    putc('\'', out);
    for (; *text; text++) {
        if (*text == '\\' || *text == '\'' || *text < ' ') {
            fprintf(out, "\\x%02x", (unsigned char)*text);
        } else {
            putc(*text, out);
        }
    }
    putc('\'', out);
}

/* In names of its own, so that nothing is left in __main__. The package is loaded, not made importable from anywhere new; not
 * while a module that it may need is half loaded itself. It writes its answer whole, a line, once it has done; too late, it does
 * nothing. */
static const char body[] =
    "import sys, time\n"
    "def is_loading():\n"
    "    known = getattr(sys, 'stdlib_module_names', None)\n"
    "    return any(getattr(getattr(m, '__spec__', None), '_initializing', False) for name, m in list(sys.modules.items())\n"
    "               if known is None or name.partition('.')[0] in known)\n"
    "def run():\n"
    "    if time.clock_gettime(time.CLOCK_MONOTONIC) > deadline:\n"
    "        return\n"
    "    try:\n"
    "        if not getattr(sys, '_is_gil_enabled', lambda: True)():\n"
    "            raise RuntimeError('a free-threaded Python is not supported')\n"
    "        if is_loading():\n"
    "            answer = 'again: it is loading modules of the standard library'\n"
    "        elif not socket:\n"
    "            answer = sys.modules['dovetail']._detach()\n"
    "        else:\n"
    "            sys._dovetail_attach = True\n"
    "            sys.path.insert(0, folder)\n"
    "            try:\n"
    "                import dovetail\n"
    "            finally:\n"
    "                if folder in sys.path:\n"
    "                    sys.path.remove(folder)\n"
    "                del sys._dovetail_attach\n"
    "            answer = dovetail._attach(socket, service)\n"
    "    except BaseException as e:\n"
    "        answer = 'bad: %s: %s' % (type(e).__name__, e)\n"
    "    try:\n"
    "        with open(file, 'w') as f:\n"
    "            f.write(answer[:190].replace('\\n', ' ') + '\\n')\n"
    "    except BaseException:\n"
    "        pass\n"
    "run()\n";

static uint64_t deadline_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + (uint64_t)(ANSWER_MS - 500) * 1000000u;
}

static char *source_of(const char *folder, const struct answer *a, const struct attach_options *o)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) {
        alloc_fail();
    }
    fputs("exec(", out);
    put_text(out, body);
    fputs(", {'folder': ", out);
    put_text(out, folder);
    fputs(", 'file': ", out);
    put_text(out, a->file);
    fputs(", 'socket': ", out);
    put_text(out, o ? o->socket : "");
    fputs(", 'service': ", out);
    put_text(out, o && o->service ? o->service : "");
    fprintf(out, ", 'deadline': %.3f})\n", (double)deadline_ns() / 1e9);
    if (fclose(out) != 0) {
        alloc_fail();
    }
    return text;
}

static bool read_answer(const struct answer *a, char *out, size_t cap)
{
    FILE *f = fopen(a->file, "re");
    bool whole = f && fgets(out, (int)cap, f) && strchr(out, '\n');
    if (f) {
        fclose(f);
    }
    if (whole) {
        out[strcspn(out, "\n")] = 0;
    }
    return whole;
}

static int await_answer(const struct target *t, const struct answer *a, char *out, size_t cap, struct dvt_err *err)
{
    struct timespec step = {0, STEP_MS * 1000000};
    for (int waited = 0; waited < ANSWER_MS; waited += STEP_MS) {
        if (read_answer(a, out, cap)) {
            return 0;
        }
        if (!target_is_there(t)) {
            return dvt_fail(err, DVT_ENOENT, 0, "it has just ended");
        }
        nanosleep(&step, NULL);
    }
    return dvt_fail(err, DVT_ESTATE, 0,
                    "its main thread runs no Python now: it waits where Python's lock is held, or in a C extension. Try again, "
                    "or start it with dovetail run -- COMMAND");
}

/* One try. */
static int ask_once(const struct target *t, const char *folder, const struct attach_options *o, char answer[MAX_ANSWER + 1],
                    struct attach_note *ret, struct dvt_err *err)
{
    struct answer a = {"", ""};
    struct inject_calls calls;
    struct inject_result result = {0};
    int rc = inject_find(t, &calls, err);
    rc = rc ? rc : make_answer(t, &a, err);
    if (rc == 0 && !target_sees(t, a.file)) {
        rc = dvt_fail(err, DVT_ESTATE, 0, "its /tmp is not ours, it is in a container: run dovetail in its mount namespace");
    }
    char *source = rc ? NULL : source_of(folder, &a, o);
    rc = rc ? rc : inject_run(t, &calls, source, &result, err);
    free(source);
    rc = rc ? rc : await_answer(t, &a, answer, MAX_ANSWER + 1, err);
    if (rc == 0) {
        (void)inject_free(t, &calls, &result, NULL); /* else it keeps a page or two */
    }
    if (a.folder[0]) {
        remove_answer(&a);
    }
    snprintf(ret->text, sizeof ret->text, "%.150s; its main thread was held for %.1f ms",
             strchr(answer, ' ') ? strchr(answer, ' ') + 1 : "", (double)result.stopped_ns / 1e6);
    return rc;
}

static int ask(const struct target *t, const char *folder, const struct attach_options *o, struct attach_note *ret,
               struct dvt_err *err)
{
    struct timespec step = {0, AGAIN_MS * 1000000};
    char answer[MAX_ANSWER + 1] = "";
    int rc = ask_once(t, folder, o, answer, ret, err);
    for (int tries = 1; rc == 0 && tries < TRIES && strncmp(answer, "again: ", strlen("again: ")) == 0; tries++) {
        nanosleep(&step, NULL);
        rc = ask_once(t, folder, o, answer, ret, err);
    }
    if (rc) {
        return rc;
    }
    static const char good[] = "good: ", gone[] = "none: ";
    if (strncmp(answer, good, sizeof good - 1) != 0) {
        bool is_gone = strncmp(answer, gone, sizeof gone - 1) == 0;
        return dvt_fail(err, is_gone ? DVT_ENOENT : DVT_ESTATE, 0, "%.150s", strchr(answer, ' ') ? strchr(answer, ' ') + 1 : answer);
    }
    return 0;
}

/* The folder to import the package from. */
static char *library_folder(void)
{
    char *folder = places_python_auto();
    for (int i = 0; folder && i < 2; i++) {
        *strrchr(folder, '/') = 0;
    }
    return folder;
}

static int attach(const struct target *t, const struct attach_options *o, struct attach_note *ret,
                  struct dvt_err *err)
{
    int rc = check(t, err);
    char *folder = rc ? NULL : library_folder();
    if (rc == 0 && !folder) {
        rc = dvt_fail(err, DVT_ESTATE, 0, "the package for Python is not beside this program: it was built without");
    }
    if (rc == 0 && (!target_sees(t, folder) || !target_sees(t, o->socket))) {
        rc = dvt_fail(err, DVT_ESTATE, 0,
                      "%.100s or the daemon's socket is not there in its file system: mount it into its container, at that path",
                      folder);
    }
    rc = rc ? rc : ask(t, folder, o, ret, err);
    free(folder);
    return rc;
}

static int detach(const struct target *t, struct attach_note *ret, struct dvt_err *err)
{
    char *extension = target_mapped(t, "_dovetail.cpython-");
    if (!extension) {
        return dvt_fail(err, DVT_ENOENT, 0, "it is not profiled");
    }
    free(extension);
    int rc = check(t, err);
    return rc ? rc : ask(t, "", NULL, ret, err);
}

const struct attacher attacher_python = {"python", is_it, describe, check, attach, detach};
