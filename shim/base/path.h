/* SPDX-License-Identifier: MIT */
/* The parts of a path. Pure; may be called from a signal handler; errno unchanged. */
#ifndef NS_PATH_H
#define NS_PATH_H

#include <stddef.h>
#include <string.h>

/* What stands behind its last slash: all of it if there is none. */
static inline const char *ns_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The length of a path as /proc tells it, without the " (deleted)" that the kernel appends to one
 * whose file was removed or replaced since, as every upgrade does. */
static inline size_t ns_path_length(const char *path)
{
    static const char deleted[] = " (deleted)";
    size_t length = strlen(path), suffix = sizeof(deleted) - 1;

    return length > suffix && strcmp(path + length - suffix, deleted) == 0 ? length - suffix
                                                                           : length;
}

/* What a process is called: the base name of what execve was given; or of its executable, where
 * that was no name (fexecve(3), /proc/self/exe). */
static inline const char *ns_path_program(const char *execfn, const char *exe)
{
    if (!execfn || *execfn == '\0' || strncmp(execfn, "/proc/", 6) == 0 ||
        strncmp(execfn, "/dev/fd/", 8) == 0)
        return ns_path_base(exe);
    return ns_path_base(execfn);
}

#endif
