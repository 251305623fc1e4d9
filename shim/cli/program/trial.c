/* SPDX-License-Identifier: MIT */
/* Owns the trial of the library: the start of /bin/true with it. It must not start anything else,
 * or a file that another user than root could replace. */
#include "cli/program/program.h"

#include "cli/output.h"
#include "process/scope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/bin/true"

enum { SECONDS_MOST = 10, CANNOT_EXECUTE = 126, LINKS_MOST = 40 };

/* What a link leads to takes its place, so that each directory on the way is looked at. */
const char *ns_trial_replaceable(const char *file)
{
    const char *done = "", *left = file;
    char target[PATH_MAX];
    struct stat st;
    for (int links = 0;; left += strcspn(left, "/")) {
        const char *here = *done ? done : "/";
        if (lstat(here, &st) != 0)
            return ns_words("%s: %s", here, strerror(errno));
        if (!S_ISLNK(st.st_mode) && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))))
            return ns_words("%s (user %u, mode %04o): another user than root could replace %s",
                            here, st.st_uid, st.st_mode & 07777, file);
        if (S_ISLNK(st.st_mode)) {
            ssize_t n = readlink(here, target, sizeof target);
            if (n < 0 || links++ == LINKS_MOST)
                return ns_words("%s: %s", here, strerror(n < 0 ? errno : ELOOP));
            left = ns_words("%.*s/%s", (int)n, target, left);
            done = *target == '/' ? "" : ns_words("%.*s", (int)(strrchr(done, '/') - done), done);
        }
        left += strspn(left, "/");
        size_t length = strcspn(left, "/");
        if (length == 0)
            return NULL;
        if (strncmp(left, "..", length) != 0)
            done = ns_words("%s/%.*s", done, (int)length, left);
        else if (length == 2 && *done)
            done = ns_words("%.*s", (int)(strrchr(done, '/') - done), done);
    }
}

/* Of PROGRAM and its loader. */
static const char *replaceable(void)
{
    static struct ns_reach reach;
    ns_reach_inspect(PROGRAM, &reach);
    const char *reason = ns_trial_replaceable(reach.file);
    return reason || !*reach.loader ? reason : ns_trial_replaceable(reach.loader);
}

static char output[4096];

/* In the child. Returns only if the program cannot be executed. */
static void become(const char *library, int fd)
{
    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return;
    clearenv();
    if (setenv("LC_ALL", "C", 1) != 0 || (library && setenv("LD_PRELOAD", library, 1) != 0))
        return;
    sigset_t none;
    sigemptyset(&none); /* as a caller may have left them */
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS_MOST); /* stays through execve */
    execl(PROGRAM, PROGRAM, NULL);
}

/* The beginning of what it writes goes to output. Returns its wait status, or -1. */
static int run(const char *library)
{
    NS_AUTO_CLOSE int fd = memfd_create("nagleshim trial", MFD_CLOEXEC);
    int status = -1;
    pid_t child = fd < 0 ? -1 : fork();
    if (child == 0) {
        become(library, fd);
        _exit(CANNOT_EXECUTE);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    ssize_t n = fd < 0 ? 0 : pread(fd, output, sizeof output - 1, 0);
    output[n > 0 ? n : 0] = '\0';
    output[strcspn(output, "\n")] = '\0';
    return status;
}

const char *ns_trial_start(const char *library)
{
    const char *reason = replaceable();
    if (reason)
        return ns_words("was not started: %s", reason);
    int status = run(library);
    if (status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_EXECUTE && !*output))
        return "cannot be executed";
    if (WIFSIGNALED(status))
        return ns_words("is killed by signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return ns_words("exits with %d: %.900s", WEXITSTATUS(status), output);
    return *output ? ns_words("prints: %.900s", output) : NULL;
}
