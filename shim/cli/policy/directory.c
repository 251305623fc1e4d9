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
#include <sys/stat.h>
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

bool ns_directory_hides(const char *list, const char *path, char *why, size_t size)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *base = strrchr(path, '/'), *at;
    const char *const names[] = {base ? base + 1 : path, "default.json"};
    size_t length;

    while (ns_policy_next_directory(&directories, &at, &length)) {
        if (base && length == (size_t)(base - path) && strncmp(at, path, length) == 0)
            return false; /* its own directory */
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            char hiding[PATH_MAX];

            snprintf(hiding, sizeof hiding, "%.*s/%s", (int)length, at, names[i]);
            if (access(hiding, F_OK) == 0)
                snprintf(why, size, "%s is found first", hiding);
            else if (errno != ENOENT && errno != ENOTDIR)
                snprintf(why, size, "the search ends earlier, at %s: %s", hiding, strerror(errno));
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
