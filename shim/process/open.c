/* SPDX-License-Identifier: MIT */
/* See open.h. */
#include "process/open.h"

#include "process/scope.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_MOST = 256 * 1024 }; /* of a text */

int ns_open_regular(int directory, const char *path)
{
    char same[32];
    struct stat st;
    NS_AUTO_CLOSE int found = openat(directory, path, O_PATH | O_CLOEXEC);
    if (found < 0 || fstat(found, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    snprintf(same, sizeof same, "/proc/self/fd/%d", found);
    /* Its owner may have a lease on the file (F_SETLEASE), which would keep a blocking open
     * waiting. */
    int fd = open(same, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    /* A system in a directory, which is this command's root, may have no /proc. Otherwise the file
     * system said so, whose owner may have exchanged the file. */
    if (fd < 0 && errno == ENOENT && access("/proc/self/fd", F_OK) != 0)
        fd = openat(directory, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

char *ns_file_read(const char *path)
{
    NS_AUTO_CLOSE int fd = ns_open_regular(AT_FDCWD, path);
    struct stat st;
    errno = fd < 0 ? -fd : EINVAL;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > SIZE_MOST)
        return NULL;
    char *text = calloc(1, (size_t)st.st_size + 1);
    if (text && pread(fd, text, (size_t)st.st_size, 0) == st.st_size)
        return text;
    free(text);
    errno = EINVAL;
    return NULL;
}
