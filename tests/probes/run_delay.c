/* SPDX-License-Identifier: MIT */
/* Runs a command, and appends a line to FILE for it and for each process that it leaves behind: how
 * long it was ready to run and had no processor (the run-queue delay, the second number of
 * schedstat), and how long it ran, in ns. A process still has these numbers when it has ended and
 * its parent has not yet asked for its status. Appends its own process id and the command's to
 * FILE.pid. Ends as the command does, or with 128 and the signal; the command ends with it.
 * Usage: run_delay FILE COMMAND [ARGUMENT]... */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void append(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        perror(name);
    close(fd);
}

/* Appends the numbers of an ended process, whose status nobody has asked for. */
static void note_times(const char *name, int pid)
{
    char path[64], text[128];
    unsigned long long ran = 0, waited = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%llu %llu", &ran, &waited) != 2)
        return;
    fclose(file);
    snprintf(text, sizeof(text), "%llu %llu\n", waited, ran);
    append(name, text);
}

int main(int argc, char **argv)
{
    char text[32], pid_file[4096];
    siginfo_t ended;
    int status;
    if (argc < 3)
        return 125;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int launcher = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == launcher)
            execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    snprintf(text, sizeof(text), "%d %d\n", launcher, child);
    snprintf(pid_file, sizeof(pid_file), "%s.pid", argv[1]);
    append(pid_file, text);
    do {
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) != 0)
            return 125;
        note_times(argv[1], ended.si_pid);
        waitpid(ended.si_pid, &status, 0);
    } while (ended.si_pid != child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
