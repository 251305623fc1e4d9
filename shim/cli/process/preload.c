/* SPDX-License-Identifier: MIT */
/* Owns the search for the library and the order of LD_PRELOAD. It must not change the environment.
 * Not async-signal-safe. */
#include "cli/process/preload.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool exists_in(const char *directory, const char *below, const char *name,
                      char path[PATH_MAX])
{
    char candidate[PATH_MAX];
    int n = snprintf(candidate, sizeof candidate, "%s%s/%s", directory, below, name);

    return n > 0 && (size_t)n < sizeof candidate && access(candidate, R_OK) == 0 &&
           realpath(candidate, path);
}

int ns_preload_locate_named(const char *name, char path[PATH_MAX])
{
    char here[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    char *slash;

    here[n > 0 ? n : 0] = '\0';
    slash = strrchr(here, '/');
    if (slash)
        *slash = '\0';
    if (!(slash && (exists_in(here, "", name, path) || exists_in(here, "/../lib", name, path))) &&
        !exists_in(NS_LIBDIR, "", name, path))
        return -ENOENT;
    /* The loader replaces $LIB and other names after a dollar sign. */
    return strpbrk(path, NS_PRELOAD_SEPARATORS "$") ? -EINVAL : 0;
}

int ns_preload_locate(char path[PATH_MAX])
{
    return ns_preload_locate_named(NS_LIBRARY_NAME, path);
}

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

/* Is this the run-time library of a sanitizer of gcc or clang? It refuses to run if it is not the
 * first library. */
static bool is_sanitizer(const char *entry, size_t length)
{
    static const char *const kinds[] = {"asan", "hwasan", "lsan", "msan", "tsan", "ubsan"};
    const char *base = entry;
    char name[64];

    for (size_t i = 0; i < length; i++)
        if (entry[i] == '/')
            base = entry + i + 1;
    snprintf(name, sizeof name, "%.*s", (int)(length - (size_t)(base - entry)), base);
    for (size_t i = 0; i < sizeof kinds / sizeof(kinds[0]); i++) {
        char pattern[64];

        snprintf(pattern, sizeof pattern, "lib%s.so*", kinds[i]);
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        snprintf(pattern, sizeof pattern, "libclang_rt.%s[.-]*", kinds[i]);
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

static char *append(char *end, const char *start, const char *entry, size_t length)
{
    if (end != start)
        *end++ = ':';
    memcpy(end, entry, length);
    return end + length;
}

/* What old lists without our libraries: the sanitizers' libraries, or the others. */
static char *append_old(char *end, const char *start, const char *old, bool sanitizers)
{
    for (const char *entry = old; *entry != '\0';) {
        size_t length = strcspn(entry, NS_PRELOAD_SEPARATORS);

        if (length > 0 && !ns_preload_is_the_library(entry, length) &&
            is_sanitizer(entry, length) == sanitizers)
            end = append(end, start, entry, length);
        entry += length;
        entry += strspn(entry, NS_PRELOAD_SEPARATORS);
    }
    return end;
}

char *ns_preload_join(const char *old, const char *library)
{
    const size_t own = strlen(library);
    char *list = calloc(1, (old ? strlen(old) : 0) + own + 2);
    char *end = list;

    if (!list)
        return NULL;
    end = append_old(end, list, old ? old : "", true);
    /* A library before this one could hide calls from it. */
    end = append(end, list, library, own);
    end = append_old(end, list, old ? old : "", false);
    *end = '\0';
    return list;
}

static bool take_entry(const char *word, size_t length, char entry[PATH_MAX])
{
    if (!ns_preload_is_the_library(word, length) || length >= PATH_MAX)
        return false;
    memcpy(entry, word, length);
    entry[length] = '\0';
    return true;
}

bool ns_preload_find(const char *list, char entry[PATH_MAX])
{
    while (*list != '\0') {
        size_t length = strcspn(list, NS_PRELOAD_SEPARATORS);

        if (take_entry(list, length, entry))
            return true;
        list += length;
        list += strspn(list, NS_PRELOAD_SEPARATORS);
    }
    return false;
}

bool ns_preload_find_in_file(const char *text, char entry[PATH_MAX])
{
    while (*text != '\0') {
        size_t length = strcspn(text, NS_PRELOAD_SEPARATORS "#");

        if (take_entry(text, length, entry))
            return true;
        text += length;
        text += *text == '#' ? strcspn(text, "\n") : strspn(text, NS_PRELOAD_SEPARATORS);
    }
    return false;
}
