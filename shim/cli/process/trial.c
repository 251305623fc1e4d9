/* SPDX-License-Identifier: MIT */
/* Owns the trials of the library in a child of this command. A program names its own loader, and
 * could name anything: it must run no loader that an ordinary user could have written. Not
 * async-signal-safe. */
#include "cli/process/trial.h"

#include "cli/process/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MOST = 10, OUTPUT_MOST = 64 * 1024, CANNOT_EXECUTE = 126 };

/* A file of root's that nobody else may write to, or the loader of this command itself. */
static bool is_trusted(const char *loader)
{
    static struct ns_elf own;
    struct stat st, ours;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool is_own = fd >= 0 && ns_elf_inspect(fd, &own) == 0 && stat(loader, &st) == 0 &&
                  stat(own.interpreter, &ours) == 0 && st.st_dev == ours.st_dev &&
                  st.st_ino == ours.st_ino;

    if (fd >= 0)
        close(fd);
    return is_own || (stat(loader, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
                      !(st.st_mode & (S_IWGRP | S_IWOTH)));
}

struct child {
    char *const *words;
    const char *library; /* for LD_PRELOAD; NULL: none */
    bool is_clean;       /* nothing else in the environment but PATH */
};

/* In the child. Returns only if the program cannot be executed. */
static void become(const struct child *child, int input, int output)
{
    if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        return;
    if (child->is_clean) {
        clearenv();
        setenv("PATH", "/usr/bin:/bin", 1);
    }
    unsetenv("LD_DEBUG");
    if (setenv("LC_ALL", "C", 1) != 0 ||
        (child->library && setenv("LD_PRELOAD", child->library, 1) != 0))
        return;
    alarm(SECONDS_MOST); /* stays through execve */
    execv(child->words[0], child->words);
}

/* Starts the child with an empty input; what it writes goes to output, cut to OUTPUT_MOST. Returns
 * its wait status, or -1. */
static int run(const struct child *what, char *output)
{
    size_t used = 0;
    int in[2], out[2], status = -1;
    ssize_t n;

    output[0] = '\0';
    if (pipe2(in, O_CLOEXEC) != 0)
        return -1;
    close(in[1]);
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        become(what, in[0], out[1]);
        _exit(CANNOT_EXECUTE);
    }
    close(in[0]);
    close(out[1]);
    while (child > 0 && used < OUTPUT_MOST - 1 &&
           ((n = read(out[0], output + used, OUTPUT_MOST - 1 - used)) > 0 ||
            (n < 0 && errno == EINTR)))
        used += n > 0 ? (size_t)n : 0;
    close(out[0]);
    output[used] = '\0';
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static int run_loader(const char *loader, const char *program, const char *library, char *output)
{
    char *const words[] = {(char *)loader, (char *)"--list", (char *)program, NULL};

    return run(&(struct child){.words = words, .library = library}, output);
}

/* A line of the list: blanks, the path, and the address where it lies. */
static bool is_listed(const char *output, const char *library)
{
    size_t length = strlen(library);

    for (const char *at = output; (at = strstr(at, library)); at++)
        if (at > output && (at[-1] == '\t' || at[-1] == ' ') &&
            strncmp(at + length, " (0x", 4) == 0)
            return true;
    return false;
}

/* "ERROR: ld.so: object '...' from LD_PRELOAD cannot be preloaded (file too short): ignored." and
 * "...: version `GLIBC_2.99' not found (required by ...)", on a line that names the library */
static bool find_reason(char *output, const char *library, char *reason, size_t size)
{
    char *rest = NULL;

    for (char *line = strtok_r(output, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *said = strstr(line, "cannot be preloaded (");

        if (!strstr(line, library))
            continue;
        if (said) {
            said += strlen("cannot be preloaded (");
            snprintf(reason, size, "%.*s", (int)strcspn(said, ")"), said);
            return true;
        }
        if (strstr(line, "required by") || strstr(line, "needed by")) {
            snprintf(reason, size, "%s", line);
            return true;
        }
    }
    return false;
}

/* May this loader be run? */
static bool may_run(const char *loader, char *reason, size_t size)
{
    if (*loader == '\0')
        snprintf(reason, size, "the program is a loader itself");
    else if (!is_trusted(loader))
        snprintf(reason, size, "%s belongs to another user than root, and was not run", loader);
    else
        return true;
    return false;
}

enum ns_trial ns_trial_load(const char *loader, const char *program, const char *library,
                            char *reason, size_t size)
{
    static char output[OUTPUT_MOST];
    int status;

    if (!may_run(loader, reason, size))
        return NS_TRIAL_UNTRIED;
    status = run_loader(loader, program, library, output);
    if (is_listed(output, library))
        return NS_TRIAL_LOADED;
    if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM) {
        snprintf(reason, size, "it ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        return NS_TRIAL_REFUSED;
    }
    if (find_reason(output, library, reason, size))
        return NS_TRIAL_REFUSED;
    snprintf(reason, size, "the loader does not list what it loads");
    return NS_TRIAL_UNTRIED;
}

bool ns_trial_start(const char *program, const char *library, char *reason, size_t size)
{
    static char output[OUTPUT_MOST];
    char *const words[] = {(char *)program, NULL};
    int status = run(&(struct child){.words = words, .library = library, .is_clean = true}, output);

    output[strcspn(output, "\n")] = '\0';
    if (status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_EXECUTE && !*output))
        snprintf(reason, size, "cannot be executed");
    else if (WIFSIGNALED(status))
        snprintf(reason, size, "is killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(reason, size, "exits with %d: %s", WEXITSTATUS(status), output);
    else if (*output)
        snprintf(reason, size, "prints: %s", output);
    else
        return true;
    return false;
}
