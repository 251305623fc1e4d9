/* SPDX-License-Identifier: MIT */
/* Owns the list of a directory's policy files. It must not open them. Not async-signal-safe. */
#include "cli/directory.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static int is_policy_file(const struct dirent *entry)
{
    return fnmatch("*.json", entry->d_name, FNM_PERIOD) == 0;
}

void ns_directory_each(const char *directory, void (*each)(void *context, const char *path),
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
