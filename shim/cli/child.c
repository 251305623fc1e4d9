/* SPDX-License-Identifier: MIT */
/* Owns the programs that diagnose and compare start. A program must find the same signal mask,
 * ignored signals and limits as from a shell, and none of this command's descriptors. */
#include "cli/child.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "process/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t mask_before;
static bool was_ignored; /* SIGCHLD */
static struct rlimit files_before;
static int signals = -1; /* signalfd(2) */

void ns_child_await(void)
{
    struct sigaction before;
    was_ignored = sigaction(SIGCHLD, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (was_ignored)
        signal(SIGCHLD, SIG_DFL);
    getrlimit(RLIMIT_NOFILE, &files_before);
}

void ns_child_restore(void)
{
    if (was_ignored)
        signal(SIGCHLD, SIG_IGN);
    /* Watching many processes raises the limit. */
    setrlimit(RLIMIT_NOFILE, &files_before);
}

/* Has a signal come that is to end the command, and was not taken yet? */
static bool is_asked(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
            sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT));
}

bool ns_child_signals(void)
{
    static const int handed[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction before;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof handed / sizeof handed[0]; i++)
        /* nohup and a shell's background jobs ignore some: they stay ignored. */
        if (sigaction(handed[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&set, handed[i]);
    if (sigprocmask(SIG_BLOCK, &set, &mask_before) == 0)
        signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ns_reader_until(is_asked);
    if (signals < 0)
        ns_say("cannot receive signals: %s", strerror(errno));
    return signals >= 0;
}

static bool redirect(const struct ns_child_options *options)
{
    if (options->to_stderr)
        return dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO;
    if (!options->quiet)
        return true;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO &&
           dup2(null, STDOUT_FILENO) == STDOUT_FILENO;
}

static _Noreturn void become(const struct ns_child_options *options, int parent)
{
    char byte;
    /* Without this byte, the parent has ended. */
    if (read(parent, &byte, 1) != 1)
        _exit(127);
    for (char *const *change = options->environment; change && *change; change++)
        if (strchr(*change, '='))
            putenv(*change);
        else
            unsetenv(*change);
    if (redirect(options)) {
        sigprocmask(SIG_SETMASK, &mask_before, NULL);
        ns_child_restore();
        execvp(options->argv[0], options->argv);
    }
    int error = errno;
    _exit(write(parent, &error, sizeof error) > 0 ? 127 : 126); /* nobody reads the status */
}

int ns_child_fork(struct ns_child *child, const struct ns_child_options *options)
{
    int ends[2];
    sigset_t set;
    *child = (struct ns_child){.pid = -1, .socket = -1};
    /* If the report's reader closes the pipe, the program's status still counts. */
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    child->pid = fork();
    if (child->pid == 0) {
        close(ends[0]);
        become(options, ends[1]);
    }
    close(ends[1]);
    child->socket = ends[0];
    return child->pid < 0 ? -errno : 0;
}

int ns_child_release(struct ns_child *child)
{
    int error = 0;
    ssize_t n = write(child->socket, "", 1);
    /* The child's end is closed by a successful execve. */
    if (n == 1)
        n = read(child->socket, &error, sizeof error);
    close(child->socket);
    child->socket = -1;
    if (n == 0)
        return 0;
    waitpid(child->pid, NULL, 0);
    child->ended = true;
    return n == (ssize_t)sizeof error && error ? -error : -EIO;
}

bool ns_child_take_signals(struct ns_child *child)
{
    struct signalfd_siginfo info;
    bool asked = false;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        /* Without a child, every one of them ends this command. */
        asked = asked || !child || (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2);
        /* A terminal's ^C goes to the whole foreground group; kill(1) only to this process. */
        if (child && !child->ended && info.ssi_code <= 0)
            kill(child->pid, (int)info.ssi_signo);
    }
    return asked;
}

void ns_child_wait(uint64_t then)
{
    const uint64_t second = 1000000000;
    struct pollfd wake = {.fd = signals, .events = POLLIN};
    uint64_t now = ns_clock_now(CLOCK_MONOTONIC), left = then > now ? then - now : 0;
    struct timespec timeout = {(time_t)(left / second), (long)(left % second)};
    ppoll(&wake, 1, &timeout, NULL);
}

bool ns_child_has_ended(struct ns_child *child)
{
    int status;
    pid_t pid = child->ended ? 0 : waitpid(child->pid, &status, WNOHANG);
    if (pid == child->pid) {
        child->ended = true;
        child->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (pid < 0 && errno == ECHILD) { /* it was waited for elsewhere */
        child->ended = true;
        child->status = NS_EXIT_RUN_FAILED;
    }
    return child->ended;
}
