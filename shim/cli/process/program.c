/* SPDX-License-Identifier: MIT */
/* Owns the search for a program in PATH, as execvp does it. Not async-signal-safe. */
#include "cli/process/program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_executable_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool ns_program_locate(const char *word, char *path, size_t size)
{
    const char *search = getenv("PATH");

    path[0] = '\0';
    if (*word == '\0')
        return false;
    if (strchr(word, '/')) {
        struct stat st;
        int n = snprintf(path, size, "%s", word);

        if (n < 0 || (size_t)n >= size || stat(word, &st) != 0)
            path[0] = '\0';
        return path[0] != '\0';
    }
    if (!search)
        search = "/bin:/usr/bin"; /* what glibc's execvp takes */
    for (const char *entry = search;; entry = strchr(entry, ':') + 1) {
        int length = (int)strcspn(entry, ":");
        int n = length ? snprintf(path, size, "%.*s/%s", length, entry, word)
                       : snprintf(path, size, "./%s", word); /* POSIX: empty is here */

        if (n > 0 && (size_t)n < size && is_executable_file(path))
            return true;
        if (entry[length] == '\0')
            break;
    }
    path[0] = '\0';
    return false;
}

void ns_program_self(char *path, size_t size)
{
    static const char name[] = "nagleshim";
    struct stat own, found;
    bool is_in_path = stat("/proc/self/exe", &own) == 0 && ns_program_locate(name, path, size) &&
                      stat(path, &found) == 0 && found.st_dev == own.st_dev &&
                      found.st_ino == own.st_ino;
    ssize_t n = is_in_path ? 0 : readlink("/proc/self/exe", path, size - 1);

    if (n <= 0)
        n = snprintf(path, size, "%s", name);
    path[n] = '\0';
}
