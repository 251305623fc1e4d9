/* SPDX-License-Identifier: MIT */
/* Owns the list of the policy files in directories. It must not open them. Not async-signal-safe.
 */
#include "cli/policy/directory.h"

#include "policy/find.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_policy_file(const struct dirent *entry)
{
    return fnmatch("*.json", entry->d_name, FNM_PERIOD) == 0;
}

static void each_of(const char *directory, void (*each)(void *context, const char *path),
                    void *context)
{
    char path[PATH_MAX];
    struct dirent **entries;
    int n = scandir(directory, &entries, is_policy_file, alphasort);

    for (int i = 0; i < n; i++) {
        int length = snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);

        free(entries[i]);
        if (length > 0 && (size_t)length < sizeof(path))
            each(context, path);
    }
    if (n >= 0)
        free(entries);
}

void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    char directory[PATH_MAX];
    const char *at;
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        int n = snprintf(directory, sizeof(directory), "%.*s", (int)length, at);

        if (n > 0 && (size_t)n < sizeof(directory))
            each_of(directory, each, context);
    }
}

bool ns_directory_hides(const char *list, const char *path, char *why, size_t size)
{
    char hiding[PATH_MAX];
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *base = strrchr(path, '/'), *at;
    const char *const names[] = {base ? base + 1 : path, "default.json"};
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        if (base && length == (size_t)(base - path) && strncmp(at, path, length) == 0)
            return false; /* its own directory */
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            int n = snprintf(hiding, PATH_MAX, "%.*s/%s", (int)length, at, names[i]);

            if (n <= 0 || n >= PATH_MAX)
                continue;
            if (access(hiding, F_OK) == 0)
                snprintf(why, size, "%s is found before it", hiding);
            else if (errno != ENOENT && errno != ENOTDIR)
                snprintf(why, size, "the search ends before it at %s: %s", hiding, strerror(errno));
            else
                continue;
            return true;
        }
    }
    return false;
}

bool ns_directory_has_empty(const char *list)
{
    size_t length = strlen(list);

    return length == 0 || *list == ':' || list[length - 1] == ':' || strstr(list, "::");
}

int ns_directory_judge(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    return access(path, R_OK | X_OK) == 0 ? 0 : errno;
}
