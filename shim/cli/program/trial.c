/* SPDX-License-Identifier: MIT */
/* Owns the trials of the library in a child of this command. A program can name any file as its
 * loader: this file must not run one that a user other than root and the caller may write to. */
#include "cli/program/program.h"

#include "base/path.h"
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

enum { SECONDS_MOST = 10, CANNOT_EXECUTE = 126 };

static char output[64 * 1024];

/* In the child. Returns only if the program cannot be executed. */
static void become(char *const *words, const char *library, bool is_clean, int fd)
{
    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return;
    if (is_clean)
        clearenv();
    unsetenv("LD_DEBUG");
    if (setenv("LC_ALL", "C", 1) != 0 || (library && setenv("LD_PRELOAD", library, 1) != 0))
        return;
    alarm(SECONDS_MOST); /* stays through execve */
    execv(words[0], words);
}

/* Runs a program with library in LD_PRELOAD, unless that is NULL; is_clean: and nothing else in the
 * environment. The beginning of what it writes goes to output. Returns its wait status, or -1. */
static int run(char *const *words, const char *library, bool is_clean)
{
    NS_AUTO_CLOSE int fd = memfd_create("nagleshim trial", MFD_CLOEXEC);
    int status = -1;
    pid_t child = fd < 0 ? -1 : fork();
    if (child == 0) {
        become(words, library, is_clean, fd);
        _exit(CANNOT_EXECUTE);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    ssize_t n = fd < 0 ? 0 : pread(fd, output, sizeof output - 1, 0);
    output[n > 0 ? n : 0] = '\0';
    return status;
}

static bool is_trusted(const char *loader)
{
    struct stat st;
    return stat(loader, &st) == 0 && S_ISREG(st.st_mode) &&
           (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* The next line "\tNAME => PATH (0x00007f...)" of the loader's list; a path alone is a name, too.
 * *place is NULL at first. */
static bool next_listed(const char **place, char name[PATH_MAX], char path[PATH_MAX])
{
    for (const char *line = *place ? *place : output; *line;) {
        const char *end = strchrnul(line, '\n'), *first = line + strspn(line, " \t");
        const char *arrow = memmem(first, (size_t)(end - first), " => ", 4);
        const char *last = memmem(first, (size_t)(end - first), " (0x", 4);
        *place = line = *end ? end + 1 : end;
        if (!last)
            continue;
        snprintf(name, PATH_MAX, "%.*s", (int)((arrow ? arrow : last) - first), first);
        first = arrow ? arrow + 4 : first;
        snprintf(path, PATH_MAX, "%.*s", (int)(last - first), first);
        return true;
    }
    return false;
}

bool ns_trial_next_file(const char **place, const char *library, char path[PATH_MAX])
{
    char name[PATH_MAX];
    while (next_listed(place, name, path)) {
        const char *base = ns_path_base(path);
        if (*name != '/' && *path == '/' && strcmp(path, library) != 0 &&
            strncmp(base, "libc.so.", 8) != 0 && strncmp(base, "libpthread.", 11) != 0 &&
            strncmp(base, "libresolv.", 10) != 0)
            return true;
    }
    return false;
}

/* Is wanted in the list, which may be a name with $LIB? Then its path. */
static bool is_listed(const char *wanted, char path[PATH_MAX])
{
    char name[PATH_MAX];
    const char *place = NULL;
    while (next_listed(&place, name, path))
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

bool ns_trial_find(const char *loader, const char *library, const char *name, char path[PATH_MAX])
{
    char libc[PATH_MAX];
    char *words[] = {(char *)loader, (char *)"--list", (char *)library, NULL};
    if (!is_trusted(loader))
        return false;
    /* The library itself would be the file of its name, so that its libc is listed. */
    run(words, NULL, true);
    if (!is_listed("libc.so.6", libc))
        return false;
    words[2] = libc;
    run(words, name, true);
    return is_listed(name, path);
}

enum ns_trial_result ns_trial_load(const char *loader, const char *program, const char *library,
                                   bool is_preloaded, const char **why)
{
    char *const words[] = {(char *)loader, (char *)"--list", (char *)program, NULL};
    char path[PATH_MAX];
    if (*loader == '\0' || !is_trusted(loader)) {
        *why = ns_words("%s%s", loader,
                        *loader ? " belongs to another user than root, and was not run"
                                : "the program is a loader itself");
        return NS_TRIAL_UNTRIED;
    }
    int status = run(words, is_preloaded ? NULL : library, false);
    if (is_listed(library, path))
        return NS_TRIAL_LOADED;
    /* "ERROR: ld.so: object '...' from LD_PRELOAD cannot be preloaded (file too short)..." */
    char *line = strstr(output, library);
    if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM) {
        *why =
            ns_words("it ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return NS_TRIAL_REFUSED;
    }
    if (!line) {
        *why = "the loader does not list what it loads";
        return NS_TRIAL_UNTRIED;
    }
    while (line > output && line[-1] != '\n')
        line--;
    *why = ns_words("%.*s", (int)strcspn(line, "\n"), line);
    return NS_TRIAL_REFUSED;
}

const char *ns_trial_start(const char *program, const char *library)
{
    char *const words[] = {(char *)program, NULL};
    int status = run(words, library, true);
    output[strcspn(output, "\n")] = '\0';
    if (status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_EXECUTE && !*output))
        return "cannot be executed";
    if (WIFSIGNALED(status))
        return ns_words("is killed by signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return ns_words("exits with %d: %.900s", WEXITSTATUS(status), output);
    return *output ? ns_words("prints: %.900s", output) : NULL;
}
