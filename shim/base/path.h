/* SPDX-License-Identifier: MIT */
/* The parts of a path. Pure; errno is unchanged; async-signal-safe. */
#ifndef NS_PATH_H
#define NS_PATH_H

#include <stddef.h>
#include <string.h>

/* The part after the last slash; the whole path if there is no slash. */
static inline const char *ns_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The length of a path of /proc without the " (deleted)" that the kernel appends if the file was
 * removed or replaced, as by an upgrade. */
static inline size_t ns_path_length(const char *path)
{
    static const char deleted[] = " (deleted)";
    size_t length = strlen(path), suffix = sizeof deleted - 1;
    return length > suffix && strcmp(path + length - suffix, deleted) == 0 ? length - suffix
                                                                           : length;
}

/* The name of a process: the base name of the path given to execve, or of its executable if that
 * was no name (fexecve(3), /proc/self/exe). */
static inline const char *ns_path_program(const char *execfn, const char *exe)
{
    if (!execfn || *execfn == '\0' || strncmp(execfn, "/proc/", 6) == 0 ||
        strncmp(execfn, "/dev/fd/", 8) == 0)
        return ns_path_base(exe);
    return ns_path_base(execfn);
}

#endif
