/* SPDX-License-Identifier: MIT */
/* Owns how `nagleshim host` changes a file: as a whole or not at all, and so that the change can be
 * undone. A program that starts meanwhile finds the old file or the new one. */
#include "cli/host/host.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_MOST = 256 * 1024, MODE = 0644, DIRECTORY_MODE = 0755 };

char *ns_file_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    char *text = NULL;
    struct stat st;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= SIZE_MOST)
        text = calloc(1, (size_t)st.st_size + 1);
    if (text && pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
        free(text);
        text = NULL;
    }
    close(fd);
    errno = EINVAL;
    return text;
}

static void make_directories(const char *path)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", path);
    for (char *slash = directory; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(directory, DIRECTORY_MODE);
        *slash = '/';
    }
}

/* The directory of a file that is gone, unless it has other files. Keeps errno. */
static void remove_directory(const char *path)
{
    char directory[PATH_MAX];
    int error = errno;
    snprintf(directory, sizeof directory, "%s", path);
    rmdir(dirname(directory));
    errno = error;
}

static bool remove_file(const char *path)
{
    bool removed = unlink(path) == 0 || errno == ENOENT;
    remove_directory(path);
    return removed;
}

/* Renames a temporary file. Neither systemd nor a loader reads one of that name. */
static bool replace(const char *path, const char *text)
{
    char temporary[PATH_MAX + 8];
    make_directories(path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool good = fd >= 0 && dprintf(fd, "%s", text) >= 0 && fchmod(fd, MODE) == 0 &&
                fsync(fd) == 0 && rename(temporary, path) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !good)
        unlink(temporary);
    errno = error;
    if (!good)
        remove_directory(path);
    return good;
}

int ns_change_make(struct ns_change *change)
{
    struct stat st;
    bool is_link = lstat(change->path, &st) == 0 && S_ISLNK(st.st_mode);
    errno = 0;
    change->old = ns_file_read(change->path);
    if (!is_link && change->old && change->text && strcmp(change->old, change->text) == 0)
        return NS_EXIT_YES;
    if (is_link || (!change->old && errno != ENOENT))
        errno = EINVAL;
    else
        change->done =
            change->text ? replace(change->path, change->text) : remove_file(change->path);
    if (change->done)
        return NS_EXIT_YES;
    int error = errno;
    ns_say("host", "%s cannot be %s: %s", change->path, change->text ? "written" : "removed",
           error == EINVAL ? "it is not a regular file, or is too large" : strerror(error));
    return error == EACCES || error == EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

bool ns_change_undo(struct ns_change *change)
{
    if (change->done)
        change->done =
            !(change->old ? replace(change->path, change->old) : remove_file(change->path));
    return !change->done;
}

void ns_change_free(struct ns_change *change)
{
    free(change->old);
    free(change->text);
    *change = (struct ns_change){.old = NULL};
}
