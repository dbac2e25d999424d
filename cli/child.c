/* child: see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_FOUND = 127, EXIT_NOT_STARTED = 126, EXIT_SIGNAL = 128 };

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};

static void block_signals(sigset_t *set, sigset_t *before)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        sigaddset(set, forwarded[i]);
    }
    sigprocmask(SIG_BLOCK, set, before);
}

/* In the child: tells errno through the pipe if exec fails; the pipe closes itself if it does not. */
static void become(char *const argv[], const sigset_t *mask, int pipe_end)
{
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    int no = errno;
    ssize_t n = write(pipe_end, &no, sizeof no);
    _exit(n == sizeof no ? EXIT_NOT_FOUND : EXIT_NOT_STARTED);
}

static int read_failure(int pipe_end)
{
    int no = 0;
    ssize_t n;
    do {
        n = read(pipe_end, &no, sizeof no);
    } while (n < 0 && errno == EINTR);
    return n == sizeof no ? no : 0;
}

/* True when the child has ended; stopped children (job control) are not ended. */
static int has_ended(pid_t pid, int *ret_status)
{
    return waitpid(pid, ret_status, WNOHANG) == pid && (WIFEXITED(*ret_status) || WIFSIGNALED(*ret_status));
}

static int await_end(pid_t pid, const sigset_t *set)
{
    int status;
    for (;;) {
        siginfo_t info;
        if (has_ended(pid, &status)) {
            return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        }
        int signal = sigwaitinfo(set, &info);
        bool from_terminal = info.si_code == SI_KERNEL;
        if (signal > 0 && signal != SIGCHLD && !from_terminal) {
            kill(pid, signal);
        }
    }
}

int child_run(char *const argv[], int *ret_code, struct dvt_err *err)
{
    sigset_t set, before;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        return dvt_fail(err, DVT_EIO, errno, "pipe: %s", strerror(errno));
    }
    block_signals(&set, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become(argv, &before, ends[1]);
    }
    close(ends[1]);
    int no = pid < 0 ? errno : read_failure(ends[0]), rc = 0;
    close(ends[0]);
    if (pid > 0) {
        *ret_code = await_end(pid, &set);
    }
    if (no) {
        *ret_code = no == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_STARTED;
        rc = dvt_fail(err, no == ENOENT ? DVT_ENOENT : DVT_EPERM, no, "cannot run %.100s: %s", argv[0],
                      strerror(no));
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}
