/* SPDX-License-Identifier: MIT */
/* Owns the copies of the library that /etc/ld.so.preload names. It must never write to a copy in
 * place, nor remove one that /etc/ld.so.preload names. */
#include "cli/host/host.h"

#include "cli/program/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* On the root file system, as the first programs of a system need it. */
#define COPIES "/usr/lib/nagleshim/"

/* The name of the directory is the directory of the library that is copied. */
void ns_host_copy_path(const char *library, char copy[PATH_MAX])
{
    const char *base = strrchr(library, '/');
    int length = snprintf(copy, PATH_MAX, COPIES);
    for (const char *at = library + 1; at < base && length < PATH_MAX - NAME_MAX; at++)
        copy[length++] = *at == '/' ? '-' : *at;
    snprintf(copy + length, (size_t)(PATH_MAX - length), "%s", base);
}

bool ns_host_copy_make(const char *library, const char *copy)
{
    int fd = open(library, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *data = NULL;
    bool made = false;
    errno = EIO;
    if (fd >= 0 && fstat(fd, &st) == 0 && (data = malloc((size_t)st.st_size)))
        made = pread(fd, data, (size_t)st.st_size, 0) == st.st_size &&
               ns_file_replace(copy, data, (size_t)st.st_size);
    int error = errno;
    free(data);
    if (fd >= 0)
        close(fd);
    errno = error;
    return made;
}

void ns_host_copies_sweep(void)
{
    char *text = ns_file_read(NS_PRELOAD_FILE);
    glob_t found;
    if ((text || errno == ENOENT) && glob(COPIES "*/" NS_LIBRARY_NAME, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!text || !strstr(text, found.gl_pathv[i]))
                ns_file_remove(found.gl_pathv[i]);
        globfree(&found);
        rmdir(COPIES);
    }
    free(text);
}
