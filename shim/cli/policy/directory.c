/* SPDX-License-Identifier: MIT */
/* Owns the list of the policy files in directories. It must not open them. Not async-signal-safe.
 */
#include "cli/policy/directory.h"

#include "policy/find.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_policy_file(const struct dirent *entry)
{
    return fnmatch("*.json", entry->d_name, FNM_PERIOD) == 0;
}

void ns_directory_each(const char *list, void (*each)(void *context, const char *path),
                       void *context)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        char directory[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
        struct dirent **entries;

        snprintf(directory, sizeof directory, "%.*s", (int)length, at);
        int n = scandir(directory, &entries, is_policy_file, alphasort);
        for (int i = 0; i < n; i++) {
            snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
            free(entries[i]);
            each(context, path);
        }
        if (n >= 0)
            free(entries);
    }
}

bool ns_directory_hides(const char *list, const char *path, char hiding[PATH_MAX])
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *base = strrchr(path, '/'), *at;
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        if (length == (size_t)(base - path) && strncmp(at, path, length) == 0)
            return false; /* its own directory */
        snprintf(hiding, PATH_MAX, "%.*s%s", (int)length, at, base);
        if (access(hiding, F_OK) == 0)
            return true;
        snprintf(hiding, PATH_MAX, "%.*s/default.json", (int)length, at);
        if (access(hiding, F_OK) == 0)
            return true;
    }
    return false;
}

int ns_directory_error(const char *list, bool must_exist, char path[PATH_MAX])
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *at;
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        snprintf(path, PATH_MAX, "%.*s", (int)length, at);
        DIR *directory = opendir(path);
        if (directory)
            closedir(directory);
        else if (must_exist || (errno != ENOENT && errno != ENOTDIR))
            return errno;
    }
    return 0;
}
