/* SPDX-License-Identifier: MIT */
/* See preload.h. Pure. */
#include "process/preload.h"

#include <stdio.h>

static bool has_base_name(const char *entry, size_t length, const char *name)
{
    size_t own = strlen(name);
    return length >= own && memcmp(entry + length - own, name, own) == 0 &&
           (length == own || entry[length - own - 1] == '/');
}

bool ns_preload_is_the_library(const char *entry, size_t length)
{
    return has_base_name(entry, length, NS_LIBRARY_NAME) ||
           has_base_name(entry, length, NS_OBSERVER_NAME);
}

bool ns_preload_find(const char *list, char entry[PATH_MAX])
{
    while (*list != '\0') {
        size_t length = strcspn(list, NS_PRELOAD_SEPARATORS "#");
        if (ns_preload_is_the_library(list, length) && length < PATH_MAX) {
            snprintf(entry, PATH_MAX, "%.*s", (int)length, list);
            return true;
        }
        list += length;
        list += *list == '#' ? strcspn(list, "\n") : strspn(list, NS_PRELOAD_SEPARATORS);
    }
    return false;
}
